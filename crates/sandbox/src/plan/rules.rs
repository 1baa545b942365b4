// SPDX-License-Identifier: Apache-2.0
//! File rules of the workspace: exact paths or `dir/**`, relative, plain. They become mounts, so
//! they hold against any code inside.

use std::path::{Component, Path, PathBuf};
use thiserror::Error;
use torno_policy::grant::FileRules;

/// A rule that isn't an exact path or `dir/**`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("file rule `{0}` is not a relative path or `dir/**`")]
pub struct RuleError(pub String);

/// One place of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Relative to the workspace, plain components, not empty unless the rule is `**`.
    pub(crate) path: PathBuf,
    /// `dir/**`: everything below; else exactly this entry.
    pub(crate) is_tree: bool,
}

/// The rules, parsed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct WorkspaceRules {
    /// Writable places; absent means all of it.
    pub(crate) write: Option<Vec<Place>>,
    /// Covered places: they win.
    pub(crate) hide: Vec<Place>,
}

/// LIMIT: each rule costs a mount; more than this is a list, not a rule.
const RULES_MAX: usize = 256;

impl WorkspaceRules {
    pub(crate) fn parse(rules: &FileRules) -> Result<Self, RuleError> {
        let all = |texts: &[String]| -> Result<Vec<Place>, RuleError> {
            if texts.len() > RULES_MAX {
                return Err(RuleError(format!("more than {RULES_MAX} rules")));
            }
            texts.iter().map(|text| Place::parse(text)).collect()
        };
        let write = rules.write.as_deref().map(all).transpose()?;
        let hide = all(&rules.hide)?;
        if let Some(whole) = hide.iter().find(|place| place.path.as_os_str().is_empty()) {
            return Err(RuleError(if whole.is_tree { "**" } else { "" }.to_owned()));
        }
        Ok(Self { write, hide })
    }
}

impl Place {
    fn parse(text: &str) -> Result<Self, RuleError> {
        let refused = || RuleError(text.chars().take(200).collect());
        let (path, is_tree) = match text.strip_suffix("**") {
            Some("") => {
                return Ok(Self {
                    path: PathBuf::new(),
                    is_tree: true,
                });
            }
            Some(directory) => (directory.strip_suffix('/').ok_or_else(refused)?, true),
            None => (text, false),
        };
        let plain = Path::new(path)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        let canonical = !path.is_empty()
            && !path.starts_with('/')
            && !path
                .split('/')
                .any(|part| part.is_empty() || part == "." || part == "..");
        let has_glob = path.contains(['*', '?', '[', '\0', '\n']);
        if plain && canonical && !has_glob {
            Ok(Self {
                path: PathBuf::from(path),
                is_tree,
            })
        } else {
            Err(refused())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_an_exact_path_or_a_tree() {
        assert_eq!(
            Place::parse("src/**"),
            Ok(Place {
                path: "src".into(),
                is_tree: true
            })
        );
        assert_eq!(
            Place::parse("a/b.txt"),
            Ok(Place {
                path: "a/b.txt".into(),
                is_tree: false
            })
        );
        for bad in [
            "", "/etc", "../x", "a/../b", "a//b", "./a", "a/", "*.rs", "src**", "a/*/b", "/**",
        ] {
            assert!(Place::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_whole_workspace_cannot_be_hidden() {
        let rules = FileRules {
            write: None,
            hide: vec!["**".into()],
        };
        assert!(WorkspaceRules::parse(&rules).is_err());
    }
}
