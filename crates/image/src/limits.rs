// SPDX-License-Identifier: Apache-2.0
//! How large an image may be, in every direction that a hostile one could grow.

/// Bounds of one image. What goes beyond ends the work, and nothing of it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all files, unpacked.
    pub bytes: u64,
    /// Entries of all layers.
    pub entries: u64,
    /// Unpacked bytes for each packed one, once [`Limits::ratio_from`] came out.
    pub ratio: u64,
    /// Below so many unpacked bytes no ratio is looked at: a layer of zeros packs very well.
    pub ratio_from: u64,
}

impl Default for Limits {
    /// LIMIT: 32 GiB and two million entries: the largest images of machine-learning tools have
    /// half of it. Layers of programs pack to a third; beyond a hundredth nothing but zeros does.
    fn default() -> Self {
        Self {
            bytes: 32 << 30,
            entries: 2_000_000,
            ratio: 100,
            ratio_from: 256 << 20,
        }
    }
}

/// LIMIT: OCI asks registries to take manifests up to 4 MiB; configurations are smaller.
pub const METADATA_BYTES_MAX: u64 = 4 << 20;
/// LIMIT: overlay file systems end at 128 layers, so builders do too.
pub const LAYERS_MAX: usize = 128;
/// LIMIT: what the kernel takes as a path (PATH_MAX), without its final NUL.
pub const PATH_BYTES_MAX: usize = 4095;
/// LIMIT: what the kernel takes as a name (NAME_MAX).
pub const NAME_BYTES_MAX: usize = 255;
/// LIMIT: the deepest trees of node's modules have about thirty; walks of a tree recurse.
pub const DEPTH_MAX: usize = 64;
