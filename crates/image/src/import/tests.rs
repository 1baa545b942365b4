// SPDX-License-Identifier: Apache-2.0
//! The same image in every form that it may come in.

use super::*;
use crate::archive::tests::Forge;
use crate::digest;
use crate::store::tests::{Ground, ground};
use std::fs;
use std::path::Path;

fn layer() -> Vec<u8> {
    let layer = Forge::default().directory("usr").directory("usr/bin");
    layer.file("usr/bin/said", "hello").end()
}

/// Configuration and manifest of an image of that layer.
fn words(layer: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let plain = digest::of(layer).unwrap();
    let architecture = Platform::own().architecture;
    let config = format!(
        r#"{{"architecture":"{architecture}","os":"linux","config":{{"Env":["PATH=/opt/bin:/bin"]}},
        "rootfs":{{"type":"layers","diff_ids":["{plain}"]}},"history":[]}}"#
    );
    let manifest = format!(
        r#"{{"schemaVersion":2,"mediaType":"{}","config":{{"mediaType":"{CONFIG_TYPE}",
        "digest":"{}","size":{}}},"layers":[{{"mediaType":"{LAYER_TYPE}","digest":"{plain}",
        "size":{}}}]}}"#,
        MANIFEST_TYPES[0],
        digest::of(config.as_bytes()).unwrap(),
        config.len(),
        layer.len(),
    );
    (config.into_bytes(), manifest.into_bytes())
}

fn index(manifest: &[u8]) -> String {
    format!(
        r#"{{"schemaVersion":2,"manifests":[{{"mediaType":"{}","digest":"{}","size":{},
        "annotations":{{"org.opencontainers.image.ref.name":"1.0"}}}}]}}"#,
        MANIFEST_TYPES[0],
        digest::of(manifest).unwrap(),
        manifest.len()
    )
}

fn write_layout(at: &Path) -> ImageDigest {
    let layer = layer();
    let (config, manifest) = words(&layer);
    let blobs = at.join("blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    for blob in [&layer, &config, &manifest] {
        fs::write(blobs.join(digest::of(blob).unwrap().hex()), blob).unwrap();
    }
    fs::write(at.join("index.json"), index(&manifest)).unwrap();
    digest::of(&manifest).unwrap()
}

#[track_caller]
fn has_the_image(ground: &mut Ground, image: &ImageDigest) {
    let about = ground.shelve(image, Some("tools")).unwrap();
    assert_eq!(about.env, [("PATH".to_owned(), "/opt/bin:/bin".to_owned())]);
    let root = ground.store.shelf().hold(image).unwrap().root;
    assert_eq!(
        fs::read_to_string(root.join("usr/bin/said")).unwrap(),
        "hello"
    );
}

#[test]
fn a_layout_is_taken_in_by_its_digests() {
    let mut ground = ground();
    let place = ground.directory.path().join("layout");
    let said = write_layout(&place);
    let taken = layout(&mut ground.store, &place, None).unwrap();
    assert_eq!(taken, said);
    has_the_image(&mut ground, &taken);
    assert!(layout(&mut ground.store, &place, Some("2.0")).is_err());
}

#[test]
fn a_layout_with_a_blob_that_is_another_or_a_link_is_refused() {
    let place = tempfile::tempdir().unwrap();
    write_layout(place.path());
    let plain = digest::of(&layer()).unwrap();
    let blob = place.path().join("blobs/sha256").join(plain.hex());
    let other = Forge::default().file("usr/bin/said", "other").end();
    let mut same_size = layer();
    same_size[600] ^= 1;
    for bytes in [other, same_size] {
        let mut ground = ground();
        fs::write(&blob, bytes).unwrap();
        let taken = layout(&mut ground.store, place.path(), None);
        assert!(
            matches!(taken, Err(ImportError::Store(StoreError::Other { .. }))),
            "{taken:?}"
        );
    }
    fs::remove_file(&blob).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", &blob).unwrap();
    let mut ground = ground();
    let taken = layout(&mut ground.store, place.path(), None);
    assert!(matches!(taken, Err(ImportError::Read(..))), "{taken:?}");
}

#[test]
fn archives_of_docker_and_of_oci_are_taken_in() {
    let layer = layer();
    let (config, manifest) = words(&layer);
    let blob = |forge: Forge, bytes: &[u8]| {
        let path = format!("blobs/sha256/{}", digest::of(bytes).unwrap().hex());
        forge.entry(&path, b'0', bytes, "")
    };
    let oci = blob(blob(blob(Forge::default(), &layer), &config), &manifest);
    let oci = oci.file("index.json", &index(&manifest)).end();
    let list = r#"[{"Config":"c.json","RepoTags":["tools:1"],"Layers":["l/layer.tar"]}]"#;
    let docker = Forge::default().entry("l/layer.tar", b'0', &layer, "");
    let docker = docker
        .entry("c.json", b'0', &config, "")
        .file("manifest.json", list)
        .end();
    for (archive_bytes, exact) in [(oci, true), (docker, false)] {
        let mut ground = ground();
        let path = ground.directory.path().join("archive.tar");
        fs::write(&path, archive_bytes).unwrap();
        let taken = archive(&mut ground.store, &path, None).unwrap();
        assert_eq!(Some(&taken) == digest::of(&manifest).as_ref(), exact);
        has_the_image(&mut ground, &taken);
        assert!(archive(&mut ground.store, &path, Some("other:1")).is_err());
    }
}

#[test]
fn an_archive_that_names_what_is_not_in_it_is_refused() {
    let list = |layers: &str| {
        let list = format!(r#"[{{"Config":"c.json","RepoTags":null,"Layers":[{layers}]}}]"#);
        Forge::default()
            .file("c.json", "{}")
            .file("manifest.json", &list)
            .end()
    };
    for bytes in [
        list(r#""../../etc/passwd""#),
        list(r#""none.tar""#),
        list(""),
        Forge::default().file("manifest.json", "[]").end(),
        Forge::default().file("manifest.json", "{").end(),
        Forge::default().file("other", "x").end(),
    ] {
        let mut ground = ground();
        let path = ground.directory.path().join("archive.tar");
        fs::write(&path, bytes).unwrap();
        let taken = archive(&mut ground.store, &path, None);
        let shelved = taken.map(|image| ground.shelve(&image, None));
        assert!(!matches!(shelved, Ok(Ok(_))));
        assert_eq!(crate::store::images(ground.store.shelf()).unwrap(), []);
    }
}
