// SPDX-License-Identifier: Apache-2.0
//! What the launcher tells the agent that is init of a virtual machine: how a bare kernel becomes
//! what a sandbox's root looks like elsewhere. It lies in the machine's memory from the start, and
//! nothing outside depends on its being obeyed. Nothing of a session is in it: that comes once, as
//! the first frame on the link.

use crate::frame::{FrameError, encode_control};
use crate::message::{GuestMessage, HostMessage};
use bytes::BytesMut;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Where the agent lies in the machine's first file system, and the name that it is started by.
pub const MACHINE_INIT: &str = "/init";
/// Where its set-up lies there.
pub const MACHINE_SETUP_PATH: &str = "/setup.json";
/// Where the kernel's modules lie there.
pub const MACHINE_MODULES: &str = "/modules";
/// What becomes the root directory there, with places of the first disk.
pub const MACHINE_TREE: &str = "/tree";
/// Where the disk is mounted there until its places are taken.
pub const MACHINE_DISK: &str = "/disk";
/// Programs of the host that the agent needs and no image has to have, with their libraries; gone
/// before the workload comes.
pub const MACHINE_TOOLS: &str = "/tools";

/// One machine's set-up, in the order in which the agent goes through it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineSetup {
    /// The agent's arguments. On the kernel's command line they would lie among words that no
    /// kernel of another version knows, all of which go to init.
    pub arguments: Vec<String>,
    /// File names below [`MACHINE_MODULES`], each after what it needs.
    pub modules: Vec<String>,
    /// What of the disk is in the root directory, read-only.
    pub disk: Vec<MachinePlace>,
    /// What is mounted over the root directory.
    pub mounts: Vec<MachineMount>,
    /// Names below `/proc/sys`, and what is written there.
    pub kernel: Vec<(String, String)>,
    /// Processes and threads that the workload may have.
    pub processes: u64,
    /// The host's name.
    pub hostname: String,
    /// The network; none leaves loopback down.
    pub network: Option<MachineNetwork>,
    /// How the agent reaches its host.
    pub link: MachineLink,
    /// How the machine ends.
    pub end: MachineEnd,
}

/// What the link is, seen from inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum MachineLink {
    /// The one port of a virtio-serial device.
    Port,
    /// A port of the host's that is dialled once, by vsock.
    Vsock {
        /// Which.
        port: u32,
    },
}

/// What the machine's process takes for the machine's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MachineEnd {
    /// That it is switched off.
    PowerOff,
    /// That it restarts; it has no switch.
    Restart,
}

/// A place of the disk, and where it is in the root directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachinePlace {
    /// On the disk, relative to its top; empty for the top itself.
    pub of: String,
    /// Relative to the root directory, which has a directory or a file there already.
    pub at: String,
}

/// A mount, in the words of an OCI configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineMount {
    /// Where: absolute.
    pub destination: String,
    /// The file system.
    #[serde(rename = "type")]
    pub kind: String,
    /// `nosuid`, `nodev`, `noexec`, and what the file system itself knows.
    pub options: Vec<String>,
}

/// A file of the workload's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineFile {
    /// Where: absolute. Its directory is made if it isn't there.
    pub path: String,
    /// What it says.
    pub text: String,
}

/// What makes a machine one session's, and another one than those restored from the same template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineRenewal {
    /// For the kernel's random source.
    pub entropy: Entropy,
    /// The time; none leaves the clock that the machine read as it booted.
    pub wall_clock: Option<WallClock>,
    /// Files of the root directory, which are there already.
    pub tree: Vec<MachineRewrite>,
    /// Files of the workload's own, mode 0600, which are not.
    pub home: Vec<MachineFile>,
}

impl MachineRenewal {
    /// The frame that is the first on the machine's link.
    ///
    /// # Errors
    /// When it is longer than a frame may be.
    pub fn frame(self) -> Result<Vec<u8>, FrameError> {
        frame(&HostMessage::RenewMachine { renewal: self })
    }
}

/// The frame by which a machine that is nobody's is told to rehearse.
///
/// # Errors
/// None: it has a fixed length.
pub fn machine_rehearsal() -> Result<Vec<u8>, FrameError> {
    frame(&HostMessage::RehearseMachine {})
}

/// The frame by which a machine says that it waits for its session.
///
/// # Errors
/// None: it has a fixed length.
pub fn machine_ready() -> Result<Vec<u8>, FrameError> {
    frame(&GuestMessage::MachineReady {})
}

fn frame<M: Serialize>(message: &M) -> Result<Vec<u8>, FrameError> {
    let mut frame = BytesMut::new();
    encode_control(message, &mut frame)?;
    Ok(frame.to_vec())
}

/// Random bytes of the host's; nobody prints them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Entropy(pub Vec<u8>);

// LIMIT: twice what the kernel's random source holds.
/// How many random bytes a machine is given, no more and no fewer.
pub const ENTROPY_BYTES: usize = 64;

impl std::fmt::Debug for Entropy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Entropy({} bytes)", self.0.len())
    }
}

/// Time since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WallClock {
    /// Whole seconds.
    pub seconds: u32,
    /// The rest.
    pub nanoseconds: u32,
}

/// What a file of the root directory says from now on. The trust bundle is longer than a frame, and
/// a session adds one certificate to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineRewrite {
    /// Where: absolute.
    pub path: String,
    /// So many of its first bytes stay.
    pub kept: u64,
    /// What follows them.
    pub text: String,
}

/// The machine's own stack, sealed like a namespace of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineNetwork {
    /// Messages of route netlink, each to be acknowledged before the next.
    pub routes: Vec<Vec<u8>>,
    /// nft's program and its first words, below [`MACHINE_TOOLS`].
    pub nft: Vec<String>,
    /// Its rules.
    pub rules: String,
    /// Where every dial lands.
    pub capture_port: u16,
    /// Where programs that want a proxy find one.
    pub proxy_port: u16,
}

/// The set-up in the machine's memory is not of this version.
#[derive(Debug, Error)]
#[error("the machine's set-up can't be read; use torno, tornod and torno-guest of one build")]
pub struct SetupError(#[source] serde_json::Error);

impl MachineSetup {
    /// As it lies in the machine.
    ///
    /// # Errors
    /// [`SetupError`] for another form.
    pub fn parse(bytes: &[u8]) -> Result<Self, SetupError> {
        serde_json::from_slice(bytes).map_err(SetupError)
    }

    /// The text to lay there.
    #[must_use]
    pub fn text(&self) -> Vec<u8> {
        // INVARIANT: every part is text, a number or a list of them; empty would be refused inside.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropy_is_not_printed() {
        let renewal = MachineRenewal {
            entropy: Entropy(vec![177; ENTROPY_BYTES]),
            wall_clock: None,
            tree: vec![],
            home: vec![],
        };
        let said = format!("{renewal:?}");
        assert!(said.contains("64 bytes") && !said.contains("177"), "{said}");
    }

    #[test]
    fn a_set_up_is_read_as_it_was_written_and_in_no_other_form() {
        let setup = MachineSetup {
            arguments: vec!["init".to_owned()],
            modules: vec!["virtio.ko".to_owned()],
            disk: vec![MachinePlace {
                of: "usr".to_owned(),
                at: "usr".to_owned(),
            }],
            mounts: vec![MachineMount {
                destination: "/tmp".to_owned(),
                kind: "tmpfs".to_owned(),
                options: vec!["nosuid".to_owned(), "size=1".to_owned()],
            }],
            kernel: vec![("kernel/pid_max".to_owned(), "64".to_owned())],
            processes: 64,
            hostname: "sandbox".to_owned(),
            network: None,
            link: MachineLink::Vsock { port: 52 },
            end: MachineEnd::Restart,
        };
        let text = setup.text();
        assert_eq!(MachineSetup::parse(&text).unwrap(), setup);
        let further = String::from_utf8(text)
            .unwrap()
            .replacen('{', "{\"x\":1,", 1);
        assert!(MachineSetup::parse(further.as_bytes()).is_err());
        assert!(MachineSetup::parse(b"").is_err());
    }
}
