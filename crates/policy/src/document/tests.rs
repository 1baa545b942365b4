// SPDX-License-Identifier: Apache-2.0
//! Documents: what they mean, and what is refused with its place.

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

#[test]
fn presets_count_only_when_the_operator_learnt_them() {
    refuse(
        "[install]\nrun = [[\"pip\"]]\nallow = [{ preset = «\"pip\"» }]",
        "preset `pip` is not confirmed on this machine",
    );
    refuse(
        "[[allow]]\npreset = \"pip\"\nhost = «\"a.test\"»",
        "stands alone",
    );
    let host = PresetHost {
        host: HostPattern::Exact(Host::parse("index.example.org").unwrap()),
        scheme: Scheme::Https,
        port: Port::HTTPS,
        methods: vec![Method::parse("GET").unwrap()],
        paths: vec![PathPattern::parse("/**").unwrap()],
    };
    let name = PresetName::parse("pip").unwrap();
    let presets = Presets::shipped().with(name, Preset::of(vec![host]).unwrap());
    let text = "[install]\nrun = [[\"pip\"]]\nallow = [{ preset = \"pip\" }]";
    let grant = parse(text, &presets).unwrap();
    assert_eq!(grant.allow[0].name.as_str(), "preset.pip[0]");
    assert_eq!(grant.allow[0].phase, Phase::Install);
    let shown = describe(&grant).join("\n");
    assert!(shown.contains("while installing (preset pip)"), "{shown}");
    // Who reads the rest takes the name and gets nothing for it.
    assert!(parse(text, &Presets::unread()).unwrap().allow.is_empty());
}

fn pip(text: &str) -> Presets {
    let name = PresetName::parse("pip").unwrap();
    Presets::shipped().with(name, Preset::parse(text).unwrap())
}

#[test]
fn a_presets_text_has_one_spelling_which_reads_as_itself() {
    let text = "[[allow]]\nhost='a.test'\n[[allow]]\nhost = \"*.b.example.org\"\nport = 8443\n\
                methods = [\"GET\", \"POST\"]\npaths = [\"/*%2F*\", \"/x/**\"]\n\
                [[allow]]\nhost = \"c.test\"\nscheme = \"http\"\n";
    let preset = Preset::parse(text).unwrap();
    let spelt = preset.text();
    assert_eq!(Preset::parse(&spelt).unwrap(), preset);
    assert_eq!(Preset::parse(&spelt).unwrap().text(), spelt);
    assert!(spelt.contains("host = \"a.test\"\nmethods = [\"GET\", \"HEAD\"]\npaths = [\"/**\"]"));
    for wrong in [
        "",
        "[[allow]]\nhost = \"a.test\"\nown_credentials = true",
        "[[allow]]\nhost = \"a.test\"\nwebsocket = true",
        "[[allow]]\nhost = \"a.test\"\nregistry = \"npm\"",
        "[[allow]]\nhost = \"a.test\"\npaths = [\"/graphql\"]\ngraphql = [\"query\"]",
        "[[allow]]\nhost = \"a.test\"\npaths = [\"/mcp\"]\njsonrpc = [\"ping\"]",
        "[[allow]]\npreset = \"npm\"",
        "[[allow]]\nhost = \"*.com\"",
        "[[allow]]\nhost = \"any\"",
        "[[allow]]\nhost = \"a.test\"\n[secret.x]\nenv = \"X\"",
        "[[allow]]\nhost = \"169.254.169.254\"",
    ] {
        assert!(Preset::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn an_accepted_digest_covers_the_presets_as_they_stood() {
    let narrow = pip("[[allow]]\nhost = \"a.test\"\npaths = [\"/x/**\"]");
    let wide = pip("[[allow]]\nhost = \"a.test\"");
    let other = PresetName::parse("npm").unwrap();
    let npm = Preset::parse("[[allow]]\nhost = \"b.test\"").unwrap();
    for text in [
        "[install]\nrun = [[\"pip\"]]\nallow = [{ preset = \"pip\" }]",
        "[[allow]]\npreset = \"pip\"",
        "[[install.allow]]\npreset = 'pip'\n[install]\nrun = [[\"pip\"]]",
    ] {
        let of = |presets: &Presets| digest_with(text, presets);
        assert_eq!(of(&narrow), of(&narrow));
        assert_ne!(of(&narrow), of(&wide), "{text}");
        assert_ne!(of(&narrow), of(&Presets::shipped()));
        assert_ne!(of(&narrow), digest(text));
        // One that the document does not name takes no part.
        assert_eq!(
            of(&narrow),
            of(&narrow.clone().with(other.clone(), npm.clone()))
        );
    }
    let plain = "[[allow]]\nhost = \"a.test\"";
    assert_eq!(digest_with(plain, &wide), digest(plain));
}

// ATTACK: 159
#[test]
fn limits_that_wrap_vanish_or_mean_nothing_are_refused() {
    for size in [
        "0MiB",
        "-1MiB",
        "18446744073709551616MiB",
        "18446744073709551615GiB",
        "1e99G",
        "512m ",
        "512MiB ",
        " 512MiB",
        "512 MiB",
        "512MB",
        "512",
        "",
        "MiB",
        "0x10MiB",
        "+1MiB",
        "007MiB",
        "1.5GiB",
        "unlimited",
        "-1",
        "17TiB",
    ] {
        refuse(&format!("[sandbox.limits]\nmemory = «\"{size}\"»"), "");
    }
    for time in [
        "0s",
        "1",
        "1H",
        "1h30m",
        "1 h",
        "-1h",
        "99999999999999999999d",
        "31d",
        "٣h",
        "",
    ] {
        refuse(&format!("[sandbox.limits]\nwall = «\"{time}\"»"), "");
    }
    for number in [
        "0",
        "-1",
        "\"512\"",
        "1e3",
        "18446744073709551615",
        "9223372036854775807",
        "true",
    ] {
        refuse(&format!("[sandbox.limits]\npids = «{number}»"), "");
    }
    for cpus in [
        "0", "0.0", "-1", "inf", "nan", "1e3", "0.0001", "1025", "\"2\"",
    ] {
        refuse(&format!("[sandbox.limits]\ncpus = «{cpus}»"), "");
    }
}

#[test]
fn limits_are_read_exactly() {
    let text = "[sandbox.limits]\nwall = \"90s\"\nidle = \"2d\"\ncpus = 0.5\n\
                memory = \"512MiB\"\npids = 7\nrecords = 10\nrequests = 9\nrate = \"50/s\"";
    let limits = read(text).sandbox.limits;
    assert_eq!(
        (limits.wall_seconds, limits.idle_seconds, limits.cpu_milli),
        (90, 172_800, 500)
    );
    assert_eq!(
        (limits.memory_bytes, limits.pids, limits.records),
        (512 << 20, 7, 10)
    );
    assert_eq!((limits.requests, limits.rate), (9, 50));
    assert_eq!(limits.disk_bytes, LIMITS_DEFAULT.disk_bytes);
    for rate in ["50", "\"50\"", "\"0/s\"", "\"5/m\"", "\"100001/s\""] {
        refuse(&format!("[sandbox.limits]\nrate = «{rate}»"), "");
    }
}

#[test]
fn one_host_has_what_the_document_says_and_never_more_than_the_session() {
    let limits = |text: &str| read(&format!("[sandbox.limits]\n{text}")).sandbox.limits;
    let plain = limits("requests = 9\negress = \"5KiB\"\ningress = \"6KiB\"\nstreams = 7");
    let host = &plain.each_host;
    assert_eq!((host.requests, host.egress_bytes), (9, 5 << 10));
    assert_eq!((host.ingress_bytes, host.streams), (6 << 10, 7));
    let narrow = limits("ingress = \"6KiB\"\neach_host = { ingress = \"6KiB\", streams = 1 }");
    assert_eq!(narrow.each_host.ingress_bytes, 6 << 10);
    assert_eq!((narrow.streams, narrow.each_host.streams), (512, 1));
    for more in [
        "requests = 9\neach_host = { requests = «10» }",
        "egress = \"1KiB\"\neach_host = { egress = «\"2KiB\"» }",
        "ingress = \"1KiB\"\neach_host = { ingress = «\"2KiB\"» }",
        "streams = 2\neach_host = { streams = «3» }",
        "streams = «513»",
        "streams = «0»",
        "each_host = { requests = «0» }",
        "each_host = «3»",
    ] {
        refuse(&format!("[sandbox.limits]\n{more}"), "");
    }
}

#[test]
fn tripwires_stand_unless_the_document_says_no_and_that_is_shown_as_wider() {
    assert!(read("").sandbox.tripwires);
    let without = read("[sandbox]\ntripwires = false");
    assert!(!without.sandbox.tripwires);
    assert_eq!(widens(&read(""), &without), ["stands without tripwires"]);
    assert!(widens(&without, &read("")).is_empty());
    let rule = "[[allow]]\nhost = \"llm.test\"\n";
    let model = read(&format!("{rule}transcripts = true"));
    let wider = widens(&read(rule), &model);
    assert!(
        wider[0].ends_with("transcripts that quote tripwires too"),
        "{wider:?}"
    );
    assert!(widens(&model, &read(rule)).is_empty());
    refuse(
        "[[allow]]\nhost = \"*.llm.test\"\ntranscripts = «true»",
        "exact",
    );
}

// ATTACK: 103
#[test]
fn variables_that_steer_the_sandbox_are_refused() {
    for name in [
        "LD_PRELOAD",
        "ld_preload",
        "HTTPS_PROXY",
        "http_proxy",
        "no_proxy",
        "TORNO_X",
        "PATH",
        "HOME",
        "BASH_ENV",
        "SSL_CERT_FILE",
        "GIT_SSL_NO_VERIFY",
        "GIT_CONFIG_COUNT",
        "NODE_OPTIONS",
        "GLIBC_TUNABLES",
    ] {
        refuse(&format!("[sandbox.env]\n«{name}» = \"x\""), "steers");
        refuse(&format!("[secret.c]\nenv = «\"{name}\"»"), "steers");
    }
    for name in ["A-B", "1A", "A=B", "", "A B", "é"] {
        refuse(&format!("[sandbox.env]\n«\"{name}\"» = \"x\""), "variable");
    }
    refuse("[sandbox.env]\nA = «1»", "text");
    refuse(
        "[sandbox.env]\nA = \"1\"\n[secret.c]\nenv = \"A\"",
        "set twice",
    );
    refuse(
        "[secret.b]\nenv = \"A\"\n[secret.c]\nenv = \"A\"",
        "set twice",
    );
}

// ATTACK: 166, 241
#[test]
fn file_rules_stay_inside_the_workspace() {
    for rule in [
        "", "/etc", "../x", "a/../b", "a//b", "./a", "a/", "**", "*/a", "a/*", "a/**/b", "a\\b",
        "a/**/",
    ] {
        refuse(&format!("[sandbox.files]\nwrite = [«'{rule}'»]"), "");
        refuse(&format!("[sandbox.files]\nhide = [«'{rule}'»]"), "");
    }
    for directory in ["", "/", "~/", "~", "relative", "/a/../b", "~root/x", "/a/"] {
        refuse(&format!("[sandbox]\nalso = [«'{directory}'»]"), "");
    }
    refuse(
        "[sandbox]\nworkspace = { path = «\"..\"» }",
        "directory of this file",
    );
    refuse("[sandbox]\nimage = «\"../tools\"»", "identifier");
    refuse("[sandbox]\nimage = «\"torno-x\"»", "reserved");
    refuse("[sandbox]\nimage = «\"sha256:12\"»", "64 characters");
    refuse("[sandbox]\nimage = «\"python:3\"»", "64 characters");
    refuse("[sandbox]\nisolation = «\"none\"»", "one of");
}

#[test]
fn secrets_select_and_narrow_but_never_say_where() {
    refuse("[secret.x]\n«host» = \"a.test\"", "unknown key");
    refuse("[secret.«\"X y\"»]", "identifier");
    refuse("[secret.x]\nnarrow = { methods = «[]» }", "allows nothing");
    let grant = read("[secret.x]\nphase = \"install\"");
    assert_eq!(grant.secrets[0].phase, Phase::Install);
}

// ATTACK: 003, 019
#[test]
fn git_sections_name_one_repository_over_https() {
    for url in [
        "http://g.example.org/a/b",
        "https://g.example.org",
        "https://g.example.org/",
        "git@g.example.org:a/b",
        "ssh://g.example.org/a/b",
        "https://u:p@g.example.org/a/b",
        "https://g.example.org/a/b/",
        "https://g.example.org/a/../b",
        "https://g.example.org/a?b",
        "https://g.example.org:0/a",
        "https:///a/b",
        "https://g.example.org/.git",
        "--upload-pack=x",
        "",
    ] {
        refuse(&format!("[git.«\"{url}\"»]\nfetch = \"allow\""), "");
    }
    let section = "[git.\"https://g.example.org/a/b\"]\n";
    refuse(
        &format!("{section}push = {{ refs = [\"refs/heads/x\"], «force» = \"deny\" }}"),
        "fast-forward",
    );
    refuse(
        &format!("{section}push = {{ refs = «[]» }}"),
        "allows nothing",
    );
    refuse(
        "[git.«\"https://g.example.org/a/b\"»]\nsecret = \"c\"",
        "allows nothing",
    );
    for name in [
        "main",
        "refs/heads",
        "refs/heads/",
        "refs/heads/a*",
        "refs/**/x",
        "refs/*",
        "refs/heads/../x",
        "refs/heads/a b",
        "*",
    ] {
        refuse(&format!("{section}push = {{ refs = [«\"{name}\"»] }}"), "");
    }
    let grant = read(&format!(
        "{section}push = {{ refs = [\"refs/heads/x/**\"], delete = \"allow\" }}"
    ));
    assert!(grant.git[0].delete && !grant.git[0].fetch);
}

#[test]
fn tool_rules_name_one_tool_or_one_server() {
    for name in ["*", "mcp:*", "mcp:a/*b", "/*", "a b", "", "mcp:a/", "b*"] {
        refuse(
            &format!("[tool]\n«\"{name}\"» = \"ask\""),
            "a tool is a name",
        );
    }
    refuse("[tool]\nbash = «\"maybe\"»", "one of");
    refuse(
        "[tool]\nbash = { trust = \"ask\", when = { args = { x = «1.5» } } }",
        "compared",
    );
    refuse(
        "[tool]\nbash = { trust = \"ask\", when = «{ args = {} }» }",
        "no argument",
    );
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

#[test]
fn an_error_is_shown_under_its_line() {
    let text = "[sandbox]\n  isolatoin = \"vm\"\n";
    let error = parse(text, &Presets::shipped()).unwrap_err();
    let shown = render(&error, text);
    let lines: Vec<_> = shown.lines().collect();
    assert_eq!(lines[1], "2 |   isolatoin = \"vm\"");
    assert!(
        lines[2].starts_with("  |   ^^^^^^^^^ unknown key"),
        "{shown}"
    );
    let syntax = parse("a = ", &Presets::shipped()).unwrap_err();
    assert!(render(&syntax, "a = ").contains('^'), "{syntax:?}");
}

#[test]
fn a_description_names_everything_that_is_reached_or_used() {
    let lines = describe(&read(EXAMPLE)).join("\n");
    for part in [
        "strongest",
        "docs.example.org",
        "index.example.org",
        "github",
        "/acme/app",
        "refs/heads/agent/*",
        "pip install",
    ] {
        assert!(lines.contains(part), "{part}\n{lines}");
    }
}

#[test]
fn widening_is_shown_and_narrowing_is_not() {
    let old = read(EXAMPLE);
    assert_eq!(widens(&old, &old), Vec::<String>::new());
    let changes = [
        ("methods = [\"GET\", \"HEAD\"]", "methods = [\"GET\"]", 0),
        (
            "methods = [\"GET\", \"HEAD\"]",
            "methods = [\"GET\", \"POST\"]",
            1,
        ),
        ("host = \"docs.example.org\"", "host = \"*.example.org\"", 1),
        ("wall = \"1h\"", "wall = \"2h\"", 1),
        ("wall = \"1h\"", "wall = \"30m\"", 0),
        ("hide = [\"config/secrets/**\"]", "hide = []", 1),
        ("write = [\"src/**\"]", "write = [\"src/a\"]", 0),
        ("write = [\"src/**\"]", "write = [\"lib/**\"]", 1),
        (
            "\"/repos/acme/app/issues/**\"",
            "\"/repos/acme/app/issues/1\"",
            0,
        ),
        ("\"/repos/acme/app/issues/**\"", "\"/repos/acme/**\"", 1),
        ("delete = \"deny\"", "delete = \"allow\"", 1),
        (
            "\"mcp:mail/send\" = \"ask\"",
            "\"mcp:mail/send\" = \"deny\"",
            0,
        ),
        (
            "\"mcp:mail/send\" = \"ask\"",
            "\"mcp:mail/send\" = \"allow\"",
            1,
        ),
        ("isolation = \"strongest\"", "isolation = \"container\"", 1),
        ("mode = \"copy\"", "mode = \"bind\"", 1),
        ("[\"pip\", \"install\"", "[\"sh\", \"install\"", 1),
    ];
    for (from, to, expected) in changes {
        let text = EXAMPLE.replace(from, to);
        assert_ne!(text, EXAMPLE, "{from}");
        let lines = widens(&old, &read(&text));
        assert_eq!(lines.len(), expected, "{from} -> {to}: {lines:?}");
    }
}

#[test]
fn a_rule_opens_a_websocket_where_it_says_so_and_the_word_is_shown_as_wider() {
    let text = "[[allow]]\nhost = \"a.test\"\n";
    let (old, new) = (read(text), read(&format!("{text}websocket = true\n")));
    assert!(!old.allow[0].websocket && new.allow[0].websocket);
    let lines = widens(&old, &new);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("WebSocket too"), "{lines:?}");
    assert_eq!(widens(&new, &old).len(), 0);
}

#[test]
fn a_dropped_secret_shows_what_it_kept_away() {
    let open = "[[allow]]\nhost = \"a.test\"\nown_credentials = true\n";
    let old = read(&format!("{open}[secret.c1]"));
    assert_eq!(widens(&old, &read(open)).len(), 1);
    assert_eq!(widens(&old, &read("")).len(), 0);
}

// ATTACK: 081
#[test]
fn covering_is_by_declared_pairs_and_not_by_their_product() {
    let rule = |methods: &str, paths: &str| {
        format!("[[allow]]\nhost = \"a.test\"\nmethods = [{methods}]\npaths = [{paths}]\n")
    };
    let (get, post) = (rule("\"GET\"", "\"/x\""), rule("\"POST\"", "\"/y\""));
    let old = read(&format!("{get}{post}"));
    let new = read(&rule("\"GET\", \"POST\"", "\"/x\", \"/y\""));
    assert_eq!(widens(&old, &new).len(), 1);
    assert_eq!(widens(&new, &old).len(), 0);
}

#[test]
fn the_digest_is_of_the_bytes() {
    assert_ne!(digest("a = 1"), digest("a  = 1"));
    assert_eq!(digest(EXAMPLE), digest(EXAMPLE));
}

#[test]
fn access_of_a_database_is_a_narrower_list_of_methods() {
    use crate::postgres::Access;
    let parsed = |text: &str| parse(text, &Presets::shipped());
    let grant = parsed("[secret.db]\naccess = \"read\"\n").unwrap();
    assert_eq!(grant.secrets[0].methods, Some(Access::Read.methods()));
    let grant = parsed("[secret.db]\naccess = \"write\"\n").unwrap();
    assert_eq!(grant.secrets[0].methods, Some(Access::Write.methods()));
    for wrong in [
        "[secret.db]\naccess = \"all\"\n",
        "[secret.db]\naccess = true\n",
        "[secret.db]\naccess = \"read\"\nnarrow = { paths = [\"/x\"] }\n",
    ] {
        assert!(parsed(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn an_image_is_the_host_a_name_or_a_digest() {
    let image = |text: &str| {
        let document = format!("[sandbox]\nimage = \"{text}\"\n");
        parse(&document, &Presets::unread()).unwrap().sandbox.image
    };
    assert_eq!(image("host"), Image::Host);
    let name = crate::names::ImageName::parse("python-3.12").unwrap();
    assert_eq!(image("python-3.12"), Image::Named { name, digest: None });
    let digest = format!("sha256:{}", "a1".repeat(32));
    assert_eq!(image(&digest).digest().unwrap().as_str(), digest);
    let said = |text: &str| {
        let document = format!("[sandbox]\nimage = \"{text}\"\n");
        describe(&parse(&document, &Presets::unread()).unwrap())
    };
    assert!(said("tools").contains(&"is made of image tools".to_owned()));
    let (old, new) = ("", "[sandbox]\nimage = \"tools\"\n");
    let grant = |text: &str| parse(text, &Presets::unread()).unwrap();
    let widened = widens(&grant(old), &grant(new));
    assert_eq!(widened, ["image changes from host to tools"]);
}
