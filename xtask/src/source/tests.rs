// SPDX-License-Identifier: Apache-2.0
//! The lexer against texts that would fool a search.

use super::*;

fn source(text: &str) -> Source {
    Source::new(Path::new("crates/x/src/x.rs"), text.to_owned())
}

#[test]
fn words_in_comments_literals_and_tests_are_not_code() {
    let text = r##"
// unsafe in a comment
/* unsafe /* nested */ unsafe */
const A: &str = "unsafe \" unsafe";
const B: &str = r#"unsafe " unsafe"#;
const C: char = '"'; const D: u8 = b'\''; const E: &[u8] = b"unsafe";
fn f<'a>(x: &'a str) -> &'a str { x }
unsafe fn real() {}
fn not_unsafe_word() {}
#[cfg(test)]
mod tests { unsafe fn g() {} }
"##;
    let source = source(text);
    let found = source.find("unsafe");
    assert_eq!(found.len(), 1, "{}", source.code);
    assert_eq!(source.line_of(found[0]), 8);
}

#[test]
fn functions_are_measured_with_their_parameters() {
    let text = "fn a() {}\npub fn b<T: Fn(u8) -> u8>(\n  x: (u8, u8),\n  y: &[T; 3],\n) -> u8\nwhere\n  T: X,\n{\n  1\n}\ntrait T { fn c(&self, x: u8); }\n";
    let functions = source(text).functions();
    let seen: Vec<_> = functions
        .iter()
        .map(|f| (f.name.as_str(), f.lines, f.parameters))
        .collect();
    assert_eq!(seen, [("a", 1, 0), ("b", 9, 2)]);
}

#[test]
fn test_modules_do_not_count_as_product_lines() {
    let text = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n  fn b() {}\n}\n";
    assert_eq!(source(text).product_lines(), 2);
    let declared = "fn a() {}\n#[cfg(test)]\nmod tests;\n";
    assert_eq!(source(declared).product_lines(), 1);
}

#[test]
fn files_of_tests_are_test_code() {
    let file = Source::new(
        Path::new("crates/x/src/y/tests.rs"),
        "unsafe fn f() {}".into(),
    );
    assert!(file.find("unsafe").is_empty());
    assert_eq!(file.product_lines(), 0);
}
