// SPDX-License-Identifier: Apache-2.0
//! What a session costs that does nothing, what a connection costs that waits, and what requests
//! leave behind: private memory of the processes that serve it.

use crate::memory::{descendants_named, private_bytes};
use crate::peer::Tools;
use crate::rows::Figure;
use crate::sandboxed::{self, Torno};
use crate::site::{SMALL, Site};
use anyhow::{Context, Result, bail};
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// MiB of private memory of an idle session's gate.
const IDLE_GATE_MIB: f64 = 8.0;
/// KiB of the gate's private memory for each connection that waits.
const IDLE_CONNECTION_KIB: f64 = 64.0;
/// Bytes of private memory of gate and notary for each request that is over.
const SLOPE_BYTES: f64 = 1.0;

/// Connections that wait.
const WAITING: u32 = 400;
/// Long enough for all of them to be there and to be looked at.
const HOLD_SECONDS: u32 = 12;
/// After so many requests every buffer has its size.
const WARM_REQUESTS: u64 = 100_000;
/// LIMIT of requests of the slope.
const REQUESTS: u64 = 1_000_000;
/// LIMIT: a machine that needs longer gets no figure.
const PATIENCE: Duration = Duration::from_secs(600);

/// Measures all of it.
///
/// # Errors
/// When site or Torno does not start, or a load fails.
pub fn measure(tools: &Tools) -> Result<Vec<Figure>> {
    let nginx = tools.find("nginx").context("no nginx for the site")?;
    let site = Site::start(&nginx, &tools.environment())?;
    let torno = Torno::start(&site)?;
    let idle = held(&torno, 1)?;
    let waiting = held(&torno, WAITING)?;
    let each = (waiting - idle) / f64::from(WAITING - 1);
    let mib = 1024.0 * 1024.0;
    Ok(vec![
        Figure::new("idle_gate_private", "MiB", idle / mib).at_most(IDLE_GATE_MIB),
        Figure::new("idle_connection", "KiB", each / 1024.0).at_most(IDLE_CONNECTION_KIB),
        slope(&torno, &site)?.at_most(SLOPE_BYTES),
    ])
}

/// Private bytes of the gate while so many connections wait, each after one request.
fn held(torno: &Torno, connections: u32) -> Result<f64> {
    let words = [
        format!("--path={}", SMALL.path),
        format!("--length={}", SMALL.bytes),
        format!("--connections={connections}"),
        format!("--hold={HOLD_SECONDS}"),
        "--warm=0".to_owned(),
        "--seconds=10".to_owned(),
    ];
    let child = torno.load(&words, SMALL)?;
    sleep(Duration::from_secs(u64::from(HOLD_SECONDS / 2)));
    let bytes = private_bytes(busy_gate(torno)?);
    good(child)?;
    Ok(count(bytes))
}

/// Bytes that gate and notary gained for each request between two moments of one load.
fn slope(torno: &Torno, site: &Site) -> Result<Figure> {
    let words = [
        format!("--path={}", SMALL.path),
        format!("--length={}", SMALL.bytes),
        "--connections=64".to_owned(),
        format!("--seconds={}", PATIENCE.as_secs()),
    ];
    let mut child = torno.load(&words, SMALL)?;
    let before = site.requests()?;
    let reach = |wanted: u64, child: &mut Child| {
        let begun = Instant::now();
        loop {
            let seen = site.requests()?.saturating_sub(before);
            if seen >= wanted {
                return Ok(seen);
            }
            if begun.elapsed() > PATIENCE {
                bail!("{seen} of {wanted} requests in {} s", PATIENCE.as_secs());
            }
            if let Some(status) = child.try_wait().context("the load is lost")? {
                bail!("the load ended with {status} after {seen} requests");
            }
            sleep(Duration::from_millis(200));
        }
    };
    let first = reach(WARM_REQUESTS, &mut child)?;
    let (gate, notary) = (busy_gate(torno)?, notary(torno)?);
    let held = || count(private_bytes(gate)) + count(private_bytes(notary));
    let held_before = held();
    let last = reach(WARM_REQUESTS + REQUESTS, &mut child)?;
    let gained = held() - held_before;
    crate::site::end(&mut child);
    Ok(Figure::new(
        "private_memory_for_each_request",
        "bytes",
        gained / count(last - first),
    ))
}

/// The gate that serves: another one waits for the next session.
fn busy_gate(torno: &Torno) -> Result<u32> {
    let gates = descendants_named(torno.pid()?, "tornod-gate");
    let busiest = gates.into_iter().max_by_key(|pid| private_bytes(*pid));
    busiest.context("no gate")
}

fn notary(torno: &Torno) -> Result<u32> {
    let all = descendants_named(torno.pid()?, "tornod-notary");
    all.first().copied().context("no notary")
}

fn good(child: Child) -> Result<()> {
    match sandboxed::report(child)?.fault() {
        Some(fault) => bail!("the load proves nothing: {fault}"),
        None => Ok(()),
    }
}

/// Sizes and counts of a run stay far below 2^53.
fn count(number: u64) -> f64 {
    let (high, low) = (number >> 32, number & u64::from(u32::MAX));
    let part = |n: u64| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
    part(high) * 4_294_967_296.0 + part(low)
}
