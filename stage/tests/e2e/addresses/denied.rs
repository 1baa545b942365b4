// SPDX-License-Identifier: Apache-2.0
//! Whether a name exists is nobody's business who may not reach it: a denied name that exists and
//! one that does not are told apart by nothing – not by the stub's answer, not by the refusal, not
//! by a question to a name server, which is the one thing that could take another time.

use super::*;
use std::collections::BTreeMap;
use torno_stage::unwalled::PYTHON;
use torno_stage::world::internet::Entry;

const ASK: &str = include_str!("denied.py");
/// Two names that the grant does not cover: one label deeper than its wildcard, as long as each
/// other, and one of them known to the name server.
const THERE: &str = "deep.there.far.test";
const NOWHERE: &str = "deep.where.far.test";
const PAIRS: usize = 200;

/// What one name was told, each time the same.
#[derive(Debug, Default)]
struct Told {
    shapes: BTreeSet<String>,
    said: BTreeSet<String>,
    refusals: Vec<f64>,
}

// ATTACK: 033
#[test]
fn a_denied_name_that_exists_and_one_that_does_not_are_told_apart_by_nothing() {
    at_each_level("denied names", |level| {
        let known = Case {
            label: "deep.there".to_owned(),
            entry: Entry::always(&["93.184.216.34"]),
            right: Right::Refused(&["host_not_granted"]),
        };
        let apart = Apart::new(&[known], "");
        let pairs = PAIRS.to_string();
        let command = [PYTHON, "-c", ASK, THERE, NOWHERE, &pairs];
        let ran = apart.run(level, &command).good();
        let mut told: BTreeMap<String, Told> = BTreeMap::new();
        for line in ran.stdout.lines() {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(row["in_pool"], true, "{row}");
            let told = told
                .entry(row["name"].as_str().unwrap().to_owned())
                .or_default();
            told.shapes.insert(row["shapes"].to_string());
            told.said.insert(row["said"].as_str().unwrap().to_owned());
            told.refusals.push(row["refusal"].as_f64().unwrap());
        }
        let (there, nowhere) = (&told[THERE], &told[NOWHERE]);
        assert_eq!(there.refusals.len(), PAIRS);
        // One form of the stub's answers, and one text of the refusal, for both.
        assert_eq!(there.shapes.len(), 1, "{there:?}");
        assert_eq!(there.shapes, nowhere.shapes);
        assert_eq!(there.said.len(), 1, "{:?}", there.said);
        assert_eq!(there.said, nowhere.said);
        let said = there.said.first().unwrap();
        assert!(said.starts_with("HTTP/1.1 403 "), "{said}");
        assert!(said.contains("host_not_granted"), "{said}");
        // Nobody was asked and nobody dialled: there is nothing that could take longer.
        assert_eq!(apart.internet.names.asked(), [], "{level}");
        assert!(apart.internet.dialled().is_empty());
        // Told, not judged: what a clock says on a busy machine is no promise.
        let order = order(&there.refusals, &nowhere.refusals);
        println!(
            "{level}: a refusal takes {:.2} ms and {:.2} ms (medians); the one that exists is \
             slower in {order:.3} of all pairs, 0.5 for no difference",
            1000.0 * median(&there.refusals),
            1000.0 * median(&nowhere.refusals),
        );
        apart.end();
    });
}

fn median(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// In how many of all pairs the first is the larger one: the statistic of a rank test.
fn order(first: &[f64], second: &[f64]) -> f64 {
    let larger: usize = first
        .iter()
        .map(|one| second.iter().filter(|other| one > *other).count())
        .sum();
    let pairs = u32::try_from(first.len() * second.len()).unwrap();
    f64::from(u32::try_from(larger).unwrap()) / f64::from(pairs)
}
