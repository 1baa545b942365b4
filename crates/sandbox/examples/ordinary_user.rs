// SPDX-License-Identifier: Apache-2.0
//! An ordinary user's launcher in small, for the tests: enters its namespace, then probes a level,
//! or becomes another program with a launcher's rights.
//!
//! `ordinary_user probe LEVEL` or `ordinary_user become PROGRAM ARGUMENT…`

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use torno_sandbox::{HostFacts, Level, Paths, Rights, SandboxId, enter_user_namespace, probe};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut paths = Paths::default();
    if let Some(search) = std::env::var_os("PATH") {
        paths.search = std::env::split_paths(&search).collect();
    }
    let entered = enter_user_namespace(&paths).map_err(|refusal| refusal.to_string());
    let done = match &*words {
        ["probe", level] => entered.and_then(|()| try_level(level, &paths)),
        ["become", program, arguments @ ..] => entered.and_then(|()| {
            let error = Command::new(program).args(arguments).exec();
            Err(error.to_string())
        }),
        _ => return ExitCode::from(2),
    };
    match done {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(text) => {
            println!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn try_level(level: &str, paths: &Paths) -> Result<String, String> {
    let level = match level {
        "container" => Level::Container,
        "gvisor" => Level::Gvisor,
        _ => return Err(format!("no level `{level}`")),
    };
    let facts = HostFacts::gather(paths);
    let uid_base = match &facts.rights {
        Ok(Rights::Namespace(ids)) => ids.base(ids.ranges()),
        Ok(Rights::Root) => return Err("root needs no namespace".to_owned()),
        Err(refusal) => return Err(refusal.to_string()),
    };
    let id = SandboxId::parse(&format!("probe{:0>21}", std::process::id()));
    let id = id.map_err(|error| error.to_string())?;
    let promises = probe(level, &facts, (&id, uid_base));
    let promises = promises.map_err(|missing| format!("{missing}; run `{}`", missing.fix))?;
    Ok(format!("{} works", promises.level.name()))
}
