// SPDX-License-Identifier: Apache-2.0
//! `torno audit`: read, follow, verify, export and prune the record. Reading and verifying need
//! the files alone; nothing here trusts the daemon for them.

mod tail;

pub(super) use tail::Tail;

use crate::clock;
use crate::context::{Context, say};
use crate::notary::{Notary, unexpected};
use crate::printable;
use crate::stop::{FOUND_WANTING, Outcome, Stop};
use crate::values;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use torno_audit::line::{self, Record};
use torno_audit::{Digest, PublicKey, Records, TreeHead};
use torno_notary_protocol::operator::{OperatorReply, OperatorRequest};
use torno_policy::names::SessionId;

/// Read, follow, verify, export and prune the record
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Audit {
    /// The newest records
    #[command(after_help = "Example: torno audit tail --follow --session 4kq2…")]
    Tail {
        /// Go on with new ones until interrupted
        #[arg(long, short)]
        follow: bool,
        /// Only this session's
        #[arg(long, value_parser = values::session)]
        session: Option<SessionId>,
        /// How many to begin with
        #[arg(long, short = 'n', default_value_t = 20)]
        lines: usize,
        /// The record's directory
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Where the record lies, the key that signs it, and its size and root
    #[command(
        after_help = "Keep the key and a head elsewhere: with them `torno audit verify` finds \
a rewritten record.\nExample: torno audit head --output json > head.json"
    )]
    Head,
    /// Verify the record from its files and the public key alone
    #[command(
        after_help = "Example: torno audit verify --dir ./record --key record.pub --head 120:9f2c…"
    )]
    Verify {
        /// The record's directory
        #[arg(long)]
        dir: Option<PathBuf>,
        /// A file with the public key, as `torno audit head` prints it; asked of the daemon when
        /// left out
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
        /// A head that you kept, as SIZE:ROOT; the record must still contain it
        #[arg(long, value_name = "SIZE:ROOT", value_parser = head)]
        head: Vec<TreeHead>,
    },
    /// Write the record to standard output, one record a line
    #[command(after_help = "Example: torno audit export --format jsonl --from 100 > record.jsonl")]
    Export {
        /// The form
        #[arg(long, value_enum, default_value_t = Format::Jsonl)]
        format: Format,
        /// Only this session's
        #[arg(long, value_parser = values::session)]
        session: Option<SessionId>,
        /// From this record on
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// The record's directory
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Remove whole old segments; their signed heads stay
    #[command(after_help = "Example: torno audit prune --keep 12")]
    Prune {
        /// How many of the newest segments stay
        #[arg(long, value_name = "SEGMENTS", value_parser = clap::value_parser!(u32).range(1..))]
        keep: u32,
    },
}

/// `--format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// JSON lines, byte for byte as they were recorded
    Jsonl,
}

/// Runs it.
pub(crate) async fn run(command: &Audit, context: &Context) -> Outcome<u8> {
    let place = |dir: &Option<PathBuf>| dir.clone().unwrap_or_else(|| context.paths.record());
    match command {
        Audit::Tail {
            follow,
            session,
            lines,
            dir,
        } => {
            let next = tail(&place(dir), session.as_ref(), *lines, context)?;
            if *follow {
                follow_from(&place(dir), session.as_ref(), next, context).await?;
            }
        }
        Audit::Head => show_head(context).await?,
        Audit::Verify { dir, key, head } => {
            return verify(&place(dir), key.as_deref(), head, context).await;
        }
        Audit::Export {
            format: Format::Jsonl,
            session,
            from,
            dir,
        } => export(&place(dir), session.as_ref(), *from)?,
        Audit::Prune { keep } => prune(*keep, context).await?,
    }
    Ok(0)
}

/// `torno session logs`: all that the record holds of a session.
pub(crate) fn logs(session: &SessionId, context: &Context) -> Outcome<u8> {
    tail(&context.paths.record(), Some(session), usize::MAX, context)?;
    Ok(0)
}

fn open(dir: &Path, from: u64) -> Outcome<Records> {
    Records::open(dir, from).map_err(|error| {
        Stop::new(format!("there is no record to read in `{}`", dir.display()))
            .because(&error)
            .next("run this as the user that runs tornod, or name the directory with `--dir`")
    })
}

fn next(record: Result<Record, torno_audit::reader::ReadError>) -> Outcome<Record> {
    record.map_err(|error| {
        Stop::new("the record can't be read on")
            .because(&error)
            .next("run `torno audit verify`")
    })
}

fn is_of(record: &Record, session: Option<&SessionId>) -> bool {
    session.is_none() || record.entry.session.as_ref() == session
}

/// Prints the last `count` records; gives the place after the last one that was read.
fn tail(dir: &Path, session: Option<&SessionId>, count: usize, context: &Context) -> Outcome<u64> {
    let mut last = std::collections::VecDeque::new();
    let mut after = 0;
    for record in open(dir, 0)? {
        let record = next(record)?;
        after = record.seq.0.saturating_add(1);
        if !is_of(&record, session) {
            continue;
        }
        if count == usize::MAX {
            show(&record, context)?;
            continue;
        }
        last.push_back(record);
        if last.len() > count {
            last.pop_front();
        }
    }
    for record in &last {
        show(record, context)?;
    }
    Ok(after)
}

async fn follow_from(
    dir: &Path,
    session: Option<&SessionId>,
    from: u64,
    context: &Context,
) -> Outcome {
    let mut tail = Tail::from(dir, from);
    loop {
        for record in tail.more()? {
            let record = record?;
            if is_of(&record, session) {
                show(&record, context)?;
            }
        }
        tail.wait().await;
    }
}

fn show(record: &Record, context: &Context) -> Outcome {
    if context.json {
        return put(&line::print(record));
    }
    let event = serde_json::to_value(&record.entry.event).unwrap_or(Value::Null);
    let session = record.entry.session.as_ref();
    say(&format!(
        "{:>6}  {}  {:26}  {}\n",
        record.seq,
        clock::milliseconds(record.entry.at_ms),
        session.map_or("-", SessionId::as_str),
        event_text(&event)
    ))
}

/// `kind` first, then each field that is set, flat: `endpoint.host=…`.
fn event_text(event: &Value) -> String {
    let kind = event.get("kind").and_then(Value::as_str);
    let mut text = kind.unwrap_or("?").to_owned();
    push_fields(&mut text, "", event);
    printable::line(&text)
}

fn push_fields(text: &mut String, prefix: &str, value: &Value) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (name, value) in fields {
                match (prefix, name.as_str()) {
                    ("", "kind") => {}
                    ("", name) => push_fields(text, name, value),
                    (prefix, name) => push_fields(text, &format!("{prefix}.{name}"), value),
                }
            }
        }
        Value::String(word) if is_word(word) => text.push_str(&format!(" {prefix}={word}")),
        other => text.push_str(&format!(" {prefix}={other}")),
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic() && c != '"')
}

fn export(dir: &Path, session: Option<&SessionId>, from: u64) -> Outcome {
    for record in open(dir, from)? {
        let record = next(record)?;
        if is_of(&record, session) {
            put(&line::print(&record))?;
        }
    }
    Ok(())
}

/// One line of bytes. A reader that went away ends the command, quietly.
fn put(line: &[u8]) -> Outcome {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(line).and_then(|()| out.write_all(b"\n"));
    written.map_err(|error| {
        Stop::new("standard output can't be written")
            .because(&error)
            .exit(128 + 13)
    })
}

async fn record_head(context: &Context) -> Outcome<(String, String, u64, String)> {
    match Notary::open(context)
        .await?
        .ask(&OperatorRequest::RecordHead)
        .await?
    {
        OperatorReply::RecordHead {
            directory,
            public_key,
            size,
            root,
        } => Ok((directory, public_key, size, root)),
        _ => Err(unexpected()),
    }
}

async fn show_head(context: &Context) -> Outcome {
    let (directory, public_key, size, root) = record_head(context).await?;
    let human = format!(
        "directory  {}\nkey        {}\nhead       {size}:{}\n",
        printable::line(&directory),
        printable::line(&public_key),
        printable::line(&root)
    );
    let value = serde_json::json!({
        "directory": directory, "public_key": public_key, "size": size, "root": root,
    });
    context.show(&value, &human)
}

async fn verify(
    dir: &Path,
    key: Option<&Path>,
    heads: &[TreeHead],
    context: &Context,
) -> Outcome<u8> {
    let line = match key {
        Some(file) => std::fs::read_to_string(file).map_err(|error| {
            Stop::new(format!("`{}` can't be read", file.display())).because(&error)
        })?,
        None => record_head(context).await?.1,
    };
    let key = PublicKey::parse(line.trim()).map_err(|error| {
        Stop::new("this is no public key of a record")
            .because(&error)
            .next("`torno audit head` prints it; it looks like `name+hash+base64`")
    })?;
    match torno_audit::verify(dir, &key, heads) {
        Ok(report) => {
            let value = serde_json::json!({
                "verified": true, "segments": report.segments, "first": report.first,
                "records": report.records, "checkpoints": report.checkpoints,
                "size": report.head.size, "root": report.head.root.to_string(),
                "unsigned": report.unsigned,
            });
            let human = format!(
                "verified: {} records from {} in {} segments, {} signed heads\nhead {}:{}\n",
                report.records,
                report.first,
                report.segments,
                report.checkpoints,
                report.head.size,
                report.head.root
            );
            let unsigned = if report.unsigned > 0 {
                format!("{} newest records are not signed yet\n", report.unsigned)
            } else {
                String::new()
            };
            context.show(&value, &format!("{human}{unsigned}"))?;
            Ok(0)
        }
        Err(error) => Err(Stop::new("the record does not verify")
            .code("record_damaged")
            .because(&error)
            .next("keep these files as they are; compare them with your last backup and kept heads")
            .exit(FOUND_WANTING)),
    }
}

async fn prune(keep: u32, context: &Context) -> Outcome {
    let request = OperatorRequest::Prune {
        keep_segments: keep,
    };
    match Notary::open(context).await?.ask(&request).await? {
        OperatorReply::Pruned { segments } => context.show(
            &serde_json::json!({ "pruned": segments }),
            &format!("{segments} segments removed; their signed heads stay\n"),
        ),
        _ => Err(unexpected()),
    }
}

fn head(text: &str) -> Result<TreeHead, String> {
    let rule = "a head is SIZE:ROOT, as `torno audit head` prints it";
    let (size, root) = text.split_once(':').ok_or(rule)?;
    Ok(TreeHead {
        size: size.parse().map_err(|_| rule)?,
        root: Digest::parse(root).map_err(|_| rule)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // ATTACK: 212
    #[test]
    fn an_event_is_one_line_whatever_its_text() {
        let event = serde_json::json!({
            "kind": "hidden", "place": "a\n99 forged\u{1b}[2K", "shape": "dotenv",
            "endpoint": { "host": "a.example" }, "reason": null, "list": ["x y"],
        });
        let text = event_text(&event);
        assert!(!text.contains(char::is_control), "{text:?}");
        assert!(text.starts_with("hidden "), "{text}");
        assert!(text.contains("endpoint.host=a.example"), "{text}");
        assert!(text.contains(r#"list=["x y"]"#), "{text}");
        assert!(!text.contains("reason"), "{text}");
    }
}
