// SPDX-License-Identifier: Apache-2.0
//! Git smart HTTP (gitprotocol-http, gitprotocol-pack): which repository, which operation, and for
//! a push the commands before the first flush packet, read strictly before anything is asked.

use crate::refuse::Fault;
use flate2::write::MultiGzDecoder;
use std::collections::HashSet;
use std::io::Write as _;
use torno_policy::Reason;
use torno_policy::facts::{GitFacts, GitOperation, Location, RefChange, RefUpdate};
use torno_policy::names::{Method, RequestPath};

/// Reads the git facts that head and path show. A push has no commands yet.
pub(super) fn facts(method: &Method, path: &RequestPath) -> Result<Option<GitFacts>, Fault> {
    let posted = method.as_str() == "POST";
    let (base, operation) = if let Some(base) = path.path().strip_suffix("/info/refs") {
        match discovered(path.query())? {
            Some(operation) => (base, operation),
            None => return Ok(None),
        }
    } else if let Some(base) = path.path().strip_suffix("/git-upload-pack") {
        if !posted {
            return Err(only_post());
        }
        (base, GitOperation::Fetch)
    } else if let Some(base) = path.path().strip_suffix("/git-receive-pack") {
        if !posted {
            return Err(only_post());
        }
        (base, GitOperation::Push(Vec::new()))
    } else if let Some((base, operation)) = large_files(method, path) {
        (base, operation)
    } else if reads_like_a_service(method, path) {
        return Err(Fault::new(
            Reason::BadPath,
            "spell git's service endpoints as git does, at the end of the path",
        )
        .at(Location::Path));
    } else {
        return Ok(None);
    };
    let repository = base.strip_suffix(".git").unwrap_or(base);
    Ok(Some(GitFacts {
        repository: repository.to_owned(),
        operation,
    }))
}

/// The requests of git LFS. Others below `/info/lfs/` have no facts: no git grant covers them.
fn large_files<'a>(method: &Method, path: &'a RequestPath) -> Option<(&'a str, GitOperation)> {
    if path.query().is_some() {
        return None;
    }
    let (base, rest) = path.path().split_once("/info/lfs/")?;
    if base.is_empty() {
        return None;
    }
    let object = rest.strip_prefix("objects/").unwrap_or_default();
    let is_object = object.len() == 64 && is_object_id(object);
    let operation = match (method.as_str(), rest) {
        ("POST", "objects/batch") => GitOperation::LfsBatch,
        ("POST", "locks/verify") => GitOperation::LfsVerifyLocks,
        ("GET", _) if is_object => GitOperation::LfsDownload,
        ("PUT", _) if is_object => GitOperation::LfsUpload,
        _ => return None,
    };
    Some((base, operation))
}

/// ATTACK: 078 – a `service` in any other spelling is refused, so that no server reads a push
/// where a rule saw none. Without a service it is the dumb protocol: a plain GET.
fn discovered(query: Option<&str>) -> Result<Option<GitOperation>, Fault> {
    match query {
        Some("service=git-upload-pack") => Ok(Some(GitOperation::DiscoverFetch)),
        Some("service=git-receive-pack") => Ok(Some(GitOperation::DiscoverPush)),
        None | Some("") => Ok(None),
        Some(_) => Err(Fault::new(
            Reason::BadPath,
            "ask for refs with `?service=git-upload-pack` or `?service=git-receive-pack` alone",
        )
        .at(Location::Query)),
    }
}

/// ATTACK: 078 – a server that folds case or drops a slash would read a push where no rule did.
fn reads_like_a_service(method: &Method, path: &RequestPath) -> bool {
    let services = ["git-upload-pack", "git-receive-pack"];
    let named = |part: &str| services.iter().any(|s| part.eq_ignore_ascii_case(s));
    !matches!(method.as_str(), "GET" | "HEAD" | "OPTIONS") && path.path().split('/').any(named)
}

fn only_post() -> Fault {
    Fault::new(Reason::BadMethod, "POST to git's service endpoints").at(Location::Method)
}

/// LIMIT: 64 KiB of commands, as sent and as unpacked: hundreds of references.
pub(crate) const COMMAND_BYTES_MAX: usize = 64 * 1024;

/// What the start of a push's body says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Commands {
    /// More bytes are needed.
    More,
    /// Every command up to the flush packet.
    Whole(Vec<RefUpdate>),
}

/// Reads the commands at the start of a push's body, which may come in any pieces. What was read
/// is not read again: a piece costs what it is long.
#[derive(Default)]
pub(crate) struct CommandReader {
    /// Undoes the body's encoding.
    unpack: Option<MultiGzDecoder<Vec<u8>>>,
    /// How much of the body was unpacked.
    unpacked: usize,
    /// Where the next packet begins.
    next: usize,
    updates: Vec<RefUpdate>,
    names: HashSet<String>,
}

impl CommandReader {
    /// `gzip` says how the body is encoded.
    pub(crate) fn new(gzip: bool) -> Self {
        Self {
            unpack: gzip.then(|| MultiGzDecoder::new(Vec::new())),
            ..Self::default()
        }
    }

    /// Goes on with the body, which is given from its start each time.
    pub(crate) fn read(&mut self, body: &[u8]) -> Result<Commands, Fault> {
        let Some(mut decoder) = self.unpack.take() else {
            return self.parse(body);
        };
        let new = body.get(self.unpacked..).unwrap_or_default();
        self.unpacked = body.len();
        for piece in new.chunks(GZIP_STEP_BYTES) {
            let broken = |_| Fault::malformed("send the push gzip-encoded, or not encoded");
            let written = decoder.write_all(piece).and_then(|()| decoder.flush());
            written.map_err(broken)?;
            // What is unpacked stays small: a step of input makes at most 1032 times as much.
            match self.parse(decoder.get_ref())? {
                Commands::More => {}
                whole @ Commands::Whole(_) => return Ok(whole),
            }
        }
        self.unpack = Some(decoder);
        Ok(Commands::More)
    }

    fn parse(&mut self, body: &[u8]) -> Result<Commands, Fault> {
        loop {
            let unread = body.get(self.next..).unwrap_or_default();
            let Some((packet, rest)) = take_packet(unread)? else {
                return if body.len() > COMMAND_BYTES_MAX {
                    Err(too_many_references())
                } else {
                    Ok(Commands::More)
                };
            };
            self.next = body.len() - rest.len();
            let Some(line) = packet else {
                return Ok(Commands::Whole(std::mem::take(&mut self.updates)));
            };
            let update = parse_command(line, self.updates.is_empty())?;
            if !self.names.insert(update.name.clone()) {
                return Err(Fault::malformed("name each reference of a push once"));
            }
            self.updates.push(update);
        }
    }
}

pub(crate) fn too_many_references() -> Fault {
    Fault::new(Reason::TooLarge, "push fewer references at once")
}

/// LIMIT: gzip input that is unpacked at once.
const GZIP_STEP_BYTES: usize = 256;

type Packet<'a> = (Option<&'a [u8]>, &'a [u8]);

/// One pkt-line: its payload, or nothing for a flush; `None` asks for more bytes.
fn take_packet(body: &[u8]) -> Result<Option<Packet<'_>>, Fault> {
    let fault = Fault::malformed("start a push with well-formed pkt-lines");
    let Some((digits, rest)) = body.split_first_chunk::<4>() else {
        return Ok(None);
    };
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(fault);
    }
    let text = std::str::from_utf8(digits).map_err(|_| fault.clone())?;
    match usize::from_str_radix(text, 16) {
        Ok(0) => Ok(Some((None, rest))),
        // 1 and 2 are delimiters of other protocols, 3 and 4 carry nothing.
        Ok(length) if length > 4 => Ok(rest
            .split_at_checked(length - 4)
            .map(|(payload, rest)| (Some(payload), rest))),
        Ok(_) | Err(_) => Err(fault),
    }
}

/// `old SP new SP name`, the first with NUL and capabilities behind it. `shallow` lines and
/// signed push certificates are not taken.
fn parse_command(line: &[u8], first: bool) -> Result<RefUpdate, Fault> {
    let fault = Fault::malformed("send plain push commands: `old new refs/...`");
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let command = match memchr::memchr(0, line) {
        Some(nul) if first => line.get(..nul).unwrap_or_default(),
        Some(_) => return Err(fault),
        None => line,
    };
    let text = std::str::from_utf8(command).map_err(|_| fault.clone())?;
    let mut parts = text.splitn(3, ' ');
    let (Some(old), Some(new), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(fault);
    };
    if !is_object_id(old) || !is_object_id(new) || old.len() != new.len() || !is_ref_name(name) {
        return Err(fault);
    }
    let is_zero = |id: &str| id.bytes().all(|b| b == b'0');
    let change = match (is_zero(old), is_zero(new)) {
        (true, false) => RefChange::Create,
        (false, false) => RefChange::Update,
        // Deleting what is not there: git sends it for a dangling name.
        (_, true) => RefChange::Delete,
    };
    Ok(RefUpdate {
        name: name.to_owned(),
        change,
    })
}

/// SHA-1 or SHA-256, in git's lower case.
fn is_object_id(text: &str) -> bool {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    matches!(text.len(), 40 | 64) && text.bytes().all(hex)
}

/// git-check-ref-format, for full names in visible ASCII.
pub(super) fn is_ref_name(name: &str) -> bool {
    let known = |b: u8| b.is_ascii_graphic() && !b"~^:?*[\\".contains(&b);
    let part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && !part.ends_with('.')
            && !part.to_ascii_lowercase().ends_with(".lock")
    };
    // LIMIT: 1024 bytes; references are files below a path that must stay under 4096.
    name.len() <= 1024
        && name.starts_with("refs/")
        && name.bytes().all(known)
        && !name.contains("..")
        && !name.contains("@{")
        && name.split('/').all(part)
}

#[cfg(test)]
mod tests;
