// SPDX-License-Identifier: Apache-2.0
//! What of an image gets into a plan, and what a hostile one can't get in.

use super::super::tests::{facts, spec};
use super::super::{environment, plan};
use super::*;
use crate::spec::{AlsoDirectory, Level};

fn directory(path: &str) -> (PathBuf, ImagePart) {
    (path.into(), ImagePart::Directory)
}

fn link(path: &str, target: &str) -> (PathBuf, ImagePart) {
    (path.into(), ImagePart::Link(target.to_owned()))
}

fn with(level: Level, parts: Vec<(PathBuf, ImagePart)>) -> SandboxSpec {
    let env = [
        ("PATH", "/opt/bin:/bin"),
        ("SSL_CERT_FILE", "/mine"),
        ("HOME", "/root"),
    ];
    SandboxSpec {
        image: Some(ImageTree {
            root: "/images/abc/root".into(),
            parts,
            env: env
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            disk: Some("/images/abc/disk-0.erofs".into()),
        }),
        ..spec(level)
    }
}

/// What lies where, of the image and of the host.
fn shown(spec: &SandboxSpec) -> Vec<String> {
    let plan = plan(spec, &facts()).unwrap();
    let mut shown: Vec<String> = plan
        .tree
        .iter()
        .filter_map(|step| match step {
            TreeStep::Bind { host, inside } => {
                Some(format!("{} < {}", inside.display(), host.display()))
            }
            TreeStep::Link(path, target) => Some(format!("{} -> {target}", path.display())),
            _ => None,
        })
        .collect();
    shown.sort();
    shown
}

#[test]
fn an_image_stands_in_for_the_hosts_programs_and_for_nothing_that_the_plan_makes() {
    let parts = vec![
        directory("usr"),
        directory("opt"),
        link("bin", "usr/bin"),
        directory("lib"),
        directory("etc"),
        directory("etc/python3"),
        (PathBuf::from("etc/os-release"), ImagePart::File),
        link("etc/alternatives", "../usr/alternatives"),
        (PathBuf::from("etc/passwd"), ImagePart::File),
        link("etc/resolv.conf", "/run/systemd/resolve"),
        directory("etc/ssl"),
        directory("var"),
        directory("var/lib"),
        directory("home"),
        directory("root"),
        directory("dev"),
        directory("proc"),
    ];
    for level in [Level::Container, Level::Gvisor] {
        let spec = with(level, parts.clone());
        let shown = shown(&spec);
        for expected in [
            "usr < /images/abc/root/usr",
            "opt < /images/abc/root/opt",
            "lib < /images/abc/root/lib",
            "bin -> usr/bin",
            "etc/python3 < /images/abc/root/etc/python3",
            "etc/os-release < /images/abc/root/etc/os-release",
            "etc/alternatives -> ../usr/alternatives",
            "var/lib < /images/abc/root/var/lib",
        ] {
            assert!(
                shown.contains(&expected.to_owned()),
                "{expected}: {shown:?}"
            );
        }
        let of_image = shown.iter().filter(|line| line.contains("/images/"));
        assert_eq!(of_image.count(), 6, "{shown:?}");
        let of_host = shown.iter().find(|line| line.contains("< /usr"));
        assert_eq!(of_host, None, "{shown:?}");
        assert!(
            !shown.iter().any(|line| line.contains("systemd")),
            "{shown:?}"
        );
    }
}

// ATTACK: 141
#[test]
fn what_an_image_links_or_names_leads_no_step_of_the_plan_elsewhere() {
    let hostile = vec![
        link("etc", "/tmp/probe"),
        link("proc", "/tmp/probe"),
        link("dev", "/tmp/probe"),
        link("home", "/tmp/probe"),
        link("workspace", "/tmp/probe"),
        link(".torno", "/tmp/probe"),
        link("opt", "/tmp/probe"),
        link("usr", "/tmp/probe"),
        link("bin", "/tmp/probe"),
        link("lib", "usr/../tmp/probe"),
        link("etc/ssl", "/tmp/probe"),
        link("etc/passwd", "/tmp/probe"),
        link("var/lib", "/tmp/probe"),
        link("var/run", "/tmp/probe"),
        directory("../tmp/probe"),
        directory("/tmp/probe"),
        directory("usr/lib/probe"),
    ];
    for level in [Level::Container, Level::Gvisor] {
        let shown = shown(&with(level, hostile.clone()));
        assert!(
            !shown.iter().any(|line| line.contains("probe")),
            "{shown:?}"
        );
    }
}

#[test]
fn the_variables_of_an_image_are_defaults_behind_the_trust_kit_and_home() {
    let variables = environment(&with(Level::Container, Vec::new()));
    let value = |name: &str| {
        let found = variables.iter().filter(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(value("PATH"), ["/opt/bin:/bin"]);
    assert_eq!(
        value("SSL_CERT_FILE"),
        ["/etc/ssl/certs/ca-certificates.crt"]
    );
    assert_eq!(value("HOME"), ["/home/agent"]);
    let mut own = with(Level::Container, Vec::new());
    own.env.push(("PATH".to_owned(), "/mine".to_owned()));
    let own = environment(&own);
    assert!(own.contains(&("PATH".to_owned(), "/mine".to_owned())));
}

#[test]
fn what_an_image_has_no_place_for_is_refused() {
    let mut also = with(Level::Container, vec![directory("usr")]);
    let listed = |inside: &str| AlsoDirectory {
        host: "/home/u/tools".into(),
        inside: inside.into(),
    };
    also.also = vec![listed("/opt/tools")];
    let error = plan(&also, &facts()).unwrap_err();
    assert_eq!(error, PlanError::NotInImage("/home/u/tools".into()));
    also.also = vec![listed("/home/agent/tools")];
    assert!(plan(&also, &facts()).is_ok());
}
