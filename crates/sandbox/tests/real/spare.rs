// SPDX-License-Identifier: Apache-2.0
//! A sandbox made ahead is its session's with all that the session brings, or it is gone.

use crate::harness::{Running, facts_for, ids_of, inputs, spec, traces};
use crate::inside::LEVELS;
use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};
use torno_sandbox::{
    ClaimError, HomeFile, HostFacts, Level, SandboxSpec, Spare, Unwatched, Workspace, plan,
};

/// A session's specification with files of home.
fn session(level: Level, workspace: Workspace) -> SandboxSpec {
    let home = |below: &str| HomeFile {
        below: below.into(),
        text: format!("decoy of {below}"),
    };
    SandboxSpec {
        workspace,
        home: vec![home(".netrc"), home(".ssh/id_ed25519")],
        ..spec(level)
    }
}

fn make(of: &SandboxSpec, facts: &HostFacts, workspace: Option<OwnedFd>) -> (Spare, UnixStream) {
    let mut ahead = SandboxSpec {
        env: vec![],
        git_hosts: vec![],
        ca_pem: String::new(),
        ..of.clone()
    };
    for file in &mut ahead.home {
        file.text.clear();
    }
    let (host, inputs) = inputs(workspace);
    let plan = plan(&ahead, facts).unwrap();
    (Spare::make(plan, inputs, &mut Unwatched).unwrap(), host)
}

fn open(path: &Path) -> OwnedFd {
    File::open(path).unwrap().into()
}

/// Whether nothing of it is left: its keeper, too, ends with it.
fn is_gone(spec: &SandboxSpec) -> bool {
    let end = Instant::now() + Duration::from_secs(20);
    let named = || {
        let (mounts, groups) = traces();
        let id = spec.id.as_str();
        let in_group = groups
            .iter()
            .any(|path| path.to_string_lossy().contains(id));
        in_group || mounts.iter().any(|mount| mount.contains(id))
    };
    while named() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    !named()
}

#[test]
fn a_claim_writes_the_sessions_files_and_opens_nothing() {
    for level in LEVELS {
        let Some(facts) = facts_for(level) else {
            continue;
        };
        for workspace in [Workspace::None, Workspace::Copy] {
            let spec = session(level, workspace);
            let directory = tempfile::tempdir().unwrap();
            let given = || (workspace == Workspace::Copy).then(|| open(directory.path()));
            let (spare, link) = make(&spec, &facts, given());
            assert!(spare.memory_bytes() > 0, "{level:?}");
            // The porter's work, beside the sandbox that waits.
            fs::create_dir(directory.path().join("src")).unwrap();
            fs::write(directory.path().join("src/main.rs"), "code").unwrap();
            let plan = plan(&spec, &facts).unwrap();
            let given = given();
            let started = spare.claim(&plan, given.as_ref().map(AsFd::as_fd)).unwrap();
            let mut sandbox = Running::begun(started, link);
            let code = "import os
read = lambda path: open(path).read()
print(read('/etc/ssl/certs/torno-session-ca.pem') in read('/etc/ssl/certs/ca-certificates.crt'))
print('c2Vzc2lvbg==' in read('/etc/ssl/certs/torno-session-ca.pem'))
print('git@git.example.org:' in read('/etc/gitconfig'))
print(read('/home/agent/.netrc'), '/', read('/home/agent/.ssh/id_ed25519'))
found = os.stat('/home/agent/.ssh/id_ed25519'); print(oct(found.st_mode), found.st_uid, found.st_size)
for path in ('/etc/gitconfig', '/etc/ssl/certs/ca-certificates.crt', '/etc/new', '/new'):
    try: open(path, 'w'); print('wrote', path)
    except OSError: pass
open('/home/agent/own', 'w').write('x'); print(sorted(os.listdir('/home/agent')))";
            let expected = "True
True
True
decoy of .netrc / decoy of .ssh/id_ed25519
0o100600 1000 24
['.netrc', '.ssh', 'own']";
            assert_eq!(sandbox.run(code), expected, "{level:?}");
            if workspace == Workspace::Copy {
                let code = "import os; found = os.stat('/workspace')
print(open('/workspace/src/main.rs').read(), os.listdir('/workspace'), found.st_nlink)
open('/workspace/src/new', 'w')";
                assert_eq!(sandbox.run(code), "code ['src'] 3", "{level:?}");
                let new = directory.path().join("src/new");
                assert_eq!(fs::metadata(new).unwrap().uid(), ids_of(&spec, &facts).1);
            }
            sandbox.started.handle.remove().unwrap();
            assert!(is_gone(&spec), "{level:?}");
        }
    }
}

#[test]
fn what_is_not_the_sessions_is_refused_and_gone() {
    for level in LEVELS {
        let Some(facts) = facts_for(level) else {
            continue;
        };
        let directory = tempfile::tempdir().unwrap();
        let spec = session(level, Workspace::Copy);
        let whole = plan(&spec, &facts).unwrap();
        let (spare, _link) = make(&spec, &facts, Some(open(directory.path())));
        let mut other = spec.clone();
        other.limits.pids += 1;
        let other = plan(&other, &facts).unwrap();
        let given = open(directory.path());
        let refused = spare.claim(&other, Some(given.as_fd())).unwrap_err();
        assert!(matches!(refused, ClaimError::Shape), "{refused}");
        assert!(is_gone(&spec), "{level:?}");

        for elsewhere in [None, Some(tempfile::tempdir().unwrap())] {
            let (spare, _link) = make(&spec, &facts, Some(open(directory.path())));
            let given = elsewhere.as_ref().map(|place| open(place.path()));
            let refused = spare.claim(&whole, given.as_ref().map(AsFd::as_fd));
            let refused = refused.unwrap_err();
            assert!(matches!(refused, ClaimError::Workspace), "{refused}");
            assert!(is_gone(&spec), "{level:?}");
        }

        // Its first process ends: the test's does when its link closes.
        let (spare, link) = make(&spec, &facts, Some(open(directory.path())));
        spare.check().unwrap();
        drop(link);
        let end = Instant::now() + Duration::from_secs(20);
        while spare.check().is_ok() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        let refused = spare.claim(&whole, Some(given.as_fd())).unwrap_err();
        assert!(matches!(refused, ClaimError::Ended), "{refused}");
        assert!(is_gone(&spec), "{level:?}");
    }
}

#[test]
fn one_that_was_made_from_another_host_is_refused() {
    let Some(mut facts) = facts_for(Level::Container) else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    // A runtime and a directory of our own to replace.
    let mut runtime = facts.container_runtime.clone().unwrap();
    let copy = directory.path().join("runtime");
    fs::copy(&runtime.path, &copy).unwrap();
    runtime.path = copy.clone();
    facts.container_runtime = Some(runtime);
    let tools = directory.path().join("tools");
    fs::create_dir(&tools).unwrap();
    let mut spec = session(Level::Container, Workspace::None);
    spec.also = vec![torno_sandbox::AlsoDirectory {
        host: tools.clone(),
        inside: "/opt/tools".into(),
    }];
    let aside = directory.path().join("aside");
    let replace: [&dyn Fn(); 2] = [
        &|| {
            fs::rename(&tools, &aside).unwrap();
            fs::create_dir(&tools).unwrap();
        },
        &|| {
            let bytes = fs::read(&copy).unwrap();
            // On a busy machine what ran it is about to end.
            let mut tries = 0..100;
            while fs::write(&copy, &bytes).is_err() {
                assert!(tries.next().is_some(), "still executed");
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        },
    ];
    for replace in replace {
        let (spare, _link) = make(&spec, &facts, None);
        // What changes inside a bound directory is the host's affair.
        fs::write(tools.join("new"), "").unwrap();
        spare.check().unwrap();
        replace();
        let refused = spare.check().unwrap_err();
        assert!(matches!(refused, ClaimError::Host), "{refused}");
        let refused = spare
            .claim(&plan(&spec, &facts).unwrap(), None)
            .unwrap_err();
        assert!(matches!(refused, ClaimError::Host), "{refused}");
        assert!(is_gone(&spec));
    }
}
