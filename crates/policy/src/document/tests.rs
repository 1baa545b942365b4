// SPDX-License-Identifier: Apache-2.0
//! Documents: what they mean, and what is refused with its place.

mod limits;
mod presets;
mod sections;
mod shown;

use super::*;
use crate::binding::PathPattern;
use crate::grant::{HostPattern, Image, Isolation, ToolPattern, Verdict, WorkspaceMode};
use crate::names::{Host, Method, Port, PresetName, Scheme};
use crate::standing::Phase;

/// The document of DESIGN §12, without the preset.
const EXAMPLE: &str = r#"
[sandbox]
isolation = "strongest"
image = "host"
also = ["~/.cargo/bin", "/opt/tools"]
workspace = { path = ".", mode = "copy" }
files = { write = ["src/**"], hide = ["config/secrets/**"] }
limits = { wall = "1h", idle = "10m", cpus = 2, memory = "2GiB", pids = 512, egress = "1GiB" }
env = { CI = "1" }

[install]
see = ["requirements.txt"]
run = [["pip", "install", "-r", "requirements.txt"]]
allow = [{ host = "index.example.org" }]

[secret.github]
env = "GITHUB_TOKEN"
narrow = { methods = ["GET", "POST"], paths = ["/repos/acme/app/issues/**"] }

[git."https://git.example.org/acme/app.git"]
secret = "github"
fetch = "allow"
push = { refs = ["refs/heads/agent/*"], delete = "deny" }

[[allow]]
host = "docs.example.org"
methods = ["GET", "HEAD"]

[tool]
bash = "allow"
"mcp:mail/send" = "ask"
"mcp:db/*" = { trust = "ask", when = { args = { sql = "write", n = 3 } } }
"#;

fn read(text: &str) -> Grant {
    parse(text, &Presets::shipped()).unwrap_or_else(|error| panic!("{}", render(&error, text)))
}

/// The text with its one error: `«…»` marks the place that it must point at.
fn refuse(marked: &str, message: &str) {
    let text = marked.replace(['«', '»'], "");
    let error = parse(&text, &Presets::shipped()).expect_err(&text);
    assert!(error.message.contains(message), "{text}\n{}", error.message);
    assert!(!error.message.contains('\n'), "{}", error.message);
    if let Some(start) = marked.find('«') {
        let end = marked.find('»').unwrap() - '«'.len_utf8();
        assert_eq!(error.span, Some(start..end), "{}", render(&error, &text));
    }
}

#[test]
fn the_example_means_what_it_says() {
    let grant = read(EXAMPLE);
    assert_eq!(grant.sandbox.isolation, Isolation::Strongest);
    assert_eq!(grant.sandbox.workspace, WorkspaceMode::Copy);
    assert_eq!(grant.sandbox.also, ["~/.cargo/bin", "/opt/tools"]);
    assert_eq!(
        grant.sandbox.files.write.as_deref(),
        Some(&["src/**".to_owned()][..])
    );
    assert_eq!(grant.sandbox.env, [("CI".to_owned(), "1".to_owned())]);
    assert_eq!(grant.sandbox.limits, LIMITS_DEFAULT);
    assert_eq!(grant.install.as_ref().unwrap().run[0].len(), 4);
    let rules: Vec<_> = grant
        .allow
        .iter()
        .map(|r| (r.name.as_str(), r.phase))
        .collect();
    assert_eq!(
        rules,
        [
            ("install.allow[0]", Phase::Install),
            ("grant.allow[0]", Phase::Locked)
        ]
    );
    let secret = &grant.secrets[0];
    assert_eq!(secret.env.as_deref(), Some("GITHUB_TOKEN"));
    assert_eq!(secret.methods.as_ref().unwrap().len(), 2);
    let git = &grant.git[0];
    assert_eq!(
        git.name.as_str(),
        "git.\"https://git.example.org/acme/app\""
    );
    assert_eq!(
        (git.repository.as_str(), git.fetch, git.delete),
        ("/acme/app", true, false)
    );
    assert_eq!(git.push_refs, ["refs/heads/agent/*"]);
    let server = ToolPattern::Server("mcp:db/".to_owned());
    let db = grant.tools.iter().find(|rule| rule.tool == server).unwrap();
    assert_eq!((db.verdict, db.when.len()), (Verdict::Ask, 2));
}

#[test]
fn an_empty_document_grants_a_sandbox_and_nothing_else() {
    let grant = read("");
    assert!(grant.allow.is_empty() && grant.secrets.is_empty() && grant.git.is_empty());
    assert_eq!(grant.sandbox.limits, LIMITS_DEFAULT);
    assert!(describe(&grant).contains(&"reaches nothing outside".to_owned()));
}

#[test]
fn rules_have_narrow_defaults() {
    let grant = read("[[allow]]\nhost = \"a.example.org\"\n");
    let rule = &grant.allow[0];
    assert_eq!((rule.scheme, rule.port), (Scheme::Https, Port::HTTPS));
    let methods: Vec<_> = rule.methods.iter().map(Method::as_str).collect();
    assert_eq!(methods, ["GET", "HEAD"]);
    assert!(!rule.own_credentials && !rule.websocket);
    let plain = read("[[allow]]\nhost = \"a.example.org\"\nscheme = \"http\"\n");
    assert_eq!(plain.allow[0].port, Port::HTTP);
}

// ATTACK: 084
#[test]
fn unknown_keys_are_refused_at_their_place() {
    refuse("«sandbx» = 1", "unknown key");
    refuse("[sandbox]\n«isolatoin» = \"vm\"", "unknown key");
    refuse(
        "[[allow]]\nhost = \"a.example.org\"\n«path» = [\"/\"]",
        "unknown key",
    );
    refuse("[secret.x]\nnarrow = { «host» = \"a\" }", "unknown key");
    refuse(
        "[git.\"https://g.example.org/a/b\"]\nfetch = \"allow\"\n«pull» = \"allow\"",
        "unknown key",
    );
    refuse(
        "[tool]\nbash = { trust = \"ask\", «if» = 1 }",
        "unknown key",
    );
    refuse("[sandbox.limits]\n«ram» = \"1GiB\"", "unknown key");
    refuse("[install]\nrun = [[\"x\"]]\n«cache» = true", "unknown key");
}

// ATTACK: 035, 069, 103, 129, 130, 131, 142, 219
#[test]
fn a_feature_that_does_not_exist_has_no_key_anywhere() {
    const ALLOW: &str = "[[allow]]\nhost = \"a.example.org\"\n";
    for (place, keys) in [
        // Publishing a port, or binding one.
        (
            "[sandbox]\n",
            &["publish", "expose", "ports", "listen", "bind"][..],
        ),
        (ALLOW, &["listen", "bind", "ingress", "local"]),
        ("", &["network", "ports", "ingress"]),
        // Letting a host past inspection.
        (
            ALLOW,
            &[
                "passthrough",
                "inspect",
                "tls",
                "opaque",
                "tunnel",
                "raw",
                "protocol",
            ],
        ),
        (
            "[secret.x]\n",
            &["passthrough", "host", "hosts", "allow", "path", "url"],
        ),
        ("", &["bypass", "no_proxy", "exclude"]),
        // Rules for programs.
        (
            ALLOW,
            &["binary", "program", "executable", "process", "uid"],
        ),
        // Snapshots, clones, pause and resume.
        (
            "[sandbox]\n",
            &["snapshot", "clone", "from", "template", "restore"],
        ),
        ("[sandbox]\n", &["pause", "resume", "suspend", "checkpoint"]),
        // Labels, kernel settings, mounts, devices, rights.
        (
            "[sandbox]\n",
            &["label", "selinux", "apparmor", "sysctl", "seccomp"],
        ),
        (
            "[sandbox]\n",
            &[
                "mounts",
                "volumes",
                "devices",
                "privileged",
                "capabilities",
                "user",
            ],
        ),
        // Code, certificates or places of Torno's own parts.
        (
            "",
            &[
                "plugin",
                "script",
                "hooks",
                "ca",
                "upstreams",
                "organisation",
                "include",
            ],
        ),
        (
            "",
            &["record", "audit", "log", "record_path", "sink", "vault"],
        ),
        (
            "[sandbox]\n",
            &["record", "audit", "log", "runtime", "guest", "runtime_path"],
        ),
    ] {
        for key in keys {
            refuse(&format!("{place}«{key}» = true"), "unknown key");
        }
    }
}

#[test]
fn duplicate_keys_are_refused() {
    refuse(
        "[sandbox]\nisolation = \"vm\"\n«isolation» = \"vm\"",
        "duplicate",
    );
    refuse("[secret.x]\n[secret.x]", "duplicate");
    refuse(
        "[git.\"https://g.example.org/a/b\"]\nfetch = \"allow\"\n\
         [git.\"https://g.example.org/a/b.git\"]\nfetch = \"allow\"",
        "already",
    );
}

#[test]
fn twelve_directories_can_be_listed_and_no_more() {
    let also = |count: usize| {
        let all: Vec<String> = (0..count).map(|n| format!("\"/opt/{n}\"")).collect();
        format!("[sandbox]\nalso = «[{}]»", all.join(", "))
    };
    read(&also(12).replace(['«', '»'], ""));
    refuse(&also(13), "at most 12 directories");
}

// ATTACK: 012, 007, 001
#[test]
fn over_broad_or_odd_hosts_are_refused_with_a_reason() {
    for (host, message) in [
        ("*", "one whole label"),
        ("*.com", "public suffix"),
        ("*.co.uk", "public suffix"),
        ("*.github.io", "public suffix"),
        ("*.test", "public suffix"),
        ("**.test", "one whole label"),
        ("a*b.test", "one whole label"),
        ("a.*.test", "one whole label"),
        ("*.*.allow.test", "one whole label"),
        ("*.", "1 to 253"),
        ("", "1 to 253"),
        ("any", "not available"),
        ("*.127.0.0.1", "no wildcard"),
        ("Allow.test", "write it as `allow.test`"),
        ("allow.test.", "write it as `allow.test`"),
        ("xn--allow-.test", "label"),
        ("bücher.example", "letters, digits"),
        ("allow.test:443", "letters, digits"),
        ("https://allow.test", "letters, digits"),
        ("127.1", "dotted quad"),
        ("169.254.169.254", "metadata"),
        ("metadata.google.internal", "metadata"),
    ] {
        refuse(&format!("[[allow]]\nhost = «\"{host}\"»"), message);
    }
    let grant = read("[[allow]]\nhost = \"*.allow.test\"");
    assert_eq!(
        grant.allow[0].host,
        HostPattern::OneLabel(Host::parse("allow.test").unwrap())
    );
}

#[test]
fn rules_that_contradict_themselves_are_refused() {
    refuse(
        "[[allow]]\nhost = \"a.test\"\nmethods = [\"POST\"]\nwebsocket = «true»",
        "opened with GET",
    );
    refuse(
        "[[allow]]\nhost = \"*.allow.test\"\nown_credentials = «true»",
        "wildcard",
    );
    refuse(
        "[[allow]]\nhost = \"a.test\"\nmethods = «[]»",
        "allows nothing",
    );
    refuse(
        "[[allow]]\nhost = \"a.test\"\npaths = «[]»",
        "allows nothing",
    );
    refuse(
        "[[allow]]\nhost = \"a.test\"\nmethods = [\"GET\", «\"GET\"»]",
        "twice",
    );
    refuse(
        "[[allow]]\nhost = \"a.test\"\nmethods = [«\"get\"»]",
        "capitals",
    );
    refuse(
        "[[allow]]\nhost = \"a.test\"\nmethods = [«\"CONNECT\"»]",
        "capitals",
    );
    refuse(
        "[[allow]]\nhost = \"a.test\"\npaths = [«\"/a*\"»]",
        "whole segment",
    );
    refuse(
        "[[allow]]\nhost = \"a.test\"\npaths = [«\"/%61\"»]",
        "write it as `/a`",
    );
    refuse("«[[allow]]»\nmethods = [\"GET\"]", "`host` is missing");
    refuse("[[allow]]\nhost = «1»", "text in quotes");
    refuse("allow = «{ host = \"a.test\" }»", "list");
    for port in ["0", "65536", "-1", "\"443\"", "4.43"] {
        refuse(
            &format!("[[allow]]\nhost = \"a.test\"\nport = «{port}»"),
            "",
        );
    }
}

// ATTACK: 183
#[test]
fn invisible_characters_are_refused_everywhere() {
    for c in [
        '\u{202e}',
        '\u{2066}',
        '\u{200b}',
        '\u{ad}',
        '\u{e0100}',
        '\u{1d173}',
        '\u{115f}',
        '\u{e0041}',
        '\u{feff}',
    ] {
        refuse(&format!("# a «{c}» comment"), "invisible");
    }
}

// ATTACK: 230
#[test]
fn hostile_texts_are_refused_in_bounded_time() {
    let deep = format!("a = {}{}", "[".repeat(100_000), "]".repeat(100_000));
    let many = "[[allow]]\nhost = \"a.test\"\n".repeat(5000);
    for text in [deep, many, "#".repeat(300_000)] {
        let start = std::time::Instant::now();
        assert!(parse(&text, &Presets::shipped()).is_err());
        assert!(start.elapsed().as_secs() < 5);
    }
}
