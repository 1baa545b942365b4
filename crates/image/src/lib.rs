// SPDX-License-Identifier: Apache-2.0
//! Images: fetched, unpacked and kept, so that a sandbox can have them read-only.
//!
//! **Purpose.** Turn what others packed (registries, OCI layouts, docker's and OCI archives,
//! directories, Debian's packages) into a directory of this machine, under the digest of its
//! manifest.
//!
//! **Trust.** Every byte of an image is hostile: manifests, archives, names, sizes. What is said of
//! a digest is checked. The store is the operator's own directory and believed.
//!
//! **Invariants.** Nothing is written outside of the one directory that is unpacked into: entries
//! are made beneath handles, no link is followed on the way, and the thread that unpacks is behind
//! landlock where the kernel has it. No device, no set-user-id bit, no attribute comes out of an
//! archive. An image is in the store whole, or it is not there.
//!
//! **Not here.** Sandboxes: what of an image a sandbox shows is `torno-sandbox`'s. The daemon can't
//! link this crate; it reads what `torno-control-api` says of the shelf.
//!
//! **Start reading at** [`unpack`](mod@unpack), then [`archive`] and [`store`].

pub mod archive;
pub mod debian;
mod digest;
#[doc(hidden)]
pub mod fuzz;
pub mod import;
mod layer;
pub mod limits;
pub mod manifest;
pub mod registry;
pub mod store;
pub mod unpack;
