// SPDX-License-Identifier: Apache-2.0
//! Honest work inside, with both credentials: what must go right before anything that fails means
//! anything. Judged at the far end, which must have seen the real credential.

use crate::daemon::Daemon;
use crate::world::World;
use crate::world::git::reference;
use anyhow::Result;

/// One piece of work and whether it went right.
#[derive(Debug)]
pub struct Done {
    /// What was done.
    pub name: &'static str,
    /// `Ok`, or what went wrong.
    pub result: Result<(), String>,
}

const GIT_WORK: &str = "set -e
git clone --quiet https://git.torno.test/acme/app work
cd work
git -c user.name=a -c user.email=a@torno.test commit --quiet --allow-empty -m 'from inside'
git push --quiet origin HEAD:refs/heads/agent/LEVEL
";

const API_WORK: &str = "curl --silent --show-error --fail --max-time 20 \
--header \"authorization: Bearer $API_TOKEN\" https://api.torno.test/v1/me";

const PUBLIC_WORK: &str =
    "curl --silent --show-error --fail --max-time 20 https://api.torno.test/public";

/// Does it all at a level.
///
/// # Errors
/// When torno can't be started.
pub fn all(daemon: &Daemon, world: &World, level: &str) -> Result<Vec<Done>> {
    let shell = |script: &str| daemon.run(level, &["/bin/sh", "-c", script]);
    let mut done = Vec::new();
    let mut judge = |name, seen: bool, output: &std::process::Output| {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let said = if said.is_empty() {
            "the far end saw nothing of it".to_owned()
        } else {
            said
        };
        let good = seen && output.status.success();
        done.push(Done {
            name,
            result: if good { Ok(()) } else { Err(said) },
        });
    };
    let mark = world.api.journal.mark();
    let output = shell(API_WORK)?;
    let real = format!("Bearer {}", world.api_token);
    let connections = world.api.journal.since(mark);
    let mut requests = connections.iter().flat_map(|c| &c.requests);
    let seen = requests.any(|r| r.header("authorization").as_deref() == Some(real.as_str()));
    judge(
        "an API call with the real token at the far end",
        seen,
        &output,
    );
    let output = shell(PUBLIC_WORK)?;
    judge("a granted page without any credential", true, &output);
    let output = shell(&GIT_WORK.replace("LEVEL", level))?;
    let pushed = format!("refs/heads/agent/{level}");
    let seen = reference(&world.repositories(), "acme/app", &pushed).is_some();
    judge("git clone, commit and push to agent/*", seen, &output);
    Ok(done)
}
