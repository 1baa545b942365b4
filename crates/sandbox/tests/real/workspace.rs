// SPDX-License-Identifier: Apache-2.0
//! The workspace inside: a copy that belongs to the sandbox, cut by file rules, and further
//! directories of the host.

use crate::harness::{Running, facts_for, ids_of, spec};
use crate::inside::LEVELS;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use torno_policy::grant::FileRules;
use torno_sandbox::{AlsoDirectory, Level, Workspace};

fn open(path: &Path) -> OwnedFd {
    fs::File::open(path).unwrap().into()
}

fn filled() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("src/main.rs", "fn main() {}"),
        ("config/secrets/key", "hidden"),
        ("README", "read"),
        (".env", "A=1"),
    ] {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

#[test]
fn a_copy_is_written_inside_and_read_outside() {
    for level in LEVELS {
        let Some(facts) = facts_for(level) else {
            continue;
        };
        let directory = filled();
        let outside = directory.path().parent().unwrap().join(format!(
            "outside-{}-{}",
            std::process::id(),
            level.name()
        ));
        fs::write(&outside, "mine").unwrap();
        symlink(&outside, directory.path().join("link")).unwrap();
        let mut spec = spec(level);
        spec.workspace = Workspace::Copy;
        let mut sandbox = Running::of(&spec, &facts, Some(open(directory.path())));
        let code = "import os
print(os.getcwd(), open('README').read())
open('src/new.rs', 'w').write('new'); os.chmod('README', 0o600); os.rename('.env', 'env')
try: open('link').read(); print('followed')
except OSError: print('dangling')";
        assert_eq!(sandbox.run(code), "/workspace read\ndangling", "{level:?}");
        let made = directory.path().join("src/new.rs");
        assert_eq!(fs::read_to_string(&made).unwrap(), "new");
        assert_eq!(
            fs::metadata(&made).unwrap().uid(),
            ids_of(&spec, &facts).1,
            "{level:?}"
        );
        assert_eq!(
            fs::metadata(&outside).unwrap().uid(),
            0,
            "a link's target keeps its owner"
        );
        fs::remove_file(outside).unwrap();
    }
}

#[test]
fn file_rules_hold_against_code_inside() {
    for level in LEVELS {
        let Some(facts) = facts_for(level) else {
            continue;
        };
        let directory = filled();
        let mut spec = spec(level);
        spec.workspace = Workspace::Copy;
        spec.files = FileRules {
            write: Some(vec![
                "src/**".into(),
                "out/**".into(),
                "log.txt".into(),
                "config/**".into(),
            ]),
            hide: vec![
                "config/secrets/**".into(),
                ".env".into(),
                "absent/**".into(),
            ],
        };
        let mut sandbox = Running::of(&spec, &facts, Some(open(directory.path())));
        let code = "import os
for path in ('src/a', 'out/a', 'log.txt', 'config/a'): open(path, 'w').write('x')
for path in ('README', 'new', 'config/secrets/new', '.env', 'config/secrets/key'):
    try: open(path, 'w').write('x'); print('wrote', path)
    except OSError: pass
print(os.listdir('config/secrets'), repr(open('.env').read()))
for old, new in (('config/secrets', 'config/moved'), ('.env', 'env'), ('src', 'src2')):
    try: os.rename(old, new); print('moved', old)
    except OSError: pass
try: os.link('.env', 'src/env'); print('linked')
except OSError: pass";
        assert_eq!(sandbox.run(code), "[] ''", "{level:?}");
        assert_eq!(
            fs::read_to_string(directory.path().join("config/secrets/key")).unwrap(),
            "hidden"
        );
        assert_eq!(
            fs::read_to_string(directory.path().join("log.txt")).unwrap(),
            "x"
        );
    }
}

#[test]
fn a_rule_through_a_symbolic_link_refuses_the_start() {
    let Some(facts) = facts_for(Level::Container) else {
        return;
    };
    let directory = filled();
    symlink("/etc", directory.path().join("etc")).unwrap();
    let mut spec = spec(Level::Container);
    spec.workspace = Workspace::Copy;
    spec.files.write = Some(vec!["etc/**".into()]);
    let plan = torno_sandbox::plan(&spec, &facts).unwrap();
    let (_host, inside) = std::os::unix::net::UnixStream::pair().unwrap();
    let inputs = torno_sandbox::StartInputs {
        link: inside.into(),
        workspace: Some(open(directory.path())),
        network: None,
    };
    let error = torno_sandbox::start(&plan, inputs).unwrap_err();
    assert!(error.to_string().contains("file rules"), "{error}");
}

#[test]
fn listed_directories_are_read_only_and_home_stays_writable() {
    for level in LEVELS {
        let Some(facts) = facts_for(level) else {
            continue;
        };
        let host = tempfile::tempdir().unwrap();
        fs::write(host.path().join("tool"), "#!/bin/sh\necho tool\n").unwrap();
        let mut spec = spec(level);
        spec.also = vec![
            AlsoDirectory {
                host: host.path().into(),
                inside: "/home/agent/.cargo/bin".into(),
            },
            AlsoDirectory {
                host: host.path().into(),
                inside: "/opt/tools".into(),
            },
        ];
        let mut sandbox = Running::of(&spec, &facts, None);
        let code = "import os
print(os.listdir('/home/agent/.cargo/bin'), os.listdir('/opt/tools'))
open('/home/agent/.cargo/registry', 'w').write('x'); open('/home/agent/.profile', 'w').write('x')
for path in ('/home/agent/.cargo/bin/x', '/opt/tools/x', '/opt/x'):
    try: open(path, 'w'); print('wrote', path)
    except OSError: pass";
        assert_eq!(sandbox.run(code), "['tool'] ['tool']", "{level:?}");
    }
}
