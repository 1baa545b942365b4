// SPDX-License-Identifier: Apache-2.0
//! Git over HTTPS with a real git and a real git server: the granted repository and branches work,
//! others do not, and no client-side setting changes that.

use crate::stage::{at_each_level, at_each_level_for_both};
use torno_stage::world::git::reference;

const GIT: &str = "git -c user.name=a -c user.email=a@torno.test -c advice.detachedHead=false";
const CLONE: &str = "git clone --quiet https://git.torno.test/acme/app work && cd work";

#[test]
fn an_agent_branch_is_pushed_and_main_is_not() {
    at_each_level_for_both("an agent branch is pushed", |stage, level| {
        let repositories = stage.world.repositories();
        let main = reference(&repositories, "acme/app", "refs/heads/main");
        let commit = format!("{CLONE} && {GIT} commit --quiet --allow-empty -m x");
        let push = |to: &str| format!("{commit} && git push --quiet origin HEAD:{to}");
        stage.shell(level, &push("refs/heads/agent/x")).good();
        assert!(reference(&repositories, "acme/app", "refs/heads/agent/x").is_some());
        let refused = stage.shell(level, &push("refs/heads/main"));
        assert_ne!(refused.code, Some(0), "{refused:?}");
        assert_eq!(
            reference(&repositories, "acme/app", "refs/heads/main"),
            main
        );
    });
}

#[test]
fn a_push_of_both_branches_moves_neither() {
    at_each_level_for_both("a push of both branches", |stage, level| {
        let repositories = stage.world.repositories();
        let main = reference(&repositories, "acme/app", "refs/heads/main");
        let script = format!(
            "{CLONE} && {GIT} commit --quiet --allow-empty -m x && \
             git push --quiet origin HEAD:refs/heads/agent/y HEAD:refs/heads/main"
        );
        assert_ne!(stage.shell(level, &script).code, Some(0));
        assert_eq!(
            reference(&repositories, "acme/app", "refs/heads/agent/y"),
            None
        );
        assert_eq!(
            reference(&repositories, "acme/app", "refs/heads/main"),
            main
        );
    });
}

#[test]
fn another_repository_is_not_cloned() {
    at_each_level_for_both("another repository", |stage, level| {
        let urls = [
            "https://git.torno.test/acme/secret-plans",
            "https://git.torno.test/acme/app/../secret-plans",
            "https://git.torno.test//acme/secret-plans",
            "https://git.torno.test/acme%2fsecret-plans",
            "git@git.torno.test:acme/secret-plans",
        ];
        for url in urls {
            let ran = stage.run(level, &["git", "clone", "--quiet", url, "plans"]);
            assert_ne!(ran.code, Some(0), "{url}: {ran:?}");
        }
        let seen = stage.world.git.journal.requests();
        assert!(
            !seen.iter().any(|r| r.target.contains("secret-plans")),
            "{seen:?}"
        );
    });
}

#[test]
fn an_ssh_remote_of_the_granted_repository_is_rewritten() {
    at_each_level_for_both("an ssh remote", |stage, level| {
        let script = "git clone --quiet git@git.torno.test:acme/app work && cat work/README";
        let ran = stage.shell(level, script).good();
        assert_eq!(ran.stdout.trim(), "acme/app");
    });
}

/// A branch with a large file, committed and not pushed.
const LARGE: &str = "git lfs install --local --skip-repo >/dev/null && git lfs track --filename big.bin \
    >/dev/null && head -c 300000 /dev/zero >big.bin && git add .gitattributes big.bin";

#[test]
fn large_files_go_where_the_refs_may() {
    if !std::path::Path::new("/usr/bin/git-lfs").exists() {
        println!("SKIP: large files: git-lfs is not installed");
        return;
    }
    at_each_level("large files", |stage, level| {
        stage.is_not_seen_whole("git-lfs exports no keys");
        stage
            .daemon
            .must(&[
                "secret",
                "bind",
                "git",
                "--host",
                "git.torno.test",
                "--basic",
                "agent",
                "--method",
                "GET",
                "--method",
                "POST",
                "--method",
                "PUT",
                "--path",
                "/acme/app/**",
                "--path",
                "/acme/app.git/**",
            ])
            .unwrap();
        let script = format!(
            "{CLONE} && {LARGE} && {GIT} commit --quiet -m big && \
             git lfs push origin main && echo to main; \
             git checkout --quiet -b agent/big && git lfs push origin agent/big && \
             git push --quiet origin agent/big && echo pushed"
        );
        let ran = stage.shell(level, &script);
        assert!(ran.stdout.contains("pushed"), "{ran:#?}");
        assert!(!ran.stdout.contains("to main"), "{ran:#?}");
        assert_eq!(stage.world.git_origin.large.count(), 1);
        let script = format!(
            "{CLONE} && git lfs install --local --skip-repo && git checkout --quiet agent/big && \
             wc -c <big.bin && git lfs lock big.bin && echo locked"
        );
        let ran = stage.shell(level, &script);
        assert!(ran.stdout.contains("300000"), "{ran:#?}");
        assert!(!ran.stdout.contains("locked"), "{ran:#?}");
    });
}
