// SPDX-License-Identifier: Apache-2.0
//! `torno secret probe`: does a far end give back what is put into a binding's slot? A canary of
//! the credential's shape goes there, never the credential: from a sandbox of its own, through its
//! gate and by the same policies, and it all is on the record. No credential of the vault is in
//! that session, so its answers come as they are, and what they repeat is seen.

use crate::command::run::{self, Beginning, Shape};
use crate::context::{Context, say};
use crate::desk::Desk;
use crate::document::Document;
use crate::execution::{self, Wanted};
use crate::stop::{FOUND_WANTING, Outcome, Stop};
use crate::values::{self, Level};
use request::Probed;
use torno_control_api::request::ApiRequest;
use torno_policy::binding::Binding;
use torno_policy::names::{BindingId, CredentialName};

mod request;

/// What runs inside, with one request as its argument.
const SCRIPT: &str = include_str!("probe/echo.py");
/// LIMIT: one request has 20 s; the session around it starts and ends in this time.
const WALL_SECONDS: u64 = 60;
/// What the script ends with: an echo, and no answer to look at.
const ECHO: u8 = 1;
/// LIMIT: a canary as long as real tokens are, and no run of it is a word.
const RANDOM_BYTES: usize = 20;

/// Ask a credential's hosts with a false value, and see whether they repeat it
///
/// One request goes to each place that the credential is bound to, with a canary of the same
/// shape in the credential's place. The credential itself goes nowhere. A far end that repeats what
/// it gets is where a credential could come back; answers are searched, in listed encodings.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  torno secret probe github
  torno secret probe api --binding api-api.example.org --isolation container

Exit code: 0 no echo, 1 an echo, 125 something could not be probed.")]
pub(crate) struct Probe {
    /// The credential
    #[arg(value_parser = values::credential)]
    name: CredentialName,
    /// This binding alone
    #[arg(long, value_parser = values::binding)]
    binding: Option<BindingId>,
    /// The boundary of the probe's sandbox
    #[arg(long, value_name = "LEVEL")]
    isolation: Option<Level>,
    /// An emulated LEVEL will do, which is no boundary: for development and tests
    #[arg(long, requires = "isolation")]
    emulation: bool,
}

/// What a probe showed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Nothing,
    Echo,
    NotProbed,
}

/// Runs it.
pub(super) async fn run(probe: &Probe, context: &Context) -> Outcome<u8> {
    let (credentials, bindings) = super::shown::listed(context).await?;
    let shape = credentials.iter().find(|row| row.name == probe.name);
    let shape = shape.map(|row| row.shape.as_str()).ok_or_else(|| {
        Stop::new(format!("there is no credential `{}`", probe.name))
            .next("see `torno secret list` for those there are")
    })?;
    let is_meant = |row: &&Binding| {
        let is_named = probe.binding.as_ref().is_none_or(|id| *id == row.id);
        row.credential == probe.name && is_named
    };
    let meant: Vec<&Binding> = bindings.iter().filter(is_meant).collect();
    if meant.is_empty() {
        return Err(Stop::new("nothing is bound like this")
            .next(format!("`torno secret bind {} --host HOST`", probe.name)));
    }
    let mut shown = Vec::with_capacity(meant.len());
    for binding in meant {
        say(&crate::printable::line(&format!(
            "{}: {}",
            binding.id, binding.endpoint
        )))?;
        say("\n")?;
        shown.push(probed(probe, binding, shape, context).await?);
    }
    conclude(&shown)
}

async fn probed(
    probe: &Probe,
    binding: &Binding,
    shape: &str,
    context: &Context,
) -> Outcome<Shown> {
    let canary = canary(shape)?;
    let Some(asked) = Probed::of(binding, &canary) else {
        say("  not probed: no plain request of HTTP has this place\n")?;
        return Ok(Shown::NotProbed);
    };
    let sandbox = Shape::empty((probe.isolation, probe.emulation), WALL_SECONDS);
    let text = format!("{}{}", sandbox.text(), asked.rule());
    let document = run::admit(Document::typed(text)?, context).await?;
    let desk = Desk::open(context).await?;
    let started = run::start(&sandbox, Beginning::default(), &document, &desk, context).await?;
    let argument = asked.argument(&canary).to_string();
    let argv = ["/usr/bin/python3", "-c", SCRIPT, &argument];
    let wanted = Wanted {
        argv: argv.map(str::to_owned).to_vec(),
        env: Vec::new(),
        cwd: None,
        raw: false,
    };
    let exit = execution::execute(&desk, &started.session, wanted).await;
    let session = started.session.clone();
    desk.ask(&ApiRequest::Stop { session }, &[]).await?;
    Ok(match exit? {
        0 => Shown::Nothing,
        ECHO => Shown::Echo,
        _ => Shown::NotProbed,
    })
}

/// Says in words what it means, and gives the exit code.
fn conclude(shown: &[Shown]) -> Outcome<u8> {
    if shown.contains(&Shown::Echo) {
        say(
            "\nA far end repeats what is put into its slot. Answers are searched for the \
             credential\nin listed encodings, so it would be replaced; a far end that hides it \
             otherwise would\nget it past that. Narrow `--path` so that the place which repeats is \
             left out, or bind\na credential that opens little else.\n",
        )?;
        return Ok(FOUND_WANTING);
    }
    if shown.contains(&Shown::NotProbed) {
        return Err(
            Stop::new("something could not be probed, so nothing is known of it")
                .code("not_probed")
                .next("see `torno audit tail` for what was refused, and why"),
        );
    }
    say(
        "\nNo far end repeated the canary here. That is no proof for other paths, methods or \
         days.\n",
    )?;
    Ok(0)
}

/// A false value that looks like the credential: its shape, then letters and digits.
fn canary(shape: &str) -> Outcome<String> {
    use std::io::Read as _;
    let mut random = [0; RANDOM_BYTES];
    let read =
        std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut random));
    read.map_err(|error| Stop::new("no random bytes for a canary").because(&error))?;
    let text = data_encoding::BASE32_NOPAD.encode(&random).to_lowercase();
    Ok(format!("{shape}{text}"))
}
