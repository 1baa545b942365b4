// SPDX-License-Identifier: Apache-2.0
//! The monitor against a peer that speaks QEMU's lines, and against peers that don't.

use super::*;
use std::io::{BufRead, BufReader, Write};
use std::thread::JoinHandle;

const GREETING: &str = r#"{"QMP": {"version": {}, "capabilities": ["oob"]}}"#;
const NOTHING: &str = r#"{"return": {}}"#;

/// A peer that says its greeting, and then so many lines after each line that it hears.
fn peer(greeting: &'static str, answers: &[&[&'static str]]) -> (Qmp, JoinHandle<Vec<String>>) {
    let (monitor, theirs) = Qmp::pair().unwrap();
    let answers: Vec<Vec<&str>> = answers.iter().map(|lines| lines.to_vec()).collect();
    let work = move || {
        let mut socket = UnixStream::from(theirs);
        let mut heard = Vec::new();
        let _ = writeln!(socket, "{greeting}\r");
        let mut pieces = [0; 8192];
        for lines in answers {
            let read = socket.read(&mut pieces).unwrap_or(0);
            if read == 0 {
                break;
            }
            heard.push(String::from_utf8_lossy(&pieces[..read]).into_owned());
            for line in lines {
                let _ = writeln!(socket, "{line}\r");
            }
        }
        let mut rest = BufReader::new(socket);
        let mut line = String::new();
        while rest.read_line(&mut line).is_ok_and(|read| read > 0) {
            heard.push(std::mem::take(&mut line));
        }
        heard
    };
    (monitor, std::thread::spawn(work))
}

#[test]
fn a_machine_is_kept_by_five_orders_and_restored_by_three() {
    let active = r#"{"return": {"status": "active"}}"#;
    let completed = r#"{"return": {"status": "completed"}}"#;
    let stop = r#"{"timestamp": {}, "event": "STOP"}"#;
    let answers: [&[&str]; 6] = [
        &[NOTHING],
        &[NOTHING],
        &[NOTHING],
        &[NOTHING],
        &[active],
        &[stop, completed],
    ];
    let (monitor, heard) = peer(GREETING, &answers);
    monitor.keep(io::stdin().as_fd()).unwrap();
    let heard = heard.join().unwrap();
    assert_eq!(heard.len(), 6, "{heard:?}");
    assert!(heard[1].contains("x-ignore-shared") && heard[3].contains("fd:state"));

    let resumed = r#"{"event": "RESUME"}"#;
    let answers: [&[&str]; 3] = [&[NOTHING], &[NOTHING], &[NOTHING, resumed]];
    let (monitor, heard) = peer(GREETING, &answers);
    monitor.restore(5).unwrap();
    assert!(heard.join().unwrap()[2].contains("fd:5"));
}

#[test]
fn what_qemu_refuses_or_nobody_understands_is_the_end() {
    let refused = "{\"error\": {\"class\": \"GenericError\", \"desc\": \"no\\n`such` state\"}}";
    let (monitor, _) = peer(GREETING, &[&[NOTHING], &[NOTHING], &[refused]]);
    let error = monitor.restore(5).unwrap_err();
    assert!(
        matches!(&error, QmpError::Refused(why) if why == "nosuch state"),
        "{error}"
    );
    let failed = r#"{"return": {"status": "failed"}}"#;
    let all: [&[&str]; 5] = [&[NOTHING], &[NOTHING], &[NOTHING], &[NOTHING], &[failed]];
    let (monitor, _) = peer(GREETING, &all);
    let kept = monitor.keep(io::stdin().as_fd());
    assert!(matches!(kept, Err(QmpError::Strange)));
    for strange in [
        "[]",
        "{}",
        "x",
        "{\"return\":{},\"event\":\"RESUME\"}",
        "{\"event\":1}",
    ] {
        let (monitor, _) = peer(GREETING, &[&[NOTHING], &[NOTHING], &[strange]]);
        let restored = monitor.restore(5);
        assert!(matches!(restored, Err(QmpError::Strange)), "{strange}");
    }
    let (monitor, _) = peer(NOTHING, &[]);
    assert!(matches!(monitor.restore(5), Err(QmpError::Strange)));
}

#[test]
fn a_line_without_end_and_lines_without_end_are_not_kept() {
    let (monitor, theirs) = Qmp::pair().unwrap();
    let work = std::thread::spawn(move || {
        let mut socket = UnixStream::from(theirs);
        let mut written = 0;
        while socket.write_all(&[b' '; 4096]).is_ok() {
            written += 4096;
        }
        written
    });
    assert!(matches!(monitor.restore(5), Err(QmpError::Strange)));
    // What our end took, and what lies in the socket.
    assert!(work.join().unwrap() < 4 << 20);
    let (monitor, theirs) = Qmp::pair().unwrap();
    let work = std::thread::spawn(move || {
        let mut socket = UnixStream::from(theirs);
        let _ = writeln!(socket, "{GREETING}");
        while socket.write_all(b"{\"event\":\"x\"}\n").is_ok() {}
    });
    assert!(matches!(monitor.restore(5), Err(QmpError::Strange)));
    work.join().unwrap();
}

#[test]
fn a_monitor_that_says_nothing_is_given_up() {
    let (mut monitor, theirs) = Qmp::pair().unwrap();
    monitor.end = Instant::now() + Duration::from_millis(20);
    assert!(matches!(monitor.line(), Err(QmpError::Gone(_))));
    drop(theirs);
    assert!(matches!(monitor.restore(5), Err(QmpError::Gone(_))));
}
