// SPDX-License-Identifier: Apache-2.0
//! A small npm registry: one package to install, and whatever is published is taken.

use crate::world::NPM;
use crate::world::listen::{Answer, Origin, Visit, answer, with};
use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write as _;
use std::sync::Arc;

/// The package that can be installed.
pub const PACKAGE: &str = "stage-left";

/// The registry.
#[derive(Debug)]
pub struct Registry {
    archive: Vec<u8>,
}

impl Registry {
    /// A registry with its package.
    ///
    /// # Errors
    /// When the package can't be packed.
    pub fn new() -> Result<Self> {
        let manifest = format!(r#"{{"name":"{PACKAGE}","version":"1.0.0","main":"index.js"}}"#);
        let mut archive = Vec::new();
        entry(&mut archive, "package/package.json", manifest.as_bytes());
        entry(
            &mut archive,
            "package/index.js",
            b"module.exports = 'installed';\n",
        );
        archive.resize(archive.len() + 1024, 0);
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed
            .write_all(&archive)
            .context("the package can't be packed")?;
        let archive = packed.finish().context("the package can't be packed")?;
        Ok(Self { archive })
    }
}

impl Origin for Registry {
    async fn answer(self: Arc<Self>, mut visit: Visit) -> Answer {
        let _body = visit.body().await;
        let path = visit.request.uri().path();
        let file = format!("/{PACKAGE}/-/{PACKAGE}-1.0.0.tgz");
        match visit.request.method().as_str() {
            "GET" if path == format!("/{PACKAGE}") => {
                let document = serde_json::json!({
                    "name": PACKAGE,
                    "dist-tags": { "latest": "1.0.0" },
                    "versions": { "1.0.0": {
                        "name": PACKAGE,
                        "version": "1.0.0",
                        "dist": { "tarball": format!("https://{NPM}{file}") },
                    } },
                });
                json(200, &document)
            }
            "GET" if path == file => answer(200, self.archive.clone()),
            "POST" if path.starts_with("/-/npm/v1/security/") => json(200, &serde_json::json!({})),
            "PUT" | "DELETE" | "POST" => json(201, &serde_json::json!({ "ok": true })),
            _ => json(404, &serde_json::json!({ "error": "no such package" })),
        }
    }
}

fn json(status: u16, value: &serde_json::Value) -> Answer {
    let body = answer(status, value.to_string());
    with(body, "content-type", "application/json")
}

/// A file of a tar archive, with its padding (POSIX ustar).
fn entry(archive: &mut Vec<u8>, name: &str, content: &[u8]) {
    let mut head = [0_u8; 512];
    let mut put = |at: usize, text: &str| {
        for (place, byte) in head.iter_mut().skip(at).zip(text.bytes()) {
            *place = byte;
        }
    };
    put(0, name);
    put(100, "0000644\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{:011o}\0", content.len()));
    put(136, "00000000000\0");
    // The sum counts its own place as spaces.
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
    let sum = format!("{sum:06o}\0 ");
    for (place, byte) in head.iter_mut().skip(148).zip(sum.bytes()) {
        *place = byte;
    }
    archive.extend_from_slice(&head);
    archive.extend_from_slice(content);
    archive.resize(archive.len().next_multiple_of(512), 0);
}
