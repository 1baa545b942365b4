// SPDX-License-Identifier: Apache-2.0
//! File rules and environment variables of the sandbox.

use super::DocumentError;
use super::fields::{Value, fail, list, text};
use std::ops::Range;

/// LIMIT: PATH_MAX of Linux.
const PATH_BYTES_MAX: usize = 4096;
/// LIMIT: one argument or variable of execve has at most 128 KiB; a quarter of it is plenty.
const VALUE_BYTES_MAX: usize = 32 * 1024;

/// Rules relative to the workspace: exact paths, or `dir/**`.
pub(super) fn rules(value: &Value<'_>) -> Result<Vec<String>, DocumentError> {
    list(value)?.into_iter().map(rule).collect()
}

fn rule(value: &Value<'_>) -> Result<String, DocumentError> {
    let given = text(value)?;
    let path = given.strip_suffix("/**").unwrap_or(given);
    if path.contains('*') {
        return fail(
            value.span(),
            "a file rule is an exact path or ends in `/**`",
        );
    }
    check_segments(value, path)?;
    Ok(given.to_owned())
}

// ATTACK: 166, 241
fn check_segments(value: &Value<'_>, path: &str) -> Result<(), DocumentError> {
    let odd = |segment: &str| matches!(segment, "" | "." | "..");
    if path.len() > PATH_BYTES_MAX || path.split('/').any(odd) {
        let rule =
            "a path is relative to the workspace, without `.`, `..`, `//` or a slash at its end";
        return fail(value.span(), rule);
    }
    check_text(value, path)
}

/// Further directories of the host, absolute or below the home directory.
pub(super) fn host_directory(value: &Value<'_>) -> Result<String, DocumentError> {
    let given = text(value)?;
    match given.strip_prefix("~/").or_else(|| given.strip_prefix('/')) {
        Some(below) => check_segments(value, below)?,
        None => {
            let rule = "a directory of the host starts with `/` or `~/` and is no root itself";
            return fail(value.span(), rule);
        }
    }
    Ok(given.to_owned())
}

/// A command's argument or a variable's value.
pub(super) fn plain(value: &Value<'_>) -> Result<String, DocumentError> {
    let given = text(value)?;
    if given.len() > VALUE_BYTES_MAX || given.contains('\0') {
        return fail(value.span(), "a text here has at most 32 KiB and no NUL");
    }
    Ok(given.to_owned())
}

fn check_text(value: &Value<'_>, given: &str) -> Result<(), DocumentError> {
    if given.chars().any(|c| c.is_control() || c == '\\') {
        return fail(
            value.span(),
            "a path has no control characters and no backslash",
        );
    }
    Ok(())
}

/// The name of an environment variable that a document may set.
pub(super) fn variable(name: &str, span: Range<usize>) -> Result<String, DocumentError> {
    let first = name
        .bytes()
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    let rest = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    // LIMIT: longer names are mistakes.
    if !first || !rest || name.len() > 128 {
        return fail(
            span,
            "a variable's name has letters, digits and `_`, as in `GITHUB_TOKEN`",
        );
    }
    if is_reserved(name) {
        let rule =
            "this variable steers the loader, the shell, a proxy or trust; the sandbox sets it";
        return fail(span, rule);
    }
    Ok(name.to_owned())
}

/// Variables that load code into every program, name a proxy or a trust store, or are the
/// product's own. Case is folded: some programs read `http_proxy`, some `HTTP_PROXY`.
fn is_reserved(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let starts = [
        "LD_",
        "DYLD_",
        "TORNO_",
        "BASH_FUNC_",
        "GIT_CONFIG",
        "GIT_SSL",
        "GIT_SSH",
        "GIT_PROXY",
    ];
    starts.iter().any(|start| upper.starts_with(start))
        || upper.ends_with("_PROXY")
        || RESERVED.contains(&upper.as_str())
}

const RESERVED: [&str; 29] = [
    "PATH",
    "HOME",
    "IFS",
    "ENV",
    "BASH_ENV",
    "SHELLOPTS",
    "BASHOPTS",
    "PS4",
    "PROMPT_COMMAND",
    "GLIBC_TUNABLES",
    "GCONV_PATH",
    "NODE_OPTIONS",
    "NODE_EXTRA_CA_CERTS",
    "NODE_TLS_REJECT_UNAUTHORIZED",
    "PYTHONSTARTUP",
    "PYTHONHTTPSVERIFY",
    "PERL5OPT",
    "RUBYOPT",
    "JAVA_TOOL_OPTIONS",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "AWS_CA_BUNDLE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "CARGO_HTTP_CAINFO",
    "DENO_CERT",
    "OPENSSL_CONF",
];
