// SPDX-License-Identifier: Apache-2.0
//! The smuggling matrix in earnest: `smuggle [--origins A,B] [--payloads N] [--seed N] [--json
//! OUT]` sends each payload in each split through the real pipeline to each real server, and
//! compares what was judged, what left and what was seen. `list` names the servers.

mod client;
mod gate;

use anyhow::{Context, Result, bail, ensure};
use client::Client;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::Semaphore;
use torno_stage::smuggle::origins::{self, FarEnd, Tools};
use torno_stage::smuggle::tee::{self, Kept};
use torno_stage::smuggle::{Counts, Split, TOLD_MAX, payloads, wire};
use torno_stage::world::authority::Authority;

/// The name that every far end has here.
const HOST: &str = "allow.test";
/// LIMIT: payloads under way at once; two cores are kept busy by fewer.
const AT_ONCE: usize = 48;
/// When nothing was seen for so long, nothing more comes.
const SETTLED: Duration = Duration::from_millis(1500);
/// LIMIT: the wait for that.
const SETTLE_WAIT: Duration = Duration::from_secs(30);
/// Where `cargo xtask campaign smuggle` unpacked the servers.
const TOOLS: &str = "TORNO_SMUGGLE_TOOLS";

struct Arguments {
    origins: Vec<String>,
    payloads: usize,
    seed: u64,
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("smuggle: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> Result<Option<Arguments>> {
    let mut made = Arguments {
        origins: origins::names()
            .iter()
            .map(|name| (*name).to_owned())
            .collect(),
        payloads: 1200,
        seed: 1,
        json: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "list" {
            println!("{}", origins::names().join("\n"));
            return Ok(None);
        }
        let value = words
            .next()
            .with_context(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--origins" => made.origins = value.split(',').map(str::to_owned).collect(),
            "--payloads" => made.payloads = value.parse().context("not a number")?,
            "--seed" => made.seed = value.parse().context("not a number")?,
            "--json" => made.json = Some(PathBuf::from(value)),
            _ => bail!("smuggle list | [--origins A,B] [--payloads N] [--seed N] [--json OUT]"),
        }
    }
    Ok(Some(made))
}

fn run() -> Result<bool> {
    let Some(arguments) = arguments()? else {
        return Ok(true);
    };
    let tools = Tools {
        directory: std::env::var_os(TOOLS).map(PathBuf::from),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("no runtime")?;
    println!("seed {}, {} payloads", arguments.seed, arguments.payloads);
    let mut rows: Vec<(String, String, Counts)> = Vec::new();
    let mut not_tried = 0;
    let made = payloads(HOST, arguments.payloads, arguments.seed);
    let mut failed = Vec::new();
    for name in &arguments.origins {
        let begin = Instant::now();
        match trial(name, &arguments, &tools, &runtime) {
            Ok((version, counts)) => {
                let seconds = begin.elapsed().as_secs_f32();
                println!("{}  {seconds:.0} s", row(name, &version, &counts));
                for finding in counts.unjudged.iter().take(TOLD_MAX) {
                    println!("    {finding}");
                    let of = made.iter().find(|payload| finding.contains(&payload.mark));
                    println!(
                        "    {}",
                        of.map_or("of no payload", |payload| &payload.what)
                    );
                }
                if !counts.unjudged.is_empty() || counts.passed == 0 {
                    failed.push(name.clone());
                }
                rows.push((name.clone(), version, counts));
            }
            Err(error) => {
                println!("SKIP: {name}: {error:#}");
                not_tried += 1;
                failed.push(name.clone());
            }
        }
    }
    if let Some(path) = &arguments.json {
        std::fs::write(path, json(&arguments, &rows)).context("no report")?;
    }
    let unjudged: usize = rows.iter().map(|(.., counts)| counts.unjudged.len()).sum();
    println!(
        "{} far ends tried, {not_tried} not tried, {unjudged} requests that were not judged",
        rows.len()
    );
    if !failed.is_empty() {
        println!("failed: {}", failed.join(", "));
    }
    Ok(failed.is_empty())
}

/// All payloads in all splits at one far end.
fn trial(
    name: &str,
    arguments: &Arguments,
    tools: &Tools,
    runtime: &Runtime,
) -> Result<(String, Counts)> {
    let far = FarEnd::start(name, tools, runtime.handle())?;
    let authority = Authority::new("Torno stage, authority of the matrix")?;
    let kept = Kept::default();
    let (plain, tls) = runtime.block_on(async {
        let plain = tee::listen(None, far.address, kept.clone()).await?;
        let server = authority.server(&[HOST])?;
        let tls = tee::listen(Some(server), far.address, kept.clone()).await?;
        anyhow::Ok((plain, tls))
    })?;
    let (pipeline, notary) = gate::pipeline(HOST, &authority.pem(), (plain, tls))?;
    let client = Arc::new(Client::new(pipeline, HOST)?);
    let sent = runtime.block_on(send_all(&client, arguments, runtime.handle()))?;
    settle(&far);
    ensure!(far.is_up(), "it did not survive the payloads");
    let left = kept
        .connections()
        .iter()
        .map(|bytes| wire::read(bytes))
        .collect();
    let seen = far.book.seen();
    let mut counts = Counts::compare(notary.judged(), left, &seen, far.tells_empty_queries);
    counts.sent = sent;
    counts.refused = notary.refused();
    Ok((far.version.clone(), counts))
}

async fn send_all(client: &Arc<Client>, arguments: &Arguments, handle: &Handle) -> Result<usize> {
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = Vec::new();
    for payload in payloads(HOST, arguments.payloads, arguments.seed) {
        let payload = Arc::new(payload);
        for split in Split::ALL {
            let place = Arc::clone(&room).acquire_owned().await.context("no room")?;
            let (client, payload) = (Arc::clone(client), Arc::clone(&payload));
            tasks.push(handle.spawn(async move {
                let sent = client.send(&payload, split).await;
                drop(place);
                sent
            }));
        }
    }
    let sent = tasks.len();
    for task in tasks {
        task.await.context("a payload's task")??;
    }
    Ok(sent)
}

/// Waits until the far end has seen what is still under way.
fn settle(far: &FarEnd) {
    let end = Instant::now() + SETTLE_WAIT;
    let mut seen = far.book.seen().len();
    while Instant::now() < end {
        std::thread::sleep(SETTLED);
        let now = far.book.seen().len();
        if now == seen {
            return;
        }
        seen = now;
    }
}

fn row(name: &str, version: &str, counts: &Counts) -> String {
    let Counts {
        sent,
        refused,
        allowed,
        passed,
        unseen,
        whole_unseen,
        cut,
        untold,
        unjudged,
    } = counts;
    let refused: usize = refused.values().sum();
    format!(
        "{name:18} {version:12} {sent:5} sent {refused:5} refused {allowed:5} allowed \
         {passed:5} passed as judged ({cut} cut, {untold} without their empty query) \
         {unseen:4} unseen ({whole_unseen} left whole) {:3} unjudged",
        unjudged.len()
    )
}

fn json(arguments: &Arguments, rows: &[(String, String, Counts)]) -> String {
    let mut text = String::new();
    for (name, version, counts) in rows {
        let row = serde_json::json!({
            "origin": name,
            "version": version,
            "seed": arguments.seed,
            "payloads": arguments.payloads,
            "splits": Split::ALL.len(),
            "sent": counts.sent,
            "refused": counts.refused,
            "allowed": counts.allowed,
            "passed_as_judged": counts.passed,
            "unseen": counts.unseen,
            "unseen_whole": counts.whole_unseen,
            "cut": counts.cut,
            "untold": counts.untold,
            "unjudged": counts.unjudged,
        });
        let _ = writeln!(text, "{row}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LIMIT: payloads of the sample, spread over every class; each goes in every split.
    const SAMPLE: usize = 240;

    #[test]
    fn a_sample_of_the_matrix_shows_no_request_that_was_not_judged() {
        let runtime = Runtime::new().unwrap();
        let arguments = Arguments {
            origins: ["hyper", "node"].map(str::to_owned).to_vec(),
            payloads: SAMPLE,
            seed: 1,
            json: None,
        };
        let tools = Tools::default();
        for name in &arguments.origins {
            let (version, counts) = match trial(name, &arguments, &tools, &runtime) {
                Ok(tried) => tried,
                Err(error) => {
                    println!("SKIP: a sample of the matrix at {name}: {error:#}");
                    continue;
                }
            };
            println!("{}", row(name, &version, &counts));
            assert_eq!(counts.unjudged, Vec::<String>::new(), "{name}");
            assert_eq!(counts.sent, SAMPLE * Split::ALL.len());
            assert!(counts.passed > SAMPLE, "{name}: {counts:?}");
            assert!(!counts.refused.is_empty(), "{name}");
        }
    }
}
