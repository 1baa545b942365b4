// SPDX-License-Identifier: Apache-2.0
//! init, trust, policy: documents are written, read, shown and tried out.

use crate::home::Home;

#[test]
fn init_writes_once_and_what_it_writes_is_valid() {
    let home = Home::alone();
    home.write(
        ".git/config",
        "[remote \"origin\"]\n\turl = git@git.example.org:acme/app.git\n",
    );
    home.torno(&["init"]).expect(0);
    let ran = home.torno(&["policy", "check"]).expect(0);
    assert!(
        ran.out
            .contains("git https://git.example.org:443/acme/app: fetch"),
        "{}",
        ran.out
    );
    let before = std::fs::read_to_string(home.work("torno.toml")).unwrap();
    let ran = home.torno(&["init"]).expect(125);
    assert!(ran.err.contains("never overwritten"), "{}", ran.err);
    assert_eq!(
        std::fs::read_to_string(home.work("torno.toml")).unwrap(),
        before
    );
}

#[test]
fn check_points_at_the_byte() {
    let home = Home::alone();
    home.write("torno.toml", "[sandbox]\nisolation = \"strong\"\n");
    let ran = home.torno(&["policy", "check"]).expect(1);
    assert!(
        ran.err.contains("2 | isolation = \"strong\""),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("|             ^^^^^^^^"), "{}", ran.err);
    home.torno(&["policy", "check", "none.toml"]).expect(125);
}

#[test]
fn trust_shows_what_widens_and_asks() {
    let home = Home::served();
    home.write("torno.toml", "[[allow]]\nhost = \"a.example\"\n");
    let ran = home.torno(&["trust"]).expect(125);
    assert!(
        ran.err.contains("reaches https://a.example: GET HEAD /**"),
        "{}",
        ran.err
    );
    assert!(
        home.seen().accepted.is_empty(),
        "nobody was there to say yes"
    );
    home.torno(&["trust", "--yes"]).expect(0);
    home.write(
        "torno.toml",
        "[[allow]]\nhost = \"a.example\"\nmethods = [\"GET\", \"DELETE\"]\n",
    );
    let ran = home.torno(&["trust", "--yes"]).expect(0);
    assert!(
        ran.err.contains("WIDER than what was accepted before:"),
        "{}",
        ran.err
    );
    assert!(
        ran.err.contains("+ reaches https://a.example: GET DELETE"),
        "{}",
        ran.err
    );
    assert_eq!(home.seen().accepted.len(), 2);
}

#[test]
fn a_kept_text_that_the_notary_does_not_know_is_not_compared_with() {
    let home = Home::served();
    home.write("torno.toml", "[[allow]]\nhost = \"a.example\"\n");
    home.torno(&["trust", "--yes"]).expect(0);
    home.seen().accepted.clear();
    home.write("torno.toml", "[[allow]]\nhost = \"b.example\"\n");
    let ran = home.torno(&["trust", "--yes"]).expect(0);
    assert!(!ran.err.contains("before"), "{}", ran.err);
}

#[test]
fn a_document_is_tried_out_without_a_session() {
    let home = Home::served();
    home.write(
        "torno.toml",
        "[[allow]]\nhost = \"docs.example.org\"\n[secret.api]\nenv = \"API\"\n",
    );
    let ran = home
        .torno(&["policy", "simulate", "GET", "https://docs.example.org/x"])
        .expect(0);
    assert!(ran.out.contains("verdict       allow"), "{}", ran.out);
    let ran = home
        .torno(&["policy", "simulate", "POST", "https://docs.example.org/x"])
        .expect(0);
    assert!(
        ran.out.contains("code          method_not_granted"),
        "{}",
        ran.out
    );
    let url = "https://api.example.org/v1";
    let ran = home
        .torno(&["policy", "simulate", "--with", "api", "GET", url])
        .expect(0);
    assert!(ran.out.contains("verdict       deny"), "{}", ran.out);
    home.torno(&["secret", "bind", "api", "--host", "api.example.org"])
        .expect(0);
    let ran = home
        .torno(&["policy", "simulate", "--with", "api", "GET", url])
        .expect(0);
    assert!(ran.out.contains("verdict       allow"), "{}", ran.out);
    assert!(home.seen().desk.is_empty(), "nothing was started");
}

#[test]
fn the_shipped_policy_is_shown_and_valid() {
    let home = Home::alone();
    let ran = home.torno(&["policy", "show"]).expect(0);
    assert!(ran.out.contains("@id(\"no-metadata\")"), "{}", ran.out);
    home.write("o.cedar", &ran.out);
    home.torno(&["policy", "check", "--organisation", "o.cedar"])
        .expect(0);
    home.write("bad.cedar", "permit (principal, action, resource)");
    home.torno(&["policy", "check", "--organisation", "bad.cedar"])
        .expect(1);
}

#[test]
fn a_fifo_in_the_place_of_the_document_holds_nobody_up() {
    let home = Home::served();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, home.work("torno.toml"), kind, mode, 0).unwrap();
    for arguments in [&["trust", "--yes"][..], &["run", "--", "exit", "0"]] {
        let ran = home.torno(arguments).expect(125);
        assert!(ran.err.contains("no regular file"), "{}", ran.err);
    }
}
