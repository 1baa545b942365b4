// SPDX-License-Identifier: Apache-2.0
//! How many records a second this disk takes: `append_rate DIRECTORY` makes a record in an empty
//! directory of mode 0700 and prints records a second for each way of writing, and how fast it is
//! read back.

use std::path::Path;
use std::time::Instant;
use torno_audit::record::Verdict;
use torno_audit::{
    Durability, Entry, Event, LongText, Opening, Recorder, RequestDecided, ShortText, SigningKey,
};
use torno_policy::decision::Layer;
use torno_policy::facts;
use torno_policy::names::{Endpoint, Host, Method, Port, Scheme, SessionId};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args_os()
        .nth(1)
        .ok_or("usage: append_rate DIRECTORY")?;
    let directory = Path::new(&directory);
    for (durability, batch, rounds) in [
        (Durability::Written, 1, 50_000),
        (Durability::Written, 16, 5_000),
        (Durability::Synced, 1, 300),
        (Durability::Synced, 64, 300),
        (Durability::Synced, 512, 100),
    ] {
        let opening = Opening {
            at_ms: 0,
            software: ShortText::new("append_rate"),
        };
        let key = SigningKey::from_seed(&[1; 32]);
        let start = Instant::now();
        let mut recorder = Recorder::open(directory, key, opening)?;
        println!("opened in {:.3} s", start.elapsed().as_secs_f64());
        let entry = sample()?;
        let start = Instant::now();
        for _ in 0..rounds {
            let entries = (0..batch).map(|_| (entry.clone(), ())).collect();
            drop(recorder.append(entries, durability)?);
        }
        recorder.sync()?;
        let seconds = start.elapsed().as_secs_f64();
        let records = f64::from(rounds * batch);
        println!(
            "{durability:?}, batches of {batch}: {:.0} records/s, \
                 {:.0} µs a batch",
            records / seconds,
            seconds * 1e6 / f64::from(rounds),
        );
        recorder.close()?;
    }
    let key = SigningKey::from_seed(&[1; 32]);
    let start = Instant::now();
    let report = torno_audit::verify(directory, key.public(), &[])?;
    let seconds = start.elapsed().as_secs_f64();
    println!("verified {} records in {seconds:.2} s", report.records);
    Ok(())
}

fn sample() -> Result<Entry, Box<dyn std::error::Error>> {
    let decided = RequestDecided {
        entry: facts::Entry::Captured,
        endpoint: Endpoint {
            scheme: Scheme::Https,
            host: Host::parse("api.example.test")?,
            port: Port::HTTPS,
        },
        method: Method::parse("GET").ok_or("method")?,
        path: LongText::new("/repos/acme/app/issues/12345"),
        query_bytes: Some(14),
        verdict: Verdict::Allow,
        layer: Layer::Session,
        rule: ShortText::new("grant.allow[3]"),
        reason: None,
        credential: None,
        binding: None,
        git: None,
        content: None,
    };
    Ok(Entry {
        at_ms: 1_700_000_000_000,
        session: Some(SessionId::parse("abcdefghijklmnopqrstuvwxyz")?),
        event: Event::RequestDecided(Box::new(decided)),
    })
}
