// SPDX-License-Identifier: Apache-2.0
//! Patterns mean what they say, and odd ones are refused.

use super::*;

fn check(pattern: &str, path: &str, expected: bool) {
    let pattern = PathPattern::parse(pattern).unwrap();
    assert_eq!(
        pattern.is_match(&RequestPath::parse(path).unwrap()),
        expected,
        "{pattern} {path}"
    );
}

#[test]
fn exact_patterns_match_themselves_alone() {
    check("/", "/", true);
    check("/", "/a", false);
    check("/a/b", "/a/b", true);
    for path in ["/a/b/", "/a/b/c", "/a", "/a/B", "/a/bb", "/xa/b"] {
        check("/a/b", path, false);
    }
    check("/a/", "/a/", true);
    check("/a/", "/a", false);
}

#[test]
fn a_star_is_one_segment_that_is_not_empty() {
    check("/a/*/c", "/a/b/c", true);
    check("/a/*/c", "/a/b/b/c", false);
    check("/a/*", "/a/", false);
    check("/*", "/", false);
    check("/*", "/a", true);
    check("/*", "/a/b", false);
}

#[test]
fn two_stars_are_the_place_and_everything_below() {
    for path in ["/", "/a", "/a/b/c", "/a/"] {
        check("/**", path, true);
    }
    for path in ["/a", "/a/", "/a/b", "/a/b/c"] {
        check("/a/**", path, true);
    }
    for path in ["/ab", "/", "/b/a"] {
        check("/a/**", path, false);
    }
    check("/*/x/**", "/a/x/y", true);
}

// ATTACK: 077
#[test]
fn a_query_never_widens_a_pattern() {
    check("/public/**", "/secret?/public/", false);
    check("/public/**", "/public?next=/../secret", true);
}

#[test]
fn odd_patterns_are_refused() {
    for text in [
        "", "a", "*", "**", "/a?b", "/a*", "/*a", "/**/a", "/a**", "/***", "/a/**b", "/a//b",
        "/a/../b", "/a/./**", "//**", "/a//**", "/%61", "/a%2fb", "/a%2F**", "/a%2F*b", "/a%2F",
        "/a;b", "/a b", "/a#", "/%zz", "/%c3%a9", "/**?x",
    ] {
        assert!(PathPattern::parse(text).is_err(), "{text}");
    }
    let wrong = PathPattern::parse("/%61/**").unwrap_err();
    assert_eq!(wrong, PathPatternError::Spelling("/a/**".to_owned()));
}

#[test]
fn a_pattern_prints_as_it_was_read() {
    for text in [
        "/",
        "/**",
        "/a",
        "/a/",
        "/a/*/b/**",
        "/*",
        "/%C3%A9/%2A",
        "/*%2F*",
        "/a%2Fb/c%2F*%2Fd/**",
    ] {
        assert_eq!(PathPattern::parse(text).unwrap().to_string(), text);
    }
}

#[test]
fn covering_means_every_path_of_the_other() {
    let all = [
        "/",
        "/**",
        "/a",
        "/a/",
        "/a/*",
        "/a/**",
        "/*",
        "/*/**",
        "/a/b",
        "/b/**",
        "/*%2F*",
        "/a%2F*",
        "/a%2Fb",
        "/*%2F*/**",
        "/a/*%2Fb",
        "/a%2Fb%2F*",
    ];
    let paths = [
        "/",
        "/a",
        "/a/",
        "/a/b",
        "/a/b/",
        "/b",
        "/b/c",
        "/b/",
        "/c/d/e",
        "/a%2Fb",
        "/b%2Fb",
        "/a%2Fb/c",
        "/a/x%2Fb",
        "/a%2Fb%2Fc",
    ];
    for wide in all {
        for narrow in all {
            let (w, n) = (
                PathPattern::parse(wide).unwrap(),
                PathPattern::parse(narrow).unwrap(),
            );
            if !w.covers(&n) {
                continue;
            }
            for path in paths.map(|path| RequestPath::parse(path).unwrap()) {
                assert!(
                    !n.is_match(&path) || w.is_match(&path),
                    "{wide} {narrow} {path}"
                );
            }
        }
    }
    let pattern = |text| PathPattern::parse(text).unwrap();
    assert!(pattern("/**").covers(&pattern("/a/*")));
    assert!(pattern("/a/**").covers(&pattern("/a")));
    assert!(!pattern("/a").covers(&pattern("/a/**")));
}

// ATTACK: 075
#[test]
fn an_encoded_slash_is_meant_only_where_a_pattern_spells_it() {
    for pattern in [
        "/**",
        "/*",
        "/*/**",
        "/public/**",
        "/*/*",
        "/public/*",
        "/public/a/**",
    ] {
        for path in [
            "/public%2Fa",
            "/public/a%2Fb",
            "/public%2fa/b",
            "/public/a%2Fb/c",
        ] {
            check(pattern, path, false);
        }
    }
    check("/*%2F*", "/@scope%2fname", true);
    check("/@scope%2F*", "/@scope%2Fname", true);
    check("/@scope%2F*", "/@other%2Fname", false);
    check("/*%2F*/-/**", "/@scope%2Fname/-/name-1.tgz", true);
    check(
        "/projects/*%2F*/issues",
        "/projects/acme%2Fapp/issues",
        true,
    );
    for path in [
        "/@scope/name",
        "/@scope%2Fname/x",
        "/@a%2Fb%2Fc",
        "/a",
        "/@a%2Fb/c%2Fd",
    ] {
        check("/*%2F*", path, false);
    }
    check("/*%2F*/**", "/@a%2Fb/c%2Fd", false);
}
