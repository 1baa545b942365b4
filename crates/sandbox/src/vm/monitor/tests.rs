// SPDX-License-Identifier: Apache-2.0
//! Plans of machines that Firecracker and Cloud Hypervisor make, what their published interfaces
//! say to them, and who may make one.

use super::call::Call;
use super::http::Method;
use super::*;
use crate::facts::HostFacts;
use crate::plan::tests as oci;
use crate::plan::{Plan, PlanError, TreeStep};
use crate::vm::tests as machine;
use peer::{CloudHypervisor, Firecracker, Peer, Reply, Request};
use serde_json::{Value, json};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

#[path = "../../../tests/monitors/peer.rs"]
mod peer;

const BOTH: [Monitor; 2] = [Monitor::Firecracker, Monitor::CloudHypervisor];

/// Facts of a host where this monitor has booted a machine by KVM.
fn facts(monitor: Monitor) -> HostFacts {
    let mut facts = machine::facts();
    let parts = facts.machine.as_mut().unwrap();
    let programs = BOTH.map(|monitor| MonitorProgram {
        monitor,
        path: "/opt/monitors/program".into(),
        version: monitor.name().to_owned() + " v1.14.1",
        is_dynamic: monitor == Monitor::CloudHypervisor,
    });
    parts.kvm = Kvm {
        is_there: true,
        programs: programs.to_vec(),
        kernel: Some("/opt/machine/images/vmlinux-0".into()),
        link_modules: vec![("vsock.ko", b"MODULE".as_slice().into())],
        proven: vec![(Level::Microvm, monitor)],
    };
    facts
}

fn plan(monitor: Monitor) -> Plan {
    crate::plan(&machine::spec(Level::Microvm), &facts(monitor)).unwrap()
}

fn calls(monitor: Monitor) -> Vec<Call> {
    plan(monitor).monitor.unwrap().calls
}

#[test]
fn the_plans_of_machines_by_kvm_are_the_golden_ones() {
    for (monitor, name) in BOTH.into_iter().zip(["firecracker", "cloud_hypervisor"]) {
        let plan = plan(monitor);
        let mut text = oci::printed(&plan);
        for call in plan.monitor.unwrap().calls {
            text += &format!("{} {} → {}\n", call.method.name(), call.path, call.status);
            if let Some(body) = call.body {
                text += &serde_json::to_string_pretty(&body).unwrap();
                text.push('\n');
            }
        }
        oci::check_golden(&format!("{name}.txt"), &text);
    }
}

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
    replies.into_iter().find(Reply::is_refusal)
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
        let machine = peer.machine().expect("started");
        assert_eq!(machine.socket, "/run/link.sock");
        assert_eq!(machine.memory_mib, 2048 + 64);
        let files = ["/boot/kernel", "/boot/initial", "/boot/usr.erofs"];
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

#[test]
fn a_monitor_has_no_network_one_device_and_one_place_for_its_sockets() {
    for monitor in BOTH {
        let plan = plan(monitor);
        assert_eq!(plan.network, crate::plan::Network::Machine);
        let config: Value = serde_json::from_str(&plan.config).unwrap();
        let mounts = config["mounts"].as_array().unwrap();
        let places: Vec<&str> = mounts
            .iter()
            .map(|m| m["destination"].as_str().unwrap())
            .collect();
        assert_eq!(places, ["/proc", "/dev", "/dev/kvm"]);
        assert_eq!(config["root"]["readonly"], true);
        assert_eq!(config["process"]["noNewPrivileges"], true);
        let capabilities = config["process"]["capabilities"].as_object().unwrap();
        assert!(
            capabilities
                .values()
                .all(|set| set.as_array().unwrap().is_empty())
        );
        let homes = plan
            .tree
            .iter()
            .filter(|step| matches!(step, TreeStep::Home(..)));
        assert_eq!(homes.count(), 1);
        let binds = plan.tree.iter().filter_map(|step| match step {
            TreeStep::Bind { host, .. } => Some(host.to_str().unwrap()),
            _ => None,
        });
        let binds: Vec<&str> = binds.collect();
        let booted = [
            "/opt/monitors/program",
            "/opt/machine/images/vmlinux-0",
            "/opt/machine/images/usr-0.erofs",
        ];
        match monitor {
            Monitor::Firecracker => assert_eq!(binds, booted),
            // It was not linked for itself alone.
            _ => assert_eq!(binds.get(binds.len() - 3..), Some(&booted[..])),
        }
    }
}

#[test]
fn what_was_not_proven_is_not_used_and_what_is_missing_is_refused() {
    let spec = machine::spec(Level::Microvm);
    let mut facts = facts(Monitor::Firecracker);
    let kvm = |facts: &mut HostFacts, change: fn(&mut Kvm)| {
        change(&mut facts.machine.as_mut().unwrap().kvm);
    };
    let vm = crate::plan(&machine::spec(Level::Vm), &facts).unwrap();
    assert!(
        vm.monitor.is_none() && vm.config.contains("tcg"),
        "another level"
    );
    kvm(&mut facts, |kvm| kvm.kernel = None);
    let refused = crate::plan(&spec, &facts).unwrap_err();
    assert_eq!(refused, PlanError::ImageMissing);
    kvm(&mut facts, |kvm| kvm.programs.clear());
    let refused = crate::plan(&spec, &facts).unwrap_err();
    assert_eq!(refused, PlanError::MachineMissing);
    kvm(&mut facts, |kvm| kvm.proven.clear());
    let plan = crate::plan(&spec, &facts).unwrap();
    assert!(plan.monitor.is_none() && plan.config.contains("tcg"));
    assert!(
        !plan.tree.contains(&TreeStep::Kvm),
        "an emulated machine has no device"
    );
    kvm(&mut facts, |kvm| {
        kvm.proven.push((Level::Microvm, Monitor::Qemu))
    });
    let plan = crate::plan(&spec, &facts).unwrap();
    assert!(plan.monitor.is_none() && plan.tree.contains(&TreeStep::Kvm));
    assert!(!plan.config.contains("tcg") && plan.config.contains("/dev/kvm"));
}

#[test]
fn an_older_monitor_is_none_and_a_version_has_two_numbers() {
    assert_eq!(number("Firecracker v1.14.1"), Some([1, 14]));
    assert_eq!(number("cloud-hypervisor v48.0-dirty"), Some([48, 0]));
    assert_eq!(number("Firecracker 1.14"), None);
    assert_eq!(number("v1."), None);
    let directory = tempfile::tempdir().unwrap();
    let paths = Paths {
        search: vec![directory.path().to_owned()],
        ..Paths::default()
    };
    for (version, is_found) in [("v1.8.0", true), ("v1.7.9", false), ("", false)] {
        let path = directory.path().join("firecracker");
        std::fs::write(&path, format!("#!/bin/sh\necho Firecracker {version}\n")).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, executable).unwrap();
        let found = MonitorProgram::find(&paths, Monitor::Firecracker);
        assert_eq!(found.is_some(), is_found, "{version}");
    }
    assert!(has_interpreter(Path::new("/bin/sh")));
}

#[test]
fn what_speeds_emulation_up_is_not_in_what_a_monitor_is_told() {
    let emulated = crate::vm::tests::facts();
    let parts = emulated.machine.unwrap();
    let fast = crate::vm::command::fast(&parts);
    assert!(fast.len() > 3);
    for monitor in BOTH {
        let text: Vec<String> = calls(monitor)
            .iter()
            .filter_map(|call| Some(call.body.as_ref()?.to_string()))
            .collect();
        let text = text.join(" ");
        assert!(text.contains("tsc_early_khz="), "{text}");
        for word in &fast {
            assert!(!text.contains(word), "{monitor:?} says {word}");
        }
    }
}
