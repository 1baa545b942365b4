// SPDX-License-Identifier: Apache-2.0
//! Text that others chose (guests, records, repositories), made inert before a person sees it:
//! control, direction and invisible characters become visible escapes.

use std::fmt::Write as _;

/// One line of inert text: line ends and tabs are escaped too.
pub(crate) fn line(text: &str) -> String {
    escape(text, |_| false)
}

/// Several lines of inert text: `\n` and `\t` stay.
pub(crate) fn lines(text: &str) -> String {
    escape(text, |c| matches!(c, '\n' | '\t'))
}

/// Inert text of bytes that should be UTF-8; every other byte shows as `\xNN`.
pub(crate) fn bytes(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        shown.push_str(&lines(chunk.valid()));
        for byte in chunk.invalid() {
            // Writing to a String can't fail.
            let _ = write!(shown, "\\x{byte:02x}");
        }
    }
    shown
}

/// JSON that means the same and is inert on a terminal: only strings can hold such characters.
pub(crate) fn json(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_inert(character) {
            shown.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a String can't fail.
            let _ = write!(shown, "\\u{unit:04x}");
        }
    }
    shown
}

/// An argument vector as one would type it: words with odd characters stand in quotes.
pub(crate) fn words(argv: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@%+,".contains(c);
    let word = |word: &String| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", line(word).replace('\'', "'\\''"))
        }
    };
    argv.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn escape(text: &str, keeps: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if keeps(character) || is_inert(character) {
            shown.push(character);
        } else {
            shown.extend(character.escape_unicode());
        }
    }
    shown
}

/// Shows as itself and changes nothing around it: no control, no line separator, no direction mark,
/// no invisible joiner or filler, no variation selector, no tag (attack case 183).
fn is_inert(character: char) -> bool {
    !(character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        ))
}

#[cfg(test)]
mod tests {
    use super::*;

    // ATTACK: 183
    #[test]
    fn invisible_and_direction_characters_become_visible() {
        for odd in "\u{202e}\u{2066}\u{200b}\u{ad}\u{e0100}\u{1d173}\u{115f}\u{e0041}\u{85}".chars()
        {
            let shown = line(&format!("a{odd}b"));
            assert!(shown.is_ascii(), "{shown:?}");
            assert!(shown.starts_with("a\\u{"), "{shown:?}");
        }
        assert_eq!(line("Straße 日本 ✓"), "Straße 日本 ✓");
    }

    // ATTACK: 184
    #[test]
    fn nothing_overwrites_the_line_that_a_person_reads() {
        assert_eq!(line("bad\r\x1b[2Kls"), "bad\\u{d}\\u{1b}[2Kls");
        assert_eq!(lines("a\n\tb\x08"), "a\n\tb\\u{8}");
        assert_eq!(bytes(b"a\xff\n"), "a\\xff\n");
    }

    // ATTACK: 183
    #[test]
    fn json_means_the_same_and_holds_nothing_odd() {
        let value = serde_json::json!({ "a": "x\u{9b}6n\u{7f}\u{202e}\u{e0041}\n日本" });
        let text = json(&value.to_string());
        assert!(text.chars().all(is_inert), "{text:?}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            value
        );
    }

    #[test]
    fn words_are_told_apart() {
        let argv = ["sh", "-c", "echo it's", ""].map(str::to_owned);
        assert_eq!(words(&argv), "sh -c 'echo it'\\''s' ''");
    }
}
