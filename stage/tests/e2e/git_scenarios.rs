// SPDX-License-Identifier: Apache-2.0
//! What git does over HTTP: clones and fetches of every kind, pushes small, large, in chunks and
//! packed, options that would talk a client out of its proxy or into another credential. Real git,
//! real gate, real `git http-backend`.

use crate::scenarios::{Scenario, try_all};
use crate::stage::at_each_level;
use torno_stage::world::git::reference;

const SCENARIOS: &[Scenario<'static>] = &[
    (
        "a clone",
        "git clone --quiet https://git.torno.test/acme/app a && cat a/README",
        &["acme/app\n", "code 0"],
    ),
    (
        "a shallow one",
        "git clone --quiet --depth 1 https://git.torno.test/acme/app a && \
         git -C a rev-parse --is-shallow-repository",
        &["true\n", "code 0"],
    ),
    (
        "a mirror",
        "git clone --quiet --mirror https://git.torno.test/acme/app a && \
         git -C a rev-parse --verify --quiet refs/heads/main >/dev/null && echo there",
        &["there\n", "code 0"],
    ),
    (
        "one without contents",
        "git clone --quiet --filter=blob:none https://git.torno.test/acme/app a && cat a/README",
        &["acme/app\n", "code 0"],
    ),
    (
        "each version of the protocol",
        "for v in 0 1 2; do git -c protocol.version=$v ls-remote \
         https://git.torno.test/acme/app refs/heads/main | grep -c refs/heads/main; done",
        &["1\n1\n1\n", "code 0"],
    ),
    (
        "HTTP/1.1, said aloud",
        "git -c http.version=HTTP/1.1 ls-remote \
         https://git.torno.test/acme/app refs/heads/main | grep -c refs/heads/main",
        &["1\n", "code 0"],
    ),
    (
        "HTTP/2, said aloud, in each version of the protocol",
        "for v in 0 1 2; do GIT_TRACE_CURL=$PWD/trace git -c protocol.version=$v \
         -c http.version=HTTP/2 ls-remote https://git.torno.test/acme/app refs/heads/main | \
         grep -c refs/heads/main; done; grep -q 'HTTP/2 200' trace && echo two",
        &["1\n1\n1\ntwo\n", "code 0"],
    ),
    (
        "HTTP/2 through the proxy",
        "git -c http.version=HTTP/2 -c http.proxy=http://127.0.0.1:3128 ls-remote \
         https://git.torno.test/acme/app refs/heads/main | grep -c refs/heads/main",
        &["1\n", "code 0"],
    ),
    (
        "a clone and a push over HTTP/2",
        "git config --global http.version HTTP/2; \
         git clone --quiet https://git.torno.test/acme/app a && cd a && \
         $COMMIT --allow-empty -m x && git push --quiet origin HEAD:refs/heads/agent/two && \
         head -c 4000000 /dev/urandom > large && git add large && $COMMIT -m large && \
         git push --quiet origin HEAD:refs/heads/agent/two-large && echo pushed; \
         git config --global --unset http.version",
        &["pushed\n", "code 0"],
    ),
    (
        "a fetch over HTTP/2 whose question is long, and packed",
        "git clone --quiet https://git.torno.test/acme/app a && cd a && \
         for i in $(seq 80); do $COMMIT --allow-empty -m $i; done && \
         git -c http.version=HTTP/2 fetch --quiet origin 'refs/heads/*:refs/remotes/all/*' && \
         echo fetched",
        &["fetched\n", "code 0"],
    ),
    (
        "what is not granted, over HTTP/2",
        "GIT_TERMINAL_PROMPT=0 timeout 30 git -c http.version=HTTP/2 ls-remote \
         https://git.torno.test/acme/secret-plans",
        &["403", "code 128"],
    ),
    (
        "a proxy by its own setting, with a user",
        "git -c http.proxy=http://me:own@127.0.0.1:3128 ls-remote \
         https://git.torno.test/acme/app refs/heads/main | grep -c refs/heads/main",
        &["1\n", "code 0"],
    ),
    (
        "no proxy",
        "env -u https_proxy -u HTTPS_PROXY -u ALL_PROXY -u all_proxy git -c http.proxy= ls-remote \
         https://git.torno.test/acme/app refs/heads/main | grep -c refs/heads/main",
        &["1\n", "code 0"],
    ),
    (
        "a user and a password of its own in the URL",
        "git clone --quiet https://me:own@git.torno.test/acme/app a && cat a/README",
        &["acme/app\n", "code 0"],
    ),
    (
        "a field of its own",
        "git -c http.extraHeader='X-Own: 1' clone --quiet https://git.torno.test/acme/app a && \
         cat a/README",
        &["acme/app\n", "code 0"],
    ),
    (
        "a bundle that is said to lie elsewhere",
        "git -c transfer.bundleURI=true clone --quiet \
         --bundle-uri=https://evil.torno.test/app.bundle https://git.torno.test/acme/app a; \
         cat a/README",
        &["acme/app\n", "code 0"],
    ),
    (
        "a repository that is not granted, and nobody to ask for a password",
        "GIT_TERMINAL_PROMPT=0 timeout 30 git clone --quiet \
         https://git.torno.test/acme/secret-plans a",
        &["403", "code 128"],
    ),
    (
        "a host that is not granted",
        "GIT_TERMINAL_PROMPT=0 timeout 30 git clone --quiet https://evil.torno.test/acme/app a",
        &["403", "code 128"],
    ),
    (
        "a small push",
        "git clone --quiet https://git.torno.test/acme/app a && cd a && \
         $COMMIT --allow-empty -m x && git push --quiet origin HEAD:refs/heads/agent/small && echo pushed",
        &["pushed\n", "code 0"],
    ),
    (
        "a large push in chunks",
        "git clone --quiet https://git.torno.test/acme/app a && cd a && \
         head -c 4000000 /dev/urandom > large && git add large && $COMMIT -m large && \
         git push --quiet origin HEAD:refs/heads/agent/chunks && echo pushed",
        &["pushed\n", "code 0"],
    ),
    (
        "a large push with its length",
        "git clone --quiet https://git.torno.test/acme/app a && cd a && \
         head -c 4000000 /dev/urandom > large && git add large && $COMMIT -m large && \
         git -c http.postBuffer=20000000 push --quiet origin HEAD:refs/heads/agent/length && \
         echo pushed",
        &["pushed\n", "code 0"],
    ),
    (
        "a fetch whose question is long, and packed",
        "git clone --quiet https://git.torno.test/acme/app a && cd a && \
         for i in $(seq 80); do $COMMIT --allow-empty -m $i; done && \
         git fetch --quiet origin 'refs/heads/*:refs/remotes/all/*' && echo fetched",
        &["fetched\n", "code 0"],
    ),
    (
        "a push with force",
        "git clone --quiet https://git.torno.test/acme/app a && cd a && \
         $COMMIT --allow-empty -m one && git push --quiet origin HEAD:refs/heads/agent/force && \
         $COMMIT --amend --allow-empty -m two && \
         git push --quiet --force origin HEAD:refs/heads/agent/force && echo pushed",
        &["pushed\n", "code 0"],
    ),
    (
        "a tag, which no grant names",
        "git clone --quiet https://git.torno.test/acme/app a && cd a && git tag v1 && \
         git push --quiet origin v1",
        &["403", "code 1"],
    ),
    (
        "main with force",
        "git clone --quiet https://git.torno.test/acme/app a && cd a && \
         $COMMIT --allow-empty -m x && git push --quiet --force origin HEAD:main",
        &["403", "code 1"],
    ),
    (
        "main by another protocol's name",
        "git clone --quiet https://git.torno.test/acme/app a && cd a && \
         $COMMIT --allow-empty -m x && \
         git push --quiet git@git.torno.test:acme/app HEAD:main",
        &["403", "code 1"],
    ),
];

#[test]
fn git_does_through_the_gate_what_its_grant_says() {
    at_each_level("git scenarios", |stage, level| {
        let repositories = stage.world.repositories();
        let main = reference(&repositories, "acme/app", "refs/heads/main");
        let commit = "git -c user.name=a -c user.email=a@torno.test commit --quiet";
        let filled: Vec<String> = SCENARIOS
            .iter()
            .map(|(_, script, _)| script.replace("$COMMIT", commit))
            .collect();
        let scenarios: Vec<Scenario<'_>> = SCENARIOS
            .iter()
            .zip(&filled)
            .map(|((what, _, wanted), script)| (*what, script.as_str(), *wanted))
            .collect();
        try_all(stage, level, &scenarios);
        assert_eq!(
            reference(&repositories, "acme/app", "refs/heads/main"),
            main
        );
        for branch in ["small", "chunks", "length", "force", "two", "two-large"] {
            let name = format!("refs/heads/agent/{branch}");
            assert!(
                reference(&repositories, "acme/app", &name).is_some(),
                "{name}"
            );
        }
        assert!(reference(&repositories, "acme/app", "refs/tags/v1").is_none());
        let seen = stage.world.git.journal.requests();
        assert!(!seen.iter().any(|r| r.target.contains("secret-plans")));
        assert!(stage.world.evil.journal.requests().is_empty());
    });
}
