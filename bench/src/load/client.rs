// SPDX-License-Identifier: Apache-2.0
//! One client: requests one after the other until the time is over, each answer checked.

use crate::answer::{Comparison, read_body, read_head};
use crate::dial::Dialer;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use torno_bench::load_report::LoadReport;

/// LIMIT: a client that fails this often stops; its run is invalid after the first time.
const FAILURES_MAX: u64 = 3;
/// Several TLS records.
const BUFFER_BYTES: usize = 64 * 1024;

/// What every client does.
pub(crate) struct Job {
    /// Makes connections.
    pub(crate) dialer: Dialer,
    /// The request's text.
    pub(crate) request: String,
    /// The block that bodies repeat.
    pub(crate) body: Vec<u8>,
    /// Bytes of a body.
    pub(crate) length: u64,
    /// A connection for each request.
    pub(crate) fresh: bool,
    /// One request, and then the connection waits so long.
    pub(crate) hold: Option<Duration>,
    /// From here on it counts.
    pub(crate) warm_end: Instant,
    /// No request begins after this.
    pub(crate) end: Instant,
}

/// What clients saw.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    report: LoadReport,
    latencies: Vec<u32>,
    /// When the first measured request began.
    first: Option<Instant>,
    /// When the last measured answer ended.
    last: Option<Instant>,
}

impl Tally {
    /// Adds another client's.
    pub(crate) fn add(&mut self, other: Self) {
        let (ours, theirs) = (&mut self.report, other.report);
        ours.sent += theirs.sent;
        ours.mismatched += theirs.mismatched;
        ours.failures += theirs.failures;
        ours.connections += theirs.connections;
        ours.measured += theirs.measured;
        ours.bytes += theirs.bytes;
        ours.first_failure = ours.first_failure.take().or(theirs.first_failure);
        for (status, count) in theirs.statuses {
            *ours.statuses.entry(status).or_default() += count;
        }
        self.latencies.extend(other.latencies);
        self.last = self.last.max(other.last);
        self.first = match (self.first, other.first) {
            (Some(ours), Some(theirs)) => Some(ours.min(theirs)),
            (ours, theirs) => ours.or(theirs),
        };
    }

    /// All of it, over the measured time.
    pub(crate) fn report(mut self) -> LoadReport {
        self.latencies.sort_unstable();
        let at = |per_cent: usize| {
            let last = self.latencies.len().saturating_sub(1);
            let place = last * per_cent / 100;
            self.latencies.get(place).copied().unwrap_or_default()
        };
        self.report.p50_us = at(50);
        self.report.p99_us = at(99);
        let span = self.first.zip(self.last);
        self.report.seconds = span.map_or(0.0, |(first, last)| (last - first).as_secs_f64());
        self.report
    }

    fn fail(&mut self, error: &anyhow::Error) {
        self.report.failures += 1;
        self.report
            .first_failure
            .get_or_insert_with(|| format!("{error:#}"));
    }
}

type Connection = BufReader<TlsStream<TcpStream>>;

/// Sends until the time is over.
pub(crate) async fn run(job: Rc<Job>) -> Tally {
    let mut tally = Tally::default();
    let mut connection = None;
    let mut counts: BTreeMap<u16, u64> = BTreeMap::new();
    while tally.report.failures < FAILURES_MAX {
        let begin = Instant::now();
        if begin >= job.end {
            break;
        }
        match one(&job, &mut connection, &mut tally).await {
            Ok((status, bytes)) => {
                *counts.entry(status).or_default() += 1;
                if begin >= job.warm_end {
                    let now = Instant::now();
                    let latency = now.duration_since(begin).as_micros();
                    tally
                        .latencies
                        .push(u32::try_from(latency).unwrap_or(u32::MAX));
                    tally.report.measured += 1;
                    tally.report.bytes += bytes;
                    tally.first.get_or_insert(begin);
                    tally.last = Some(now);
                }
            }
            Err(error) => {
                tally.fail(&error);
                connection = None;
            }
        }
        if let Some(hold) = job.hold {
            tokio::time::sleep(hold).await;
            break;
        }
    }
    tally.report.statuses = counts;
    if let Some(mut connection) = connection {
        // The far side may be gone first.
        let _closed = connection.get_mut().shutdown().await;
    }
    tally
}

/// One request and its whole answer.
async fn one(
    job: &Job,
    connection: &mut Option<Connection>,
    tally: &mut Tally,
) -> Result<(u16, u64)> {
    let mut stream = match connection.take() {
        Some(stream) => stream,
        None => {
            let fresh = job.dialer.dial().await?;
            tally.report.connections += 1;
            BufReader::with_capacity(BUFFER_BYTES, fresh)
        }
    };
    tally.report.sent += 1;
    let writer = stream.get_mut();
    writer
        .write_all(job.request.as_bytes())
        .await
        .context("write")?;
    writer.flush().await.context("write")?;
    let head = read_head(&mut stream).await?;
    let mut comparison = Comparison::new(&job.body);
    read_body(&mut stream, &head, &mut comparison).await?;
    let good = comparison.same && comparison.bytes == job.length;
    if head.status == 200 && !good {
        tally.report.mismatched += 1;
    }
    if job.fresh {
        // Not waited for: hundreds of close notices a second are nobody's work here.
        let _closed = stream.get_mut().shutdown().await;
    } else if !head.close {
        *connection = Some(stream);
    }
    Ok((head.status, comparison.bytes))
}
