// SPDX-License-Identifier: Apache-2.0
//! Where the time of a start goes; printed, not judged: `cargo test -- --ignored --nocapture latency`.

use crate::harness::{facts_for, spec};
use crate::inside::LEVELS;
use std::io;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use torno_sandbox::{SealedNetwork, StartInputs, StartStep, Watch, plan, start_watched};

struct Times(Vec<(StartStep, Instant)>);

impl Watch for Times {
    fn before(&mut self, step: StartStep) -> io::Result<()> {
        self.0.push((step, Instant::now()));
        Ok(())
    }
}

#[test]
#[ignore = "prints times"]
fn latency_of_each_step() {
    for level in LEVELS {
        let Some(facts) = facts_for(level) else {
            continue;
        };
        for ahead in [false, true] {
            let mut rows: Vec<Vec<Duration>> = vec![];
            for _ in 0..20 {
                let mut spec = spec(level);
                spec.limits.pids = 64;
                let plan = plan(&spec, &facts).unwrap();
                let network =
                    ahead.then(|| SealedNetwork::make(facts.nft.as_ref().unwrap()).unwrap());
                let (_host, inside) = UnixStream::pair().unwrap();
                let mut times = Times(vec![]);
                let inputs = StartInputs {
                    link: inside.into(),
                    workspace: None,
                    network,
                };
                let started = start_watched(&plan, inputs, &mut times).unwrap();
                let mut marks: Vec<Instant> = times.0.iter().map(|(_, at)| *at).collect();
                marks.push(Instant::now());
                let begun = Instant::now();
                started.handle.remove().unwrap();
                let mut row: Vec<Duration> =
                    marks.windows(2).map(|pair| pair[1] - pair[0]).collect();
                row.push(*marks.last().unwrap() - marks[0]);
                row.push(begun.elapsed());
                rows.push(row);
            }
            println!("{} network ahead: {ahead}", level.name());
            let names = StartStep::ALL
                .iter()
                .map(ToString::to_string)
                .chain(["start".into(), "remove".into()]);
            for (column, name) in names.enumerate() {
                let mut all: Vec<Duration> = rows.iter().map(|row| row[column]).collect();
                all.sort();
                println!("  {name}: median {:?} min {:?}", all[all.len() / 2], all[0]);
            }
        }
    }
}
