// SPDX-License-Identifier: Apache-2.0
//! Credentials in the query and in the path, end to end.

use super::stage::*;
use torno_policy::Reason;
use torno_policy::binding::{PathPattern, Slot};
use torno_policy::facts::Location;

fn key() -> Slot {
    let parameter = "key".to_owned();
    Slot::Query { parameter }
}

fn bot() -> Slot {
    let template = PathPattern::parse("/bot{credential}/**").unwrap();
    Slot::Path { template }
}

fn always(slot: fn() -> Slot) -> std::sync::Arc<Notary> {
    Notary::new(move |_| {
        Ok(Yes {
            slot: Some(slot()),
            own_credentials: false,
            ..Yes::default()
        })
    })
}

/// The request line that the origin saw.
fn line(stage: &Stage, number: usize) -> String {
    let sent = stage.origin.request(number);
    sent.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_placeholder_in_the_query_becomes_the_value_and_every_other_byte_stays() {
    // ATTACK: 110
    let stage = stage(always(key), fixed(OK)).await;
    *stage.notary.secret.lock().unwrap() = "AIza/canary+canary=0123 &?".to_owned();
    let target = format!("/v1/geo?a=%41&key={}&&b={{c}}+d", placeholder().as_str());
    let heard = stage.send(get(&target)).await;
    assert!(heard.ends_with("ok"), "{heard}");
    let expected = "GET /v1/geo?a=%41&key=AIza%2Fcanary%2Bcanary%3D0123%20%26%3F&&b={c}+d HTTP/1.1";
    assert_eq!(line(&stage, 0), expected);
    let asked = stage.notary.asked.lock().unwrap();
    let shown = "/v1/geo?a=%41&key={credential}&&b={c}+d";
    assert_eq!(asked[0].path.to_string(), shown);
    assert_eq!(asked[0].presented.len(), 1);
    assert_eq!(asked[0].presented[0].location, Location::Query);
    assert_eq!(asked[0].presented[0].digest, placeholder().digest());
}

#[tokio::test]
async fn a_placeholder_in_the_path_becomes_the_value_and_is_judged_by_its_name() {
    // ATTACK: 110
    let stage = stage(always(bot), fixed(OK)).await;
    *stage.notary.secret.lock().unwrap() = "123456:ABC-canarycanary_0123".to_owned();
    let target = format!("/bot{}/sendMessage?text=a%20b", placeholder().as_str());
    let heard = stage.send(get(&target)).await;
    assert!(heard.ends_with("ok"), "{heard}");
    let expected = "GET /bot123456:ABC-canarycanary_0123/sendMessage?text=a%20b HTTP/1.1";
    assert_eq!(line(&stage, 0), expected);
    let asked = stage.notary.asked.lock().unwrap();
    assert_eq!(asked[0].path.path(), "/bot{credential}/sendMessage");
    assert_eq!(asked[0].presented[0].location, Location::Path);
}

#[tokio::test]
async fn the_value_is_put_in_where_nothing_or_something_of_the_clients_stood() {
    for (slot, target, out) in [
        (key as fn() -> Slot, "/x", format!("/x?key={SECRET}")),
        (key, "/x?a=1", format!("/x?a=1&key={SECRET}")),
        (key, "/x?key=mine&a=1", format!("/x?key={SECRET}&a=1")),
        (bot, "/bot/getMe", format!("/bot{SECRET}/getMe")),
        (bot, "/botmine/getMe?a", format!("/bot{SECRET}/getMe?a")),
    ] {
        let stage = stage(always(slot), fixed(OK)).await;
        stage.send(get(target)).await;
        assert_eq!(line(&stage, 0), format!("GET {out} HTTP/1.1"));
        let sent = stage.origin.request(0);
        assert_eq!(sent.matches(SECRET).count(), 1, "{sent}");
        assert!(!sent.contains("mine"), "{sent}");
    }
}

#[tokio::test]
async fn a_target_is_taken_out_of_every_field_that_repeats_it() {
    // ATTACK: 099, 105
    let head = format!(
        "HTTP/1.1 302 Found\r\nLocation: /next?key={SECRET}&a=1\r\nRefresh: 0; url=/r?key={SECRET}\r\n\
         Link: </l?key={SECRET}>; rel=next\r\nContent-Location: /c?key={SECRET}\r\nX-Path: /bot{SECRET}/x\r\n\
         Content-Length: {}\r\n\r\n{SECRET}",
        SECRET.len()
    );
    for (slot, target) in [(key as fn() -> Slot, "/x?key="), (bot, "/bot/x")] {
        let stage = stage(always(slot), fixed(head.clone())).await;
        let heard = stage.send(get(target)).await;
        assert!(!heard.contains(SECRET), "{heard}");
        let shown = placeholder();
        let shown = shown.as_str();
        for field in [
            format!("Location: /next?key={shown}&a=1\r\n"),
            format!("Refresh: 0; url=/r?key={shown}\r\n"),
            format!("Link: </l?key={shown}>; rel=next\r\n"),
            format!("Content-Location: /c?key={shown}\r\n"),
            format!("X-Path: /bot{shown}/x\r\n"),
        ] {
            assert!(heard.contains(&field), "{field}{heard}");
        }
        assert_eq!(stage.notary.outcomes.lock().unwrap()[0].reflected, 6);
    }
}

#[tokio::test]
async fn a_value_that_was_encoded_for_the_query_comes_back_scrubbed_in_that_form() {
    // ATTACK: 106
    let value = "AIza/canary+canary=0123456";
    let encoded = "AIza%2Fcanary%2Bcanary%3D0123456";
    let script =
        format!("HTTP/1.1 302 F\r\nLocation: /n?key={encoded}\r\nContent-Length: 0\r\n\r\n");
    let stage = stage(always(key), fixed(script)).await;
    *stage.notary.secret.lock().unwrap() = value.to_owned();
    let heard = stage.send(get("/x")).await;
    assert!(line(&stage, 0).contains(encoded));
    let location = format!("Location: /n?key={}\r\n", placeholder().as_str());
    assert!(heard.contains(&location), "{heard}");
}

#[tokio::test]
async fn what_has_no_one_place_stays_here_whoever_allowed_it() {
    // ATTACK: 086, 089
    let stands = placeholder();
    let stands = stands.as_str();
    for (slot, target) in [
        (key as fn() -> Slot, format!("/x?key={stands}&key=1")),
        (key, format!("/x?key={stands}&KEY={stands}")),
        (key, format!("/x?key={stands}&k%65y=1")),
        (key, format!("/x?key={stands}&a=1;key=2")),
        (key, format!("/x?other={stands}")),
        (key, format!("/{stands}?key={stands}")),
        (bot, format!("/bot{stands}/{stands}")),
        (bot, format!("/bot{stands}/x?a={stands}")),
        (bot, format!("/x/{stands}")),
        (bearer, format!("/x?key={stands}")),
        (bearer, format!("/bot{stands}/x")),
    ] {
        let stage = stage(always(slot), fixed(OK)).await;
        let heard = stage.send(get(&target)).await;
        assert!(heard.contains("undecidable"), "{target}: {heard}");
        assert_eq!(stage.origin.count(), 0, "{target}");
    }
    // With no credential to put in, a placeholder in the target leaves neither.
    let stage = stage(Notary::yes(), fixed(OK)).await;
    let heard = stage.send(get(&format!("/x?key={stands}"))).await;
    assert!(heard.contains("undecidable"), "{heard}");
    assert_eq!(stage.origin.count(), 0);
}

#[tokio::test]
async fn a_value_that_no_path_can_hold_is_not_sent() {
    // ATTACK: 096
    for value in [
        "canary/canary/0123",
        "canary canary 0123",
        "canary?canary#0123",
    ] {
        let stage = stage(always(bot), fixed(OK)).await;
        *stage.notary.secret.lock().unwrap() = value.to_owned();
        let heard = stage.send(get("/bot/x")).await;
        assert!(
            heard.contains("undecidable") && !heard.contains(value),
            "{heard}"
        );
        assert_eq!(stage.origin.count(), 0);
    }
}

#[tokio::test]
async fn each_placeholder_of_a_target_is_presented_plain_or_hidden() {
    // ATTACK: 086, 091
    let stands = placeholder();
    let plain = stands.as_str();
    let hidden = data_encoding::BASE64URL_NOPAD.encode(plain.as_bytes());
    let stage = stage(Notary::yes(), fixed(OK)).await;
    let target = format!("/a{plain}/{hidden}?x={plain}&y={plain}&z={hidden}");
    stage.send(get(&target)).await;
    let asked = stage.notary.asked.lock().unwrap();
    let places: Vec<_> = asked[0].presented.iter().map(|p| &p.location).collect();
    let (path, query) = (&Location::Path, &Location::Query);
    assert_eq!(places, [path, path, query, query, query]);
    assert!(
        asked[0]
            .presented
            .iter()
            .all(|p| p.digest == stands.digest())
    );
}

#[tokio::test]
async fn a_client_can_not_write_the_word_and_a_refused_target_shows_it() {
    // ATTACK: 110
    let stage = stage(Notary::yes(), fixed(OK)).await;
    let stands = placeholder();
    for target in ["/bot{credential}/x", "/x?key={credential}"] {
        let heard = stage.send(get(target)).await;
        assert!(heard.starts_with("HTTP/1.1 400 "), "{heard}");
    }
    stage
        .send(get(&format!("/bot{}/a;b", stands.as_str())))
        .await;
    assert_eq!(stage.reasons(), [Reason::BadPath; 3]);
    let refused = stage.notary.refused.lock().unwrap();
    assert!(
        refused[2].target.ends_with(" /bot{credential}/a;b"),
        "{}",
        refused[2].target
    );
    assert_eq!(stage.origin.count(), 0);
}
