// SPDX-License-Identifier: Apache-2.0
//! Files that look like credentials, by name and by content.

/// What is done with a file that has a credential's shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// It does not enter.
    Hidden(&'static str),
    /// It enters, and the start banner names it.
    Named(&'static str),
}

/// Names of files that hold credentials by convention.
const HIDDEN_NAMES: &[(&str, &str)] = &[
    (".env", "environment file"),
    (".npmrc", "npm credentials"),
    (".yarnrc.yml", "yarn credentials"),
    (".netrc", "netrc"),
    ("_netrc", "netrc"),
    (".pypirc", "PyPI credentials"),
    (".git-credentials", "git credentials"),
    (".htpasswd", "password file"),
    (".pgpass", "PostgreSQL passwords"),
    (".my.cnf", "MySQL passwords"),
    (".vault-token", "vault token"),
    ("id_rsa", "SSH private key"),
    ("id_dsa", "SSH private key"),
    ("id_ecdsa", "SSH private key"),
    ("id_ed25519", "SSH private key"),
    ("application_default_credentials.json", "cloud credentials"),
];

/// Ends of paths that hold credentials by convention.
const HIDDEN_PATHS: &[(&str, &str)] = &[
    (".aws/credentials", "cloud credentials"),
    (".aws/config", "cloud credentials"),
    (".azure/accessTokens.json", "cloud credentials"),
    (".config/gcloud/credentials.db", "cloud credentials"),
    (".docker/config.json", "registry credentials"),
    (".kube/config", "cluster credentials"),
    (".cargo/credentials.toml", "registry credentials"),
    (".cargo/credentials", "registry credentials"),
    (".config/gh/hosts.yml", "GitHub credentials"),
];

/// Beginnings of tokens: prefix, and how many token characters must follow.
const TOKENS: &[(&str, usize, &str)] = &[
    ("ghp_", 36, "GitHub token"),
    ("gho_", 36, "GitHub token"),
    ("ghs_", 36, "GitHub token"),
    ("github_pat_", 40, "GitHub token"),
    ("glpat-", 20, "GitLab token"),
    ("xoxb-", 20, "Slack token"),
    ("xoxp-", 20, "Slack token"),
    ("sk-ant-", 20, "Anthropic key"),
    ("sk-proj-", 20, "OpenAI key"),
    ("AKIA", 16, "AWS key id"),
    ("npm_", 36, "npm token"),
];

/// LIMIT: how much of a file is looked through for tokens; source files are smaller.
pub(crate) const CONTENT_BYTES_MAX: usize = 1024 * 1024;

/// What a path says by itself. `path` is relative, with `/`.
pub(crate) fn of_path(path: &str) -> Option<Shape> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let by_name = HIDDEN_NAMES
        .iter()
        .find(|(known, _)| name.eq_ignore_ascii_case(known));
    if let Some((_, shape)) = by_name {
        return Some(Shape::Hidden(shape));
    }
    let env_file = name.starts_with(".env.") && !is_template(name);
    if env_file {
        return Some(Shape::Hidden("environment file"));
    }
    let ends = |end: &str| path == end || path.ends_with(&format!("/{end}"));
    HIDDEN_PATHS
        .iter()
        .find(|(end, _)| ends(end))
        .map(|(_, shape)| Shape::Hidden(shape))
}

/// `.env.example` and its like hold no values.
fn is_template(name: &str) -> bool {
    ["example", "sample", "template", "dist"]
        .iter()
        .any(|word| name.ends_with(word))
}

/// What the first bytes of a file say.
pub(crate) fn of_content(content: &[u8]) -> Option<Shape> {
    if contains(content, b"PRIVATE KEY-----") && contains(content, b"-----BEGIN ") {
        return Some(Shape::Hidden("private key"));
    }
    if contains(content, b"\"type\": \"service_account\"") && contains(content, b"private_key") {
        return Some(Shape::Hidden("cloud credentials"));
    }
    TOKENS
        .iter()
        .find(|(prefix, more, _)| has_token(content, prefix.as_bytes(), *more))
        .map(|(_, _, shape)| Shape::Named(shape))
}

fn contains(content: &[u8], wanted: &[u8]) -> bool {
    memchr::memmem::find(content, wanted).is_some()
}

fn has_token(content: &[u8], prefix: &[u8], more: usize) -> bool {
    let token_byte = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    memchr::memmem::find_iter(content, prefix).any(|at| {
        let rest = content.get(at + prefix.len()..).unwrap_or_default();
        rest.iter().take_while(|b| token_byte(b)).take(more).count() == more
    })
}

/// A `.git/config` without the user information of its URLs (`https://user:token@host/`), and
/// whether there was any.
pub(crate) fn without_userinfo(config: &str) -> (String, bool) {
    let mut removed = false;
    let clean = |line: &str| {
        let Some((before, after)) = line.split_once("://") else {
            return line.to_owned();
        };
        let authority_end = after.find('/').unwrap_or(after.len());
        let (authority, path) = after.split_at(authority_end);
        match authority.rsplit_once('@') {
            Some((_, host)) => {
                removed = true;
                format!("{before}://{host}{path}")
            }
            None => line.to_owned(),
        }
    };
    let lines: Vec<String> = config.split('\n').map(clean).collect();
    (lines.join("\n"), removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_hold_credentials_by_convention_are_hidden_at_any_depth() {
        for path in [
            ".env",
            "a/.env",
            ".env.production",
            ".npmrc",
            "x/y/.netrc",
            ".aws/credentials",
            "home/.aws/credentials",
            "deploy/id_ed25519",
            ".docker/config.json",
            "a/.ENV",
        ] {
            assert!(matches!(of_path(path), Some(Shape::Hidden(_))), "{path}");
        }
        for path in [
            ".env.example",
            "environment.rs",
            "src/env",
            "config.json",
            "aws/credentials.rs",
        ] {
            assert_eq!(of_path(path), None, "{path}");
        }
    }

    #[test]
    fn content_tells_keys_and_tokens_from_source() {
        let key = b"-----BEGIN OPENSSH PRIVATE KEY-----\nabc";
        assert_eq!(of_content(key), Some(Shape::Hidden("private key")));
        let token = format!("token = \"ghp_{}\"", "a".repeat(36));
        assert_eq!(
            of_content(token.as_bytes()),
            Some(Shape::Named("GitHub token"))
        );
        assert_eq!(
            of_content(b"let prefix = \"ghp_\"; // 36 characters follow"),
            None
        );
    }

    #[test]
    fn userinfo_leaves_git_configuration_and_nothing_else_does() {
        let config = "[remote \"o\"]\n\turl = https://me:tok@host.test/a/b@c\n\tx = 1";
        let (clean, removed) = without_userinfo(config);
        assert!(removed);
        assert_eq!(
            clean,
            "[remote \"o\"]\n\turl = https://host.test/a/b@c\n\tx = 1"
        );
        assert_eq!(without_userinfo(&clean), (clean.clone(), false));
    }
}
