// SPDX-License-Identifier: Apache-2.0
//! The distribution's kernel as Firecracker and Cloud Hypervisor read it: the ELF file that a
//! bzImage packs (Linux, `Documentation/arch/x86/boot.rst`), unpacked once and kept beside the
//! image of `/usr`.

mod lz4;

use super::image;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why there is no such kernel.
#[derive(Debug, Error)]
pub enum KernelError {
    /// A file.
    #[error("`{0}` failed")]
    File(PathBuf, #[source] io::Error),
    /// What it is.
    #[error("the kernel `{path}` can't be unpacked: {what}")]
    Form {
        /// Which.
        path: PathBuf,
        /// What it is not.
        what: &'static str,
    },
}

/// LIMIT: Debian's cloud kernel has 14 MB.
const PACKED_BYTES_MAX: u64 = 64 << 20;
/// LIMIT: and 54 MB unpacked.
const PLAIN_BYTES_MAX: usize = 256 << 20;
const PREFIX: &str = "vmlinux-";

/// The kernel's ELF file in the cache, unpacked if it isn't there.
///
/// # Errors
/// [`KernelError`].
pub fn plain_kernel(kernel: &Path, cache: &Path) -> Result<PathBuf, KernelError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| KernelError::File(path, error)
    };
    let packed = crate::facts::read_bounded(kernel, PACKED_BYTES_MAX);
    let packed = packed.ok_or_else(|| failed(kernel)(io::ErrorKind::InvalidData.into()))?;
    let digest = HEXLOWER.encode(&Sha256::digest(&packed));
    let cache = fs::canonicalize(cache).map_err(failed(cache))?;
    let path = cache.join(format!("{PREFIX}{digest}"));
    if path.is_file() {
        return Ok(path);
    }
    let plain = unpack(&packed).map_err(|what| KernelError::Form {
        path: kernel.to_owned(),
        what,
    })?;
    let _lock = image::take(&cache).map_err(failed(&cache))?;
    let unfinished = cache.join(format!("{}-kernel", image::UNFINISHED));
    fs::write(&unfinished, plain)
        .and_then(|()| fs::rename(&unfinished, &path))
        .map_err(failed(&path))?;
    drop_old(&cache, &path).map_err(failed(&cache))?;
    Ok(path)
}

/// Who still boots from another keeps it until its end.
fn drop_old(cache: &Path, current: &Path) -> io::Result<()> {
    for entry in fs::read_dir(cache)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if path != current && name.is_some_and(|name| name.starts_with(PREFIX)) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// A bzImage → what it packs.
fn unpack(image: &[u8]) -> Result<Vec<u8>, &'static str> {
    let number = |at: usize| -> Option<usize> {
        let bytes = image.get(at..at.checked_add(4)?)?;
        let number = u32::from_le_bytes(bytes.try_into().ok()?);
        usize::try_from(number).ok()
    };
    if image.get(MAGIC_AT..MAGIC_AT + MAGIC.len()) != Some(MAGIC) {
        return Err("it is no bzImage");
    }
    let sectors = match image.get(SECTORS_AT) {
        None | Some(0) => 4,
        Some(sectors) => usize::from(*sectors),
    };
    let payload = || {
        let start = (sectors + 1) * SECTOR_BYTES + number(PAYLOAD_AT)?;
        image.get(start..start.checked_add(number(PAYLOAD_AT + 4)?)?)
    };
    let payload = payload().ok_or("its payload lies outside of it")?;
    // The linker appends the length of what was packed.
    let (packed, length) = payload
        .split_last_chunk()
        .ok_or("its payload is too short")?;
    let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
    if length > PLAIN_BYTES_MAX {
        return Err("it is larger than a kernel may be");
    }
    let plain = lz4::unpack(packed, length)?;
    if plain.starts_with(b"\x7fELF") {
        Ok(plain)
    } else {
        Err("what it packs is no ELF file")
    }
}

const SECTOR_BYTES: usize = 512;
const SECTORS_AT: usize = 0x1f1;
const MAGIC_AT: usize = 0x202;
const MAGIC: &[u8] = b"HdrS";
const PAYLOAD_AT: usize = 0x248;

#[cfg(test)]
mod tests {
    use super::*;

    /// A bzImage with this payload and this length behind it.
    fn image(payload: &[u8], length: u32) -> Vec<u8> {
        let mut image = vec![0; 1024];
        let mut put = |at: usize, bytes: &[u8]| {
            let end = at + bytes.len();
            image.get_mut(at..end).unwrap().copy_from_slice(bytes);
        };
        put(SECTORS_AT, &[1]);
        put(MAGIC_AT, MAGIC);
        put(PAYLOAD_AT, &0_u32.to_le_bytes());
        let whole = u32::try_from(payload.len()).unwrap() + 4;
        put(PAYLOAD_AT + 4, &whole.to_le_bytes());
        image.extend_from_slice(payload);
        image.extend_from_slice(&length.to_le_bytes());
        image
    }

    /// `\x7fELF` and eight times the last of it, by hand.
    const PACKED: &[u8] = b"\x02\x21\x4c\x18\x08\0\0\0\x44\x7fELF\x01\0\0";

    #[test]
    fn what_a_bz_image_packs_comes_out_and_nothing_else_does() {
        assert_eq!(unpack(&image(PACKED, 12)).unwrap(), b"\x7fELFFFFFFFFF");
        for bad in [
            image(PACKED, 11),
            image(PACKED, 13),
            image(PACKED, u32::MAX),
            image(b"\x1f\x8b", 12),
            image(b"", 0),
            b"MZ".to_vec(),
        ] {
            assert!(unpack(&bad).is_err());
        }
        let whole = image(PACKED, 12);
        for cut in 0..whole.len() {
            assert!(unpack(whole.get(..cut).unwrap()).is_err(), "{cut}");
        }
    }

    #[test]
    fn debians_kernel_unpacks_to_what_lz4_says() {
        let boot = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/machine/boot");
        let entries = fs::read_dir(boot).into_iter().flatten().flatten();
        let mut kernels = entries.filter(|entry| {
            let name = entry.file_name();
            name.to_str()
                .is_some_and(|name| name.starts_with("vmlinuz"))
        });
        let Some(kernel) = kernels.next() else {
            println!("SKIP: Debian's kernel: `cargo xtask build` brings it");
            return;
        };
        let cache = tempfile::tempdir().unwrap();
        fs::write(cache.path().join("vmlinux-old"), "").unwrap();
        let plain = plain_kernel(&kernel.path(), cache.path()).unwrap();
        let bytes = fs::read(&plain).unwrap();
        assert!(bytes.len() > 16 << 20 && bytes.starts_with(b"\x7fELF"));
        assert!(!cache.path().join("vmlinux-old").exists());
        let again = plain_kernel(&kernel.path(), cache.path()).unwrap();
        assert_eq!(again, plain);
    }
}
