// SPDX-License-Identifier: Apache-2.0
//! Firecracker's interface: `src/firecracker/swagger/firecracker.yaml` of version 1.17.0-dev
//! (commit 004d935399ba), as far as it comes before a machine's start. Version 1.14.1 has the same
//! fields in these bodies but one value of `huge_pages`.

use super::schema::{COUNT, Field, Kind, POSITIVE, check, optional, required};
use super::{Machine, Peer, Reply, Request, text};
use serde_json::{Value, json};

const TOKEN_BUCKET: &[Field] = &[
    required("size", COUNT),
    required("refill_time", COUNT),
    optional("one_time_burst", COUNT),
];
const RATE_LIMITER: &[Field] = &[
    optional("bandwidth", Kind::Object(TOKEN_BUCKET)),
    optional("ops", Kind::Object(TOKEN_BUCKET)),
];
const MACHINE_CONFIGURATION: &[Field] = &[
    required("vcpu_count", Kind::Integer(1..=32)),
    required("mem_size_mib", POSITIVE),
    optional("smt", Kind::Flag),
    optional("track_dirty_pages", Kind::Flag),
    optional(
        "cpu_template",
        Kind::OneOf(&["C3", "T2", "T2S", "T2CL", "T2A", "V1N1", "None"]),
    ),
    optional("huge_pages", Kind::OneOf(&["None", "Transparent", "2M"])),
];
const BOOT_SOURCE: &[Field] = &[
    required("kernel_image_path", Kind::Text),
    optional("initrd_path", Kind::Text),
    optional("boot_args", Kind::Text),
];
/// A drive of a file on the host: with one, the description says, the last two are required.
const DRIVE: &[Field] = &[
    required("drive_id", Kind::Text),
    required("is_root_device", Kind::Flag),
    optional("partuuid", Kind::Text),
    optional("cache_type", Kind::OneOf(&["Unsafe", "Writeback"])),
    optional("rate_limiter", Kind::Object(RATE_LIMITER)),
    optional("io_engine", Kind::OneOf(&["Sync", "Async"])),
    required("is_read_only", Kind::Flag),
    required("path_on_host", Kind::Text),
];
const VSOCK: &[Field] = &[
    required("guest_cid", Kind::Integer(3..=0xffff_ffff)),
    required("uds_path", Kind::Text),
    optional("vsock_id", Kind::Text),
];
const ACTION: &[Field] = &[required(
    "action_type",
    Kind::OneOf(&["FlushMetrics", "InstanceStart", "SendCtrlAltDel"]),
)];

/// A Firecracker that makes no machine.
#[derive(Debug, Default)]
pub(crate) struct Firecracker {
    has_boot_source: bool,
    machine: Machine,
    is_started: bool,
}

impl Peer for Firecracker {
    fn answer(&mut self, request: &Request) -> Reply {
        match self.take(request) {
            Ok(()) => Reply::done(),
            Err(fault) => Reply {
                status: 400,
                body: Some(json!({ "fault_message": fault })),
            },
        }
    }

    fn machine(&self) -> Option<&Machine> {
        self.is_started.then_some(&self.machine)
    }
}

impl Firecracker {
    fn take(&mut self, request: &Request) -> Result<(), String> {
        let Request { method, path, body } = request;
        if method != "PUT" {
            return Err(format!(
                "Invalid request method and/or path: {method} {path}."
            ));
        }
        let body = body.as_ref().ok_or("Empty PUT request.")?;
        match path.as_str() {
            "/machine-config" => {
                self.before_start(MACHINE_CONFIGURATION, body)?;
                let memory = body.get("mem_size_mib").and_then(Value::as_u64);
                self.machine.memory_mib = memory.unwrap_or_default();
            }
            "/boot-source" => {
                self.before_start(BOOT_SOURCE, body)?;
                self.has_boot_source = true;
                self.machine.kernel_words = text(body, "/boot_args");
                let files = ["/kernel_image_path", "/initrd_path"];
                let files = files.map(|place| text(body, place));
                self.machine.files.extend(files);
            }
            "/vsock" => {
                self.before_start(VSOCK, body)?;
                self.machine.socket = text(body, "/uds_path");
            }
            "/actions" => self.act(body)?,
            other => self.drive(other, body)?,
        }
        Ok(())
    }

    fn drive(&mut self, path: &str, body: &Value) -> Result<(), String> {
        let none = || format!("Invalid request method and/or path: PUT {path}.");
        let name = path.strip_prefix("/drives/").ok_or_else(none)?;
        self.before_start(DRIVE, body)?;
        if text(body, "/drive_id") != name {
            return Err("The id from the path does not match the id from the body!".to_owned());
        }
        self.machine.files.push(text(body, "/path_on_host"));
        Ok(())
    }

    fn act(&mut self, body: &Value) -> Result<(), String> {
        check(ACTION, body)?;
        match (text(body, "/action_type").as_str(), self.is_started) {
            ("InstanceStart", false) if self.has_boot_source => {
                self.is_started = true;
                Ok(())
            }
            ("InstanceStart", false) => {
                Err("Cannot start microvm without kernel configuration.".to_owned())
            }
            ("InstanceStart", true) => Err(STARTED.to_owned()),
            (_, true) => Ok(()),
            (_, false) => Err(
                "The requested operation is not supported before starting the microVM.".to_owned(),
            ),
        }
    }

    fn before_start(&self, fields: &[Field], body: &Value) -> Result<(), String> {
        check(fields, body)?;
        if self.is_started {
            Err(STARTED.to_owned())
        } else {
            Ok(())
        }
    }
}

const STARTED: &str = "The requested operation is not supported after starting the microVM.";
