// SPDX-License-Identifier: Apache-2.0
//! Images for a person's eyes.

use super::failed;
use crate::clock;
use crate::context::Context;
use crate::printable;
use crate::stop::Outcome;
use std::fmt::Write as _;
use torno_control_api::images::{About, Shelf};
use torno_image::store::{Pruned, images, names};

/// Every image with its names.
pub(super) fn list(shelf: &Shelf, context: &Context) -> Outcome {
    let names = names(shelf).map_err(|error| failed(&error))?;
    let (mut rows, mut text) = (Vec::new(), String::new());
    for image in images(shelf).map_err(|error| failed(&error))? {
        // One that is being removed is not here any more.
        let Ok(about) = shelf.about(&image) else {
            continue;
        };
        let called = names.iter().filter(|(_, digest)| *digest == image);
        let called: Vec<&str> = called.map(|(name, _)| name.as_str()).collect();
        let shown = if called.is_empty() {
            "(no name)".to_owned()
        } else {
            called.join(", ")
        };
        // Writing to a String can't fail.
        let _ = writeln!(text, "{shown:<24} {:>10}  {image}", size(about.bytes));
        rows.push(serde_json::json!({
            "names": called, "digest": image, "bytes": about.bytes, "source": about.source,
        }));
    }
    if rows.is_empty() {
        text.push_str("no image but the host's own `/usr`; bring one with `torno image import`\n");
    }
    context.show(&rows, &text)
}

/// One image.
pub(super) fn about(about: &About) -> String {
    let mut text = format!(
        "digest   {}\nsource   {}\nbrought  {}\nlayers   {}\nentries  {}\nsize     {}\n",
        about.digest,
        printable::line(&about.source),
        clock::seconds(about.made_at),
        about.layers,
        about.entries,
        size(about.bytes),
    );
    if about.left_out > 0 {
        let _ = writeln!(text, "left out {} devices and FIFOs", about.left_out);
    }
    for (name, value) in &about.env {
        let _ = writeln!(text, "env      {name}={}", printable::line(value));
    }
    text
}

/// What was collected.
pub(super) fn pruned(pruned: &Pruned, context: &Context) -> Outcome {
    let mut text = String::new();
    for image in &pruned.images {
        let _ = writeln!(text, "removed {image}");
    }
    for image in &pruned.in_use {
        let _ = writeln!(text, "in use by a sandbox: {image}");
    }
    let _ = writeln!(text, "{} are free", size(pruned.bytes));
    let value = serde_json::json!({
        "removed": pruned.images, "in_use": pruned.in_use, "blobs": pruned.blobs,
        "bytes": pruned.bytes,
    });
    context.show(&value, &text)
}

/// Bytes in the unit that a person reads.
pub(super) fn size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let fitting = units.iter().find(|(unit, _)| bytes >= *unit);
    fitting.map_or_else(
        || format!("{bytes} B"),
        |(unit, name)| {
            let tenths = bytes / (unit / 10);
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        },
    )
}
