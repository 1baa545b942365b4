// SPDX-License-Identifier: Apache-2.0
//! Purpose: the words that host and guest say to each other over the link, how they are framed, and
//! the answer to every DNS question that a program inside asks.
//!
//! Trust: both ends feed it bytes that the other end made. The gate decodes what a hostile guest
//! sent; it reaches nothing: no file, socket, clock, random source or async runtime.
//!
//! Invariants:
//! - A length is checked before a byte of its frame is kept.
//! - A decoder that failed once never yields a frame again.
//! - A peer that sends more than its credit is an error, never a larger buffer.
//! - An address of the pool is given to one name and never to another.
//! - A tree has one spelling as an archive, and nothing of an archive that is none counts.
//!
//! Not here: what a frame does (`torno-guest`, the gate), and whether a name may be dialled (the
//! notary decides from the canonical host).
//!
//! Start reading at [`message`], then [`frame`], [`flow`], [`archive`], [`dns`].

pub mod archive;
pub mod dns;
pub mod flow;
pub mod frame;
pub mod machine;
pub mod message;

pub use archive::{
    ARCHIVE_PIECE_BYTES_MAX, ArchiveError, ArchivePiece, ArchiveReader, ArchiveWriter, FileName,
    fuzz_archive,
};
pub use dns::{NamePool, fuzz_dns};
pub use flow::{FlowError, ReceiveWindow, SendWindow, WINDOW_BYTES};
pub use frame::{
    CONTROL_BYTES_MAX, DATA_BYTES_MAX, Decoder, Frame, FrameError, GuestDecoder, HostDecoder,
    encode_control, encode_credit, encode_data, encode_end_of_file, fuzz_frame,
};
pub use machine::{
    ENTROPY_BYTES, Entropy, MACHINE_DISK, MACHINE_INIT, MACHINE_MODULES, MACHINE_SETUP_PATH,
    MACHINE_TOOLS, MACHINE_TREE, MachineEnd, MachineFile, MachineLink, MachineMount,
    MachineNetwork, MachinePlace, MachineRenewal, MachineRewrite, MachineSetup, SetupError,
    WallClock, machine_ready, machine_rehearsal,
};
pub use message::{
    CONNECTIONS_MAX, ChannelId, ConnectionId, DirectoryEntry, Entry, ExecId, FileFailure, FileKind,
    FileMetadata, GuestMessage, HostMessage, PROTOCOL_VERSION, ProcessFailure, ProcessStatus,
    RequestId, Signal, Stream, TerminalSize, Wall, WallKind, WriteMode,
};
