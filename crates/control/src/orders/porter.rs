// SPDX-License-Identifier: Apache-2.0
//! Desk ↔ porter: one job, one reply.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Desk → porter, with the job's directories in the order written here.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum PorterJob {
    /// Copy the first directory into the second, searching and hiding on the way; what lay there
    /// is written to the third descriptor as [`Baseline`].
    CopyIn {
        /// What to look for.
        fingerprints: Vec<torno_notary_protocol::desk::Fingerprint>,
        /// Bytes that may be copied.
        bytes_max: u64,
        /// Only these files; nothing means all.
        only: Option<Vec<String>>,
        /// Places of which only that they are there is copied.
        hide: Vec<String>,
    },
    /// Copy the first directory, which a session had, into the second, searching and hiding on the
    /// way; once this is answered it is on the disk.
    Checkpoint {
        /// What to look for.
        fingerprints: Vec<torno_notary_protocol::desk::Fingerprint>,
        /// Bytes that may be copied.
        bytes_max: u64,
    },
    /// Write the baseline of the one directory to the second descriptor.
    Note,
    /// Count what changed: changed, baseline.
    Count,
    /// Keep a bound workspace and its copy alike, one round: original, copy, baseline, where it is
    /// written anew, what is known of files, where that is written anew.
    Sync(SyncRules),
    /// Write the one directory as an archive to the stream that comes second.
    Pack {
        /// Bytes that may be sent.
        bytes_max: u64,
        /// Places of which only that they are there is said.
        hide: Vec<String>,
    },
    /// Write the one directory, which is the host's, as an archive to the stream that comes second,
    /// searching and hiding on the way.
    Show {
        /// What to look for.
        fingerprints: Vec<torno_notary_protocol::desk::Fingerprint>,
        /// Bytes that may be sent.
        bytes_max: u64,
    },
    /// Unpack what comes on the third descriptor into the first, which is empty; what the rules
    /// keep from programs is taken from the second.
    Unpack {
        /// Bytes that may come.
        bytes_max: u64,
        /// What programs may have changed.
        files: torno_policy::grant::FileRules,
    },
    /// Send refs and objects of the repository in the first directory as a stream of
    /// `control_api::commits` to the second descriptor.
    Commits,
    /// Compare: original, changed, baseline, pipe to write the diff to.
    Diff,
    /// Bring back: target, changed, baseline, pipe for the report.
    Apply {
        /// Only these.
        paths: Option<Vec<String>>,
        /// Host-executing paths that the person confirmed.
        confirmed: Vec<String>,
    },
}

/// What a round goes by.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SyncRules {
    /// What to look for in what goes in.
    pub(crate) fingerprints: Vec<torno_notary_protocol::desk::Fingerprint>,
    /// Bytes that the copy may have, and as many again the person's directory.
    pub(crate) bytes_max: u64,
    /// What programs may write, and what is hidden.
    pub(crate) files: torno_policy::grant::FileRules,
    /// Every file is read, however it looks.
    pub(crate) thorough: bool,
}

/// A job, and whether the descriptor after its own is a user namespace that it is done in.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PorterTask<J = PorterJob> {
    pub(crate) job: J,
    pub(crate) within: bool,
}

/// What lay in the workspace when it was copied in: path → digest and mode. A file of the desk.
pub(crate) type Baseline = BTreeMap<String, BaselineEntry>;

/// One entry of the baseline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BaselineEntry {
    /// SHA-256 of the content, or of the link's target.
    pub(crate) digest: String,
    /// It may be executed.
    pub(crate) executable: bool,
    /// It is a symbolic link.
    pub(crate) link: bool,
}

/// Porter → desk.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum PorterReply {
    /// Copied or sent.
    Copied {
        /// What was hidden: place and shape.
        hidden: Vec<(String, String)>,
        /// Entries that were left out (sockets, devices, FIFOs).
        left_out: Vec<String>,
        /// Bytes of the files that were found.
        bytes: u64,
    },
    /// A round is over.
    Synced {
        /// Paths that went in, that went out, and that wait for a person.
        inward: u32,
        outward: u32,
        held: u32,
        /// What was kept out: place and reason.
        hidden: Vec<(String, String)>,
    },
    /// Compared or applied.
    Done {
        /// Changed paths.
        changed: u32,
    },
    /// A vault value was found: where, and whose.
    VaultValue {
        /// The place.
        place: String,
        /// The credential's name.
        credential: String,
    },
    /// It failed.
    Failed {
        /// What failed.
        message: String,
    },
}
