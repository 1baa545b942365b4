// SPDX-License-Identifier: Apache-2.0
//! Tests of the way in.

use super::*;
use rustix::fs::OFlags;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

fn open(path: &Path) -> OwnedFd {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
}

struct Place {
    _dir: tempfile::TempDir,
    source: std::path::PathBuf,
    target: std::path::PathBuf,
    baseline: std::path::PathBuf,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let path = |name| dir.path().join(name);
    let (source, target, baseline) = (path("source"), path("target"), path("baseline"));
    std::fs::create_dir(&source).unwrap();
    std::fs::create_dir(&target).unwrap();
    Place {
        _dir: dir,
        source,
        target,
        baseline,
    }
}

fn copy(place: &Place, fingerprints: Vec<Fingerprint>) -> anyhow::Result<PorterReply> {
    let baseline = File::create(&place.baseline).unwrap().into();
    let rules = Rules {
        fingerprints,
        bytes_max: 1 << 20,
        only: None,
        hide: vec!["private/**".into(), "key.txt".into()],
        limit: "limits.disk",
    };
    copy_in(
        &open(&place.source),
        &open(&place.target),
        Some(baseline),
        &rules,
    )
}

pub(in super::super) fn fingerprint(value: &[u8]) -> Fingerprint {
    let base = 0x1234_5678_9abc_def1;
    let window = value.first_chunk::<12>().unwrap();
    let rolling = torno_vault::Rolling::of(base, window);
    let salt = [7; 16];
    let mut hash = <sha2::Sha256 as sha2::Digest>::new();
    sha2::Digest::update(&mut hash, salt);
    sha2::Digest::update(&mut hash, value);
    Fingerprint {
        credential: "github".to_owned(),
        length: u32::try_from(value.len()).unwrap(),
        rolling,
        base,
        salt,
        digest: sha2::Digest::finalize(hash).into(),
    }
}

// ATTACK: 173
#[test]
fn a_link_is_copied_as_a_link_and_what_it_points_to_stays_outside() {
    let place = place();
    let secret = place.baseline.with_file_name("host-secret");
    std::fs::write(&secret, "host").unwrap();
    symlink(&secret, place.source.join("absolute")).unwrap();
    symlink("../host-secret", place.source.join("up")).unwrap();
    std::fs::write(place.source.join("plain"), "plain").unwrap();
    copy(&place, Vec::new()).unwrap();
    assert_eq!(
        std::fs::read_link(place.target.join("absolute")).unwrap(),
        secret
    );
    assert_eq!(
        std::fs::read_link(place.target.join("up")).unwrap(),
        Path::new("../host-secret")
    );
    assert_eq!(
        std::fs::read_to_string(place.target.join("plain")).unwrap(),
        "plain"
    );
}

// ATTACK: 171
#[test]
fn modes_are_reduced_to_the_owner_and_special_files_are_left_out() {
    let place = place();
    let program = place.source.join("program");
    std::fs::write(&program, "x").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o6777)).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place.source.join("fifo"),
        rustix::fs::FileType::Fifo,
        Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let PorterReply::Copied { left_out, .. } = copy(&place, Vec::new()).unwrap() else {
        panic!()
    };
    assert_eq!(left_out, ["fifo"]);
    let mode = std::fs::metadata(place.target.join("program"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o700);
    assert!(!place.target.join("fifo").exists());
}

#[test]
fn files_with_a_credentials_shape_stay_outside_and_are_named() {
    let place = place();
    std::fs::write(place.source.join(".env"), "A=1").unwrap();
    std::fs::create_dir(place.source.join(".git")).unwrap();
    let config = "[remote \"o\"]\n\turl = https://me:tok@h.test/a\n";
    std::fs::write(place.source.join(".git/config"), config).unwrap();
    let PorterReply::Copied { hidden, .. } = copy(&place, Vec::new()).unwrap() else {
        panic!()
    };
    assert_eq!(hidden.len(), 2, "{hidden:?}");
    assert!(!place.target.join(".env").exists());
    let copied = std::fs::read_to_string(place.target.join(".git/config")).unwrap();
    assert!(!copied.contains("tok"), "{copied}");
}

#[test]
fn a_vault_value_anywhere_in_the_tree_stops_the_copy_with_its_place() {
    let value = b"ghp_0123456789abcdefghij";
    for (before, after) in [(0, 0), (1, 1), (5_000, 3), (1024 * 1024 - 7, 9)] {
        let place = place();
        std::fs::create_dir(place.source.join("deep")).unwrap();
        let mut content = vec![b'x'; before];
        content.extend_from_slice(value);
        content.extend(vec![b'y'; after]);
        std::fs::write(place.source.join("deep/notes.txt"), content).unwrap();
        let rules = Rules {
            fingerprints: vec![fingerprint(value)],
            bytes_max: 4 << 20,
            only: None,
            hide: Vec::new(),
            limit: "limits.disk",
        };
        let baseline = Some(File::create(&place.baseline).unwrap().into());
        let reply = copy_in(&open(&place.source), &open(&place.target), baseline, &rules).unwrap();
        let PorterReply::VaultValue { place, credential } = reply else {
            panic!("{before}")
        };
        assert_eq!(
            (place.as_str(), credential.as_str()),
            ("deep/notes.txt", "github")
        );
    }
}

#[test]
fn a_value_that_differs_in_its_last_byte_is_not_the_vaults() {
    let place = place();
    std::fs::write(place.source.join("a"), "ghp_0123456789abcdefghiX").unwrap();
    let reply = copy(&place, vec![fingerprint(b"ghp_0123456789abcdefghij")]).unwrap();
    assert!(matches!(reply, PorterReply::Copied { .. }));
}

#[test]
fn a_workspace_over_its_limit_is_refused() {
    let place = place();
    std::fs::write(place.source.join("big"), vec![0; (1 << 20) + 1]).unwrap();
    let error = copy(&place, Vec::new()).unwrap_err();
    assert!(format!("{error:#}").contains("limits.disk"), "{error:#}");
}

#[test]
fn only_the_listed_files_enter_an_install_phase() {
    let place = place();
    std::fs::create_dir_all(place.source.join("a/b")).unwrap();
    std::fs::write(place.source.join("a/b/requirements.txt"), "x").unwrap();
    std::fs::write(place.source.join("a/main.py"), "x").unwrap();
    std::fs::create_dir(place.source.join("ab")).unwrap();
    std::fs::create_dir_all(place.source.join("src/deep")).unwrap();
    std::fs::create_dir(place.source.join("srcs")).unwrap();
    for file in ["src/main.rs", "src/deep/x.rs", "srcs/x.rs"] {
        std::fs::write(place.source.join(file), "x").unwrap();
    }
    let rules = Rules {
        fingerprints: Vec::new(),
        bytes_max: 1 << 20,
        only: Some(vec!["a/b/requirements.txt".to_owned(), "src/**".to_owned()]),
        hide: Vec::new(),
        limit: "limits.disk",
    };
    let baseline = Some(File::create(&place.baseline).unwrap().into());
    copy_in(&open(&place.source), &open(&place.target), baseline, &rules).unwrap();
    assert!(place.target.join("a/b/requirements.txt").exists());
    assert!(!place.target.join("a/main.py").exists());
    assert!(!place.target.join("ab").exists());
    assert!(place.target.join("src/main.rs").exists());
    assert!(place.target.join("src/deep/x.rs").exists());
    assert!(!place.target.join("srcs").exists());
}

#[test]
fn names_cost_what_the_disk_counts_for_them_whatever_they_hold() {
    // ATTACK: 163
    let place = place();
    for number in 0..2_100 {
        std::fs::create_dir(place.source.join(format!("d{number}"))).unwrap();
    }
    let refused = copy(&place, Vec::new()).unwrap_err().to_string();
    assert!(refused.contains("larger than limits.disk"), "{refused}");
}

#[test]
fn what_is_told_of_a_tree_fits_a_reply_and_counts_the_rest() {
    // ATTACK: 163
    let place = place();
    for number in 0..1_500 {
        let path = place.source.join(format!("fifo-{number:04}"));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path,
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
    }
    let PorterReply::Copied { left_out, .. } = copy(&place, Vec::new()).unwrap() else {
        panic!("not copied");
    };
    assert_eq!(left_out.len(), LISTED_MAX + 1);
    assert_eq!(left_out.last().unwrap(), "… and 988 more");
    let mut listed = Listed::default();
    for _ in 0..LISTED_MAX {
        listed.push(&"\u{1}".repeat(4096), "\u{1}".repeat(4096));
    }
    let written = serde_json::to_vec(&listed.told(|rest| rest)).unwrap();
    assert!(written.len() < 2 * LISTED_BYTES_MAX, "{}", written.len());
}

#[test]
fn what_is_hidden_never_enters_the_copy() {
    let place = place();
    for path in ["private/deep", "src"] {
        std::fs::create_dir_all(place.source.join(path)).unwrap();
    }
    for path in ["private/a", "private/deep/b", "key.txt", "src/c"] {
        std::fs::write(place.source.join(path), "content").unwrap();
    }
    copy(&place, Vec::new()).unwrap();
    let read = |path: &str| std::fs::read_to_string(place.target.join(path)).ok();
    assert_eq!(read("key.txt").as_deref(), Some(""));
    assert_eq!(read("src/c").as_deref(), Some("content"));
    assert_eq!(
        std::fs::read_dir(place.target.join("private"))
            .unwrap()
            .count(),
        0
    );
    // It is no difference that anybody made.
    let baseline = File::open(&place.baseline).unwrap().into();
    let baseline = crate::porter::changes::read_baseline(baseline).unwrap();
    let changes = crate::porter::changes::of(&open(&place.target), &baseline).unwrap();
    assert_eq!(changes, []);
}
