// SPDX-License-Identifier: Apache-2.0
//! The smuggling matrix, the whole real way: payloads from inside a sandbox through its gate, judged
//! and recorded by the notary, to three real servers. `cargo xtask campaign smuggle` tries all
//! servers, payloads and splits; this shows that nothing of the way is left out there.

use crate::stage::{Stage, at_each_level_with};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::cell::RefCell;
use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use torno_stage::smuggle::origins::{FarEnd, Tools};
use torno_stage::smuggle::tee::{self, Kept};
use torno_stage::smuggle::wire;
use torno_stage::smuggle::{Counts, Judged, Speaks, Split, payloads};
use torno_stage::unwalled::PYTHON;
use torno_stage::world::authority::Authority;

const SEND: &str = include_str!("smuggling_matrix/send.py");
/// One of each language that servers are written in here.
const FAR_ENDS: [&str; 3] = ["hyper", "node", "gunicorn"];
/// LIMIT: for each far end and level; the campaign has eight times as many.
const PAYLOADS: usize = 150;
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
    fn start(name: &str, tools: &Tools, runtime: &Runtime, authority: &Authority) -> Self {
        let far = FarEnd::start(name, tools, runtime.handle()).unwrap();
        let name = format!("{name}.torno.test");
        let kept = Kept::default();
        let tls = authority.server(&[&name]).unwrap();
        let listening = tee::listen(Some(tls), far.address, kept.clone());
        let port = runtime.block_on(listening).unwrap().port();
        Self {
            far,
            name,
            kept,
            port,
        }
    }

    /// The operator's pin.
    fn pin(&self, ca: &str) -> String {
        format!(
            "[[pin]]\nhost = \"{}\"\nport = 443\naddress = \"127.0.0.1:{}\"\nca = \"{ca}\"\n\n",
            self.name, self.port
        )
    }
}

/// Python's servers, or why they can't be had here.
fn tools() -> Result<(Tools, TempDir), String> {
    let directory = tempfile::tempdir().unwrap();
    let mut install = Command::new(PYTHON);
    install.args(["-m", "pip", "install", "--quiet", "--no-input", "--target"]);
    let to = directory.path().join("python");
    let installed = install.arg(to).arg("gunicorn").output().unwrap();
    if !installed.status.success() {
        return Err(String::from_utf8_lossy(&installed.stderr).into_owned());
    }
    let tools = Tools {
        directory: Some(directory.path().to_path_buf()),
    };
    Ok((tools, directory))
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

/// Every payload for every far end, in two splits.
fn lines(far_ends: &[Behind]) -> String {
    let mut lines = String::new();
    for far in far_ends {
        for payload in payloads(&far.name, PAYLOADS, 1) {
            for split in [Split::Whole, Split::Lines] {
                let writes = payload.writes(split);
                let writes: Vec<String> = writes.iter().map(|w| STANDARD.encode(w)).collect();
                let line = serde_json::json!({
                    "name": far.name,
                    "http2": payload.speaks == Speaks::Http2,
                    "writes": writes,
                });
                let _ = writeln!(lines, "{line}");
            }
        }
    }
    lines
}

/// What the record says was allowed at a host. It keeps no text of a query.
fn judged(stage: &Stage, host: &str) -> Vec<Judged> {
    let records = stage.daemon.records().unwrap();
    let events = records.iter().map(|record| &record["event"]);
    let mine = events.filter(|event| {
        event["kind"] == "request_decided"
            && event["verdict"] == "allow"
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

// ATTACK: 045, 047, 049, 051, 052, 053, 054, 055, 059, 064, 073, 075, 077, 080
#[test]
fn no_far_end_sees_a_request_that_was_not_judged() {
    let (tools, _packages) = match tools() {
        Ok(tools) => tools,
        Err(why) => return println!("SKIP: smuggling matrix: {why}"),
    };
    let runtime = Runtime::new().unwrap();
    let authority = Authority::new("Torno stage, authority of the matrix").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let ca = directory.path().join("ca.pem");
    std::fs::write(&ca, authority.pem()).unwrap();
    let start = |name| Behind::start(name, &tools, &runtime, &authority);
    let far_ends = FAR_ENDS.map(start);
    let ca = ca.display().to_string();
    let pins: String = far_ends.iter().map(|far| far.pin(&ca)).collect();
    let before = RefCell::new([(0, 0); FAR_ENDS.len()]);
    at_each_level_with("smuggling matrix", &pins, |stage, level| {
        stage.is_not_seen_whole("half of what is sent is no request");
        stage
            .daemon
            .write_workspace("torno.toml", &policy(&far_ends))
            .unwrap();
        stage.daemon.must(&["trust", "--yes"]).unwrap();
        stage
            .daemon
            .write_workspace("payloads", &lines(&far_ends))
            .unwrap();
        let script = format!("exec {PYTHON} -c \"$0\" < payloads");
        let ran = stage.run(level, &["/bin/sh", "-c", &script, SEND]).good();
        let count = FAR_ENDS.len() * PAYLOADS * 2;
        assert_eq!(ran.stdout.trim(), count.to_string(), "{ran:?}");
        std::thread::sleep(SETTLED);
        for (far, mark) in far_ends.iter().zip(before.borrow_mut().iter_mut()) {
            let (kept, seen) = (far.kept.connections(), far.far.book.seen());
            let mut fresh = seen[mark.1..].to_vec();
            fresh
                .iter_mut()
                .for_each(|seen| without_query(&mut seen.target));
            let left = kept[mark.0..].iter().map(|bytes| wire::read(bytes));
            let left = left.map(|mut read| {
                let all = read.iter_mut().flatten();
                all.for_each(|sent| without_query(&mut sent.target));
                read
            });
            *mark = (kept.len(), seen.len());
            let counts = Counts::compare(judged(stage, &far.name), left.collect(), &fresh);
            println!("{level}: {}: {counts:?}", far.name);
            assert!(
                counts.unjudged.is_empty(),
                "{}: {:#?}",
                far.name,
                counts.unjudged
            );
            assert!(counts.passed > PAYLOADS / 4, "{}: {counts:?}", far.name);
            assert!(fresh.iter().all(|seen| seen.target.starts_with("/ok/")));
            assert!(far.far.is_up());
        }
    });
}
