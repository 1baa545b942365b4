// SPDX-License-Identifier: Apache-2.0
//! The fuzz target of HTTP/2's frames, as they are followed before the library reads them.

use crate::http2::faults::Faults;
use crate::http2::frames::Frames;

/// A client's frames, whose first byte says how they are cut: one verdict whatever that is.
pub fn fuzz_http2_frames(data: &[u8]) {
    let (cut, bytes) = data.split_first().unwrap_or((&0, &[]));
    let whole = found(bytes, bytes.len());
    let pieces = found(bytes, usize::from(*cut));
    assert_eq!(whole, pieces, "a cut changed what was found");
}

fn found(bytes: &[u8], cut: usize) -> Result<(), h2::Reason> {
    let mut frames = Frames::new(false);
    let mut faults = Faults::default();
    for mut piece in bytes.chunks(cut.max(1)) {
        while let Some(part) = frames.next(&mut piece) {
            faults.came(part)?;
        }
    }
    Ok(())
}
