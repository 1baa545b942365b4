// SPDX-License-Identifier: Apache-2.0
//! Arguments → values: each argument is parsed once, by clap, into the type that the rest uses.

use torno_policy::binding::PathPattern;
use torno_policy::grant::{Isolation, WorkspaceMode};
use torno_policy::names::{
    Authority, BindingId, CheckpointName, CredentialName, Method, Port, PresetName, Scheme,
    SessionId,
};

/// `--isolation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Level {
    /// The strongest that works here; never `container`
    Strongest,
    /// The host's kernel is the boundary
    Container,
    /// A user-space kernel
    Gvisor,
    /// Its own guest kernel on hardware virtualisation
    Microvm,
    /// A full machine
    Vm,
}

impl From<Level> for Isolation {
    fn from(level: Level) -> Self {
        match level {
            Level::Strongest => Self::Strongest,
            Level::Container => Self::Container,
            Level::Gvisor => Self::Gvisor,
            Level::Microvm => Self::Microvm,
            Level::Vm => Self::Vm,
        }
    }
}

/// The word of a level, as documents and people write it.
pub(crate) const fn level_word(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::Strongest => "strongest",
        Isolation::Container => "container",
        Isolation::Gvisor => "gvisor",
        Isolation::Microvm => "microvm",
        Isolation::Vm => "vm",
    }
}

/// `--workspace`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Workspace {
    /// A copy; results come back by `torno session diff` and `apply`
    Copy,
    /// The directory itself: what the workload writes, it writes here (reduced)
    Bind,
    /// Empty
    None,
}

impl From<Workspace> for WorkspaceMode {
    fn from(workspace: Workspace) -> Self {
        match workspace {
            Workspace::Copy => Self::Copy,
            Workspace::Bind => Self::Bind,
            Workspace::None => Self::None,
        }
    }
}

/// `--output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Output {
    /// Lines for a person
    #[default]
    Text,
    /// One JSON value on standard output; failures as JSON on standard error
    Json,
}

/// `--secret NAME=ENV`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SecretVariable {
    pub(crate) name: CredentialName,
    pub(crate) variable: String,
}

/// `--env NAME=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) value: String,
}

pub(crate) fn session(text: &str) -> Result<SessionId, String> {
    SessionId::parse(text).map_err(|error| error.to_string())
}

pub(crate) fn checkpoint(text: &str) -> Result<CheckpointName, String> {
    CheckpointName::parse(text).map_err(|error| error.to_string())
}

pub(crate) fn credential(text: &str) -> Result<CredentialName, String> {
    CredentialName::parse(text).map_err(|error| error.to_string())
}

pub(crate) fn preset(text: &str) -> Result<PresetName, String> {
    PresetName::parse(text).map_err(|error| error.to_string())
}

pub(crate) fn binding(text: &str) -> Result<BindingId, String> {
    BindingId::parse(text).map_err(|error| error.to_string())
}

pub(crate) fn method(text: &str) -> Result<Method, String> {
    let rule = "a method is a word in capitals, as in GET; CONNECT and TRACE are none";
    Method::parse(text).ok_or_else(|| rule.to_owned())
}

pub(crate) fn path(text: &str) -> Result<PathPattern, String> {
    PathPattern::parse(text).map_err(|error| error.to_string())
}

pub(crate) fn port(text: &str) -> Result<Port, String> {
    Port::parse(text).ok_or_else(|| "a port is a number from 1 to 65535".to_owned())
}

/// `HOST` or `HOST:PORT`, both canonical, for https.
pub(crate) fn authority(text: &str) -> Result<Authority, String> {
    let authority = Authority::parse(text, Scheme::Https).map_err(|error| error.to_string())?;
    let spelled = authority.host.to_string();
    if text == spelled || text == authority.to_string() {
        Ok(authority)
    } else {
        Err(format!("write it as `{authority}`"))
    }
}

pub(crate) fn secret_variable(text: &str) -> Result<SecretVariable, String> {
    let rule = "write NAME=VARIABLE: the vault's name, and the variable that holds the placeholder";
    let (name, variable) = text.split_once('=').ok_or(rule)?;
    Ok(SecretVariable {
        name: credential(name)?,
        variable: variable_name(variable)?,
    })
}

pub(crate) fn variable(text: &str) -> Result<Variable, String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok(Variable {
        name: variable_name(name)?,
        value: value.to_owned(),
    })
}

fn variable_name(text: &str) -> Result<String, String> {
    let rest = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    if text.starts_with(first) && text.chars().all(rest) {
        Ok(text.to_owned())
    } else {
        Err("a variable's name has letters, digits and `_`, and starts with no digit".to_owned())
    }
}

/// `90`, `90s`, `15m`, `2h`, `1d`: seconds.
pub(crate) fn duration(text: &str) -> Result<u64, String> {
    let rule = "a time is a number with s, m, h or d, as in 15m";
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.strip_prefix(digits).unwrap_or_default();
    let seconds = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => return Err(rule.to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| rule)?;
    number
        .checked_mul(seconds)
        .filter(|seconds| *seconds > 0)
        .ok_or_else(|| rule.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_and_never_wrap() {
        assert_eq!(duration("90"), Ok(90));
        assert_eq!(duration("15m"), Ok(900));
        assert_eq!(duration("1d"), Ok(86_400));
        for wrong in [
            "",
            "m",
            "0s",
            "-1s",
            "1w",
            "1.5h",
            "99999999999999999999",
            "9999999999999999999h",
        ] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    // ATTACK: 012
    #[test]
    fn a_host_is_taken_in_its_one_spelling() {
        assert!(authority("api.example.org").is_ok());
        assert!(authority("api.example.org:8443").is_ok());
        for wrong in [
            "API.example.org",
            "user@api.example.org",
            "api.example.org:0443",
            "*",
            "https://a.example",
        ] {
            assert!(authority(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn variables_are_names_and_values() {
        assert!(variable("A_1=x=y").is_ok_and(|v| v.value == "x=y"));
        assert!(variable("1A=x").is_err());
        assert!(variable("A").is_err());
        assert!(secret_variable("github=GITHUB_TOKEN").is_ok());
        assert!(secret_variable("Git Hub=T").is_err());
    }
}
