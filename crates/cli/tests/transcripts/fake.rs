// SPDX-License-Identifier: Apache-2.0
//! A desk and a notary for tests: real sockets, real messages, scripted behaviour. What a command
//! does is said by its first word (see `run_command`).

use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use torno_control_api::attach::{self, ClientFrame, CommandFrame};
use torno_control_api::channel::{Channel, Listener, listen};
use torno_control_api::commits::{Frame, write_frame};
use torno_control_api::request::{
    ApiReply, ApiRequest, Checkpoint, Checkpointed, CommandRow, Exec, Failure, KillReceipt,
    KilledSession, Leftover, LeftoverKind, LevelReport, SessionRow, Started, Summary,
};
use torno_notary_protocol::operator::{
    CredentialRow, OperatorReply, OperatorRequest, UnsealKind, VaultStatus,
};
use torno_notary_protocol::transit;
use torno_policy::binding::Binding;
use torno_policy::decision::{Layer, Reason, Refusal};
use torno_policy::grant::Isolation;
use torno_policy::names::{RuleName, SessionId};

pub(crate) const SESSION: &str = "abcdefghijklmnopqrstuvwxyz";
pub(crate) const TOKEN: &str = "operator-token";

/// What the fakes know and saw.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) accepted: BTreeSet<String>,
    pub(crate) desk: Vec<ApiRequest>,
    pub(crate) notary: Vec<(OperatorRequest, Vec<Vec<u8>>)>,
    pub(crate) kill_packets: Vec<Vec<u8>>,
    pub(crate) descriptors: Vec<usize>,
    pub(crate) sealed: bool,
    pub(crate) unseal: Option<UnsealKind>,
    pub(crate) state: Option<(&'static str, Option<&'static str>)>,
    pub(crate) bindings: Vec<Binding>,
    pub(crate) desk_refuses: bool,
}

pub(crate) type Shared = Arc<Mutex<Seen>>;

/// Serves desk, notary and kill sockets under `runtime` until the test's process ends.
pub(crate) fn serve(runtime: &Path) -> Shared {
    let seen = Shared::default();
    std::fs::create_dir_all(runtime).unwrap();
    std::fs::write(runtime.join("operator.token"), TOKEN).unwrap();
    let sockets =
        ["desk.sock", "notary.sock", "kill.sock"].map(|n| listen(&runtime.join(n)).unwrap());
    let shared = Arc::clone(&seen);
    std::thread::spawn(move || {
        let [desk, notary, kill] = sockets;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime, async {
            tokio::join!(
                accept(desk, |c| desk_caller(c, Arc::clone(&shared))),
                accept(notary, |c| notary_caller(c, Arc::clone(&shared))),
                accept(kill, |c| kill_caller(c, Arc::clone(&shared))),
            );
        });
    });
    seen
}

async fn accept<F: Future<Output = ()> + 'static>(socket: OwnedFd, serve: impl Fn(Channel) -> F) {
    let listener = Listener::new(socket).unwrap();
    while let Ok((channel, _)) = listener.accept().await {
        tokio::task::spawn_local(serve(channel));
    }
}

async fn kill_caller(channel: Channel, seen: Shared) {
    if let Ok(Some(packet)) = channel.receive().await {
        seen.lock().unwrap().kill_packets.push(packet.bytes);
        let _ = channel.send(&[1], &[]).await;
    }
}

async fn notary_caller(channel: Channel, seen: Shared) {
    while let Ok(Some(packet)) = channel.receive().await {
        let (request, secrets) = transit::decode::<OperatorRequest>(&packet.bytes).unwrap();
        let secrets = secrets.iter().map(|s| s.expose().to_vec()).collect();
        let reply = notary_reply(&request, &mut seen.lock().unwrap());
        seen.lock().unwrap().notary.push((request, secrets));
        let frame = transit::encode(&reply, &[]).unwrap();
        channel.send(&frame, &[]).await.unwrap();
    }
}

fn notary_reply(request: &OperatorRequest, seen: &mut Seen) -> OperatorReply {
    match request {
        OperatorRequest::Accept { digest } => {
            seen.accepted.insert(digest.clone());
            OperatorReply::Done
        }
        OperatorRequest::Accepted { digest } => {
            OperatorReply::Accepted(seen.accepted.contains(digest))
        }
        OperatorRequest::Put { .. } | OperatorRequest::Rotate { .. } if seen.sealed => {
            OperatorReply::Failed {
                code: "vault_sealed".into(),
                message: "the vault is sealed; run `torno vault unseal`".into(),
            }
        }
        OperatorRequest::Status => OperatorReply::Status(VaultStatus {
            initialised: seen.unseal.is_some(),
            sealed: seen.sealed,
            unseal: seen.unseal,
            credentials: 1,
            kek_version: 3,
        }),
        OperatorRequest::List => OperatorReply::Listed {
            credentials: vec![CredentialRow {
                name: torno_policy::names::CredentialName::parse("api").unwrap(),
                shape: "sk-".into(),
                version: 2,
                revoked: false,
                changed_at: 0,
            }],
            bindings: seen.bindings.clone(),
        },
        OperatorRequest::Bind(binding) => {
            seen.bindings.push((**binding).clone());
            OperatorReply::Done
        }
        OperatorRequest::Prune { .. } => OperatorReply::Pruned { segments: 2 },
        OperatorRequest::RecordHead => OperatorReply::RecordHead {
            directory: "/d".into(),
            public_key: "no+key".into(),
            size: 7,
            root: "00".into(),
        },
        _ => OperatorReply::Done,
    }
}

async fn desk_caller(channel: Channel, seen: Shared) {
    while let Ok(Some(packet)) = channel.receive().await {
        let request: ApiRequest = serde_json::from_slice(&packet.bytes).unwrap();
        {
            let mut seen = seen.lock().unwrap();
            seen.desk.push(request.clone());
            seen.descriptors.push(packet.descriptors.len());
        }
        let (reply, given) = desk_reply(request, &seen);
        let given: Vec<_> = given.iter().map(AsFd::as_fd).collect();
        channel
            .send(&serde_json::to_vec(&reply).unwrap(), &given)
            .await
            .unwrap();
    }
}

fn desk_reply(request: ApiRequest, seen: &Shared) -> (ApiReply, Vec<OwnedFd>) {
    let session = SessionId::parse(SESSION).unwrap();
    let refuses = seen.lock().unwrap().desk_refuses;
    let reply = match request {
        ApiRequest::Authenticate { token } if token == TOKEN => ApiReply::Authenticated,
        _ if refuses => ApiReply::Failed(Failure {
            code: "isolation_unavailable".into(),
            message: "no level works here\u{1b}[2K".into(),
            hint: "apt-get install it".into(),
        }),
        ApiRequest::Start(start) => ApiReply::Started(Box::new(Started {
            session,
            isolation: start.isolation.unwrap_or(Isolation::Container),
            granted: vec!["reaches https://docs.example.org: GET HEAD /**".into()],
            hidden: vec![("bad\u{1b}]0;x\u{7}.env".into(), "dotenv".into())],
            absent: vec!["a kernel of its own".into()],
        })),
        ApiRequest::Exec(exec) => {
            let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            let ours = tokio::net::UnixStream::from_std(ours).unwrap();
            tokio::task::spawn_local(run_command(exec, ours, Arc::clone(seen)));
            return (ApiReply::ExecStarted { exec: 1 }, vec![theirs.into()]);
        }
        ApiRequest::Sessions { .. } => {
            let (state, cause) = seen.lock().unwrap().state.unwrap_or(("running", None));
            ApiReply::Sessions(vec![SessionRow {
                session,
                paused: state == "paused",
                state: state.into(),
                cause: cause.map(str::to_owned),
                isolation: Isolation::Gvisor,
                began_at: 0,
                commands: vec![CommandRow {
                    exec: 1,
                    argv: vec!["sh".into(), "a\rb".into()],
                }],
                refused: 2,
            }])
        }
        ApiRequest::Stop { .. } => ApiReply::Stopped(summary()),
        ApiRequest::Pause { .. }
        | ApiRequest::Resume { .. }
        | ApiRequest::RemoveCheckpoint { .. } => ApiReply::Done,
        ApiRequest::Checkpoint { session, name } => {
            ApiReply::Checkpointed(Box::new(Checkpointed {
                checkpoint: Checkpoint {
                    session,
                    ..checkpoint(name.as_ref().map_or("made", |name| name.as_str()))
                },
                hidden: vec![(".env\u{1b}".into(), "dotenv".into())],
            }))
        }
        ApiRequest::Checkpoints => ApiReply::Checkpoints(vec![checkpoint("before")]),
        ApiRequest::Leftovers { remove } => ApiReply::Leftovers(leftovers(remove)),
        ApiRequest::Kill { session: Some(id) } if id != session => ApiReply::Failed(Failure {
            code: "session_unknown".into(),
            message: "refused by `standing`".into(),
            hint: String::new(),
        }),
        ApiRequest::Kill { .. } => ApiReply::Killed(KillReceipt {
            sessions: vec![KilledSession {
                session,
                processes: 3,
                survivors: 0,
                placeholders: 1,
                credentialed_writes: 0,
                leftovers: vec![],
                took_ms: 9,
            }],
        }),
        ApiRequest::Diff { .. } => {
            return (
                ApiReply::Stream,
                vec![pipe_of(b"modified: a\n+\x1b[2Kx\xff\n")],
            );
        }
        ApiRequest::Apply { paths: None, .. } => {
            return (
                ApiReply::Stream,
                vec![pipe_of(b"wrote src/a\nasks .envrc\nconflict b\n")],
            );
        }
        ApiRequest::Commits { .. } => {
            let mut stream = Vec::new();
            let why = "a\x1b[2Jb".to_owned();
            write_frame(&mut stream, &Frame::Failed { why }).unwrap();
            return (ApiReply::Stream, vec![pipe_of(&stream)]);
        }
        ApiRequest::Apply { .. } => return (ApiReply::Stream, vec![pipe_of(b"wrote .envrc\n")]),
        ApiRequest::Explain { .. } => ApiReply::Explained {
            verdict: "deny".into(),
            layers: vec![(Layer::Session, "deny".into(), "default".into())],
            refusal: Some(refusal()),
        },
        ApiRequest::Doctor => ApiReply::Doctor(vec![
            level(Isolation::Container, true, None),
            level(Isolation::Gvisor, false, Some("apt-get install it")),
        ]),
        ApiRequest::IssueBrainToken { .. } => ApiReply::Token {
            token: "brain".into(),
        },
        ApiRequest::Authenticate { .. } | ApiRequest::Attach { .. } => ApiReply::Failed(Failure {
            code: "unauthenticated".into(),
            message: "no".into(),
            hint: String::new(),
        }),
    };
    (reply, Vec::new())
}

fn level(isolation: Isolation, works: bool, fix: Option<&str>) -> LevelReport {
    LevelReport {
        isolation,
        works,
        lines: vec!["a line".into()],
        fix: fix.map(str::to_owned),
    }
}

fn refusal() -> Refusal {
    Refusal {
        reason: Reason::HostNotGranted,
        layer: Layer::Session,
        rule: RuleName::new("default"),
        hint: "add [[allow]] host = \"evil.test\"".into(),
    }
}

fn summary() -> Summary {
    Summary {
        refused: vec![("GET https://evil.test\u{1b}[2K".into(), 3, refusal())],
        changed: 1,
        left_inside: None,
    }
}

fn pipe_of(bytes: &[u8]) -> OwnedFd {
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    std::fs::File::from(writer).write_all(bytes).unwrap();
    reader
}

/// Frames that come from the client, one by one.
async fn next_frame(
    stream: &mut tokio::net::UnixStream,
    buffer: &mut Vec<u8>,
) -> Option<ClientFrame> {
    loop {
        let found = attach::split(buffer).unwrap();
        if let Some((kind, body, used)) = found {
            let frame = ClientFrame::decode(kind, body).unwrap();
            buffer.drain(..used);
            return Some(frame);
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

async fn run_command(exec: Box<Exec>, mut stream: tokio::net::UnixStream, seen: Shared) {
    let mut buffer = Vec::new();
    let out = |bytes: &[u8]| CommandFrame::Stdout(bytes.to_vec());
    let argument = exec.argv.get(1).cloned().unwrap_or_default();
    let mut frames = Vec::new();
    match exec.argv[0].as_str() {
        "exit" => frames.push(CommandFrame::Ended(argument.parse().unwrap())),
        "both" => {
            frames.push(out(b"out\n"));
            frames.push(CommandFrame::Stderr(b"err\n".to_vec()));
            frames.push(CommandFrame::Ended(0));
        }
        "evil" => {
            frames.push(out(b"a\x1b]52;c;eA"));
            frames.push(out(b"==\x07b\x1b[6nc\xff"));
            frames.push(CommandFrame::Ended(0));
        }
        "late" => frames.push(CommandFrame::Failed(
            "time_limit".into(),
            "over\u{7}".into(),
        )),
        "unrunnable" => frames.push(CommandFrame::Failed(
            "not_executable".into(),
            "no program".into(),
        )),
        "busy" => frames.push(CommandFrame::Failed("busy".into(), "too many".into())),
        "lost" => {
            let cause = (argument == "ended").then_some("time_limit");
            let state = if argument == "ended" {
                "ended"
            } else {
                "killed"
            };
            seen.lock().unwrap().state = Some((state, cause));
        }
        "cat" => loop {
            match next_frame(&mut stream, &mut buffer).await {
                Some(ClientFrame::Stdin(bytes)) => {
                    stream
                        .write_all(&CommandFrame::Stdout(bytes).encode())
                        .await
                        .unwrap();
                }
                Some(ClientFrame::StdinEnd) => {
                    frames.push(CommandFrame::Ended(0));
                    break;
                }
                Some(_) => {}
                None => break,
            }
        },
        // Says what it is told besides input, and ends with a signal, or with `q`.
        "watch" => {
            let ready = format!(
                "terminal {:?}\r\n",
                exec.terminal.map(|t| (t.rows, t.columns))
            );
            stream
                .write_all(&out(ready.as_bytes()).encode())
                .await
                .unwrap();
            while let Some(frame) = next_frame(&mut stream, &mut buffer).await {
                let ended = match &frame {
                    ClientFrame::Signal(number) if argument != "deaf" => {
                        Some(128 + i32::from(*number))
                    }
                    ClientFrame::Stdin(bytes) if bytes == b"q" => Some(0),
                    _ => None,
                };
                let said = format!("{frame:?}\r\n");
                stream
                    .write_all(&out(said.as_bytes()).encode())
                    .await
                    .unwrap();
                if let Some(status) = ended {
                    frames.push(CommandFrame::Ended(status));
                    break;
                }
            }
        }
        other => frames.push(CommandFrame::Failed(
            "not_found".into(),
            format!("no `{other}`"),
        )),
    }
    for frame in frames {
        stream.write_all(&frame.encode()).await.unwrap();
    }
}

fn checkpoint(name: &str) -> Checkpoint {
    Checkpoint {
        name: torno_policy::names::CheckpointName::parse(name).unwrap(),
        session: SessionId::parse(SESSION).unwrap(),
        owner: 0,
        made_at: 0,
        bytes: 12,
        is_still: false,
    }
}

fn leftovers(remove: bool) -> Vec<Leftover> {
    let left = |kind, place: &str, why: Option<&str>| Leftover {
        kind,
        place: place.into(),
        gone: remove && why.is_none(),
        why: why.filter(|_| remove).map(str::to_owned),
    };
    vec![
        left(LeftoverKind::Group, "/sys/fs/cgroup/torno-a\r", None),
        left(LeftoverKind::Mount, "/s/b", Some("unmount it by hand")),
    ]
}
