// SPDX-License-Identifier: Apache-2.0
//! The sandbox's `/etc`, written new: nothing of the host's is copied but the trust bundle and the
//! time zone's rules. The session CA is merged into the bundle and named to each tool.

use super::TreeStep;
use crate::facts::HostFacts;
use crate::spec::{SandboxSpec, Workspace};
use std::fmt::Write as _;
use std::path::PathBuf;

const BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";
const SESSION_CA: &str = "/etc/ssl/certs/torno-session-ca.pem";

/// The variables that make each tool trust the session CA, with their values inside.
#[must_use]
pub fn trust_environment() -> Vec<(&'static str, &'static str)> {
    vec![
        ("SSL_CERT_FILE", BUNDLE),
        ("CURL_CA_BUNDLE", BUNDLE),
        ("REQUESTS_CA_BUNDLE", BUNDLE),
        ("PIP_CERT", BUNDLE),
        ("GIT_SSL_CAINFO", BUNDLE),
        ("CARGO_HTTP_CAINFO", BUNDLE),
        ("AWS_CA_BUNDLE", BUNDLE),
        ("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", BUNDLE),
        // Node and Deno add to what they carry themselves; one certificate parses quickly.
        ("NODE_EXTRA_CA_CERTS", SESSION_CA),
        ("DENO_CERT", SESSION_CA),
    ]
}

/// The files, links and directories of `/etc`.
pub(super) fn files(spec: &SandboxSpec, facts: &HostFacts) -> Vec<TreeStep> {
    let mut bundle = facts.trust_bundle.to_vec();
    if !bundle.is_empty() && !bundle.ends_with(b"\n") {
        bundle.push(b'\n');
    }
    bundle.extend(spec.ca_pem.as_bytes());
    let mut steps = vec![
        directory("etc/ssl"),
        directory("etc/ssl/certs"),
        directory("etc/ssl/private"),
        directory("etc/pki"),
        directory("etc/pki/tls"),
        directory("etc/pki/tls/certs"),
        file("etc/ssl/certs/ca-certificates.crt", bundle),
        file(
            "etc/ssl/certs/torno-session-ca.pem",
            spec.ca_pem.as_bytes().to_vec(),
        ),
        link("etc/ssl/cert.pem", "certs/ca-certificates.crt"),
        link("etc/pki/tls/certs/ca-bundle.crt", BUNDLE),
        link("etc/mtab", "/proc/self/mounts"),
        link("var/tmp", "/tmp"),
        link("var/run", "/run"),
        file("etc/gitconfig", gitconfig(spec).into_bytes()),
    ];
    steps.extend(PLAIN.map(|(path, text)| file(path, text.as_bytes().to_vec())));
    if let Some(rules) = &facts.local_time {
        steps.push(TreeStep::File("etc/localtime".into(), rules.clone()));
    }
    steps
}

const PLAIN: [(&str, &str); 9] = [
    (
        "etc/passwd",
        "root:x:0:0:root:/root:/usr/sbin/nologin\nagent:x:1000:1000:agent:/home/agent:/bin/sh\n\
         nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    ),
    ("etc/group", "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n"),
    ("etc/hostname", "sandbox\n"),
    (
        "etc/hosts",
        "127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost\n",
    ),
    (
        "etc/resolv.conf",
        "nameserver 127.0.0.1\noptions timeout:2 attempts:2\n",
    ),
    (
        "etc/nsswitch.conf",
        "passwd: files\ngroup: files\nhosts: files dns\nprotocols: files\nservices: files\n",
    ),
    ("etc/shells", "/bin/sh\n/bin/bash\n"),
    (
        "etc/protocols",
        "ip 0 IP\nicmp 1 ICMP\ntcp 6 TCP\nudp 17 UDP\n",
    ),
    (
        "etc/services",
        "ssh 22/tcp\ndomain 53/tcp\ndomain 53/udp\nhttp 80/tcp\nhttps 443/tcp\ngit 9418/tcp\n",
    ),
];

fn gitconfig(spec: &SandboxSpec) -> String {
    let mut text = String::new();
    if spec.workspace != Workspace::None {
        text.push_str("[safe]\n\tdirectory = /workspace\n\tdirectory = /workspace/*\n");
    }
    for host in &spec.git_hosts {
        let _ = write!(
            text,
            "[url \"https://{host}/\"]\n\tinsteadOf = git@{host}:\n\
             \tinsteadOf = ssh://git@{host}/\n"
        );
    }
    text
}

fn directory(path: &str) -> TreeStep {
    TreeStep::Directory(PathBuf::from(path))
}

fn file(path: &str, content: Vec<u8>) -> TreeStep {
    TreeStep::File(PathBuf::from(path), content.into())
}

fn link(path: &str, target: &str) -> TreeStep {
    TreeStep::Link(PathBuf::from(path), target.to_owned())
}
