// SPDX-License-Identifier: Apache-2.0
//! What the published interfaces of Firecracker and Cloud Hypervisor say to our calls, and to every
//! change of them.

use super::{BOTH, Monitor, calls};
use crate::vm::monitor::call::Call;
use crate::vm::monitor::http::Method;
use peer::{CloudHypervisor, Firecracker, Peer, Reply, Request};
use serde_json::{Value, json};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

#[path = "../../../../tests/monitors/peer.rs"]
mod peer;

fn peer_of(monitor: Monitor) -> Box<dyn Peer + Send> {
    match monitor {
        Monitor::Firecracker => Box::new(Firecracker::default()),
        _ => Box::new(CloudHypervisor::default()),
    }
}

/// What the peer says to these calls: the first refusal, or none.
fn refusal(monitor: Monitor, calls: &[Call]) -> Option<Reply> {
    let mut peer = peer_of(monitor);
    let replies = calls.iter().map(|call| {
        peer.answer(&Request {
            method: call.method.name().to_owned(),
            path: call.path.to_owned(),
            body: call.body.clone(),
        })
    });
    replies.into_iter().find(|reply| reply.status >= 400)
}

#[test]
fn what_a_monitor_is_told_is_what_its_published_interface_takes() {
    for monitor in BOTH {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut peer = peer_of(monitor);
        let serving = std::thread::spawn(move || {
            peer::serve(&mut *peer, theirs).unwrap();
            peer
        });
        for call in calls(monitor) {
            let deadline = Instant::now() + Duration::from_secs(10);
            call.tell(ours.try_clone().unwrap(), deadline).unwrap();
        }
        drop(ours);
        let peer = serving.join().unwrap();
        let machine = peer.machine().unwrap();
        assert_eq!(machine.socket, "/run/link.sock");
        assert_eq!(machine.memory_mib, 2048 + 64);
        let files = ["/boot/kernel", "/boot/initial", "/boot/disk.erofs"];
        assert_eq!(machine.files, files);
        assert!(machine.kernel_words.contains("rdinit=/init"));
    }
}

#[test]
fn a_refusal_says_which_call_and_what_was_answered() {
    let mut start = calls(Monitor::Firecracker).pop().unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    std::thread::spawn(move || peer::serve(&mut Firecracker::default(), theirs));
    let deadline = Instant::now() + Duration::from_secs(10);
    let error = start.tell(ours, deadline).unwrap_err().to_string();
    assert!(
        error.contains("`start`") && error.contains("400"),
        "{error}"
    );
    assert!(error.contains("without kernel configuration"), "{error}");
    // A monitor that hangs up is an error that names the call too.
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(theirs);
    start.name = "link";
    let error = start.tell(ours, deadline).unwrap_err().to_string();
    assert!(error.contains("`link`"), "{error}");
}

/// Every place in a body, as a JSON pointer.
fn places(body: &Value, at: &str, found: &mut Vec<String>) {
    let below: Vec<(String, &Value)> = match body {
        Value::Object(fields) => fields.iter().map(|(n, v)| (n.clone(), v)).collect(),
        Value::Array(list) => list
            .iter()
            .enumerate()
            .map(|(n, v)| (n.to_string(), v))
            .collect(),
        _ => Vec::new(),
    };
    for (name, value) in below {
        let place = format!("{at}/{name}");
        places(value, &place, found);
        found.push(place);
    }
}

/// A value of another type.
fn other_type(value: &Value) -> Value {
    match value {
        Value::String(_) => json!(1),
        Value::Number(_) | Value::Bool(_) => json!("1"),
        _ => json!(true),
    }
}

#[test]
fn every_field_that_is_sent_could_have_been_refused() {
    let mut refused = 0;
    for monitor in BOTH {
        let right = calls(monitor);
        assert_eq!(refusal(monitor, &right), None);
        for at in 0..right.len() {
            let mut found = Vec::new();
            let body = right[at].body.clone().unwrap_or_default();
            places(&body, "", &mut found);
            for place in found {
                let mut wrong = right.clone();
                let body = wrong[at].body.as_mut().unwrap();
                let value = body.pointer_mut(&place).unwrap();
                *value = other_type(value);
                assert!(
                    refusal(monitor, &wrong).is_some(),
                    "{monitor:?} type {place}"
                );
                refused += 1;
                // Under a name that nobody has.
                let (parent, name) = place.rsplit_once('/').unwrap();
                let mut wrong = right.clone();
                let body = wrong[at].body.as_mut().unwrap();
                let Some(Value::Object(fields)) = body.pointer_mut(parent) else {
                    continue;
                };
                let value = fields.remove(name).unwrap();
                fields.insert(format!("{name}_"), value);
                assert!(
                    refusal(monitor, &wrong).is_some(),
                    "{monitor:?} name {place}"
                );
                refused += 1;
            }
        }
    }
    assert_eq!(
        refused, FIELDS,
        "a field was added: see that its mutations are refused"
    );
}

/// Two for each field that is sent, one for each entry of a list.
const FIELDS: usize = 63;

#[test]
fn what_is_missing_or_out_of_range_is_refused() {
    let cases: [(Monitor, usize, &str, Option<Value>); 16] = [
        (Monitor::Firecracker, 0, "/vcpu_count", None),
        (Monitor::Firecracker, 0, "/vcpu_count", Some(json!(0))),
        (Monitor::Firecracker, 0, "/vcpu_count", Some(json!(33))),
        (Monitor::Firecracker, 0, "/mem_size_mib", None),
        (Monitor::Firecracker, 0, "/mem_size_mib", Some(json!(1.5))),
        (Monitor::Firecracker, 1, "/kernel_image_path", None),
        (Monitor::Firecracker, 2, "/drive_id", Some(json!("other"))),
        (Monitor::Firecracker, 2, "/is_read_only", None),
        (Monitor::Firecracker, 3, "/guest_cid", Some(json!(2))),
        (Monitor::Firecracker, 3, "/uds_path", None),
        (
            Monitor::Firecracker,
            4,
            "/action_type",
            Some(json!("Start")),
        ),
        (Monitor::CloudHypervisor, 1, "/payload", None),
        (
            Monitor::CloudHypervisor,
            1,
            "/cpus/boot_vcpus",
            Some(json!(0)),
        ),
        (Monitor::CloudHypervisor, 1, "/memory/size", Some(json!(-1))),
        (Monitor::CloudHypervisor, 1, "/vsock/cid", Some(json!(2))),
        (
            Monitor::CloudHypervisor,
            1,
            "/console/mode",
            Some(json!("off")),
        ),
    ];
    for (monitor, at, place, value) in cases {
        let mut wrong = calls(monitor);
        let body = wrong[at].body.as_mut().unwrap();
        let (parent, name) = place.rsplit_once('/').unwrap();
        let fields = body.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        match value.clone() {
            Some(value) => fields.insert(name.to_owned(), value),
            None => fields.remove(name),
        };
        assert!(
            refusal(monitor, &wrong).is_some(),
            "{monitor:?} {place} {value:?}"
        );
    }
}

#[test]
fn another_order_method_or_path_is_refused() {
    for monitor in BOTH {
        let right = calls(monitor);
        let last = right.len() - 1;
        for at in 0..=last {
            let mut wrong = right.clone();
            wrong[at].method = match wrong[at].method {
                Method::Get => Method::Put,
                Method::Put => Method::Get,
            };
            assert!(
                refusal(monitor, &wrong).is_some(),
                "{monitor:?} method {at}"
            );
            let mut wrong = right.clone();
            wrong[at].path = "/elsewhere";
            assert!(refusal(monitor, &wrong).is_some(), "{monitor:?} path {at}");
            // The start comes before this call.
            let is_ping = right[at].method == Method::Get;
            if at < last && !is_ping {
                let mut wrong = right.clone();
                let start = wrong.remove(last);
                wrong.insert(at, start);
                assert!(
                    refusal(monitor, &wrong).is_some(),
                    "{monitor:?} start before {at}"
                );
            }
        }
        let mut twice = right.clone();
        twice.push(right[last].clone());
        assert!(
            refusal(monitor, &twice).is_some(),
            "{monitor:?} starts twice"
        );
    }
    let mut twice = calls(Monitor::CloudHypervisor);
    twice.insert(1, twice[1].clone());
    assert!(
        refusal(Monitor::CloudHypervisor, &twice).is_some(),
        "made twice"
    );
    let mut alone = calls(Monitor::Firecracker);
    alone.drain(..4);
    assert!(
        refusal(Monitor::Firecracker, &alone).is_some(),
        "nothing to start"
    );
}
