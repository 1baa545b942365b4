// SPDX-License-Identifier: Apache-2.0
//! `Sec-WebSocket-Accept` (RFC 6455 §4.2.2): shows that the far end read the handshake as one. It
//! asks for SHA-1, as a checksum: no security rests on it, and nothing else here uses it.

use data_encoding::BASE64;
use sha1::{Digest, Sha1};

/// RFC 6455 §1.3.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// What the far end must answer to this key.
pub(super) fn accept(key: &str) -> String {
    BASE64.encode(&Sha1::digest(format!("{key}{GUID}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_the_one_of_the_standard() {
        // RFC 6455 §1.3.
        assert_eq!(
            accept("dGhlIHNhbXBsZSBub25jZQ=="),
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
    }
}
