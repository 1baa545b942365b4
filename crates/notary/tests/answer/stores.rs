// SPDX-License-Identifier: Apache-2.0
//! What is stored comes out by unlocking alone, and a store that was put back is noticed.

use super::*;

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir(to).unwrap();
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o700)).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// An old store fits its own MAC; the record tells.
#[test]
fn an_older_store_put_back_whole_does_not_unseal() {
    let world = ready(Mode::Inject).reopen();
    let (store, backup): (PathBuf, PathBuf) = {
        let root = world.root.path();
        (root.join("store"), root.join("backup"))
    };
    let World { notary, now, root } = world;
    notary.close(now).unwrap();
    copy(&store, &backup);
    let mut world = World {
        notary: Notary::open(config(root.path()), now).unwrap(),
        now,
        root,
    };
    world.ask_owner(OperatorRequest::Unseal, Some(KEY));
    world.ask_owner(OperatorRequest::Revoke { name: credential() }, None);
    let World { notary, now, root } = world;
    notary.close(now).unwrap();
    copy(&backup, &store);
    let mut world = World {
        notary: Notary::open(config(root.path()), now).unwrap(),
        now,
        root,
    };
    let (reply, _) = world.owner(OperatorRequest::Unseal, Some(KEY));
    assert!(
        matches!(&reply, OperatorReply::Failed { code, .. } if code == "rolled_back"),
        "{reply:?}"
    );
    // And not in the life after that either.
    let mut world = world.reopen();
    let (reply, _) = world.owner(OperatorRequest::Unseal, Some(KEY));
    assert!(matches!(reply, OperatorReply::Failed { code, .. } if code == "rolled_back"));
}

#[test]
fn a_store_that_lost_nothing_since_opens_from_its_backup() {
    let world = ready(Mode::Inject);
    let World { notary, now, root } = world;
    notary.close(now).unwrap();
    let (store, backup) = (root.path().join("store"), root.path().join("backup"));
    copy(&store, &backup);
    let notary = Notary::open(config(root.path()), now).unwrap();
    notary.close(now).unwrap();
    copy(&backup, &store);
    let mut world = World {
        notary: Notary::open(config(root.path()), now).unwrap(),
        now,
        root,
    };
    world.ask_owner(OperatorRequest::Unseal, Some(KEY));
}

#[test]
fn fingerprints_are_of_every_value_and_need_the_keys() {
    let mut world = ready(Mode::Inject);
    let ask = || DeskMessage::Fingerprints { ticket: Ticket(1) };
    let DeskReply::FingerprintSet { fingerprints, .. } = world.desk(ask()).0 else {
        panic!()
    };
    assert_eq!(fingerprints.len(), 1);
    assert_eq!(fingerprints[0].length, 20);
    world.ask_owner(OperatorRequest::Seal, None);
    assert!(
        matches!(world.desk(ask()).0, DeskReply::Refused { refusal, .. }
        if refusal.reason == Reason::VaultSealed)
    );
}

// ATTACK: 233
#[test]
fn no_reply_and_no_stored_byte_holds_the_value() {
    let mut world = running(Mode::Inject);
    world.allowed(true);
    let requests = [
        OperatorRequest::List,
        OperatorRequest::Status,
        OperatorRequest::RecordHead,
    ];
    let mut seen = String::new();
    for request in requests {
        seen.push_str(&format!("{:?}", world.owner(request, None).0));
    }
    let mut bytes = seen.into_bytes();
    for directory in ["store", "record"] {
        for entry in std::fs::read_dir(world.root.path().join(directory)).unwrap() {
            bytes.extend(std::fs::read(entry.unwrap().path()).unwrap());
        }
    }
    let found = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    assert!(!found(&VALUE[..12]));
    // The search works: names are there.
    assert!(found(b"credential_released"));
}

#[test]
fn a_preset_counts_when_it_was_confirmed_and_its_change_asks_for_trust_again() {
    let text = "[[allow]]\npreset = \"pip\"\n";
    let narrow = "[[allow]]\nhost = \"allow.test\"\npaths = [\"/simple/**\"]\n";
    let pip = || PresetName::parse("pip").unwrap();
    let presets = |text: &str| Presets::shipped().with(pip(), Preset::parse(text).unwrap());
    let set = |text: &str| OperatorRequest::SetPreset {
        name: pip(),
        text: text.to_owned(),
    };
    let mut world = ready(Mode::Placeholder);
    world.accept_digest(digest_with(text, &presets(narrow)));
    // Accepted beforehand, and still nothing: nobody confirmed the preset.
    assert!(world.begin("s1", text).is_err());
    world.ask_owner(set(narrow), None);
    let begun = world.begin("s2", text).unwrap();
    assert_eq!(begun.grant.allow[0].name.as_str(), "preset.pip[0]");

    let wide = format!("{narrow}[[allow]]\nhost = \"other.test\"\n");
    world.ask_owner(set(&wide), None);
    let refused = world.begin("s3", text).unwrap_err();
    assert!(refused.hint.contains("torno trust"), "{}", refused.hint);
    world.accept_digest(digest_with(text, &presets(&wide)));
    assert_eq!(world.begin("s4", text).unwrap().grant.allow.len(), 2);

    // It is there in the next life, and no broken text takes its place.
    let (reply, _) = world.owner(set("[[allow]]\nhost = \"*.com\"\n"), None);
    assert!(matches!(reply, OperatorReply::Failed { .. }), "{reply:?}");
    let World { notary, now, root } = world;
    notary.close(now).unwrap();
    let notary = Notary::open(config(root.path()), now).unwrap();
    let mut world = World { notary, now, root };
    assert_eq!(world.begin("s5", text).unwrap().grant.allow.len(), 2);
    world.ask_owner(OperatorRequest::RemovePreset { name: pip() }, None);
    assert!(world.begin("s6", text).is_err());
}
