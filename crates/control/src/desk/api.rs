// SPDX-License-Identifier: Apache-2.0
//! The API's connections: who asks, may they, then one service call for each request.

mod asked;
mod check;

use super::pause::{self, unknown};
use super::session::{Life, Session};
use super::start::{Given, fingerprints, internal, of_refusal, out_of_turn, start};
use super::{Desk, checkpoints, finish, leftovers, sync, workspace};
use crate::front_door;
use crate::orders::{ExecOrder, GateRequest, PorterJob};
use check::check_command;
use sha2::{Digest, Sha256};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use torno_control_api::authority::{Caller, may};
use torno_control_api::channel::{Channel, Listener, Peer};
use torno_control_api::request::{ApiReply, ApiRequest, Exec, Failure, StartSession};
use torno_notary_protocol::desk::{DeskMessage, DeskReply, EndCause, SessionNote};
use torno_policy::facts::{Act, ToolFacts};
use torno_policy::names::{CheckpointName, SessionId, ToolName};

/// Accepts connections, each served by a task of its own.
pub(super) async fn accept(listener: Listener, desk: Rc<Desk>) {
    loop {
        match listener.accept().await {
            Ok((channel, peer)) => {
                let connection = Connection {
                    desk: Rc::clone(&desk),
                    peer,
                    caller: Caller::Unknown,
                    owned: Vec::new(),
                };
                tokio::task::spawn_local(connection.serve(channel));
            }
            Err(error) => {
                tracing::error!("accept: {error}");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

/// One connection.
struct Connection {
    desk: Rc<Desk>,
    peer: Peer,
    caller: Caller,
    /// Sessions that end with this connection.
    owned: Vec<SessionId>,
}

type Reply = (ApiReply, Option<OwnedFd>);

impl Connection {
    async fn serve(mut self, channel: Channel) {
        while let Ok(Some(packet)) = channel.receive().await {
            let (reply, give) = match serde_json::from_slice::<ApiRequest>(&packet.bytes) {
                Ok(request) => self.answer(request, packet.descriptors).await,
                Err(_) => (
                    failed(
                        "malformed_request",
                        "not a request of this version",
                        "run the torno and tornod of one release",
                    ),
                    None,
                ),
            };
            let wrong_token = matches!(&reply, ApiReply::Failed(f) if f.code == "unauthenticated");
            let Ok(bytes) = serde_json::to_vec(&reply) else {
                break;
            };
            let give: Vec<_> = give.iter().map(AsFd::as_fd).collect();
            if channel.send(&bytes, &give).await.is_err() || wrong_token {
                break;
            }
        }
        // Side by side: none goes on while another's files come out.
        for session in std::mem::take(&mut self.owned) {
            let desk = Rc::clone(&self.desk);
            tokio::task::spawn_local(async move {
                finish::end(&desk, &session, EndCause::Stopped).await;
            });
        }
    }

    async fn answer(&mut self, request: ApiRequest, given: Vec<OwnedFd>) -> Reply {
        if !may(&self.caller, &request) {
            let code = if self.caller == Caller::Unknown {
                "unauthenticated"
            } else {
                "not_authorised"
            };
            return (
                failed(
                    code,
                    "this token may not ask that",
                    "use the operator's token",
                ),
                None,
            );
        }
        match self.serve_request(request, given).await {
            Ok(reply) => reply,
            Err(failure) => (ApiReply::Failed(failure), None),
        }
    }

    async fn serve_request(
        &mut self,
        request: ApiRequest,
        given: Vec<OwnedFd>,
    ) -> Result<Reply, Failure> {
        let mut given = given.into_iter();
        let reply = match request {
            ApiRequest::Authenticate { token } => self.authenticate(&token)?,
            ApiRequest::Start(wanted) => self.start(*wanted, given).await?,
            ApiRequest::Exec(exec) => return self.exec(*exec).await,
            ApiRequest::Attach { session, exec } => return self.attach(&session, exec).await,
            ApiRequest::Sessions { session } => {
                ApiReply::Sessions(self.desk.sessions.rows(session.as_ref()))
            }
            ApiRequest::Stop { session } => {
                ApiReply::Stopped(finish::stop(&self.desk, &session).await)
            }
            ApiRequest::Kill { session } => {
                ApiReply::Killed(finish::kill(&self.desk, session).await?)
            }
            ApiRequest::Pause { session } => done(pause::pause(&self.desk, &session).await)?,
            ApiRequest::Resume { session } => done(pause::resume(&self.desk, &session).await)?,
            ApiRequest::Checkpoint { session, name } => self.checkpoint(&session, name).await?,
            ApiRequest::Checkpoints => ApiReply::Checkpoints(checkpoints::list(&self.desk).await?),
            ApiRequest::RemoveCheckpoint { name } => {
                done(checkpoints::remove(&self.desk, name).await)?
            }
            ApiRequest::Diff { session } => {
                return self.stream(&session, given.next(), PorterJob::Diff).await;
            }
            ApiRequest::Apply {
                session,
                paths,
                confirmed,
            } => {
                let job = PorterJob::Apply { paths, confirmed };
                return self.stream(&session, given.next(), job).await;
            }
            ApiRequest::Commits { session } => {
                return self.stream(&session, None, PorterJob::Commits).await;
            }
            ApiRequest::Explain { session, act } => self.explain(session, act).await?,
            ApiRequest::Doctor => self.doctor().await?,
            ApiRequest::Leftovers { remove } => {
                ApiReply::Leftovers(leftovers::leftovers(&self.desk, remove).await?)
            }
            ApiRequest::IssueBrainToken { session } => self.brain_token(session)?,
        };
        Ok((reply, None))
    }

    async fn start(
        &mut self,
        wanted: StartSession,
        mut given: std::vec::IntoIter<OwnedFd>,
    ) -> Result<ApiReply, Failure> {
        let detached = wanted.detached;
        let given = Given {
            workspace: if wanted.has_workspace {
                given.next()
            } else {
                None
            },
            also: if wanted.has_also {
                given.by_ref().take(wanted.also.len()).collect()
            } else {
                Vec::new()
            },
            install_output: given.next(),
        };
        let started = start(&self.desk, self.peer, wanted, given).await?;
        if !detached {
            self.owned.push(started.session.clone());
        }
        Ok(ApiReply::Started(Box::new(started)))
    }

    async fn checkpoint(
        &self,
        session: &SessionId,
        name: Option<CheckpointName>,
    ) -> Result<ApiReply, Failure> {
        let made = checkpoints::take(&self.desk, session, name).await?;
        Ok(ApiReply::Checkpointed(Box::new(made)))
    }

    fn authenticate(&mut self, token: &str) -> Result<ApiReply, Failure> {
        // Digests are compared, so the time taken says nothing about the token.
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        self.caller = if digest == self.desk.operator_digest {
            Caller::Operator
        } else if let Some(session) = self.desk.brains.borrow().get(&digest) {
            Caller::Brain(session.clone())
        } else {
            return Err(Failure {
                code: "unauthenticated".to_owned(),
                message: "nobody has this token".to_owned(),
                hint: "read it anew: it changes with every start of tornod".to_owned(),
            });
        };
        Ok(ApiReply::Authenticated)
    }

    /// Judge, record, then hand one end of a stream to the gate and the other to the client.
    async fn exec(&self, exec: Exec) -> Result<Reply, Failure> {
        check_command(&exec)?;
        pause::check_awake(&self.desk, &exec.session)?;
        let fingerprints = fingerprints(&self.desk).await?;
        let argv = exec.argv.iter().enumerate();
        let argv = argv.map(|(n, text)| (format!("argument {n}"), text.as_str()));
        let env = exec
            .env
            .iter()
            .map(|(k, v)| (format!("variable {k}"), v.as_str()));
        front_door::check_strings("command", argv.chain(env), &fingerprints)?;
        let gate = self.gate(&exec.session)?;
        self.judge(&exec).await?;
        sync::before_command(&self.desk, &exec.session).await;
        let in_order = |row: &mut Session| Rc::clone(&row.in_order);
        let in_order = self.desk.sessions.with(&exec.session, in_order);
        let in_order = in_order.ok_or_else(|| unknown(&exec.session))?;
        let _ordered = in_order.lock().await;
        let entered = self.desk.sessions.with(&exec.session, |row| {
            // It may have begun to end, or have been paused, since it was looked at.
            (row.life == Life::Running && !row.is_paused).then(|| {
                let number = row.add_command(exec.argv.clone());
                (number, row.environment.clone(), row.default_directory())
            })
        });
        let entered = entered.flatten();
        let (number, mut env, default) = entered.ok_or_else(|| unknown(&exec.session))?;
        for (name, value) in exec.env {
            env.retain(|(known, _)| *known != name);
            env.push((name, value));
        }
        let note = SessionNote::CommandStarted {
            exec: number,
            argv: exec.argv.clone(),
        };
        let message = DeskMessage::Note {
            session: exec.session.clone(),
            note,
        };
        self.desk
            .notary
            .tell(&message)
            .await
            .map_err(|e| internal(&e))?;
        let (ours, theirs) = stream_pair()?;
        let order = GateRequest::StartExec(Box::new(ExecOrder {
            exec: number,
            argv: exec.argv,
            env,
            cwd: exec.cwd.unwrap_or_else(|| default.to_owned()),
            terminal: exec.terminal,
            fingerprints,
        }));
        if let Err(error) = gate.tell(&order, &[theirs.as_fd()]).await {
            self.desk
                .sessions
                .with(&exec.session, |row| row.drop_command(number));
            return Err(internal(&error));
        }
        Ok((ApiReply::ExecStarted { exec: number }, Some(ours)))
    }

    async fn judge(&self, exec: &Exec) -> Result<(), Failure> {
        let tool = ToolName::parse("exec").map_err(|e| internal(&e.into()))?;
        let arguments = serde_json::json!({ "argv": exec.argv, "cwd": exec.cwd });
        let act = Box::new(Act::Tool(ToolFacts { tool, arguments }));
        let session = exec.session.clone();
        let judge = |ticket| DeskMessage::Judge {
            ticket,
            session,
            act,
        };
        match self
            .desk
            .notary
            .ask(judge)
            .await
            .map_err(|e| internal(&e))?
        {
            DeskReply::Permitted { .. } => Ok(()),
            DeskReply::Refused { refusal, .. } => Err(of_refusal(&refusal)),
            _ => Err(out_of_turn("notary")),
        }
    }

    async fn attach(&self, session: &SessionId, exec: u64) -> Result<Reply, Failure> {
        let gate = self.gate(session)?;
        let runs = self
            .desk
            .sessions
            .with(session, |row| row.has_command(exec));
        if runs != Some(true) {
            return Err(Failure {
                code: "command_unknown".to_owned(),
                message: format!("session `{session}` runs no command {exec}"),
                hint: "`torno session show` lists the running ones".to_owned(),
            });
        }
        let (ours, theirs) = stream_pair()?;
        let request = GateRequest::JoinExec { exec };
        gate.tell(&request, &[theirs.as_fd()])
            .await
            .map_err(|e| internal(&e))?;
        Ok((ApiReply::ExecStarted { exec }, Some(ours)))
    }

    fn gate(&self, session: &SessionId) -> Result<Rc<super::gates::Gate>, Failure> {
        let running = |row: &mut Session| row.gate.clone().filter(|_| row.life == Life::Running);
        let gate = self.desk.sessions.with(session, running);
        gate.flatten().ok_or_else(|| unknown(session))
    }

    async fn stream(
        &self,
        session: &SessionId,
        original: Option<OwnedFd>,
        job: PorterJob,
    ) -> Result<Reply, Failure> {
        // Commits are compared where they are brought to, not here.
        if original.is_none() && !matches!(job, PorterJob::Commits) {
            return Err(Failure {
                code: "workspace_missing".to_owned(),
                message: "no directory came with the request".to_owned(),
                hint: "run this in the workspace's directory".to_owned(),
            });
        }
        let pipe = workspace::stream(&self.desk, self.peer, session, original, job).await?;
        Ok((ApiReply::Stream, Some(pipe)))
    }
}

fn done(done: Result<(), Failure>) -> Result<ApiReply, Failure> {
    done.map(|()| ApiReply::Done)
}

fn stream_pair() -> Result<(OwnedFd, OwnedFd), Failure> {
    let pair = rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::STREAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    );
    pair.map_err(|e| internal(&e.into()))
}

fn failed(code: &str, message: &str, hint: &str) -> ApiReply {
    ApiReply::Failed(Failure {
        code: code.to_owned(),
        message: message.to_owned(),
        hint: hint.to_owned(),
    })
}
