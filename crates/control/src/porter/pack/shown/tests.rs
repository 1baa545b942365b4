// SPDX-License-Identifier: Apache-2.0
//! A directory of the host as an archive.

use super::super::super::copy::tests::fingerprint;
use super::super::tests::unpacked;
use super::*;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

const ALL: u64 = 1 << 20;

/// What is sent, and what is said of it.
fn sent(
    place: &Path,
    bytes_max: u64,
    fingerprints: &[Fingerprint],
) -> anyhow::Result<(Vec<String>, PorterReply)> {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let directory = rustix::fs::open(place, flags, Mode::empty())?;
    let out = tempfile::tempfile()?;
    let reply = write(&directory, out.try_clone()?.into(), bytes_max, fingerprints)?;
    let lines = match reply {
        PorterReply::VaultValue { .. } => Vec::new(),
        _ => unpacked(out)?,
    };
    Ok((lines, reply))
}

fn made() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    mode(place.path(), 0o755);
    place
}

fn file(place: &Path, name: &str, text: &str, bits: u32) {
    let path = place.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    mode(path.parent().unwrap(), 0o755);
    std::fs::write(&path, text).unwrap();
    mode(&path, bits);
}

fn mode(path: &Path, bits: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(bits)).unwrap();
}

// ATTACK: 173
#[test]
fn what_everybody_may_read_is_sent_and_links_are_sent_as_links() {
    let place = made();
    let at = place.path();
    file(at, "bin/tool", "tool", 0o755);
    file(at, "bin/set", "set", 0o4755);
    file(at, "notes", "notes", 0o644);
    symlink("/etc/shadow", at.join("out")).unwrap();
    symlink("bin/tool", at.join("in")).unwrap();
    let (lines, reply) = sent(at, ALL, &[]).unwrap();
    let right = [
        "bin/",
        "bin/set*:set",
        "bin/tool*:tool",
        "/in -> bin/tool",
        "/notes:notes",
        "/out -> /etc/shadow",
    ];
    assert_eq!(lines, right);
    let PorterReply::Copied {
        hidden,
        left_out,
        bytes,
    } = reply
    else {
        panic!("{reply:?}");
    };
    assert!(hidden.is_empty() && left_out.is_empty());
    assert!((3 * 4096..5 * 4096 + 6 * 300).contains(&bytes), "{bytes}");
}

#[test]
fn what_only_its_owner_may_read_stays_out_though_the_porter_may() {
    let place = made();
    let at = place.path();
    file(at, "mine", "canary", 0o640);
    file(at, "run-only", "canary", 0o711);
    file(at, "inner/deep", "canary", 0o644);
    mode(&at.join("inner"), 0o710);
    file(at, "listless/deep", "canary", 0o644);
    mode(&at.join("listless"), 0o751);
    file(at, "shared", "shared", 0o604);
    let (lines, reply) = sent(at, ALL, &[]).unwrap();
    assert_eq!(lines, ["/shared:shared"]);
    let said = format!("{reply:?}");
    assert!(said.contains("4 entries"), "{said}");
    mode(at, 0o750);
    let refused = sent(at, ALL, &[]).unwrap_err();
    assert!(refused.to_string().contains("chmod o+rx"), "{refused}");
}

#[test]
fn what_looks_like_a_credential_is_hidden_and_a_vault_value_ends_it() {
    let place = made();
    let at = place.path();
    file(at, ".npmrc", "//registry/:_authToken=abc", 0o644);
    let configuration = "[remote \"o\"]\n\turl = https://me:canary@git.test/x\n";
    file(at, "src/.git/config", configuration, 0o644);
    file(at, "tool", "tool", 0o755);
    let (lines, reply) = sent(at, ALL, &[]).unwrap();
    let all = lines.join("\n");
    assert!(!all.contains("npmrc") && !all.contains("canary"), "{all}");
    assert!(
        all.contains("git.test") && all.contains("/tool*:tool"),
        "{all}"
    );
    let said = format!("{reply:?}");
    assert!(
        said.contains(".npmrc") && said.contains("src/.git/config"),
        "{said}"
    );
    file(at, "share/notes", "x s3cret-canary-value y", 0o644);
    let known = [fingerprint(b"s3cret-canary-value")];
    let (_, reply) = sent(at, ALL, &known).unwrap();
    let said = format!("{reply:?}");
    let right = said.contains("share/notes") && said.contains("github");
    assert!(
        right && matches!(reply, PorterReply::VaultValue { .. }),
        "{said}"
    );
}

#[test]
fn a_directory_that_is_too_large_is_refused_with_how_large_it_may_be() {
    let place = made();
    file(place.path(), "large", &"x".repeat(20_000), 0o644);
    let text = format!("{:#}", sent(place.path(), 10_000, &[]).unwrap_err());
    for word in ["large", "limits.memory", "10000 bytes", "gvisor"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}
