// SPDX-License-Identifier: Apache-2.0
//! A store in a directory of the test's own.

use super::*;
use crate::archive::tests::Forge;
use crate::digest;
use crate::import;
use std::os::unix::fs::PermissionsExt;

/// A store, and where it lies.
pub(crate) struct Ground {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) store: Store,
}

pub(crate) fn ground() -> Ground {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("images"), Limits::default()).unwrap();
    Ground { directory, store }
}

pub(crate) fn origin() -> Origin {
    Origin {
        source: "a test".to_owned(),
        now: 1_700_000_000,
    }
}

pub(crate) fn name(text: &str) -> ImageName {
    ImageName::parse(text).unwrap()
}

fn any(bytes_max: u64) -> Expected<'static> {
    Expected {
        digest: None,
        size: None,
        bytes_max,
    }
}

impl Ground {
    pub(crate) fn put(&mut self, bytes: &[u8]) -> (ImageDigest, u64) {
        self.store.put_blob(bytes, any(1 << 20)).unwrap()
    }

    /// An image with one file that says this.
    pub(crate) fn image(&mut self, said: &str) -> ImageDigest {
        let source = self.directory.path().join("source");
        fs::create_dir_all(source.join("usr/bin")).unwrap();
        fs::write(source.join("usr/bin/said"), said).unwrap();
        import::directory(&mut self.store, &source).unwrap().0
    }

    pub(crate) fn shelve(
        &mut self,
        digest: &ImageDigest,
        called: Option<&str>,
    ) -> Result<About, StoreError> {
        let called = called.map(name);
        self.store
            .shelve(digest, called.as_ref(), &origin(), &mut |_, _| {})
    }

    fn left(&self, place: &str) -> usize {
        fs::read_dir(self.store.shelf.directory().join(place))
            .unwrap()
            .count()
    }
}

#[test]
fn a_blob_that_is_another_or_too_long_leaves_nothing() {
    let mut ground = ground();
    let other = digest::of(b"other").unwrap();
    let wrong = Expected {
        digest: Some(&other),
        ..any(100)
    };
    let put = ground.store.put_blob(&b"bytes"[..], wrong);
    assert!(matches!(put, Err(StoreError::Other { .. })));
    let short = Expected {
        size: Some(4),
        ..any(100)
    };
    assert!(ground.store.put_blob(&b"bytes"[..], short).is_err());
    assert!(matches!(
        ground.store.put_blob(&b"bytes"[..], any(4)),
        Err(StoreError::Long(_))
    ));
    assert_eq!((ground.left("blobs"), ground.left("unfinished")), (0, 0));
    let (digest, size) = ground.put(b"bytes");
    assert_eq!((Some(digest), size), (digest::of(b"bytes"), 5));
}

#[test]
fn one_writer_at_a_time_and_what_it_left_unfinished_goes_with_the_next() {
    let ground = ground();
    let place = ground.store.shelf.directory().to_owned();
    let busy = Store::open(&place, Limits::default());
    assert!(matches!(busy, Err(StoreError::Busy(_))));
    let half = place.join("unfinished/7/root/deep");
    fs::create_dir_all(&half).unwrap();
    fs::write(half.join("file"), "half").unwrap();
    drop(ground.store);
    let store = Store::open(&place, Limits::default()).unwrap();
    assert_eq!(fs::read_dir(store.unfinished()).unwrap().count(), 0);
}

#[test]
fn an_image_is_on_the_shelf_whole_or_not_at_all() {
    let mut ground = ground();
    let digest = ground.image("hello");
    let about = ground.shelve(&digest, Some("tools")).unwrap();
    assert_eq!((about.layers, about.bytes), (1, 5));
    let held = ground.store.shelf.hold(&digest).unwrap();
    let said = fs::read_to_string(held.root.join("usr/bin/said")).unwrap();
    assert_eq!(said, "hello");
    assert_eq!(ground.store.shelf.resolve(&name("tools")).unwrap(), digest);
    // Nothing but the image is left of it.
    assert_eq!((ground.left("blobs"), ground.left("unfinished")), (0, 0));
    // The same directory is the same image, and is not unpacked again.
    let again = ground.image("hello");
    assert_eq!(again, digest);
    ground.shelve(&again, Some("same")).unwrap();
    assert_eq!(names(&ground.store.shelf).unwrap().len(), 2);
    // A hostile layer leaves none.
    let layer = Forge::default().link("d", "/tmp").file("d/f", "x").end();
    let hostile = import_layer(&mut ground, &layer);
    assert!(matches!(
        ground.shelve(&hostile, Some("bad")),
        Err(StoreError::Unpack(_))
    ));
    assert_eq!(images(&ground.store.shelf).unwrap(), [digest]);
    assert!(ground.store.shelf.resolve(&name("bad")).is_err());
}

fn import_layer(ground: &mut Ground, layer: &[u8]) -> ImageDigest {
    let (reader, mut writer) = io::pipe().unwrap();
    let layer = layer.to_vec();
    let feed = std::thread::spawn(move || io::Write::write_all(&mut writer, &layer));
    let image = import::layer_of(&mut ground.store, reader).unwrap();
    feed.join().unwrap().unwrap();
    image
}

#[test]
fn a_missing_or_changed_blob_is_noticed_before_anything_is_unpacked() {
    let mut ground = ground();
    let digest = ground.image("hello");
    let manifest = ground.store.read_blob(&digest, 1 << 20).unwrap();
    let manifest = Manifest::parse(&manifest).unwrap();
    let config = ground.store.blobs().join(manifest.config.digest.hex());
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("linux", "Linux")).unwrap();
    assert!(matches!(
        ground.shelve(&digest, None),
        Err(StoreError::Other { .. })
    ));
    fs::remove_file(&config).unwrap();
    assert!(matches!(
        ground.shelve(&digest, None),
        Err(StoreError::Missing(_))
    ));
    assert_eq!(ground.left("unpacked"), 0);
}

#[test]
fn every_change_of_an_image_is_found() {
    let mut ground = ground();
    let digest = ground.image("hello");
    ground.shelve(&digest, Some("tools")).unwrap();
    let root = ground.store.shelf.image(&digest).join(ROOT);
    let file = root.join("usr/bin/said");
    let verdict = |ground: &Ground| verify(&ground.store.shelf, &digest).unwrap();
    assert_eq!(verdict(&ground), Verdict::Same);
    fs::write(&file, "hallo").unwrap();
    assert_eq!(verdict(&ground), Verdict::Changed);
    fs::write(&file, "hello").unwrap();
    assert_eq!(verdict(&ground), Verdict::Same);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(verdict(&ground), Verdict::Changed);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(root.join("new"), "").unwrap();
    assert_eq!(verdict(&ground), Verdict::Changed);
    fs::remove_file(root.join("new")).unwrap();
    std::os::unix::fs::symlink("said", root.join("usr/bin/link")).unwrap();
    assert_eq!(verdict(&ground), Verdict::Changed);
}

#[test]
fn a_machines_disk_is_verified_with_its_image_and_goes_with_it() {
    let mut ground = ground();
    let digest = ground.image("hello");
    ground.shelve(&digest, None).unwrap();
    let disk = {
        let held = ground.store.shelf.hold(&digest).unwrap();
        let place = held.disk_place().unwrap();
        fs::write(place.unfinished(), "a disk").unwrap();
        place.keep(&digest::of(b"a disk").unwrap()).unwrap();
        held.disk().unwrap().unwrap()
    };
    let verdict = |ground: &Ground| verify(&ground.store.shelf, &digest).unwrap();
    assert_eq!(verdict(&ground), Verdict::Same);
    fs::write(&disk.path, "a dusk").unwrap();
    assert_eq!(verdict(&ground), Verdict::Changed);
    let pruned = ground.store.prune().unwrap();
    assert_eq!((pruned.images.len(), pruned.bytes), (1, 5 + 6));
    assert!(!disk.path.exists());
}

#[test]
fn what_nothing_stands_for_is_collected_oldest_first_and_never_what_is_in_use() {
    let mut ground = ground();
    let made = ["one", "two", "three"].map(|said| {
        let digest = ground.image(said);
        ground.shelve(&digest, Some("name")).unwrap();
        digest
    });
    ground.put(b"of a pull that was cut");
    // The name stands for the last; the first is in a sandbox.
    let held = ground.store.shelf.hold(&made[0]).unwrap();
    let pruned = ground.store.prune().unwrap();
    assert_eq!(pruned.images, [made[1].clone()]);
    assert_eq!((pruned.in_use, pruned.blobs), (vec![made[0].clone()], 1));
    assert!(held.root.join("usr/bin/said").exists());
    let removed = ground.store.remove(&made[0]);
    assert!(matches!(removed, Err(StoreError::InUse(_))));
    drop(held);
    ground.store.remove(&made[2]).unwrap();
    assert!(ground.store.shelf.resolve(&name("name")).is_err());
    assert_eq!(images(&ground.store.shelf).unwrap(), [made[0].clone()]);
    assert_eq!(ground.left("unfinished"), 0);
    assert!(ground.store.remove(&made[2]).is_err());
}
