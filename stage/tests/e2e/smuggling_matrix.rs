// SPDX-License-Identifier: Apache-2.0
//! The smuggling matrix, the whole real way: payloads from inside a sandbox through its gate, judged
//! and recorded by the notary, dialled by the dialer, to two real servers. `cargo xtask campaign
//! smuggle` tries all servers, payloads and splits; this shows that nothing of the way is left out.

use crate::stage::{Stage, at_each_level_with};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::cell::RefCell;
use std::fmt::Write as _;
use std::time::Duration;
use tokio::runtime::Runtime;
use torno_stage::smuggle::origins::{FarEnd, Tools};
use torno_stage::smuggle::tee::{self, Kept};
use torno_stage::smuggle::wire;
use torno_stage::smuggle::{Counts, Judged, Speaks, Split, payloads};
use torno_stage::unwalled::PYTHON;
use torno_stage::world::authority::Authority;

const SEND: &str = include_str!("smuggling_matrix/send.py");
/// One that this repository is built with, and one that machines have.
const FAR_ENDS: [&str; 2] = ["hyper", "node"];
/// LIMIT: for each far end and level, spread over every class; the campaign has many more.
const PAYLOADS: usize = 96;
/// When nothing was seen for so long, nothing more comes.
const SETTLED: Duration = Duration::from_millis(700);

/// A far end behind the end of its TLS.
struct Behind {
    far: FarEnd,
    name: String,
    kept: Kept,
    port: u16,
}

impl Behind {
    fn start(name: &str, runtime: &Runtime, authority: &Authority) -> Result<Self, String> {
        let far = FarEnd::start(name, &Tools::default(), runtime.handle());
        let far = far.map_err(|error| format!("{error:#}"))?;
        let name = format!("{name}.torno.test");
        let kept = Kept::default();
        let tls = authority.server(&[&name]).unwrap();
        let listening = tee::listen(Some(tls), far.address, kept.clone());
        let port = runtime.block_on(listening).unwrap().port();
        Ok(Self {
            far,
            name,
            kept,
            port,
        })
    }

    /// The operator's pin.
    fn pin(&self, ca: &str) -> String {
        format!(
            "[[pin]]\nhost = \"{}\"\nport = 443\naddress = \"127.0.0.1:{}\"\nca = \"{ca}\"\n\n",
            self.name, self.port
        )
    }
}

/// The grant: what lies below `/ok/`, at each far end.
fn policy(far_ends: &[Behind]) -> String {
    let mut text = String::from(
        "[sandbox]\nworkspace = { path = \".\", mode = \"copy\" }\n\
         limits = { wall = \"10m\", memory = \"1GiB\", pids = 256 }\n\
         env = { SSLKEYLOGFILE = \"/workspace/.stage-keys\" }\n",
    );
    for far in far_ends {
        let _ = write!(
            text,
            "\n[[allow]]\nhost = \"{}\"\npaths = [\"/ok/**\"]\n\
             methods = [\"GET\", \"HEAD\", \"OPTIONS\", \"DELETE\", \"PATCH\", \"POST\", \"PUT\"]\n",
            far.name
        );
    }
    text
}

/// Every payload for every far end; the splits take turns.
fn lines(far_ends: &[Behind]) -> String {
    let mut lines = String::new();
    for far in far_ends {
        let splits = Split::ALL.iter().cycle();
        for (payload, split) in payloads(&far.name, PAYLOADS, 1).iter().zip(splits) {
            let writes = payload.writes(*split);
            let writes: Vec<String> = writes.iter().map(|w| STANDARD.encode(w)).collect();
            let line = serde_json::json!({
                "name": far.name,
                "http2": payload.speaks == Speaks::Http2,
                "writes": writes,
            });
            let _ = writeln!(lines, "{line}");
        }
    }
    lines
}

/// What the record says was decided at a host so: method, path and host. It keeps no query.
fn decided(records: &[serde_json::Value], host: &str, verdict: &str) -> Vec<Judged> {
    let events = records.iter().map(|record| &record["event"]);
    let mine = events.filter(|event| {
        event["kind"] == "request_decided"
            && event["verdict"] == verdict
            && event["endpoint"]["host"] == host
    });
    mine.map(|event| {
        let text = |name: &str| event[name].as_str().unwrap().to_owned();
        (text("method"), text("path"), host.to_owned())
    })
    .collect()
}

fn without_query(target: &mut String) {
    target.truncate(target.find('?').unwrap_or(target.len()));
}

impl Behind {
    /// What came of the payloads: what left and was seen since the marks, by the record's word.
    fn compare(&self, records: &[serde_json::Value], marks: &mut (usize, usize)) -> Counts {
        let (kept, seen) = (self.kept.connections(), self.far.book.seen());
        let mut fresh = seen[marks.1..].to_vec();
        fresh
            .iter_mut()
            .for_each(|seen| without_query(&mut seen.target));
        let left = kept[marks.0..].iter().map(|bytes| wire::read(bytes));
        let left = left.map(|mut read| {
            let all = read.iter_mut().flatten();
            all.for_each(|sent| without_query(&mut sent.target));
            read
        });
        *marks = (kept.len(), seen.len());
        assert!(fresh.iter().all(|seen| seen.target.starts_with("/ok/")));
        let judged = decided(records, &self.name, "allow");
        Counts::compare(judged, left.collect(), &fresh, true)
    }
}

// ATTACK: 045, 047, 049, 051, 052, 053, 054, 055, 059, 064, 073, 075, 077, 080
#[test]
fn no_far_end_sees_a_request_that_was_not_judged() {
    let runtime = Runtime::new().unwrap();
    let authority = Authority::new("Torno stage, authority of the matrix").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let ca = directory.path().join("ca.pem");
    std::fs::write(&ca, authority.pem()).unwrap();
    let started = FAR_ENDS.map(|name| Behind::start(name, &runtime, &authority));
    let far_ends: Vec<Behind> = match started.into_iter().collect() {
        Ok(far_ends) => far_ends,
        Err(why) => return println!("SKIP: smuggling matrix: {why}"),
    };
    let ca = ca.display().to_string();
    let pins: String = far_ends.iter().map(|far| far.pin(&ca)).collect();
    let marks = RefCell::new([(0, 0); FAR_ENDS.len()]);
    at_each_level_with("smuggling matrix", &pins, |stage, level| {
        stage.is_not_seen_whole("half of what is sent is no request");
        sent(stage, level, &far_ends);
        std::thread::sleep(SETTLED);
        let records = stage.daemon.records().unwrap();
        for (far, marks) in far_ends.iter().zip(marks.borrow_mut().iter_mut()) {
            let counts = far.compare(&records, marks);
            println!("{level}: {}: {counts:?}", far.name);
            assert!(counts.unjudged.is_empty(), "{:#?}", counts.unjudged);
            assert!(counts.passed > PAYLOADS / 4, "{}: {counts:?}", far.name);
            assert!(far.far.is_up());
        }
    });
}

/// Sends all from inside.
fn sent(stage: &Stage, level: &str, far_ends: &[Behind]) {
    let write = |name: &str, text: &str| stage.daemon.write_workspace(name, text).unwrap();
    write("torno.toml", &policy(far_ends));
    stage.daemon.must(&["trust", "--yes"]).unwrap();
    write("payloads", &lines(far_ends));
    let script = format!("exec {PYTHON} -c \"$0\" < payloads");
    let ran = stage.run(level, &["/bin/sh", "-c", &script, SEND]).good();
    let count = far_ends.len() * PAYLOADS;
    assert_eq!(ran.stdout.trim(), count.to_string(), "{ran:?}");
}
