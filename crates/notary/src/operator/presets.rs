// SPDX-License-Identifier: Apache-2.0
//! The owner's presets. Only this socket sets them: no document, no workspace and no brain can. A
//! preset that changes widens nothing by itself, because the accepted digest of each document that
//! names it covers its text.

use super::Outcome;
use super::failure::{Failure, failed};
use crate::notary::{Notary, Now};
use torno_audit::{Digest, Event};
use torno_notary_protocol::operator::{OperatorReply, PresetRow};
use torno_policy::document::{self, Preset, Presets};
use torno_policy::names::PresetName;

/// LIMIT: presets at once; there is one for each package client that somebody uses.
const PRESETS_MAX: usize = 64;

impl Notary {
    pub(super) fn preset_rows(&self) -> OperatorReply {
        let row = |(name, preset): (&PresetName, &Preset)| PresetRow {
            name: name.clone(),
            text: preset.text(),
        };
        OperatorReply::Presets {
            presets: self.presets.all().map(row).collect(),
        }
    }

    /// Recorded, stored, in effect, in this order: a crash between leaves a preset that is recorded
    /// and gives nothing, never one that gives something and is not recorded.
    pub(super) fn set_preset(&mut self, name: PresetName, text: &str, now: Now) -> Outcome {
        let preset = Preset::parse(text).map_err(|error| Failure {
            code: "preset_invalid",
            message: format!("this is no preset: {error}"),
        })?;
        let is_new = self.presets.preset(&name).is_none();
        if is_new && self.presets.all().count() >= PRESETS_MAX {
            return Err(Failure {
                code: "too_many_presets",
                message: format!("there are {PRESETS_MAX} presets; remove one first"),
            });
        }
        let event = Event::PresetSet {
            name: name.clone(),
            digest: Digest::new(document::digest(&preset.text()).0),
        };
        let _recorded = self.record_value(event, (), now)?;
        let stored = self.store.set_preset(&name, &preset, now.unix_seconds());
        stored.map_err(failed)?;
        self.change_presets(|presets| presets.with(name, preset))
    }

    pub(super) fn remove_preset(&mut self, name: &PresetName, now: Now) -> Outcome {
        if self.presets.preset(name).is_none() {
            return Err(Failure {
                code: "preset_unknown",
                message: format!("there is no preset `{name}`; `torno preset list` names them"),
            });
        }
        let event = Event::PresetRemoved { name: name.clone() };
        let _recorded = self.record_value(event, (), now)?;
        self.store.remove_preset(name).map_err(failed)?;
        self.change_presets(|presets| presets.without(name))
    }

    fn change_presets(&mut self, change: impl FnOnce(Presets) -> Presets) -> Outcome {
        self.presets = change(std::mem::take(&mut self.presets));
        Ok((OperatorReply::Done, Vec::new()))
    }
}
