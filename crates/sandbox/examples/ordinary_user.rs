// SPDX-License-Identifier: Apache-2.0
//! An ordinary user's launcher in small, for the tests: enters its namespace and probes a level.

use std::path::PathBuf;
use std::process::ExitCode;
use torno_sandbox::{HostFacts, Level, Paths, Rights, enter_user_namespace, probe};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let level = match arguments.next().as_deref() {
        Some("container") => Level::Container,
        Some("gvisor") => Level::Gvisor,
        _ => return ExitCode::from(2),
    };
    let mut paths = Paths::default();
    if let Some(directory) = arguments.next() {
        paths.search.insert(0, PathBuf::from(directory));
    }
    match run(level, &paths) {
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

fn run(level: Level, paths: &Paths) -> Result<String, String> {
    enter_user_namespace(paths).map_err(|refusal| refusal.to_string())?;
    let facts = HostFacts::gather(paths);
    let uid_base = match &facts.rights {
        Ok(Rights::Namespace(ids)) => ids.base(ids.ranges()),
        Ok(Rights::Root) => return Err("root needs no namespace".to_owned()),
        Err(refusal) => return Err(refusal.to_string()),
    };
    let promises = probe(level, &facts, uid_base).map_err(|missing| missing.to_string())?;
    Ok(format!("{} works", promises.level.name()))
}
