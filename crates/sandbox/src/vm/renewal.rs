// SPDX-License-Identifier: Apache-2.0
//! What a machine is given when it becomes a session's: one frame on its link, before anybody else
//! speaks there. A machine that doesn't get it serves nobody, so a launcher that forgets it, or
//! can't write it whole, has made no session.

use super::initial;
use super::machine::Way;
use crate::facts::HostFacts;
use crate::plan::{Plan, PlanError, TreeStep, tree};
use crate::spec::SandboxSpec;
use data_encoding::HEXLOWER;
use rustix::net::{SendFlags, send};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;
use thiserror::Error;
use torno_guest_protocol::{
    ENTROPY_BYTES, Entropy, MachineFile, MachineRenewal, MachineRewrite, WallClock,
    machine_rehearsal,
};

/// LIMIT: what a socket takes at once from a writer that doesn't wait. A certificate, git's
/// configuration and decoys have a tenth of it.
const RENEWAL_BYTES_MAX: usize = 96 << 10;

/// Where programs look for the machine's id (machine-id(5)); empty in the archive.
pub(super) const MACHINE_ID: &str = "etc/machine-id";

/// What is new in each machine; nobody prints it.
pub struct Fresh {
    /// For the random source inside.
    pub entropy: [u8; ENTROPY_BYTES],
    /// The machine's id.
    pub machine_id: [u8; 16],
    /// The time, since 1970.
    pub wall_clock: Duration,
}

impl std::fmt::Debug for Fresh {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fresh").finish_non_exhaustive()
    }
}

/// Why a machine did not become a session's.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RenewError {
    /// More than a machine is given.
    #[error(
        "what the session brings into the machine is longer than {RENEWAL_BYTES_MAX} bytes; list \
         fewer hosts or credentials"
    )]
    TooLong,
    /// The link did not take all of it.
    #[error("the machine's link did not take what the session brings")]
    Link(#[source] io::Error),
}

/// The files that one session brings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SessionFiles {
    tree: Vec<MachineRewrite>,
    home: Vec<MachineFile>,
}

impl SessionFiles {
    /// Where the session's root directory says other than nobody's.
    pub(super) fn of(spec: &SandboxSpec, facts: &HostFacts) -> Result<Self, PlanError> {
        let mut files = Self::default();
        let before = tree(&initial::nobodys(spec), facts)?;
        for step in tree(spec, facts)? {
            match step {
                TreeStep::File(path, content) => {
                    let known = before.iter().find_map(|step| match step {
                        TreeStep::File(at, known) if *at == path => Some(&**known),
                        _ => None,
                    });
                    files.tree.extend(rewrite(&path, known, &content));
                }
                TreeStep::HomeFile(path, content) => files.home.push(MachineFile {
                    path: absolute(&path),
                    text: String::from_utf8_lossy(&content).into_owned(),
                }),
                _ => {}
            }
        }
        Ok(files)
    }
}

/// The rest of a file behind what both begin with, if there is any difference.
fn rewrite(path: &Path, known: Option<&[u8]>, content: &[u8]) -> Option<MachineRewrite> {
    let known = known.unwrap_or_default();
    if known == content {
        return None;
    }
    // Text on both sides of the cut: whole, or nothing of it.
    let kept = if content.starts_with(known) {
        known.len()
    } else {
        0
    };
    Some(MachineRewrite {
        path: absolute(path),
        kept: kept as u64,
        text: String::from_utf8_lossy(content.get(kept..).unwrap_or_default()).into_owned(),
    })
}

fn absolute(path: &Path) -> String {
    Path::new("/").join(path).display().to_string()
}

/// What a machine that was started has yet to be told.
#[derive(Debug)]
#[must_use = "a machine that is not renewed serves nobody"]
pub struct Renewal {
    files: SessionFiles,
    /// Its clock stood still.
    is_restored: bool,
}

impl Renewal {
    /// Of the session with that plan, if it is a machine.
    pub(crate) fn of(plan: &Plan) -> Option<Self> {
        let machine = plan.machine.as_ref()?;
        Some(Self {
            files: machine.files.clone(),
            is_restored: machine.way == Way::Restored,
        })
    }

    /// Writes it to our end of the machine's link. Nothing is read.
    ///
    /// # Errors
    /// [`RenewError`]; the machine serves nobody then.
    pub fn send(self, link: BorrowedFd<'_>, fresh: &Fresh) -> Result<(), RenewError> {
        let renewal = self.with(fresh);
        let frame = renewal.frame().map_err(|_| RenewError::TooLong)?;
        if frame.len() > RENEWAL_BYTES_MAX {
            return Err(RenewError::TooLong);
        }
        say(link, &frame).map_err(RenewError::Link)
    }

    fn with(self, fresh: &Fresh) -> MachineRenewal {
        let Self {
            files: SessionFiles { mut tree, home },
            is_restored,
        } = self;
        tree.push(MachineRewrite {
            path: absolute(Path::new(MACHINE_ID)),
            kept: 0,
            text: format!("{}\n", HEXLOWER.encode(&fresh.machine_id)),
        });
        let wall_clock = WallClock {
            seconds: u32::try_from(fresh.wall_clock.as_secs()).unwrap_or(u32::MAX),
            nanoseconds: fresh.wall_clock.subsec_nanos(),
        };
        MachineRenewal {
            entropy: Entropy(fresh.entropy.to_vec()),
            // One that boots reads the time later than this is written.
            wall_clock: is_restored.then_some(wall_clock),
            tree,
            home,
        }
    }
}

/// Tells a machine that is nobody's to go once through what every command needs. What it says when
/// it has done so is read by whoever has its link then.
///
/// # Errors
/// When the link does not take it.
pub fn rehearse(link: BorrowedFd<'_>) -> io::Result<()> {
    let frame = machine_rehearsal().map_err(io::Error::other)?;
    say(link, &frame)
}

/// Writes a frame whole, or fails.
fn say(link: BorrowedFd<'_>, frame: &[u8]) -> io::Result<()> {
    let sent = send(link, frame, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    if sent == frame.len() {
        Ok(())
    } else {
        Err(io::ErrorKind::WriteZero.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Level;
    use crate::vm::plan::tests::{facts, spec};

    fn fresh() -> Fresh {
        Fresh {
            entropy: [7; ENTROPY_BYTES],
            machine_id: [9; 16],
            wall_clock: Duration::new(5, 6),
        }
    }

    #[test]
    fn a_machine_holds_nothing_of_its_session_until_it_is_renewed() {
        let mut spec = spec(Level::Microvm);
        spec.home = vec![crate::spec::HomeFile {
            below: ".netrc".into(),
            text: "DECOY".to_owned(),
        }];
        let plan = crate::plan(&spec, &facts()).unwrap();
        let archive = &plan.machine.as_ref().unwrap().initial;
        let has = |text: &str| archive.windows(text.len()).any(|at| at == text.as_bytes());
        assert!(has("PUBLIC ROOTS"));
        for own in ["SESSION CA", "git.example.org", "DECOY"] {
            assert!(!has(own), "{own}");
        }
        let renewal = Renewal::of(&plan.restored()).unwrap().with(&fresh());
        let said = format!("{renewal:?}");
        for own in ["SESSION CA", "git.example.org", "DECOY", "09090909"] {
            assert!(said.contains(own), "{own}: {said}");
        }
        // The host's own roots are there already.
        assert!(!said.contains("PUBLIC ROOTS"), "{said}");
    }

    #[test]
    fn one_that_was_restored_is_told_the_time_and_one_that_boots_reads_it() {
        let plan = crate::plan(&spec(Level::Vm), &facts()).unwrap();
        let booted = Renewal::of(&plan).unwrap().with(&fresh());
        assert_eq!(booted.wall_clock, None);
        let restored = Renewal::of(&plan.restored()).unwrap().with(&fresh());
        let time = WallClock {
            seconds: 5,
            nanoseconds: 6,
        };
        assert_eq!(restored.wall_clock, Some(time));
    }

    #[test]
    fn a_link_that_does_not_take_all_of_it_is_an_error() {
        let plan = crate::plan(&spec(Level::Microvm), &facts()).unwrap();
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let renew = || {
            let link = std::os::fd::AsFd::as_fd(&ours);
            Renewal::of(&plan).unwrap().send(link, &fresh())
        };
        renew().unwrap();
        while renew().is_ok() {}
        assert!(matches!(renew(), Err(RenewError::Link(_))));
        drop(theirs);
        assert!(matches!(renew(), Err(RenewError::Link(_))));
    }

    #[test]
    fn a_file_that_grew_keeps_its_beginning() {
        let path = Path::new("etc/x");
        assert_eq!(rewrite(path, Some(b"a"), b"a"), None);
        let grown = rewrite(path, Some(b"a"), b"ab").unwrap();
        assert_eq!((grown.kept, &*grown.text), (1, "b"));
        let other = rewrite(path, Some(b"ba"), b"ab").unwrap();
        assert_eq!(
            (other.kept, &*other.text, &*other.path),
            (0, "ab", "/etc/x")
        );
    }
}
