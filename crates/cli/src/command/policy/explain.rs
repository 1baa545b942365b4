// SPDX-License-Identifier: Apache-2.0
//! `torno policy explain`: which layer and rule would decide in a running session, by the function
//! that decides in earnest. One plain request from the command line, or acts with all their facts,
//! one a line.

use super::{Target, show_explanation, target};
use crate::context::{Context, say};
use crate::desk::{Desk, unexpected};
use crate::stop::{Outcome, Stop};
use crate::values;
use std::io::Read;
use std::path::{Path, PathBuf};
use torno_control_api::request::{ApiReply, ApiRequest};
use torno_policy::decision::{Layer, Refusal};
use torno_policy::facts::Act;
use torno_policy::names::{Method, SessionId};

/// LIMIT: an act has bounded facts; a file of a hundred thousand is a mistake.
const ACTS_BYTES_MAX: u64 = 64 << 20;

/// Which layer and rule would decide this request in a running session
///
/// METHOD and URL are asked about without any placeholder, so a place that wants one says
/// `placeholder_missing`; `torno policy simulate --with NAME` tries it with one.
///
/// With `--acts` each line of the file is an act with all its facts, as JSON: placeholders by their
/// digests, credentials of the client's own, git, tools. Each answer is a line of JSON.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  torno policy explain --session 4kq2… GET https://docs.example.org/
  torno policy explain --session 4kq2… --acts acts.jsonl")]
pub(crate) struct Explain {
    /// The session
    #[arg(long, value_parser = values::session)]
    session: SessionId,
    /// A file of acts, one a line; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["method", "url"])]
    acts: Option<PathBuf>,
    /// The method
    #[arg(value_parser = values::method, required_unless_present = "acts", requires = "url")]
    method: Option<Method>,
    /// The URL, http or https; ws or wss asks for a WebSocket
    #[arg(value_parser = target, required_unless_present = "acts")]
    url: Option<Target>,
}

/// What the notary says of one act.
#[derive(serde::Serialize)]
struct Explanation {
    verdict: String,
    layers: Vec<(Layer, String, String)>,
    refusal: Option<Refusal>,
}

/// Runs it.
pub(super) async fn run(command: &Explain, context: &Context) -> Outcome<u8> {
    let session = &command.session;
    if let Some(file) = &command.acts {
        return every(session, file, context).await;
    }
    let (Some(method), Some(url)) = (&command.method, &command.url) else {
        return Err(Stop::new("no request to explain"));
    };
    let desk = Desk::open(context).await?;
    let said = ask(&desk, session, Act::Request(url.facts(method))).await?;
    let Explanation {
        verdict,
        layers,
        refusal,
    } = said;
    show_explanation(&verdict, &layers, refusal.as_ref(), context)
}

async fn every(session: &SessionId, file: &Path, context: &Context) -> Outcome<u8> {
    let text = read(file)?;
    let desk = Desk::open(context).await?;
    for (number, line) in text.lines().enumerate() {
        let act = serde_json::from_str(line).map_err(|error| {
            Stop::new(format!("line {} is no act", number + 1))
                .because(&error)
                .next("see docs/policy.md for the form")
        })?;
        let said = ask(&desk, session, act).await?;
        let line = serde_json::to_string(&said)
            .map_err(|error| Stop::new("an answer can't be printed").because(&error))?;
        say(&format!("{line}\n"))?;
    }
    Ok(0)
}

async fn ask(desk: &Desk, session: &SessionId, act: Act) -> Outcome<Explanation> {
    let request = ApiRequest::Explain {
        session: session.clone(),
        act: Box::new(act),
    };
    let reply = desk.ask(&request, &[]).await?.0;
    let ApiReply::Explained {
        verdict,
        layers,
        refusal,
    } = reply
    else {
        return Err(unexpected(&reply));
    };
    Ok(Explanation {
        verdict,
        layers,
        refusal,
    })
}

fn read(file: &Path) -> Outcome<String> {
    let failed = |error| {
        Stop::new(format!("`{}` can't be read", file.display()))
            .because(&error)
            .next("name a file of acts, or `-` for standard input")
    };
    let mut text = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin()
            .lock()
            .take(ACTS_BYTES_MAX)
            .read_to_string(&mut text)
    } else {
        std::fs::File::open(file)
            .and_then(|file| file.take(ACTS_BYTES_MAX).read_to_string(&mut text))
    };
    read.map_err(failed)?;
    Ok(text)
}
