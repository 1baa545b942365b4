// SPDX-License-Identifier: Apache-2.0
//! Presets: hosts that the operator confirmed for a client, by name. None is shipped: what a
//! client asks for is learnt on the machine where it is used.

use crate::binding::PathPattern;
use crate::grant::HostPattern;
use crate::names::{Method, Port, Scheme};
use std::collections::BTreeMap;

/// One host of a preset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresetHost {
    /// The host.
    pub host: HostPattern,
    /// The scheme.
    pub scheme: Scheme,
    /// The port.
    pub port: Port,
    /// Methods; never empty.
    pub methods: Vec<Method>,
    /// Paths; never empty.
    pub paths: Vec<PathPattern>,
}

/// The presets that a document may name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Presets(BTreeMap<String, Vec<PresetHost>>);

impl Presets {
    /// The shipped presets: none.
    #[must_use]
    pub fn shipped() -> Self {
        Self::default()
    }

    /// Adds what the operator confirmed. A preset without a host is not kept.
    #[must_use]
    pub fn with(mut self, name: &str, hosts: Vec<PresetHost>) -> Self {
        if !hosts.is_empty() {
            self.0.insert(name.to_owned(), hosts);
        }
        self
    }

    /// The hosts of a preset.
    #[must_use]
    pub fn hosts(&self, name: &str) -> Option<&[PresetHost]> {
        self.0.get(name).map(Vec::as_slice)
    }
}
