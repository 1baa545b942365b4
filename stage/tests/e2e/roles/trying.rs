// SPDX-License-Identifier: Apache-2.0
//! Makes a running process try a system call, and says what the kernel answered. No part of the
//! product helps: ptrace(2) puts the call into the process, so it meets the process's own walls.

use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Stdio};
use torno_stage::unwalled::PYTHON;

const SCRIPT: &str = include_str!("try_calls.py");

/// A system call by its x86-64 number, with its arguments as `try_calls.py` takes them.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) number: u32,
    pub(crate) arguments: Value,
    /// What it makes is a descriptor, to be closed at once.
    pub(crate) closes: bool,
}

impl Call {
    pub(crate) fn new(number: u32, arguments: Value) -> Self {
        Self {
            number,
            arguments,
            closes: false,
        }
    }

    pub(crate) fn closing(self) -> Self {
        Self {
            closes: true,
            ..self
        }
    }
}

/// What the kernel answered, as it does: not negative, or an error number with a minus.
pub(crate) fn try_calls(process: u32, calls: &[Call]) -> Vec<i64> {
    let ends = |call: &Call| if call.closes { "close" } else { "" };
    let wanted = calls.iter();
    let wanted: Vec<_> = wanted
        .map(|call| json!([call.number, call.arguments, ends(call)]))
        .collect();
    let mut python = Command::new(PYTHON);
    python.args(["-c", SCRIPT, &process.to_string()]);
    python.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = python.stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin
        .write_all(json!(wanted).to_string().as_bytes())
        .unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{process}: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}
