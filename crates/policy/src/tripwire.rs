// SPDX-License-Identifier: Apache-2.0
//! Tripwires: placeholders that stand for no credential, in the places where a thief looks first.
//! Nothing that works needs one, so one that is on its way out says that somebody carries off what
//! he found. Each has a place that no tool reads by itself: a profile, a machine or a variable of
//! a name that nobody asks for.

use crate::names::RuleName;
use crate::placeholder::{Placeholder, PlaceholderDigest};
use serde::{Deserialize, Serialize};

/// Where a tripwire stands inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wire {
    /// A profile of `~/.aws/credentials`, not the default one.
    AwsCredentials,
    /// `~/.netrc`, for a machine that does not exist; without `default`.
    Netrc,
    /// `~/.ssh/id_ed25519`.
    SshKey,
    /// A variable.
    Environment,
}

/// The variable of [`Wire::Environment`].
pub const VARIABLE: &str = "BACKUP_API_TOKEN";

/// What to do about one that was seen: said by notary and gate alike.
pub const HINT: &str = "this carries a tripwire, a false credential that nothing needs; the \
     session is frozen and a person looks at it with `torno session logs`; where a model runs, \
     `transcripts = true` in its [[allow]] rule lets bodies quote one";

impl Wire {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::AwsCredentials,
        Self::Netrc,
        Self::SshKey,
        Self::Environment,
    ];

    /// The rule that a refusal names.
    #[must_use]
    pub fn rule(self) -> RuleName {
        RuleName::new(match self {
            Self::AwsCredentials => "tripwire.aws_credentials",
            Self::Netrc => "tripwire.netrc",
            Self::SshKey => "tripwire.ssh_key",
            Self::Environment => "tripwire.environment",
        })
    }

    /// The wire that a rule names.
    #[must_use]
    pub fn of_rule(rule: &RuleName) -> Option<Self> {
        Self::ALL.into_iter().find(|wire| wire.rule() == *rule)
    }

    /// What the value begins with. Short, so that a search for a run of it meets random characters.
    #[must_use]
    pub const fn shape(self) -> &'static str {
        match self {
            Self::AwsCredentials => "AKIA",
            Self::Netrc | Self::SshKey => "",
            Self::Environment => "bk_",
        }
    }

    /// Its file, below the home directory; the variable has none.
    #[must_use]
    pub const fn file(self) -> Option<&'static str> {
        match self {
            Self::AwsCredentials => Some(".aws/credentials"),
            Self::Netrc => Some(".netrc"),
            Self::SshKey => Some(".ssh/id_ed25519"),
            Self::Environment => None,
        }
    }
}

/// A tripwire as one session is given it: fresh, dead with the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tripwire {
    /// Where it stands.
    pub wire: Wire,
    /// Its text. Public inside the session, worth nothing anywhere.
    pub value: String,
}

impl Tripwire {
    /// Made like any placeholder.
    #[must_use]
    pub fn new(wire: Wire, random: [u8; 16]) -> Self {
        Self {
            wire,
            value: Placeholder::new(wire.shape(), random).as_str().to_owned(),
        }
    }

    /// As decisions see it; nothing where the text is no placeholder.
    #[must_use]
    pub fn issued(&self) -> Option<IssuedTripwire> {
        let placeholder = Placeholder::parse(&self.value)?;
        Some(IssuedTripwire {
            digest: placeholder.digest(),
            wire: self.wire,
        })
    }

    /// What its file says.
    #[must_use]
    pub fn text(&self) -> String {
        let value = &self.value;
        match self.wire {
            Wire::AwsCredentials => {
                format!("[backup]\naws_access_key_id = {value}\naws_secret_access_key = {value}\n")
            }
            Wire::Netrc => {
                format!("machine vault.backup.internal\nlogin agent\npassword {value}\n")
            }
            Wire::SshKey => format!(
                "-----BEGIN OPENSSH PRIVATE KEY-----\n{value}\n-----END OPENSSH PRIVATE KEY-----\n"
            ),
            Wire::Environment => value.clone(),
        }
    }
}

/// A tripwire as decisions see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IssuedTripwire {
    /// Its digest.
    pub digest: PlaceholderDigest,
    /// Where it stands.
    pub wire: Wire,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_holds_its_own_value_where_no_tool_reads_it_unasked() {
        for (at, wire) in (0_u8..).zip(Wire::ALL) {
            let tripwire = Tripwire::new(wire, [at; 16]);
            assert!(tripwire.text().contains(&tripwire.value), "{wire:?}");
            assert!(tripwire.value.starts_with(wire.shape()), "{wire:?}");
            assert_eq!(tripwire.issued().map(|issued| issued.wire), Some(wire));
            assert_eq!(Wire::of_rule(&wire.rule()), Some(wire));
        }
        let text = |wire| Tripwire::new(wire, [7; 16]).text();
        assert!(!text(Wire::AwsCredentials).contains("[default]"));
        assert!(!text(Wire::Netrc).contains("default"));
    }

    #[test]
    fn a_text_that_is_no_placeholder_is_no_tripwire() {
        let forged = Tripwire {
            wire: Wire::Netrc,
            value: "password".to_owned(),
        };
        assert_eq!(forged.issued(), None);
    }
}
