// SPDX-License-Identifier: Apache-2.0
//! Purpose: `torno-load`, a load generator that checks what it gets: statuses, lengths and each
//! byte of each body, over verified TLS. It runs inside a sandbox as well as outside of one.
//!
//! Trust: it is workload: what it prints counts only beside what the far end and the record say.
//!
//! Start reading at [`client`].

mod answer;
mod client;
mod dial;

use anyhow::{Context, Result};
use clap::Parser;
use client::{Job, Tally};
use dial::{Dialer, Way};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use torno_bench::load_report::LoadReport;

/// Sends requests and checks the answers; prints one line of JSON.
#[derive(Debug, Parser)]
struct Arguments {
    /// Name of the far end: SNI, Host and what a proxy is asked for
    #[arg(long)]
    name: String,
    /// Dial this instead of NAME:443
    #[arg(long)]
    dial: Option<String>,
    /// Ask this proxy by CONNECT
    #[arg(long, conflicts_with = "dial")]
    proxy: Option<String>,
    /// Roots that count; the file that `SSL_CERT_FILE` names when left out
    #[arg(long)]
    ca: Option<PathBuf>,
    /// Variable with what is sent as bearer token
    #[arg(long, default_value = "API_TOKEN")]
    token: String,
    /// The path
    #[arg(long)]
    path: String,
    /// Each body is this file, repeated to `--length`
    #[arg(long)]
    body: PathBuf,
    /// Bytes of each body
    #[arg(long)]
    length: u64,
    /// Connections at once
    #[arg(long, default_value_t = 1)]
    connections: usize,
    /// A connection for each request
    #[arg(long)]
    fresh: bool,
    /// Seconds that don't count, at first
    #[arg(long, default_value_t = 1.0)]
    warm: f64,
    /// No request before this time, in Unix seconds
    #[arg(long, default_value_t = 0.0)]
    not_before: f64,
    /// One request on each connection, which then waits so many seconds
    #[arg(long)]
    hold: Option<f64>,
    /// Seconds that count
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no runtime")?;
    let report = tokio::task::LocalSet::new().block_on(&runtime, run(&arguments))?;
    println!(
        "{}",
        serde_json::to_string(&report).context("no JSON of the report")?
    );
    Ok(())
}

/// Waits until a time of day; one that is over already is no wait.
#[expect(
    clippy::disallowed_methods,
    reason = "loads that begin at one time need the clock"
)]
async fn wait_until(unix_seconds: f64) {
    let wanted = UNIX_EPOCH + Duration::from_secs_f64(unix_seconds);
    let left = wanted.duration_since(SystemTime::now());
    tokio::time::sleep(left.unwrap_or_default()).await;
}

async fn run(arguments: &Arguments) -> Result<LoadReport> {
    let way = match (&arguments.proxy, &arguments.dial) {
        (Some(proxy), _) => Way::Proxy(proxy.clone()),
        (None, Some(dial)) => Way::Direct(dial.clone()),
        (None, None) => Way::Direct(format!("{}:443", arguments.name)),
    };
    let token = std::env::var(&arguments.token)
        .with_context(|| format!("{} is not set", arguments.token))?;
    let roots = arguments.ca.clone();
    let roots = roots.or_else(|| std::env::var_os("SSL_CERT_FILE").map(PathBuf::from));
    let roots = roots.context("no --ca, and SSL_CERT_FILE is not set")?;
    let dialer = Dialer::new(&arguments.name, way, &roots).await?;
    let body = std::fs::read(&arguments.body).context("no file of the body")?;
    anyhow::ensure!(!body.is_empty(), "the body's file is empty");
    wait_until(arguments.not_before).await;
    let begin = Instant::now();
    let warm_end = begin + Duration::from_secs_f64(arguments.warm);
    let job = Rc::new(Job {
        dialer,
        request: format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nAccept: */*\r\n\r\n",
            arguments.path, arguments.name
        ),
        body,
        length: arguments.length,
        fresh: arguments.fresh,
        hold: arguments.hold.map(Duration::from_secs_f64),
        warm_end,
        end: warm_end + Duration::from_secs_f64(arguments.seconds),
    });
    let clients: Vec<_> = (0..arguments.connections)
        .map(|_| tokio::task::spawn_local(client::run(job.clone())))
        .collect();
    let mut tally = Tally::default();
    for client in clients {
        tally.add(client.await.context("a client panicked")?);
    }
    Ok(tally.report())
}
