// SPDX-License-Identifier: Apache-2.0
//! Character sets of answers. What is searched for is written in ASCII: an answer in a set that
//! writes ASCII in other bytes (UTF-16, UTF-32, UTF-7, EBCDIC, ISO 2022) can't be searched.

use crate::head::Head;

/// Sets in which each character of ASCII is its one byte, by name or by how the name begins.
const NAMES: [&str; 15] = [
    "utf-8",
    "utf8",
    "us-ascii",
    "ascii",
    "binary",
    "gb2312",
    "gbk",
    "gb18030",
    "big5",
    "big5-hkscs",
    "shift_jis",
    "shift-jis",
    "sjis",
    "tis-620",
    "macintosh",
];
const FAMILIES: [&str; 8] = [
    "iso-8859-",
    "iso8859-",
    "iso_8859-",
    "windows-125",
    "cp125",
    "latin",
    "koi8-",
    "euc-",
];

/// Whether every set that the head names is one of them. Naming none is as good.
pub(super) fn is_searchable(head: &Head) -> bool {
    let kinds = head.values("content-type");
    let parameters = kinds.flat_map(|kind| kind.split(|b| *b == b';').skip(1));
    parameters.into_iter().all(|parameter| {
        let parameter = String::from_utf8_lossy(parameter).to_ascii_lowercase();
        let (name, value) = parameter.split_once('=').unwrap_or((&parameter, ""));
        let value = value.trim().trim_matches(['"', '\'']);
        !name.trim().starts_with("charset")
            || NAMES.contains(&value)
            || FAMILIES.iter().any(|front| value.starts_with(front))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sets_that_write_ascii_as_ascii_are_searched() {
        let of = |kind: &str| {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n");
            is_searchable(&Head::parse(head.as_bytes()).unwrap())
        };
        for kind in [
            "text/plain",
            "application/json; charset=utf-8",
            "Application/JSON;Charset=\"UTF-8\"",
            "text/html; charset=ISO-8859-1; x=utf-16",
            "text/html; boundary=x; charset=windows-1252",
        ] {
            assert!(of(kind), "{kind}");
        }
        for kind in [
            "application/json; charset=utf-16le",
            "application/json;charset=\"UTF-16\"",
            "text/plain; charset = utf-32",
            "text/plain; charset=utf-8; charset=utf-7",
            "text/plain; charset*=utf-8''utf-16",
            "text/plain; charset=IBM037",
            "text/plain; charset=iso-2022-jp",
            "text/plain; charset=",
        ] {
            assert!(!of(kind), "{kind}");
        }
    }
}
