// SPDX-License-Identifier: Apache-2.0
//! Each section that is not a rule of hosts: variables, files, secrets, git, tools, databases, images.

use super::*;

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
