// SPDX-License-Identifier: Apache-2.0
//! A machine without Torno: the same QEMU, kernel and image in the same container, started by this
//! process and told to run `true` by the same words over a bare socket pair.

use crate::bundle;
use anyhow::{Context, Result, bail, ensure};
use rustix::time::{ClockId, clock_gettime};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use torno_guest_protocol::{
    ENTROPY_BYTES, ExecId, Frame, GuestDecoder, GuestMessage, HostMessage, PROTOCOL_VERSION,
    ProcessStatus, encode_control,
};
use torno_sandbox::{
    Fresh, HostFacts, Level, Plan, Renewal, SandboxId, StartInputs, Started, Template, Unwatched,
    plan,
};

/// LIMIT: an emulated machine that boots beside other work.
const WAIT: Duration = Duration::from_secs(60);

/// What machines of one level are started from.
#[derive(Debug)]
pub struct BareMachines {
    facts: HostFacts,
    level: Level,
    template: Option<Template>,
    started: u32,
}

/// One that has greeted.
struct Live {
    started: Started,
    link: UnixStream,
    decoder: GuestDecoder,
    execs: u32,
}

impl BareMachines {
    /// Finds the parts, with the image that tornod has made.
    ///
    /// # Errors
    /// When there is no QEMU, or no image can be made.
    pub fn new(level: Level) -> Result<Self> {
        let facts = bundle::host_of_machines()?;
        let mut machines = Self {
            facts,
            level,
            template: None,
            started: 0,
        };
        let plan = machines.plan()?;
        machines.template = Some(Template::make(plan, &mut Unwatched).context("no template")?);
        Ok(machines)
    }

    /// Milliseconds from nothing to the end of `true` in a machine that boots, or is restored, and
    /// to the end of the machine.
    ///
    /// # Errors
    /// When any of it fails.
    pub fn run_true(&mut self, is_restored: bool) -> Result<f64> {
        let plan = self.plan()?;
        let begin = Instant::now();
        let mut live = self.start(plan, is_restored)?;
        live.run_true()?;
        live.started.handle.remove().context("its end")?;
        Ok(milliseconds(begin))
    }

    /// Milliseconds of so many `true` in one live machine, each by itself.
    ///
    /// # Errors
    /// When any of it fails.
    pub fn execs(&mut self, count: u32) -> Result<Vec<f64>> {
        let plan = self.plan()?;
        let mut live = self.start(plan, true)?;
        let mut times = Vec::new();
        for _ in 0..count {
            let begin = Instant::now();
            live.run_true()?;
            times.push(milliseconds(begin));
        }
        live.started.handle.remove().context("its end")?;
        Ok(times)
    }

    fn plan(&mut self) -> Result<Plan> {
        self.started += 1;
        // What an earlier run of this program left, because it was killed, is in nobody's way.
        let letters = format!("{:0>13}{:0>13}", std::process::id(), self.started);
        let letter = |digit: u8| char::from(b'a' + digit.saturating_sub(b'0'));
        let id: String = letters.bytes().map(letter).collect();
        let mut spec = bundle::spec(self.level)?;
        spec.id = SandboxId::parse(&id).context("id")?;
        plan(&spec, &self.facts).context("no plan")
    }

    fn start(&self, plan: Plan, is_restored: bool) -> Result<Live> {
        let (link, theirs) = UnixStream::pair().context("no link")?;
        let inputs = StartInputs {
            link: theirs.into(),
            workspace: None,
            network: None,
        };
        let mut started = if is_restored {
            let template = self.template.as_ref().context("no template")?;
            template.restore(plan, inputs, &mut Unwatched)
        } else {
            torno_sandbox::start(&plan, inputs)
        }
        .context("no machine")?;
        let renewal = started.renewal.take();
        let mut live = Live {
            started,
            link,
            decoder: GuestDecoder::new(),
            execs: 0,
        };
        if let Err(error) = live.begin(renewal) {
            live.started.handle.remove().context("its end")?;
            return Err(error);
        }
        Ok(live)
    }
}

impl Live {
    fn begin(&mut self, renewal: Option<Renewal>) -> Result<()> {
        let renewal = renewal.context("no machine's")?;
        let now = clock_gettime(ClockId::Realtime);
        let fresh = Fresh {
            entropy: [7; ENTROPY_BYTES],
            machine_id: [7; 16],
            wall_clock: Duration::from_secs(u64::try_from(now.tv_sec)?),
        };
        renewal
            .send(self.link.as_fd(), &fresh)
            .context("not renewed")?;
        self.link.set_read_timeout(Some(WAIT)).context("no limit")?;
        self.greet()
    }

    fn greet(&mut self) -> Result<()> {
        self.say(&HostMessage::Hello {
            version: PROTOCOL_VERSION,
        })?;
        loop {
            match self.next()? {
                Frame::Control(GuestMessage::Hello { .. }) => return Ok(()),
                Frame::Control(GuestMessage::MachineReady {}) => {}
                other => bail!("{other:?}"),
            }
        }
    }

    fn run_true(&mut self) -> Result<()> {
        self.execs += 1;
        let exec = ExecId(self.execs);
        self.say(&HostMessage::StartProcess {
            exec,
            argv: vec!["true".to_owned()],
            env: vec![("PATH".to_owned(), "/usr/bin".to_owned())],
            cwd: "/".to_owned(),
            tty: None,
        })?;
        loop {
            match self.next()? {
                Frame::Control(GuestMessage::ProcessEnded {
                    exec: ended,
                    status,
                }) => {
                    ensure!(ended == exec, "another one ended");
                    ensure!(status == ProcessStatus::Exited(0), "{status:?}");
                    return Ok(());
                }
                Frame::Control(GuestMessage::ProcessFailed { message, .. }) => bail!("{message}"),
                _ => {}
            }
        }
    }

    fn say(&mut self, message: &HostMessage) -> Result<()> {
        let mut frame = bytes::BytesMut::new();
        encode_control(message, &mut frame)?;
        self.link.write_all(&frame).context("the link is closed")
    }

    fn next(&mut self) -> Result<Frame<GuestMessage>> {
        let mut piece = [0; 4096];
        loop {
            if let Some(frame) = self.decoder.next_frame()? {
                return Ok(frame);
            }
            let read = self.link.read(&mut piece).context("the link is silent")?;
            ensure!(read > 0, "the machine is gone");
            self.decoder.push(piece.get(..read).unwrap_or_default());
        }
    }
}

fn milliseconds(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1000.0
}
