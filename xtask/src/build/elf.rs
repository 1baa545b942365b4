// SPDX-License-Identifier: Apache-2.0
//! What a binary asks of the system that runs it: an interpreter, libraries. A static one asks for
//! nothing. Only 64-bit little-endian ELF, which is what the two platforms have.

use anyhow::{Context, Result, bail};

const PROGRAM_HEADER_BYTES: usize = 56;
const DYNAMIC: u32 = 2;
const INTERPRETER: u32 = 3;
const DYNAMIC_ENTRY_BYTES: usize = 16;
const NEEDED: u64 = 1;

/// The names of what it asks for; empty for a static binary.
pub(super) fn asks_of_the_system(elf: &[u8]) -> Result<Vec<&'static str>> {
    if elf.get(..6) != Some(b"\x7fELF\x02\x01") {
        bail!("not a 64-bit little-endian ELF file");
    }
    let table = usize::try_from(number(elf, 32, 8)?)?;
    let size = usize::try_from(number(elf, 54, 2)?)?;
    let count = usize::try_from(number(elf, 56, 2)?)?;
    if size != PROGRAM_HEADER_BYTES {
        bail!("program headers of {size} bytes");
    }
    let mut asks = Vec::new();
    for i in 0..count {
        let header = table + i * size;
        match u32::try_from(number(elf, header, 4)?)? {
            INTERPRETER => asks.push("an interpreter"),
            DYNAMIC => {
                let offset = usize::try_from(number(elf, header + 8, 8)?)?;
                let bytes = usize::try_from(number(elf, header + 32, 8)?)?;
                let mut at = offset;
                while at < offset + bytes {
                    if number(elf, at, 8)? == NEEDED {
                        asks.push("a shared library");
                    }
                    at += DYNAMIC_ENTRY_BYTES;
                }
            }
            _ => {}
        }
    }
    Ok(asks)
}

fn number(elf: &[u8], at: usize, bytes: usize) -> Result<u64> {
    let field = elf
        .get(at..at + bytes)
        .context("the ELF file is cut short")?;
    Ok(field
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(kind: u32, entries: &[u64]) -> Vec<u8> {
        let mut elf = b"\x7fELF\x02\x01".to_vec();
        elf.resize(64 + PROGRAM_HEADER_BYTES, 0);
        elf[32] = 64;
        elf[54] = 56;
        elf[56] = 1;
        elf[64..68].copy_from_slice(&kind.to_le_bytes());
        elf[72] = 120;
        elf[96] = u8::try_from(entries.len() * DYNAMIC_ENTRY_BYTES).unwrap();
        for entry in entries {
            elf.extend_from_slice(&entry.to_le_bytes());
            elf.extend_from_slice(&[0; 8]);
        }
        elf
    }

    #[test]
    fn an_interpreter_and_a_library_are_seen_and_a_static_binary_asks_nothing() {
        assert_eq!(
            asks_of_the_system(&elf(INTERPRETER, &[])).unwrap(),
            ["an interpreter"]
        );
        assert_eq!(
            asks_of_the_system(&elf(DYNAMIC, &[1, 0])).unwrap(),
            ["a shared library"]
        );
        assert!(
            asks_of_the_system(&elf(DYNAMIC, &[5, 0]))
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn a_cut_file_and_another_format_are_errors() {
        assert!(asks_of_the_system(b"#!/bin/sh\n").is_err());
        assert!(asks_of_the_system(&elf(DYNAMIC, &[5])[..124]).is_err());
    }

    #[test]
    fn this_test_itself_asks_for_an_interpreter() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert!(
            asks_of_the_system(&own)
                .unwrap()
                .contains(&"an interpreter")
        );
    }
}
