// SPDX-License-Identifier: Apache-2.0

use super::*;
use proptest::prelude::*;
use torno_policy::names::{Host, Port, Scheme};

/// 2026-11-29.
const NOW: u64 = 1_795_910_400;

fn keeping(binding: &str) -> Keeping {
    Keeping {
        binding: BindingId::parse(binding).unwrap(),
        credential: CredentialName::parse(&format!("of-{binding}")).unwrap(),
        cookies: true,
        tokens: false,
    }
}

fn endpoint(scheme: Scheme, host: &str, port: u16) -> Endpoint {
    Endpoint {
        scheme,
        host: Host::parse(host).unwrap(),
        port: Port::new(port).unwrap(),
    }
}

/// A jar and who asks it.
struct Rig {
    jar: Jar,
    keeping: Keeping,
    endpoint: Endpoint,
    now: u64,
}

impl Rig {
    fn new() -> Self {
        Self {
            jar: Jar::default(),
            keeping: keeping("b1"),
            endpoint: endpoint(Scheme::Https, "www.shop.test", 443),
            now: NOW,
        }
    }

    /// The markers for what an answer to this path sets.
    fn take(&mut self, path: &str, lines: &[&str]) -> Vec<String> {
        let place = Place {
            keeping: &self.keeping,
            endpoint: &self.endpoint,
            path,
            now: self.now,
        };
        let taken = self
            .jar
            .take(place, lines.iter().map(|line| line.as_bytes()));
        let text = |marker: &Vec<u8>| String::from_utf8(marker.clone()).unwrap();
        taken.markers.iter().map(text).collect()
    }

    /// What a request to this path gets.
    fn sent(&self, path: &str) -> String {
        let place = Place {
            keeping: &self.keeping,
            endpoint: &self.endpoint,
            path,
            now: self.now,
        };
        let sent = self.jar.sent(place);
        let pair = |one: &Sent| format!("{}={}", one.name, one.value.byte_count());
        sent.iter().map(pair).collect::<Vec<_>>().join("; ")
    }
}

#[test]
fn a_cookie_goes_to_its_own_path_and_longer_paths_go_first() {
    let mut rig = Rig::new();
    rig.take(
        "/shop/login",
        &["a=1", "b=22; Path=/", "c=333; path=/shop/cart"],
    );
    assert_eq!(rig.sent("/shop/cart/1"), "c=3; a=1; b=2");
    assert_eq!(rig.sent("/shop"), "a=1; b=2");
    assert_eq!(rig.sent("/shopping"), "b=2");
    assert_eq!(rig.sent("/"), "b=2");
    // A path that is none is the request's own.
    rig.take("/x/y", &["d=1; Path=nowhere"]);
    assert_eq!(rig.sent("/x"), "d=1; b=2");
}

#[test]
fn a_cookie_goes_to_no_other_endpoint_and_no_other_binding() {
    let mut rig = Rig::new();
    rig.take("/", &["a=1; Domain=shop.test"]);
    assert_eq!(rig.sent("/"), "a=1");
    for other in [
        endpoint(Scheme::Http, "www.shop.test", 443),
        endpoint(Scheme::Https, "www.shop.test", 8443),
        endpoint(Scheme::Https, "shop.test", 443),
        endpoint(Scheme::Https, "a.www.shop.test", 443),
    ] {
        let own = std::mem::replace(&mut rig.endpoint, other);
        assert_eq!(rig.sent("/"), "");
        rig.endpoint = own;
    }
    rig.keeping = keeping("b2");
    assert_eq!(rig.sent("/"), "");
}

#[test]
fn what_is_no_cookie_of_this_host_is_dropped() {
    let mut rig = Rig::new();
    for line in [
        "",
        "a",
        "=1",
        " =1",
        "a b=1",
        "a\"=1",
        "a,b=1",
        "a=\u{7f}",
        "a=1\0",
        "a=\u{e9}",
        "a=1\tb",
        "a=1; Domain=other.test",
        "a=1; Domain=hop.test",
        "a=1; Domain=x.www.shop.test",
        "__Host-a=1; Secure",
        "__Host-a=1; Path=/",
        "__HOST-a=1; Path=/x; Secure",
        "__Host-a=1; Path=/; Secure; Domain=www.shop.test",
        "__Secure-a=1",
        "__secure-a=1; Path=/",
    ] {
        assert_eq!(rig.take("/", &[line]), [""; 0], "{line}");
    }
    assert_eq!(rig.sent("/"), "");
    let kept = ["__Host-a=1; Path=/; Secure", "__Secure-b=1; secure"];
    assert_eq!(rig.take("/", &kept).len(), 2);
    rig.endpoint.scheme = Scheme::Http;
    assert_eq!(rig.take("/", &["c=1; Secure", kept[0], kept[1]]), [""; 0]);
}

#[test]
fn a_marker_has_the_name_and_the_time_and_never_the_value() {
    let mut rig = Rig::new();
    let line = "sid=secret-0123456789; Path=/a; Max-Age=60; Secure; HttpOnly; Domain=shop.test";
    let marker = format!("sid={MARKER}; Path=/a; Max-Age=60; Secure; HttpOnly");
    assert_eq!(rig.take("/", &[line]), [marker]);
    assert!(is_markers(
        format!("sid={MARKER}; other={MARKER}").as_bytes()
    ));
    for own in [
        "",
        "sid=mine",
        "sid",
        &format!("sid={MARKER}; x=mine"),
        MARKER,
    ] {
        assert!(!is_markers(own.as_bytes()), "{own}");
    }
}

#[test]
fn a_cookie_ends_with_its_time_and_when_it_is_set_again_to_end() {
    let mut rig = Rig::new();
    rig.take(
        "/",
        &[
            "a=1; Max-Age=10",
            "b=1; Expires=Mon, 30 Nov 2026 00:00:00 GMT",
            "c=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Max-Age=10",
            "d=1",
        ],
    );
    assert_eq!(rig.sent("/"), "a=1; b=1; c=1; d=1");
    rig.now += 10;
    assert_eq!(rig.sent("/"), "b=1; d=1");
    let gone = rig.take(
        "/",
        &["d=; Max-Age=0", "b=x; Expires=Thu, 01-Jan-70 00:00:01 GMT"],
    );
    assert_eq!(
        gone,
        ["d=kept-by-torno; Max-Age=0", "b=kept-by-torno; Max-Age=0"]
    );
    assert_eq!(rig.sent("/"), "");
    rig.take(
        "/",
        &["e=1; Max-Age=-5", "f=1; Max-Age=99999999999999999999"],
    );
    rig.now += 400 * 86_400 - 1;
    assert_eq!(rig.sent("/"), "f=1");
    rig.now += 1;
    assert_eq!(rig.sent("/"), "");
}

#[test]
fn the_jar_has_room_for_so_many_so_large_and_of_so_many_bindings() {
    let mut rig = Rig::new();
    for number in 0..40 {
        rig.take("/", &[&format!("c{number}={number:0>12}")]);
    }
    let names = |rig: &Rig| rig.sent("/").split("; ").count();
    assert_eq!(names(&rig), COOKIES_MAX);
    assert!(rig.sent("/").starts_with("c24="));
    assert_eq!(rig.jar.searched().count(), COOKIES_MAX + REPLACED_MAX);
    let large = "x".repeat(4_000);
    rig.take("/", &[&format!("d={large}")]);
    rig.take("/", &[&format!("e={large}")]);
    assert_eq!(rig.sent("/"), "e=4000");
    assert_eq!(rig.take("/", &[&format!("f={large}{large}")]), [""; 0]);
    for number in 2..=4 {
        rig.keeping = keeping(&format!("b{number}"));
        rig.take("/", &["a=1"]);
        assert_eq!(rig.sent("/"), "a=1");
    }
    rig.keeping = keeping("b5");
    assert_eq!(rig.take("/", &["a=1"]), [""; 0]);
    rig.jar
        .forget(Some(&CredentialName::parse("of-b4").unwrap()));
    rig.take("/", &["a=1"]);
    assert_eq!(rig.sent("/"), "a=1");
    rig.jar.forget(None);
    assert!(rig.jar.kept.is_empty());
}

#[test]
fn a_value_that_was_replaced_is_searched_for_still() {
    let mut rig = Rig::new();
    rig.take("/", &["sid=first-0123456789"]);
    rig.take("/", &["sid=second-0123456789", "short=1"]);
    assert_eq!(rig.sent("/"), "sid=17; short=1");
    let searched = |value: &str| rig.jar.searched().any(|one| one.is(value.as_bytes()));
    assert!(searched("first-0123456789") && searched("second-0123456789"));
    assert!(!searched("1"));
}

#[test]
fn dates_are_read_in_every_form_that_servers_write() {
    for (text, seconds) in [
        ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
        ("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777)),
        ("Sun Nov  6 08:49:37 1994", Some(784_111_777)),
        ("6 nov 1994 8:49:37x", Some(784_111_777)),
        ("Thu, 29 Feb 2024 23:59:59 GMT", Some(1_709_251_199)),
        ("01 Mar 2100 00:00:00", Some(4_107_542_400)),
        ("01 Jan 1601 00:00:00", Some(0)),
        ("29 Feb 2100 00:00:00", None),
        ("31 Apr 2026 00:00:00", None),
        ("01 Jan 1600 00:00:00", None),
        ("01 Jan 2026 24:00:00", None),
        ("01 Jan 2026 00:60:00", None),
        ("01 Jan 2026", None),
        ("Jan 2026 00:00:00", None),
        ("tomorrow", None),
        ("", None),
    ] {
        assert_eq!(date::unix_seconds(text.as_bytes()), seconds, "{text}");
    }
}

proptest! {
    #[test]
    fn no_line_puts_more_than_its_own_pair_into_a_request(line in "[ -~\t]{0,60}") {
        let mut rig = Rig::new();
        rig.take("/", &[&line]);
        let sent = rig.sent("/");
        prop_assert!(sent.split(';').count() <= 1, "{}", sent);
    }

    #[test]
    fn a_pair_comes_back_as_it_was(name in "[a-zA-Z0-9!#$%&'*+.^_`|~-]{1,40}", value in "[!-:<-~]{0,60}") {
        prop_assume!(!name.to_lowercase().starts_with("__"));
        let line = format!("{name}={value}");
        let cookie = SetCookie::parse(line.as_bytes(), NOW).unwrap();
        prop_assert_eq!((&cookie.name, cookie.value.as_slice()), (&name, value.as_bytes()));
    }

    #[test]
    fn any_date_is_read_as_it_was_written(seconds in 0..7_258_118_400_u64) {
        let (days, rest) = (seconds / 86_400, seconds % 86_400);
        // Howard Hinnant's days_from_civil, the other way.
        let z = days + 719_468;
        let (era, doe) = (z / 146_097, z % 146_097);
        let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
        let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
        let mp = (5 * doy + 2) / 153;
        let day = doy - (153 * mp + 2) / 5 + 1;
        let month = if mp < 10 { mp + 3 } else { mp - 9 };
        let year = yoe + era * 400 + u64::from(month <= 2);
        let names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let name = names[usize::try_from(month - 1).unwrap()];
        let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
        let text = format!("Xyz, {day:02} {name} {year} {hour:02}:{minute:02}:{second:02} GMT");
        prop_assert_eq!(date::unix_seconds(text.as_bytes()), Some(seconds), "{}", text);
    }
}

#[test]
fn cookies_make_no_more_searches_than_may_live_beside_each_other() {
    let released = crate::scrub::Released::default();
    let (keeping, endpoint) = (keeping("b1"), endpoint(Scheme::Https, "www.shop.test", 443));
    let mut standing = Vec::new();
    let mut set = |number: usize| {
        let place = Place {
            keeping: &keeping,
            endpoint: &endpoint,
            path: "/",
            now: NOW,
        };
        let line = format!("sid=value-{number:04}-0123456789");
        let taken = released.keep_cookies(place, std::iter::once(line.as_bytes()));
        // An answer that stands still keeps its search.
        standing.extend(released.scrubber());
        taken.is_news
    };
    let made = (0..100).filter(|number| set(*number)).count();
    assert_eq!(made, 16);
    drop(standing);
    let place = Place {
        keeping: &keeping,
        endpoint: &endpoint,
        path: "/",
        now: NOW,
    };
    let taken = released.keep_cookies(place, std::iter::once(&b"sid=another-0123456789"[..]));
    assert!(taken.is_news);
}
