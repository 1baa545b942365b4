// SPDX-License-Identifier: Apache-2.0
//! The archive that a kernel unpacks into memory before its init runs: cpio in its `newc` form
//! (Linux, `Documentation/driver-api/early-userspace/buffer-format.rst`).

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// An archive that grows.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const CHARACTER_DEVICE: u32 = 0o020_000;

impl Archive {
    pub(super) fn directory(&mut self, path: &Path) {
        self.entry(path, DIRECTORY | 0o755, (0, 0), &[]);
    }

    pub(super) fn file(&mut self, path: &Path, mode: u32, content: &[u8]) {
        self.entry(path, FILE | mode, (0, 0), content);
    }

    pub(super) fn link(&mut self, path: &Path, target: &str) {
        self.entry(path, LINK | 0o777, (0, 0), target.as_bytes());
    }

    /// A character device, for everybody.
    pub(super) fn device(&mut self, path: &Path, numbers: (u32, u32)) {
        self.entry(path, CHARACTER_DEVICE | 0o666, numbers, &[]);
    }

    /// The whole, with its end mark.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry(Path::new("TRAILER!!!"), 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, path: &Path, mode: u32, device: (u32, u32), content: &[u8]) {
        self.entries += 1;
        let name = path.as_os_str().as_bytes();
        // INVARIANT: content comes from bounded reads far below 4 GiB.
        let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let name_length = u32::try_from(name.len() + 1).unwrap_or(u32::MAX);
        let links = 1;
        let fields = [
            self.entries,
            mode,
            0,
            0,
            links,
            0,
            length,
            0,
            0,
            device.0,
            device.1,
            name_length,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name);
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An archive as a reviewer reads it: mode, length, name; text and links with what they say.
    pub(crate) fn listed(bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        let mut rest = bytes;
        let number = |header: &str, field: usize| {
            let digits = header.get(6 + 8 * field..14 + 8 * field).unwrap();
            usize::from_str_radix(digits, 16).unwrap()
        };
        while !rest.is_empty() {
            let header = std::str::from_utf8(rest.get(..HEADER_BYTES).unwrap()).unwrap();
            let (mode, length) = (number(header, 1), number(header, 6));
            let name_end = HEADER_BYTES + number(header, 11);
            let name = String::from_utf8_lossy(rest.get(HEADER_BYTES..name_end - 1).unwrap());
            let start = name_end.next_multiple_of(4);
            let content = rest.get(start..start + length).unwrap();
            let said = match std::str::from_utf8(content) {
                Ok(text) if !text.is_empty() => format!(" {text:?}"),
                Ok(_) | Err(_) => String::new(),
            };
            lines.push(format!("  {mode:06o} {length} {name}{said}"));
            rest = rest
                .get((start + length).next_multiple_of(4)..)
                .unwrap_or_default();
        }
        lines
    }

    /// `070701` and thirteen numbers.
    const HEADER_BYTES: usize = 6 + 13 * 8;

    #[test]
    fn an_archive_has_the_form_that_the_kernel_documents() {
        let mut archive = Archive::default();
        archive.file(Path::new("d/odd"), 0o644, b"12345");
        archive.link(Path::new("l"), "odd");
        archive.device(Path::new("null"), (1, 3));
        archive.directory(Path::new("dir"));
        let text = String::from_utf8(archive.finish()).unwrap();
        let zeros = "0".repeat(16);
        let expected = [
            format!("07070100000001000081A4{zeros}0000000100000000000000050000000000000000"),
            format!("{zeros}0000000600000000d/odd\012345\0\0\0"),
            format!("070701000000020000A1FF{zeros}0000000100000000000000030000000000000000"),
            format!("{zeros}0000000200000000l\0odd\0"),
            format!("07070100000003000021B6{zeros}0000000100000000000000000000000000000000"),
            "00000001000000030000000500000000null\0\0".to_owned(),
            format!("07070100000004000041ED{zeros}0000000100000000000000000000000000000000"),
            format!("{zeros}0000000400000000dir\0\0\0"),
            format!("0707010000000500000000{zeros}0000000100000000000000000000000000000000"),
            format!("{zeros}0000000B00000000TRAILER!!!\0\0\0\0"),
        ];
        assert_eq!(text, expected.concat());
    }
}
