// SPDX-License-Identifier: Apache-2.0
//! How cost grows: the time of a decision with the number of rules, and rate and latency with the
//! number of sessions and of live connections.

use crate::load_report::LoadReport;
use crate::memory::Watch;
use crate::peer::Tools;
use crate::rows::Figure;
use crate::sandboxed::{self, Torno};
use crate::site::{SMALL, Site};
use anyhow::{Context, Result, bail};
use std::fmt::Write as _;
use std::process::Child;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use torno_policy::decide::{Layers, decide};
use torno_policy::decision::Decision;
use torno_policy::document::{Presets, parse};
use torno_policy::facts::{Act, Entry, RequestFacts};
use torno_policy::names::{
    Endpoint, Generation, Host, Method, Port, RequestPath, Scheme, SessionId,
};
use torno_policy::organisation::Organisation;
use torno_policy::standing::{Phase, Standing, State};

const RULES: [u32; 4] = [1, 10, 100, 1_000];
const SESSIONS: [u32; 5] = [1, 10, 50, 100, 200];
const CONNECTIONS: [u32; 5] = [1, 64, 500, 1_000, 2_000];
/// A session holds at most 512.
const CONNECTIONS_OF_ONE: u32 = 500;
/// With a thousand rules a decision may take this much longer than with one.
const FLAT: f64 = 1.5;
const DECISIONS: u32 = 20_000;
const SECONDS: f64 = 4.0;

/// Measures all three.
///
/// # Errors
/// When site or Torno does not start, or a load fails.
pub fn measure(tools: &Tools) -> Result<Vec<Figure>> {
    let mut figures = rules()?;
    let nginx = tools.find("nginx").context("no nginx for the site")?;
    let site = Site::start(&nginx, &tools.environment())?;
    let torno = Torno::start(&site)?;
    for sessions in SESSIONS {
        let loads = vec![1; usize::try_from(sessions).unwrap_or_default()];
        figures.extend(or_why(&torno, &format!("{sessions}_sessions"), &loads));
    }
    for connections in CONNECTIONS {
        let mut loads = Vec::new();
        let mut left = connections;
        while left > 0 {
            loads.push(left.min(CONNECTIONS_OF_ONE));
            left -= left.min(CONNECTIONS_OF_ONE);
        }
        figures.extend(or_why(
            &torno,
            &format!("{connections}_connections"),
            &loads,
        ));
    }
    Ok(figures)
}

/// The time of one decision, by rules of the grant. The request is for the last of them.
fn rules() -> Result<Vec<Figure>> {
    let organisation = Organisation::shipped();
    let mut figures = Vec::new();
    let mut first = None;
    for rules in RULES {
        let mut text = String::new();
        for n in 0..rules {
            // Half of them are for the same host.
            let host = if n % 2 == 0 { 0 } else { n };
            writeln!(
                text,
                "[[allow]]\nhost = \"h{host}.example.org\"\npaths = [\"/v1/project{n}/**\"]"
            )?;
        }
        let grant = parse(&text, &Presets::shipped()).map_err(|e| anyhow::anyhow!(e.message))?;
        let last = rules - 1;
        let host = if last % 2 == 0 { 0 } else { last };
        let standing = standing()?;
        let layers = Layers {
            standing: Some(&standing),
            asker: Generation(1),
            organisation: &organisation,
            grant: &grant,
            bindings: &[],
            placeholders: &[],
            tripwires: &[],
            now: 0,
        };
        let act = Act::Request(request(host, last)?);
        let began = Instant::now();
        for _ in 0..DECISIONS {
            if !matches!(decide(&layers, &act), Decision::Allow(_)) {
                bail!("the request that is measured is not allowed");
            }
        }
        let each = began.elapsed().as_secs_f64() * 1e9 / f64::from(DECISIONS);
        let flat = *first.get_or_insert(each) * FLAT;
        figures.push(Figure::new(format!("decision_with_{rules}_rules"), "ns", each).at_most(flat));
    }
    Ok(figures)
}

fn standing() -> Result<Standing> {
    Ok(Standing {
        session: SessionId::parse("s1").context("a session's name")?,
        generation: Generation(1),
        state: State::Running,
        phase: Phase::Locked,
    })
}

fn request(host: u32, project: u32) -> Result<RequestFacts> {
    Ok(RequestFacts {
        entry: Entry::Captured,
        endpoint: Endpoint {
            scheme: Scheme::Https,
            host: Host::parse(&format!("h{host}.example.org")).context("a host")?,
            port: Port::HTTPS,
        },
        method: Method::parse("GET").context("a method")?,
        path: RequestPath::parse(&format!("/v1/project{project}/items")).context("a path")?,
        websocket: false,
        presented: Vec::new(),
        own_credentials: Vec::new(),
        git: None,
        content: None,
        body: None,
    })
}

/// A size that can't be measured takes its own figures along, and nothing else.
fn or_why(torno: &Torno, name: &str, loads: &[u32]) -> Vec<Figure> {
    let figures = loaded(torno, name, loads).unwrap_or_else(|error| {
        vec![Figure {
            value: None,
            invalid: Some(format!("{error:#}")),
            ..Figure::new(format!("requests_with_{name}"), "requests/s", 0.0)
        }]
    });
    if let Some(first) = figures.first() {
        eprintln!("{}: {:?} {}", first.metric, first.value, first.unit);
    }
    figures
}

/// Sessions with so many connections each, all at once: their rate together, their latency, and
/// the memory of all of Torno.
#[expect(
    clippy::disallowed_methods,
    reason = "loads that begin at one time need the clock"
)]
fn loaded(torno: &Torno, name: &str, loads: &[u32]) -> Result<Vec<Figure>> {
    let count = u32::try_from(loads.len()).unwrap_or(u32::MAX);
    // They start first, and then begin together.
    let starts = Duration::from_secs(3) + Duration::from_millis(150) * count;
    let begin = SystemTime::now() + starts;
    let begin = begin.duration_since(UNIX_EPOCH).context("no clock")?;
    let children = loads.iter().map(|connections| {
        let words = [
            format!("--path={}", SMALL.path),
            format!("--length={}", SMALL.bytes),
            format!("--connections={connections}"),
            format!("--not-before={}", begin.as_secs_f64()),
            // All handshakes come before what counts.
            format!("--warm={}", 2 + loads.iter().sum::<u32>() / 400),
            format!("--seconds={SECONDS}"),
        ];
        torno.load(&words, SMALL)
    });
    let children: Vec<Child> = children.collect::<Result<_>>()?;
    let watch = Watch::start(vec![torno.pid()?]);
    let reports: Vec<LoadReport> = children
        .into_iter()
        .map(sandboxed::report)
        .collect::<Result<_>>()?;
    let cost = watch.end();
    if let Some(fault) = reports.iter().find_map(LoadReport::fault) {
        bail!("a load proves nothing: {fault}");
    }
    let rate: f64 = reports.iter().map(LoadReport::requests_per_second).sum();
    let mut p50: Vec<u32> = reports.iter().map(|report| report.p50_us).collect();
    p50.sort_unstable();
    let p50 = p50.get(p50.len() / 2).copied().unwrap_or_default();
    let p99 = reports.iter().map(|report| report.p99_us).max();
    Ok(vec![
        Figure::new(format!("requests_with_{name}"), "requests/s", rate),
        Figure::new(format!("p50_with_{name}"), "ms", f64::from(p50) / 1e3),
        Figure::new(
            format!("p99_with_{name}"),
            "ms",
            f64::from(p99.unwrap_or_default()) / 1e3,
        ),
        Figure::new(format!("memory_with_{name}"), "MiB", cost.peak_mib),
    ])
}
