// SPDX-License-Identifier: Apache-2.0
//! Peers that speak the interfaces of Firecracker and Cloud Hypervisor as their makers publish
//! them, and strictly: a field that is not listed, a required one that is missing, another type, a
//! number out of its range, a path or method that is none, and an order that the makers rule out
//! are all refused. They make no machine. The field lists were written down from the published
//! descriptions, which the two files name with their versions.

mod cloud_hypervisor;
mod firecracker;
mod schema;
mod serve;

pub(crate) use cloud_hypervisor::CloudHypervisor;
pub(crate) use firecracker::Firecracker;
pub(crate) use serve::serve;

use serde_json::Value;

/// A call as it came.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) body: Option<Value>,
}

/// What the peer says to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Option<Value>,
}

impl Reply {
    fn done() -> Self {
        Self {
            status: 204,
            body: None,
        }
    }
}

/// A machine that was started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Machine {
    /// From which the sockets of the guest's ports have their names.
    pub(crate) socket: String,
    /// Files that were named to be read.
    pub(crate) files: Vec<String>,
    pub(crate) memory_mib: u64,
    pub(crate) kernel_words: String,
}

/// A monitor's interface.
pub(crate) trait Peer {
    fn answer(&mut self, request: &Request) -> Reply;

    /// Once it was started.
    fn machine(&self) -> Option<&Machine>;
}

/// The text at a place of a body; empty where there is none.
fn text(body: &Value, place: &str) -> String {
    let found = body.pointer(place).and_then(Value::as_str);
    found.unwrap_or_default().to_owned()
}
