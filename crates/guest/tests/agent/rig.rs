// SPDX-License-Identifier: Apache-2.0
//! One agent, started as a child with the link on its standard input, and a host that talks to it.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use torno_guest_protocol::{
    ChannelId, ExecId, Frame, GuestDecoder, GuestMessage, HostMessage, PROTOCOL_VERSION,
    ProcessStatus, ReceiveWindow, RequestId, SendWindow, Signal, Stream, TerminalSize, Wall,
    encode_control, encode_credit, encode_data, encode_end_of_file,
};

pub(crate) const WAIT: Duration = Duration::from_secs(20);

/// An agent and the host's end of its link.
pub(crate) struct Rig {
    pub(crate) agent: Child,
    pub(crate) link: UnixStream,
    pub(crate) workspace: tempfile::TempDir,
    pub(crate) walls: Vec<Wall>,
    decoder: GuestDecoder,
    windows: BTreeMap<(ChannelId, Stream), ReceiveWindow>,
    held: VecDeque<GuestMessage>,
    outputs: BTreeMap<(ChannelId, Stream), Vec<u8>>,
    credits: BTreeMap<ChannelId, u32>,
    next_id: u32,
}

/// What a program left behind.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) end: GuestMessage,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Outcome {
    pub(crate) fn code(&self) -> i32 {
        match self.end {
            GuestMessage::ProcessEnded {
                status: ProcessStatus::Exited(code),
                ..
            } => code,
            _ => panic!("{self:?}"),
        }
    }
}

impl Rig {
    pub(crate) fn start() -> Self {
        let own = (
            rustix::process::getuid().as_raw(),
            rustix::process::getgid().as_raw(),
        );
        Self::start_as(own)
    }

    pub(crate) fn start_as((uid, gid): (u32, u32)) -> Self {
        let workspace = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(workspace.path(), Some(uid), Some(gid)).unwrap();
        let (link, agent) = spawn(workspace.path(), (uid, gid));
        let mut rig = Self {
            agent,
            link,
            workspace,
            walls: Vec::new(),
            decoder: GuestDecoder::new(),
            windows: BTreeMap::new(),
            held: VecDeque::new(),
            outputs: BTreeMap::new(),
            credits: BTreeMap::new(),
            next_id: 0,
        };
        rig.tell(&HostMessage::Hello {
            version: PROTOCOL_VERSION,
        });
        match rig.hear() {
            GuestMessage::Hello {
                version: PROTOCOL_VERSION,
                walls,
                ..
            } => rig.walls = walls,
            other => panic!("{other:?}"),
        }
        rig
    }

    pub(crate) fn id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    pub(crate) fn tell(&mut self, message: &HostMessage) {
        let mut bytes = BytesMut::new();
        encode_control(message, &mut bytes).unwrap();
        self.link.write_all(&bytes).unwrap();
    }

    pub(crate) fn send(&mut self, channel: impl Into<ChannelId>, stream: Stream, data: &[u8]) {
        let mut bytes = BytesMut::new();
        encode_data(channel.into(), stream, data, &mut bytes);
        // An agent that has had enough may close meanwhile; the test then sees its end.
        let _closed = self.link.write_all(&bytes);
    }

    pub(crate) fn end(&mut self, channel: impl Into<ChannelId>, stream: Stream) {
        let mut bytes = BytesMut::new();
        encode_end_of_file(channel.into(), stream, &mut bytes);
        self.link.write_all(&bytes).unwrap();
    }

    /// The next message; data is kept and credited meanwhile.
    pub(crate) fn hear(&mut self) -> GuestMessage {
        let deadline = Instant::now() + WAIT;
        loop {
            if let Some(message) = self.held.pop_front() {
                return message;
            }
            assert!(Instant::now() < deadline, "the agent is silent");
            assert!(self.listen(), "the agent closed the link");
        }
    }

    /// Reads once; false at the link's end.
    pub(crate) fn listen(&mut self) -> bool {
        let mut buffer = vec![0; 64 * 1024];
        self.link.set_read_timeout(Some(WAIT)).unwrap();
        let count = self.link.read(&mut buffer).unwrap_or(0);
        self.decoder.push(&buffer[..count]);
        while let Some(frame) = self.decoder.next_frame().unwrap() {
            match frame {
                Frame::Control(message) => self.held.push_back(message),
                Frame::Data {
                    channel,
                    stream,
                    bytes,
                } => {
                    let window = self.windows.entry((channel, stream)).or_default();
                    window.accept(bytes.len()).unwrap();
                    self.outputs
                        .entry((channel, stream))
                        .or_default()
                        .extend(&bytes);
                    if let Some(credit) = window.consume(bytes.len()) {
                        let mut out = BytesMut::new();
                        encode_credit(channel, stream, credit, &mut out);
                        // The agent may be ending by intent of the test.
                        let _ending = self.link.write_all(&out);
                    }
                }
                Frame::EndOfFile { channel, stream } => {
                    self.windows
                        .entry((channel, stream))
                        .or_default()
                        .end()
                        .unwrap();
                }
                Frame::Credit { channel, bytes, .. } => {
                    *self.credits.entry(channel).or_default() += bytes;
                }
            }
        }
        count > 0
    }

    pub(crate) fn output(&self, channel: impl Into<ChannelId>, stream: Stream) -> &[u8] {
        self.outputs
            .get(&(channel.into(), stream))
            .map_or(&[], Vec::as_slice)
    }

    pub(crate) fn wait_for_output(&mut self, exec: ExecId, wanted: &str) {
        let deadline = Instant::now() + WAIT;
        while !String::from_utf8_lossy(self.output(exec, Stream::Stdout)).contains(wanted) {
            assert!(Instant::now() < deadline, "`{wanted}` never came");
            assert!(self.listen());
        }
    }

    /// Sends a long input as credit allows.
    pub(crate) fn send_all(&mut self, channel: impl Into<ChannelId>, stream: Stream, data: &[u8]) {
        let channel = channel.into();
        let mut window = SendWindow::new();
        let mut rest = data;
        while !rest.is_empty() {
            let count = window.take(rest.len());
            if count == 0 {
                assert!(self.listen());
                window
                    .grant(self.credits.remove(&channel).unwrap_or(0))
                    .unwrap();
            }
            self.send(channel, stream, &rest[..count]);
            rest = &rest[count..];
        }
        self.end(channel, stream);
    }

    pub(crate) fn begin(&mut self, argv: &[&str], tty: Option<TerminalSize>) -> ExecId {
        let exec = ExecId(self.id());
        let cwd = self.workspace.path().to_str().unwrap().to_owned();
        self.tell(&HostMessage::StartProcess {
            exec,
            argv: argv.iter().map(|&word| word.to_owned()).collect(),
            env: vec![("PATH".into(), "/usr/bin:/bin".into())],
            cwd,
            tty,
        });
        exec
    }

    pub(crate) fn begin_started(&mut self, argv: &[&str]) -> (ExecId, i32) {
        let exec = self.begin(argv, None);
        match self.hear() {
            GuestMessage::ProcessStarted { pid, .. } => (exec, pid),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn finish(&mut self, exec: ExecId) -> Outcome {
        let mut others = VecDeque::new();
        let end = loop {
            match self.hear() {
                GuestMessage::ProcessStarted { .. } => {}
                end @ (GuestMessage::ProcessEnded { exec: other, .. }
                | GuestMessage::ProcessFailed { exec: other, .. })
                    if other != exec =>
                {
                    others.push_back(end);
                }
                end => break end,
            }
        };
        others.append(&mut self.held);
        self.held = others;
        let text = |stream| String::from_utf8_lossy(self.output(exec, stream)).into_owned();
        Outcome {
            end,
            stdout: text(Stream::Stdout),
            stderr: text(Stream::Stderr),
        }
    }

    pub(crate) fn run(&mut self, argv: &[&str]) -> Outcome {
        let exec = self.begin(argv, None);
        self.end(exec, Stream::Stdin);
        self.finish(exec)
    }

    pub(crate) fn shell(&mut self, script: &str) -> Outcome {
        self.run(&["sh", "-c", script])
    }

    pub(crate) fn signal(&mut self, exec: ExecId, signal: Signal) {
        self.tell(&HostMessage::SendSignal { exec, signal });
    }

    pub(crate) fn request(&mut self, make: impl FnOnce(RequestId) -> HostMessage) -> RequestId {
        let request = RequestId(self.id());
        self.tell(&make(request));
        request
    }

    pub(crate) fn ask(&mut self, make: impl FnOnce(RequestId) -> HostMessage) -> GuestMessage {
        self.request(make);
        self.hear()
    }

    /// Waits until the agent has ended by itself; its success.
    pub(crate) fn ended(&mut self) -> bool {
        while self.listen() {}
        let deadline = Instant::now() + WAIT;
        loop {
            if let Some(status) = self.agent.try_wait().unwrap() {
                return status.success();
            }
            assert!(Instant::now() < deadline, "the agent lives on");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _closed = self.link.shutdown(std::net::Shutdown::Both);
        let _ended = self.agent.wait();
    }
}

/// The agent, started without whatever descriptors the test runner itself inherited.
pub(crate) fn command() -> Command {
    let script = "for fd in /proc/$$/fd/*; do n=${fd##*/}; \
        [ $n -gt 2 ] && eval \"exec $n>&-\"; done; exec \"$@\"";
    let mut command = Command::new("/bin/bash");
    command.args([
        "--norc",
        "--noprofile",
        "-c",
        script,
        "--",
        env!("CARGO_BIN_EXE_torno-guest"),
    ]);
    command
}

pub(crate) fn spawn(workspace: &Path, (uid, gid): (u32, u32)) -> (UnixStream, Child) {
    let (link, theirs) = UnixStream::pair().unwrap();
    let agent = command()
        .arg("init")
        .args([
            "--workload-uid",
            &uid.to_string(),
            "--workload-gid",
            &gid.to_string(),
        ])
        .arg("--workspace")
        .arg(workspace)
        .env_clear()
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    (link, agent)
}

/// A process that exists and isn't a zombie.
pub(crate) fn is_alive(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .unwrap()
            .trim_start()
            .starts_with('Z')
    })
}

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + WAIT;
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
