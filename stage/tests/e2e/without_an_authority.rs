// SPDX-License-Identifier: Apache-2.0
//! A gate that can't make what it needs to look into TLS starts no session: there is no other way
//! out that it could fall back to.

use crate::stage::cannot;
use torno_stage::account::Who;
use torno_stage::daemon::Daemon;
use torno_stage::daemon::level::told;

/// PEM by its look, and no certificate.
const GARBAGE: &str =
    "-----BEGIN CERTIFICATE-----\nbm90IGEgY2VydGlmaWNhdGUgYXQgYWxs\n-----END CERTIFICATE-----\n";

// ATTACK: 071
#[test]
fn a_gate_that_can_not_be_set_up_is_a_session_that_does_not_start() {
    let files = tempfile::tempdir().unwrap();
    let root = files.path().join("root.pem");
    std::fs::write(&root, GARBAGE).unwrap();
    let upstreams = format!("[[root]]\nfile = \"{}\"\n", root.display());
    let daemon = Daemon::bare(&upstreams).unwrap();
    for &level in told() {
        if let Some(why) = cannot(Who::Caller, "a gate without roots", level) {
            println!("SKIP: a gate without roots at {level}: {why}");
            continue;
        }
        let words = [
            "run",
            "--workspace",
            "none",
            "--isolation",
            level,
            "--",
            "true",
        ];
        let ran = daemon.torno(&words).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(125), "{said}");
        assert!(said.contains("no usable certificate"), "{said}");
        assert!(daemon.sessions().unwrap().is_empty());
    }
    // The start was undone and written down, and nothing was let out.
    let records = daemon.records().unwrap();
    let kinds: Vec<&str> = records
        .iter()
        .filter_map(|r| r.pointer("/event/kind")?.as_str())
        .collect();
    assert!(
        !kinds.iter().any(|kind| kind.starts_with("request")),
        "{kinds:?}"
    );
    let sandboxes = daemon.home().join("state/sandboxes");
    // The journal of sandboxes made ahead is there, and empty.
    let names = |at: &std::path::Path| -> Vec<_> {
        let entries = std::fs::read_dir(at).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    };
    assert_eq!(names(&sandboxes), [".ahead"]);
    assert!(names(&sandboxes.join(".ahead")).is_empty());
    daemon.must(&["audit", "verify"]).unwrap();
}
