// SPDX-License-Identifier: Apache-2.0
//! Secrets and the vault: where values come from, and that they go to the notary alone.

use crate::home::Home;
use torno_notary_protocol::operator::{OperatorRequest, UnsealKind};

#[test]
fn a_secret_comes_from_a_file_or_standard_input_without_its_newline() {
    let home = Home::served();
    let ran = home
        .torno_with(&["secret", "put", "api", "--shape", "sk-"], b"sk-canary\n")
        .expect(0);
    assert!(!format!("{}{}", ran.out, ran.err).contains("canary"));
    let file = home.write("token", "from-file\n");
    home.torno(&["secret", "rotate", "api", "--file", file.to_str().unwrap()])
        .expect(0);
    let seen = home.seen();
    assert!(matches!(&seen.notary[0].0, OperatorRequest::Put { shape, .. } if shape == "sk-"));
    assert_eq!(seen.notary[0].1, [b"sk-canary".to_vec()]);
    assert_eq!(seen.notary[1].1, [b"from-file".to_vec()]);
    assert!(seen.desk.is_empty(), "the desk hears nothing of it");
}

#[test]
fn an_empty_secret_and_one_as_argument_are_refused() {
    let home = Home::served();
    home.torno_with(&["secret", "put", "api"], b"\n")
        .expect(125);
    let ran = home
        .torno(&["secret", "put", "api", "sk-canary"])
        .expect(125);
    assert!(ran.err.contains("never an argument"), "{}", ran.err);
    assert!(!ran.err.contains("canary"), "{}", ran.err);
    assert!(home.seen().notary.is_empty());
}

#[test]
fn a_sealed_vault_says_what_to_do() {
    let home = Home::served();
    home.seen().sealed = true;
    let ran = home.torno_with(&["secret", "put", "api"], b"x").expect(125);
    assert_eq!(
        ran.err,
        "torno: the vault is sealed; run `torno vault unseal`\n"
    );
}

#[test]
fn a_binding_is_listed_under_its_credential() {
    let home = Home::served();
    home.torno(&[
        "secret",
        "bind",
        "api",
        "--host",
        "api.example.org",
        "--path",
        "/v1/**",
    ])
    .expect(0);
    let ran = home.torno(&["secret", "list"]).expect(0);
    assert_eq!(
        ran.out,
        "api  version 2  1970-01-01T00:00:00Z\n  api-api.example.org: https://api.example.org:443 GET /v1/** \
         in authorization: Bearer …\n"
    );
    let ran = home
        .torno(&["--output", "json", "secret", "list"])
        .expect(0);
    let value: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(value["bindings"][0]["endpoint"]["host"], "api.example.org");
    let ran = home
        .torno(&[
            "secret",
            "bind",
            "api",
            "--host",
            "a.example",
            "--header",
            "host",
        ])
        .expect(125);
    assert!(ran.err.contains("`host` shapes the message"), "{}", ran.err);
}

#[test]
fn a_template_is_listed_with_its_number_of_denied_patterns_and_shown_whole() {
    let home = Home::served();
    home.torno(&["secret", "bind", "api", "--template", "telegram"])
        .expect(0);
    let ran = home.torno(&["secret", "list"]).expect(0);
    let line = "in the path: /bot{credential}/*, 11 denied (`torno secret show api`)\n";
    assert!(ran.out.ends_with(line), "{}", ran.out);
    let ran = home.torno(&["secret", "show", "api"]).expect(0);
    assert!(
        ran.out
            .starts_with("api  version 2\n  api-api.telegram.org: ")
    );
    let denied = ran.out.matches("    denied: * /bot{credential}/").count();
    assert_eq!(denied, 11, "{}", ran.out);
    let ran = home
        .torno(&["--output", "json", "secret", "show", "api"])
        .expect(0);
    let value: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(value["bindings"][0]["denied"].as_array().unwrap().len(), 11);
    let ran = home.torno(&["secret", "show", "other"]).expect(125);
    assert!(ran.err.contains("no credential `other`"), "{}", ran.err);
    let wide = [
        "secret",
        "bind",
        "api",
        "--template",
        "github",
        "--path",
        "/graphql",
    ];
    let ran = home.torno(&wide).expect(125);
    assert!(ran.err.contains("nothing widens a template"), "{}", ran.err);
}

#[test]
fn a_vault_is_unsealed_in_the_way_it_was_made() {
    let home = Home::served();
    let ran = home.torno(&["vault", "unseal"]).expect(125);
    assert!(ran.err.contains("torno vault init"), "{}", ran.err);
    home.seen().unseal = Some(UnsealKind::Passphrase);
    home.torno_with(&["vault", "unseal"], b"open\n").expect(0);
    assert_eq!(home.seen().notary.last().unwrap().1, [b"open".to_vec()]);
    let key = home.write("key", "0123456789abcdef0123456789abcde\n");
    let key = key.to_str().unwrap();
    home.torno(&["vault", "unseal", "--key-file", key])
        .expect(125);
    home.seen().unseal = Some(UnsealKind::KeyFile);
    home.torno(&["vault", "unseal"]).expect(125);
    home.torno(&["vault", "unseal", "--key-file", key])
        .expect(0);
    // A key file's bytes are all of it.
    assert_eq!(home.seen().notary.last().unwrap().1[0].len(), 32);
}

#[test]
fn a_systemd_credential_unseals() {
    let home = Home::served();
    home.seen().unseal = Some(UnsealKind::Passphrase);
    home.write("credentials/torno-unseal", "from-systemd\n");
    let mut command = home.command(&["vault", "unseal"]);
    let output = command
        .env("CREDENTIALS_DIRECTORY", home.work("credentials"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        home.seen().notary.last().unwrap().1,
        [b"from-systemd".to_vec()]
    );
}
