// SPDX-License-Identifier: Apache-2.0
//! The encodings in which a far end could send a secret back, and in each of them the windows that
//! stand for 12 bytes of it. A whole value with `Bearer ` or `user:` around it needs no form of its
//! own: its inside is one of these.

use data_encoding::{BASE64, BASE64URL, Encoding};
use std::ops::Range;
use zeroize::Zeroizing;

/// LIMIT: the shortest run of a secret that is looked for; shorter ones would hit ordinary text.
pub(super) const RUN_BYTES: usize = 12;

/// One secret in one encoding.
pub(super) struct Form {
    /// The whole encoded value.
    pub(super) text: Zeroizing<Vec<u8>>,
    /// The parts of it that stand for 12 consecutive bytes.
    pub(super) windows: Vec<Range<usize>>,
    /// A find at least this long is the whole value.
    pub(super) whole: usize,
}

/// Every form of a value, each spelling once.
pub(super) fn forms(value: &[u8]) -> Vec<Form> {
    let mut forms: Vec<Form> = Vec::new();
    let mut add = |form: Form| {
        if !forms.iter().any(|known| known.text == form.text) {
            forms.push(form);
        }
    };
    for spell in SPELLINGS {
        add(spelled(value, spell));
    }
    for alphabet in [&BASE64, &BASE64URL] {
        for alignment in 0..3 {
            add(base64(value, alphabet, alignment));
        }
    }
    forms
}

type Spell = fn(u8, &mut Vec<u8>);

/// How each byte is written, on its own.
const SPELLINGS: [Spell; 18] = [
    |byte, out| out.push(byte),
    |byte, out| hex(byte, false, out),
    |byte, out| hex(byte, true, out),
    |byte, out| percent(byte, false, out),
    |byte, out| percent(byte, true, out),
    |byte, out| escape_reserved(byte, false, out),
    |byte, out| escape_reserved(byte, true, out),
    |byte, out| match byte {
        b' ' => out.push(b'+'),
        other => escape_reserved(other, true, out),
    },
    |byte, out| json_unicode(byte, false, out),
    |byte, out| json_unicode(byte, true, out),
    |byte, out| json(byte, false, out),
    |byte, out| json(byte, true, out),
    |byte, out| json_for_html(byte, false, out),
    |byte, out| json_for_html(byte, true, out),
    |byte, out| html(byte, "&#39;", out),
    |byte, out| html(byte, "&#x27;", out),
    |byte, out| out.extend_from_slice(format!("&#{byte};").as_bytes()),
    |byte, out| {
        out.extend_from_slice(b"&#x");
        hex(byte, false, out);
        out.push(b';');
    },
];

fn spelled(value: &[u8], spell: Spell) -> Form {
    let mut text = Zeroizing::new(Vec::with_capacity(value.len() * 6));
    let mut starts = Vec::with_capacity(value.len() + 1);
    for byte in value {
        starts.push(text.len());
        spell(*byte, &mut text);
    }
    starts.push(text.len());
    let ends = starts.iter().skip(RUN_BYTES);
    let windows = starts.iter().zip(ends).map(|(start, end)| *start..*end);
    Form {
        windows: windows.collect(),
        whole: text.len(),
        text,
    }
}

/// The characters that depend on nothing but the value, when it stands `alignment` bytes into a
/// group of three.
fn base64(value: &[u8], alphabet: &Encoding, alignment: usize) -> Form {
    let mut padded = Zeroizing::new(vec![0; alignment]);
    padded.extend_from_slice(value);
    let text = Zeroizing::new(alphabet.encode(&padded).into_bytes());
    let window = |first: usize, count: usize| {
        let start = ((alignment + first) * 8).div_ceil(6);
        let end = (alignment + first + count) * 8 / 6;
        start..end
    };
    let last = value.len().saturating_sub(RUN_BYTES);
    let whole = window(0, value.len());
    Form {
        windows: (0..=last).map(|first| window(first, RUN_BYTES)).collect(),
        whole: whole.len(),
        text,
    }
}

fn hex(byte: u8, upper: bool, out: &mut Vec<u8>) {
    for nibble in [byte >> 4, byte & 15] {
        let digit = char::from_digit(u32::from(nibble), 16).unwrap_or('0');
        let digit = if upper {
            digit.to_ascii_uppercase()
        } else {
            digit
        };
        out.extend(u8::try_from(digit));
    }
}

fn percent(byte: u8, upper: bool, out: &mut Vec<u8>) {
    out.push(b'%');
    hex(byte, upper, out);
}

fn escape_reserved(byte: u8, upper: bool, out: &mut Vec<u8>) {
    if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
        out.push(byte);
    } else {
        percent(byte, upper, out);
    }
}

fn json_unicode(byte: u8, upper: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\\u00");
    hex(byte, upper, out);
}

fn json(byte: u8, escape_slash: bool, out: &mut Vec<u8>) {
    if matches!(byte, b'"' | b'\\') || (byte == b'/' && escape_slash) {
        out.push(b'\\');
    }
    out.push(byte);
}

/// As encoders write JSON that may stand in a page.
fn json_for_html(byte: u8, upper: bool, out: &mut Vec<u8>) {
    match byte {
        b'<' | b'>' | b'&' | b'\'' => json_unicode(byte, upper, out),
        other => json(other, false, out),
    }
}

fn html(byte: u8, apostrophe: &str, out: &mut Vec<u8>) {
    match byte {
        b'&' => out.extend_from_slice(b"&amp;"),
        b'<' => out.extend_from_slice(b"&lt;"),
        b'>' => out.extend_from_slice(b"&gt;"),
        b'"' => out.extend_from_slice(b"&quot;"),
        b'\'' => out.extend_from_slice(apostrophe.as_bytes()),
        other => out.push(other),
    }
}
