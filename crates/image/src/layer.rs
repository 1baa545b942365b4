// SPDX-License-Identifier: Apache-2.0
//! A layer's bytes, unpacked while they are read: plain, gzip or zstd, by what they begin with.
//! What comes out is counted against what went in, and hashed for the configuration's word.

use crate::digest::Hashed;
use crate::limits::Limits;
use flate2::read::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

/// A layer that is being read.
pub(crate) type Layer<R> = Hashed<Rationed<R>>;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// LIMIT: bytes that are looked at to tell how a layer is packed.
const BUFFER_BYTES: usize = 64 << 10;

/// Opens a layer; `spare` is what all layers of the image together may still unpack to.
pub(crate) fn open<R: Read>(packed: R, limits: &Limits, spare: u64) -> io::Result<Layer<R>> {
    let taken = Rc::new(Cell::new(0));
    let counted = Counted {
        inner: packed,
        taken: Rc::clone(&taken),
    };
    let mut packed = BufReader::with_capacity(BUFFER_BYTES, counted);
    let start = packed.fill_buf()?;
    let plain = if start.starts_with(&GZIP) {
        Plain::Gzip(Box::new(MultiGzDecoder::new(packed)))
    } else if start.starts_with(&ZSTD) {
        Plain::Zstd(Box::new(Frames::new(packed)))
    } else {
        Plain::Tar(packed)
    };
    Ok(Hashed::new(Rationed {
        plain,
        taken,
        given: 0,
        limits: limits.clone(),
        spare,
    }))
}

/// Counts what is taken from the packed side.
pub(crate) struct Counted<R> {
    inner: R,
    taken: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        let more = u64::try_from(length).unwrap_or(u64::MAX);
        self.taken.set(self.taken.get().saturating_add(more));
        Ok(length)
    }
}

type Packed<R> = BufReader<Counted<R>>;

enum Plain<R> {
    Tar(Packed<R>),
    Gzip(Box<MultiGzDecoder<Packed<R>>>),
    Zstd(Box<Frames<R>>),
}

/// Ends a bomb: more came out than goes in, or than an image may have.
pub(crate) struct Rationed<R> {
    plain: Plain<R>,
    taken: Rc<Cell<u64>>,
    given: u64,
    limits: Limits,
    spare: u64,
}

impl<R: Read> Read for Rationed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = match &mut self.plain {
            Plain::Tar(plain) => plain.read(buffer),
            Plain::Gzip(plain) => plain.read(buffer),
            Plain::Zstd(plain) => plain.read(buffer),
        }?;
        self.given += u64::try_from(length).unwrap_or(u64::MAX);
        // ATTACK: 172
        if self.given > self.spare {
            return Err(io::Error::other(
                "it unpacks to more than an image may have",
            ));
        }
        let fair = self.taken.get().saturating_mul(self.limits.ratio);
        if self.given > self.limits.ratio_from && self.given > fair {
            return Err(io::Error::other(
                "it unpacks to so much more than it is that it is taken for a bomb",
            ));
        }
        Ok(length)
    }
}

/// Zstandard's frames one after the other; skippable ones hold what others look up.
struct Frames<R> {
    decoder: FrameDecoder,
    packed: Packed<R>,
    in_frame: bool,
}

impl<R: Read> Frames<R> {
    fn new(packed: Packed<R>) -> Self {
        Self {
            decoder: FrameDecoder::new(),
            packed,
            in_frame: false,
        }
    }

    /// Goes on to the next frame with content; false at the end.
    fn advance(&mut self) -> io::Result<bool> {
        while !self.packed.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.packed) {
                Ok(()) => {
                    self.in_frame = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let mut skipped = (&mut self.packed).take(length.into());
                    io::copy(&mut skipped, &mut io::sink())?;
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }

    /// What its own checksum says, where it has one.
    fn check(&self) -> io::Result<()> {
        let said = self.decoder.get_checksum_from_data();
        if said.is_none() || said == self.decoder.get_calculated_checksum() {
            Ok(())
        } else {
            Err(io::Error::other("a zstd frame has a wrong checksum"))
        }
    }
}

impl<R: Read> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if self.in_frame {
                while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                    let blocks = BlockDecodingStrategy::UptoBytes(buffer.len());
                    let decoded = self.decoder.decode_blocks(&mut self.packed, blocks);
                    decoded.map_err(io::Error::other)?;
                }
                let length = self.decoder.read(buffer)?;
                if length > 0 {
                    return Ok(length);
                }
                self.check()?;
                self.in_frame = false;
            }
            if !self.advance()? {
                return Ok(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        compress_to_vec(bytes, CompressionLevel::Fastest)
    }

    fn unpacked(packed: &[u8], limits: &Limits) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        open(packed, limits, limits.bytes)?.read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn a_layer_is_read_however_it_is_packed_and_in_several_pieces() {
        let (first, second) = (vec![b'a'; 300_000], b"second".to_vec());
        let both = [first.clone(), second.clone()].concat();
        let limits = Limits::default();
        assert_eq!(unpacked(&both, &limits).unwrap(), both);
        let packed = [gzip(&first), gzip(&second)].concat();
        assert_eq!(unpacked(&packed, &limits).unwrap(), both);
        let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        let packed = [zstd(&first), skipped, zstd(&second)].concat();
        assert_eq!(unpacked(&packed, &limits).unwrap(), both);
    }

    #[test]
    fn a_packed_layer_that_is_cut_is_an_error() {
        for packed in [gzip(b"something to pack"), zstd(b"something to pack")] {
            let cut = &packed[..packed.len() - 3];
            assert!(unpacked(cut, &Limits::default()).is_err());
        }
    }

    // ATTACK: 172
    #[test]
    fn a_bomb_is_ended_by_its_size_and_by_its_ratio() {
        let zeros = vec![0; 4 << 20];
        for packed in [gzip(&zeros), zstd(&zeros)] {
            let small = Limits {
                bytes: 1 << 20,
                ..Limits::default()
            };
            let error = unpacked(&packed, &small).unwrap_err().to_string();
            assert!(error.contains("more than an image"), "{error}");
            let strict = Limits {
                ratio_from: 1 << 20,
                ..Limits::default()
            };
            let error = unpacked(&packed, &strict).unwrap_err().to_string();
            assert!(error.contains("bomb"), "{error}");
            assert!(unpacked(&packed, &Limits::default()).is_ok());
        }
    }
}
