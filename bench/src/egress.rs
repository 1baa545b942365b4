// SPDX-License-Identifier: Apache-2.0
//! The way out: the same load through Torno and through each peer, in turns, so that whatever else
//! the machine does falls on all of them.

use crate::load_report::LoadReport;
use crate::memory::{Cost, Watch};
use crate::peer::{self, Kind, Peer, Tools};
use crate::rows::{Measured, REVERSE_PROXY, Row, TORNO, Target, rows};
use crate::sandboxed::{self, Torno};
use crate::site::{Body, LARGE, SECRET, SMALL, Site};
use anyhow::{Context, Result};
use std::process::{Child, Command, Stdio};

/// What has to hold (`docs/benchmarks.md`).
pub const TARGETS: [Target; 7] = [
    Target::RatioAtLeast("requests_per_second_64", "mitmproxy", 25.0),
    Target::RatioAtLeast("requests_per_second_64", "squid", 1.5),
    Target::RatioAtLeast("requests_per_second_64", REVERSE_PROXY, 0.75),
    Target::RatioAtLeast("requests_per_second_16_new", REVERSE_PROXY, 0.75),
    Target::RatioAtLeast("requests_per_second_16_new", "squid", 3.0),
    Target::RatioAtLeast("throughput_100_mb", REVERSE_PROXY, 1.0),
    Target::MoreByAtMost("latency_p99_1", REVERSE_PROXY, 0.3),
];

/// What peers are sent in place of the secret: as long as one of Torno's placeholders.
const PLACEHOLDER: &str = "sk-live-placeholderplaceholderplaceho";

/// How long and how often.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Rounds of each case.
    pub rounds: u32,
    /// Seconds that count of each round.
    pub seconds: f64,
    /// Seconds of warm-up.
    pub warm: f64,
}

/// One shape of load.
#[derive(Debug, Clone, Copy)]
struct Case {
    name: &'static str,
    connections: u32,
    fresh: bool,
    body: Body,
}

const fn case(name: &'static str, connections: u32, fresh: bool, body: Body) -> Case {
    Case {
        name,
        connections,
        fresh,
        body,
    }
}

const CASES: [Case; 5] = [
    case("1", 1, false, SMALL),
    case("16", 16, false, SMALL),
    case("64", 64, false, SMALL),
    case("16_new", 16, true, SMALL),
    case("100_mb", 1, false, LARGE),
];

/// The measurements of one case.
#[derive(Debug, Default)]
struct Figures {
    rate: Measured,
    p50: Measured,
    p99: Measured,
    megabytes: Measured,
    memory: Measured,
    cpu: Measured,
}

impl Figures {
    fn all(&mut self) -> [&mut Measured; 6] {
        [
            &mut self.rate,
            &mut self.p50,
            &mut self.p99,
            &mut self.megabytes,
            &mut self.memory,
            &mut self.cpu,
        ]
    }

    fn add(&mut self, name: &str, outcome: &Outcome) {
        match &outcome.result {
            Ok(report) => {
                self.rate.add(name, report.requests_per_second());
                self.p50.add(name, f64::from(report.p50_us) / 1000.0);
                self.p99.add(name, f64::from(report.p99_us) / 1000.0);
                self.megabytes.add(name, report.megabytes_per_second());
                self.memory.add(name, outcome.cost.peak_mib);
                let each = report.each_of(outcome.cost.cpu_seconds);
                self.cpu.add(name, each * 1e6);
            }
            Err(why) => self.all().into_iter().for_each(|m| m.invalid(name, why)),
        }
    }
}

/// One round of one contender.
#[derive(Debug)]
struct Outcome {
    result: Result<LoadReport, String>,
    cost: Cost,
}

/// Everything that runs during the bench.
struct Field {
    site: Site,
    torno: Torno,
    peers: Vec<Peer>,
    effort: Effort,
}

/// A part of the bench; a name that is left out means all.
#[derive(Debug, Clone, Default)]
pub struct Only {
    /// The case of this name.
    pub case: Option<String>,
    /// Torno and these contenders, separated by commas.
    pub peers: Option<String>,
}

impl Only {
    fn has(named: Option<&String>, name: &str) -> bool {
        named.is_none_or(|named| named.split(',').any(|one| one == name))
    }
}

/// Measures all cases, or a part of them.
///
/// # Errors
/// When the site or Torno does not start; a missing peer is said loudly and left out.
pub fn measure(tools: &Tools, effort: Effort, only: &Only) -> Result<Vec<Row>> {
    let nginx = tools.find("nginx").context("no nginx for the site")?;
    let site = Site::start(&nginx, &tools.environment())?;
    let torno = Torno::start(&site)?;
    let mut peers = Vec::new();
    let wanted = |kind: &Kind| Only::has(only.peers.as_ref(), kind.name());
    for kind in peer::ALL.into_iter().filter(wanted) {
        match Peer::start(kind, &site, tools) {
            Ok(peer) => peers.push(peer),
            Err(error) => eprintln!("SKIPPED: peer {}: {error:#}", kind.name()),
        }
    }
    let field = Field {
        site,
        torno,
        peers,
        effort,
    };
    let mut result = Vec::new();
    for case in CASES
        .iter()
        .filter(|c| Only::has(only.case.as_ref(), c.name))
    {
        result.extend(field.case(case));
    }
    Ok(result)
}

impl Field {
    fn case(&self, case: &Case) -> Vec<Row> {
        let mut figures = Figures::default();
        for round in 1..=self.effort.rounds {
            let mut line = format!("{} round {round}:", case.name);
            let mut note = |name: &str, outcome: &Outcome| {
                let shown = match &outcome.result {
                    Ok(report) if case.body == LARGE => {
                        format!("{:.0} MB/s", report.megabytes_per_second())
                    }
                    Ok(report) => format!("{:.0}/s", report.requests_per_second()),
                    Err(why) => format!("invalid ({why})"),
                };
                line.push_str(&format!(" {name} {shown};"));
                figures.add(name, outcome);
            };
            note(TORNO, &self.torno(case));
            for peer in &self.peers {
                note(peer.kind.name(), &self.peer(peer, case));
            }
            eprintln!("{line}");
        }
        let name = |what: &str| format!("{what}_{}", case.name);
        let memory = rows(&name("peak_memory"), "MiB", &figures.memory);
        let mut result = if case.body == LARGE {
            rows(&name("throughput"), "MB/s", &figures.megabytes)
        } else {
            [
                rows(&name("requests_per_second"), "requests/s", &figures.rate),
                rows(&name("latency_p50"), "ms", &figures.p50),
                rows(&name("latency_p99"), "ms", &figures.p99),
            ]
            .concat()
        };
        let cpu = rows(&name("cpu_per_request"), "µs", &figures.cpu);
        // The client's own process is nobody's cost.
        let cost = memory.into_iter().chain(cpu);
        result.extend(cost.filter(|row| row.peer_name != "direct"));
        result
    }

    fn words(&self, case: &Case) -> Vec<String> {
        let mut words = vec![
            format!("--path={}", case.body.path),
            format!("--length={}", case.body.bytes),
            format!("--connections={}", case.connections),
            format!("--warm={}", self.effort.warm),
            format!("--seconds={}", self.effort.seconds),
        ];
        if case.fresh {
            words.push("--fresh".to_owned());
        }
        words
    }

    fn torno(&self, case: &Case) -> Outcome {
        let before = self.torno.records();
        let run = || {
            let child = self.torno.load(&self.words(case), case.body)?;
            Ok((vec![self.torno.pid()?, child.id()], child))
        };
        let mut outcome = self.counted(run);
        outcome.result = outcome.result.and_then(|report| {
            let kinds = before.and_then(|before| self.torno.kinds_from(before));
            let kinds = kinds.map_err(|error| format!("{error:#}"))?;
            let of = |kind: &str| kinds.get(kind).copied().unwrap_or_default();
            for kind in ["request_decided", "credential_released"] {
                if of(kind) != report.sent {
                    return Err(format!(
                        "{} requests, {} records of kind {kind}",
                        report.sent,
                        of(kind)
                    ));
                }
            }
            Ok(report)
        });
        outcome
    }

    fn peer(&self, peer: &Peer, case: &Case) -> Outcome {
        self.counted(|| {
            let token = match peer.kind {
                Kind::Direct => SECRET,
                Kind::Mitmproxy | Kind::Squid | Kind::Hudsucker | Kind::Haproxy | Kind::Nginx => {
                    PLACEHOLDER
                }
            };
            let child = Command::new(sandboxed::generator()?)
                .args(peer.kind.way())
                .arg("--ca")
                .arg(self.site.authority())
                .arg("--body")
                .arg(self.site.www().join(case.body.block))
                .args(self.words(case))
                .env_clear()
                .env("API_TOKEN", token)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .context("cannot start the load")?;
            Ok((peer.pid().into_iter().collect(), child))
        })
    }

    /// Runs a load, watches the memory, and holds its report against the far end's own count: the
    /// site answers 200 only to the real secret.
    fn counted(&self, run: impl FnOnce() -> Result<(Vec<u32>, Child)>) -> Outcome {
        let mut cost = Cost::default();
        let judged = || -> Result<Result<LoadReport, String>> {
            let before = self.site.requests()?;
            let (processes, child) = run()?;
            let watch = Watch::start(processes);
            let report = sandboxed::report(child);
            cost = watch.end();
            let report = report?;
            // The question before counts as one of the site's requests.
            let seen = self.site.requests()?.saturating_sub(before + 1);
            if let Some(fault) = report.fault() {
                return Ok(Err(fault));
            }
            if seen != report.sent {
                return Ok(Err(format!(
                    "{} requests, the far end saw {seen}",
                    report.sent
                )));
            }
            Ok(Ok(report))
        };
        let result = judged().unwrap_or_else(|error| Err(format!("{error:#}")));
        Outcome { result, cost }
    }
}
