// SPDX-License-Identifier: Apache-2.0
//! Reads standard input in a thread of its own, which can be ended while it waits: what is typed
//! after the command's end belongs to whoever reads next.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;
use tokio::sync::mpsc;
use torno_control_api::attach::ClientFrame;

/// LIMIT: one frame of input; a quarter of what the stream takes.
const CHUNK_BYTES: usize = 16 * 1024;

/// The reader. Dropping it ends the thread.
pub(super) struct Input {
    /// Closed to wake the thread.
    wake: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Input {
    pub(super) fn start(to: mpsc::Sender<ClientFrame>) -> io::Result<Self> {
        let (ended, wake) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let thread = std::thread::Builder::new()
            .name("input".into())
            .spawn(move || read(&ended, &to))?;
        Ok(Self {
            wake: Some(wake),
            thread: Some(thread),
        })
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        drop(self.wake.take());
        if let Some(thread) = self.thread.take() {
            // It has nothing to say but that it ended.
            let _ = thread.join();
        }
    }
}

fn read(ended: &OwnedFd, to: &mpsc::Sender<ClientFrame>) {
    let stdin = rustix::stdio::stdin();
    let mut chunk = [0_u8; CHUNK_BYTES];
    loop {
        let mut watched = [
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::new(ended, PollFlags::IN),
        ];
        match poll(&mut watched, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        let [typed, ended] = watched;
        if !ended.revents().is_empty() {
            return;
        }
        if typed.revents().is_empty() {
            continue;
        }
        let frame = match rustix::io::read(stdin, &mut chunk) {
            Ok(length) if length > 0 => {
                ClientFrame::Stdin(chunk.get(..length).unwrap_or_default().to_vec())
            }
            Err(Errno::INTR | Errno::AGAIN) => continue,
            Ok(_) | Err(_) => ClientFrame::StdinEnd,
        };
        let last = frame == ClientFrame::StdinEnd;
        if to.blocking_send(frame).is_err() || last {
            return;
        }
    }
}
