// SPDX-License-Identifier: Apache-2.0
//! What this version does not have can't be asked for: not in a document, not as an option, not in
//! the operator's configuration. Each is refused whole, and nothing is started.

use crate::stage::Stage;
use torno_stage::daemon::POLICY;

/// The feature, and how somebody would ask for it in a document.
const DOCUMENTS: &[(&str, &str)] = &[
    ("publish a port", "[sandbox]\npublish = [\"8080\"]\n"),
    ("bind locally", "[network]\nallow_local_binding = true\n"),
    (
        "pass a host through",
        "[[allow]]\nhost = \"a.example.org\"\npassthrough = true\n",
    ),
    (
        "no inspection",
        "[[allow]]\nhost = \"a.example.org\"\ninspect = false\n",
    ),
    (
        "rules for programs",
        "[[allow]]\nhost = \"a.example.org\"\nbinary = \"/usr/bin/git\"\n",
    ),
    ("a snapshot", "[sandbox]\nsnapshot = \"warm\"\n"),
    ("a clone", "[sandbox]\nclone = \"s1\"\n"),
    ("resume", "[sandbox]\nresume = true\n"),
    (
        "a security label",
        "[sandbox]\nlabel = \"system_u:object_r:x\"\n",
    ),
    (
        "a kernel setting",
        "[sandbox]\nsysctl = { \"net.ipv4.ip_forward\" = \"1\" }\n",
    ),
    ("a mount", "[sandbox]\nmounts = [\"/:/host\"]\n"),
    (
        "a place for the record",
        "[record]\npath = \"/etc/cron.d/x\"\n",
    ),
    (
        "a sink for the record",
        "[audit]\nsocket = \"evil.torno.test:443\"\n",
    ),
    ("a script in the gate", "[gate]\nscript = \"x.lua\"\n"),
    (
        "an upgrade to something else",
        "[[allow]]\nhost = \"a.example.org\"\nupgrade = \"h2c\"\n",
    ),
    (
        "a raw stream",
        "[[tcp]]\nhost = \"a.example.org\"\nport = 22\n",
    ),
];

const OPTIONS: &[&[&str]] = &[
    &["--publish", "8080"],
    &["--expose", "8080"],
    &["--no-inspect", "a.example.org"],
    &["--snapshot", "warm"],
    &["--resume", "s1"],
    &["--label", "x"],
    &["--privileged"],
    &["--volume", "/:/host"],
    &["--audit-path", "/etc/cron.d/x"],
    &["--network", "host"],
];

/// The operator's own file knows three tables, none of which exempts anything.
const CONFIGURATIONS: &[&str] = &[
    "[[passthrough]]\nhost = \"a.example.org\"\n",
    "[[pin]]\nhost = \"a.example.org\"\nport = 443\naddress = \"127.0.0.1:1\"\ninspect = false\n",
    "[[pin]]\nhost = \"a.example.org\"\nport = 443\naddress = \"127.0.0.1:1\"\ninsecure = true\n",
    "[record]\ndirectory = \"/etc/cron.d\"\n",
];

// ATTACK: 035, 062, 069, 103, 129, 130, 131, 142, 219
#[test]
fn what_does_not_exist_can_not_be_asked_for() {
    let stage = Stage::new();
    for (feature, addition) in DOCUMENTS {
        // After a good document, so that only the addition is in the way.
        let text = match addition.strip_prefix("[sandbox]\n") {
            Some(key) => POLICY.replacen("[sandbox]\n", &format!("[sandbox]\n{key}"), 1),
            None => format!("{POLICY}\n{addition}"),
        };
        stage.daemon.write_workspace("torno.toml", &text).unwrap();
        let ran = stage.torno(&["trust", "--yes"]);
        assert_eq!(ran.code, Some(125), "{feature}: {ran:?}");
        assert!(ran.stderr.contains("unknown key"), "{feature}: {ran:?}");
        let ran = stage.torno(&["run", "--", "true"]);
        assert_eq!(ran.code, Some(125), "{feature}: {ran:?}");
    }
    stage.daemon.write_workspace("torno.toml", POLICY).unwrap();
    stage.torno(&["trust", "--yes"]).good();
    for option in OPTIONS {
        let mut words = vec!["run"];
        words.extend(option.iter());
        words.extend(["--", "true"]);
        let ran = stage.torno(&words);
        assert_eq!(ran.code, Some(125), "{option:?}: {ran:?}");
        assert!(ran.stderr.contains(option[0]), "{option:?}: {ran:?}");
    }
    let began = |kind: &str| {
        let records = stage.daemon.records().unwrap();
        let of_kind = |r: &&serde_json::Value| r.pointer("/event/kind") == Some(&kind.into());
        records.iter().filter(of_kind).count()
    };
    assert_eq!(began("session_began"), 0);
    stage.end();
    for text in CONFIGURATIONS {
        assert!(
            torno_stage::daemon::Daemon::bare(text).is_err(),
            "taken: {text}"
        );
    }
}
