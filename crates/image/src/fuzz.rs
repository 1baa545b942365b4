// SPDX-License-Identifier: Apache-2.0
//! Fuzz targets as plain functions, as `torno-egress` has them.

use crate::archive::{Kind, Reader};
use crate::limits::{DEPTH_MAX, Limits};
use std::io::Read;
use std::path::Component;

/// A layer's entries stay below the root, name no way up, and give the content that they promise.
pub fn fuzz_archive(data: &[u8]) {
    let limits = Limits {
        bytes: 4 << 20,
        ..Limits::default()
    };
    let Ok(layer) = crate::layer::open(data, &limits, limits.bytes) else {
        return;
    };
    let mut archive = Reader::new(layer);
    while let Ok(Some(entry)) = archive.next_entry() {
        let path = entry.path.as_path();
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        assert!(path.components().all(plain), "a way out: {path:?}");
        assert!(path.components().count() <= DEPTH_MAX, "too deep");
        assert!(entry.mode & !0o777 == 0, "rights that nobody may have");
        if let Kind::File(size) = entry.kind {
            let mut content = Vec::new();
            match archive.read_to_end(&mut content) {
                Ok(length) => assert_eq!(u64::try_from(length).ok(), Some(size), "content"),
                Err(_) => return,
            }
        }
    }
}

/// An image's JSON is read or refused.
pub fn fuzz_manifest(data: &[u8]) {
    use crate::manifest::{Configuration, Index, Manifest};
    if let Ok(index) = Index::parse(data) {
        let _chosen = index.choose(None);
    }
    if let Ok(manifest) = Manifest::parse(data) {
        assert!(!manifest.layers.is_empty(), "an image of nothing");
        let _read = Configuration::parse(data, &manifest);
    }
}
