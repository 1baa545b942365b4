// SPDX-License-Identifier: Apache-2.0
//! Arguments become the row that is meant.

use super::*;
use clap::Parser as _;

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    bind: Bind,
}

fn bind(arguments: &[&str]) -> Outcome<Binding> {
    let all = ["torno", "api", "--host", "api.example.org"];
    let line = Line::try_parse_from(all.iter().chain(arguments)).unwrap();
    line.bind.binding(1_000)
}

#[test]
fn the_defaults_are_the_narrow_ones_that_help_names() {
    let row = bind(&[]).unwrap();
    assert_eq!(row.id.as_str(), "api-api.example.org");
    assert_eq!(row.endpoint.to_string(), "https://api.example.org:443");
    assert_eq!(row.methods, [Method::parse("GET").unwrap()]);
    assert_eq!(row.paths, [PathPattern::parse("/**").unwrap()]);
    let scheme = Some("Bearer".to_owned());
    let name = "authorization".to_owned();
    assert_eq!(row.slot, Slot::Header { name, scheme });
    assert_eq!((row.mode, row.expires_at), (Mode::Placeholder, None));
}

#[test]
fn basic_is_for_git_and_another_header_has_no_word() {
    let row = bind(&["--basic", "x-access-token", "--expires", "1h"]).unwrap();
    assert_eq!(row.mode, Mode::PlaceholderOrInject);
    assert_eq!(row.expires_at, Some(4_600));
    let row = bind(&["--header", "x-api-key", "--mode", "inject"]).unwrap();
    let name = "x-api-key".to_owned();
    assert_eq!(row.slot, Slot::Header { name, scheme: None });
    assert_eq!(row.mode, Mode::Inject);
}

#[test]
fn what_the_vault_would_refuse_is_refused_here() {
    assert!(bind(&["--header", "host"]).is_err());
    assert!(bind(&["--basic", "a:b"]).is_err());
    let row = bind(&["--plaintext"]).unwrap();
    assert_eq!(row.endpoint.to_string(), "http://api.example.org:80");
}

#[test]
fn a_place_in_query_or_path_is_taken_and_a_path_defaults_to_its_template() {
    let row = bind(&["--in", "query:key"]).unwrap();
    let parameter = "key".to_owned();
    assert_eq!(row.slot, Slot::Query { parameter });
    assert_eq!(row.mode, Mode::Placeholder);
    assert_eq!(row.paths, [PathPattern::parse("/**").unwrap()]);
    let row = bind(&["--in", "path:/bot{credential}/**"]).unwrap();
    let template = PathPattern::parse("/bot{credential}/**").unwrap();
    assert_eq!(row.paths, std::slice::from_ref(&template));
    assert_eq!(row.slot, Slot::Path { template });
    let narrow = [
        "--in",
        "path:/bot{credential}/**",
        "--path",
        "/bot{credential}/getMe",
    ];
    assert_eq!(bind(&narrow).unwrap().paths.len(), 1);
    for refused in [
        &["--in", "query:_method"][..],
        &["--in", "query:a b"],
        &["--in", "path:/bot/**"],
        &["--in", "path:/bot{credential}/**", "--path", "/other"],
        &["--path", "/bot{credential}/x"],
    ] {
        assert!(bind(refused).is_err(), "{refused:?}");
    }
    for (place, method) in [
        ("form:client_secret", "POST"),
        ("json:/d/token", "POST"),
        ("multipart:token", "POST"),
        ("ws.json:/d/token", "GET"),
    ] {
        let row = bind(&["--slot", place]).unwrap();
        assert_eq!(row.slot.to_string(), place);
        assert_eq!(row.methods, [Method::parse(method).unwrap()]);
        assert_eq!(row.mode, Mode::Placeholder);
        assert!(bind(&["--slot", place, "--method", "HEAD"]).is_err());
    }
    let row = bind(&["--in", "ws.json:/d/token", "--allow-binary"]).unwrap();
    let passes = matches!(row.slot, Slot::WebsocketJson { binary: true, .. });
    assert!(passes);
    assert!(bind(&["--in", "form:a", "--allow-binary"]).is_err());
    for unread in [
        "json:token",
        "json:/",
        "ws.json:",
        "header:x",
        "cookie:a",
        "query",
        "path:bot",
    ] {
        let all = ["torno", "api", "--host", "api.example.org", "--in", unread];
        assert!(Line::try_parse_from(all).is_err(), "{unread}");
    }
}

fn from_template(arguments: &[&str]) -> Outcome<Binding> {
    let line = Line::try_parse_from(["torno", "api"].iter().chain(arguments)).unwrap();
    line.bind.binding(1_000)
}

#[test]
fn a_template_fills_what_was_not_said_and_denies_what_mints() {
    let row = from_template(&["--template", "github"]).unwrap();
    assert_eq!(row.endpoint.to_string(), "https://api.github.com:443");
    assert_eq!(row.id.as_str(), "api-api.github.com");
    assert!(
        row.denied
            .iter()
            .any(|d| d.to_string() == "POST,PUT,PATCH /repos/*/*/keys/**")
    );
    let row = from_template(&["--template", "github", "--allow-minting"]).unwrap();
    assert!(row.denied.is_empty());
    let row = from_template(&["--template", "gitlab", "--host", "git.example.org"]).unwrap();
    assert_eq!(row.endpoint.to_string(), "https://git.example.org:443");
}

#[test]
fn a_template_is_narrowed_and_never_widened() {
    let narrow = [
        "--template",
        "github",
        "--method",
        "GET",
        "--path",
        "/repos/acme/app/**",
    ];
    let row = from_template(&narrow).unwrap();
    assert_eq!(row.methods, [Method::parse("GET").unwrap()]);
    assert_eq!(
        row.paths,
        [PathPattern::parse("/repos/acme/app/**").unwrap()]
    );
    assert!(!row.denied.is_empty());
    for wide in [
        &["--template", "github", "--path", "/**"][..],
        &["--template", "github", "--path", "/graphql"],
        &["--template", "github", "--method", "DELETE"],
        &["--template", "github", "--host", "ghe.example.org"],
    ] {
        assert!(from_template(wide).is_err(), "{wide:?}");
    }
    for mixed in [
        &["--template", "github", "--mode", "inject"][..],
        &["--template", "github", "--basic", "u"],
        &["--template", "unknown"],
        &["--host", "a.example", "--allow-minting"],
        &[],
    ] {
        let line = Line::try_parse_from(["torno", "api"].iter().chain(mixed));
        assert!(line.is_err(), "{mixed:?}");
    }
}

#[test]
fn a_database_is_one_user_of_one_database_and_how_far_it_goes() {
    use torno_policy::postgres::Access;
    let all = ["--postgres", "--user", "app", "--database", "shop"];
    let row = bind(&[&all[..], &["--access", "read", "--role", "reader"]].concat()).unwrap();
    assert_eq!(row.endpoint.to_string(), "postgres://api.example.org:5432");
    assert_eq!(row.paths, [PathPattern::parse("/shop/app").unwrap()]);
    assert_eq!(row.methods, Access::Read.methods());
    let Slot::Postgres { access, role } = &row.slot else {
        panic!("{row:?}")
    };
    assert_eq!(
        (*access, role.as_ref().unwrap().as_str()),
        (Access::Read, "reader")
    );
    let row = bind(&[
        "--postgres",
        "--user",
        "app",
        "--access",
        "write",
        "--port",
        "6432",
    ]);
    let row = row.unwrap();
    assert_eq!(row.endpoint.to_string(), "postgres://api.example.org:6432");
    assert_eq!(row.paths, [PathPattern::parse("/app/app").unwrap()]);
    for wrong in [
        &["--postgres", "--user", "app"][..],
        &["--postgres", "--access", "read"],
        &["--user", "app"],
        &["--postgres", "--user", "a b", "--access", "read"],
        &[
            "--postgres",
            "--user",
            "app",
            "--access",
            "read",
            "--method",
            "GET",
        ],
        &[
            "--postgres",
            "--user",
            "app",
            "--access",
            "read",
            "--plaintext",
        ],
    ] {
        let line = ["torno", "api", "--host", "api.example.org"]
            .iter()
            .chain(wrong);
        assert!(Line::try_parse_from(line).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_signature_names_key_region_and_service_and_nothing_else() {
    let all = [
        "--sigv4",
        "AKIAIOSFODNN7EXAMPLE",
        "--region",
        "eu-central-1",
        "--service",
        "s3",
    ];
    let row = bind(&all).unwrap();
    let scope = torno_policy::binding::Sigv4 {
        key_id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
        region: "eu-central-1".to_owned(),
        service: "s3".to_owned(),
    };
    assert_eq!(row.slot, Slot::Sigv4(scope));
    assert_eq!(row.mode, Mode::Placeholder);
    let mut temporary = all;
    temporary[1] = "ASIAIOSFODNN7EXAMPLE";
    assert!(bind(&temporary).is_err());
    let wrong = |more: &[&str]| {
        let host = ["torno", "api", "--host", "api.example.org"];
        Line::try_parse_from(host.iter().chain(more)).is_err()
    };
    assert!(wrong(&all[..4]));
    assert!(wrong(&all[2..]));
    assert!(wrong(&[&all[..], &["--mode", "inject"]].concat()));
    assert!(wrong(&[&all[..], &["--basic", "u"]].concat()));
    assert!(wrong(&[&all[..], &["--in", "query:key"]].concat()));
}

#[test]
fn a_signature_by_recipe_names_what_is_signed_and_what_goes_out() {
    let all = [
        "--hmac",
        "v0:{timestamp}:{body}",
        "--sends",
        "X-Request-Timestamp: {timestamp}",
        "--sends",
        "X-Signature: v0={hex}",
    ];
    let row = bind(&all).unwrap();
    assert_eq!(row.slot.to_string(), "hmac:x-signature");
    assert_eq!(row.slot.fields(), ["x-request-timestamp", "x-signature"]);
    assert_eq!((row.mode, row.methods[0].as_str()), (Mode::Inject, "POST"));
    let line = crate::command::secret::shown::line(&row);
    let said = "signing v0:{timestamp}:{body} by HMAC-SHA-256 in x-request-timestamp: \
                {timestamp}, x-signature: v0={hex}";
    assert!(line.contains(said), "{line}");
    let get = bind(&[
        "--hmac",
        "{target}",
        "--sends",
        "X-S: {hex}",
        "--mode",
        "placeholder",
    ]);
    let get = get.unwrap();
    assert_eq!(
        (get.mode, get.methods[0].as_str()),
        (Mode::Placeholder, "GET")
    );
    // Two signatures, and a time that nobody is told.
    assert!(bind(&[&all[..], &["--sends", "X-More: {hex}"]].concat()).is_err());
    assert!(bind(&[&all[..2], &all[4..]].concat()).is_err());
    let wrong = |more: &[&str]| {
        let host = ["torno", "api", "--host", "api.example.org"];
        Line::try_parse_from(host.iter().chain(more)).is_err()
    };
    assert!(wrong(&all[..2]));
    assert!(wrong(&all[2..]));
    assert!(wrong(&["--hmac", "{nothing}", "--sends", "X-S: {hex}"]));
    assert!(wrong(&["--hmac", "{body}", "--sends", "X-S={hex}"]));
    assert!(wrong(&[&all[..], &["--header", "x-s"]].concat()));
    assert!(wrong(
        &[&all[..], &["--jwt", "ES256", "--issuer", "a"]].concat()
    ));
}

#[test]
fn claims_are_what_was_typed_and_nothing_else() {
    let row = bind(&["--jwt", "RS256", "--issuer", "123"]).unwrap();
    assert_eq!(row.slot.to_string(), "jwt:RS256");
    assert_eq!(row.mode, Mode::Placeholder);
    let line = crate::command::secret::shown::line(&row);
    assert!(
        line.contains("signing a JWT by RS256 for 600 s: iss=123"),
        "{line}"
    );
    let long = ["--jwt", "ES256", "--issuer", "a", "--lifetime", "11m"];
    assert!(bind(&long).is_err());
    let wrong = |more: &[&str]| {
        let host = ["torno", "api", "--host", "api.example.org"];
        Line::try_parse_from(host.iter().chain(more)).is_err()
    };
    assert!(wrong(&["--jwt", "RS256"]));
    assert!(wrong(&["--jwt", "none", "--issuer", "a"]));
    assert!(wrong(&["--issuer", "a"]));
    assert!(wrong(&[
        "--jwt", "RS256", "--issuer", "a", "--scheme", "token"
    ]));
}
