// SPDX-License-Identifier: Apache-2.0
//! The live desk's socket, spoken to by hand: without a token, with a wrong one, with a brain's, as
//! another user, and with fields that no request has.

use crate::stage::{Stage, at_each_level};
use std::process::Command;
use std::time::{Duration, Instant};
use torno_stage::unwalled::PYTHON;

/// LIMIT: how long sessions may take to be there on a busy machine.
const START_WAIT: Duration = Duration::from_secs(90);

/// Arguments: socket, operator's token file, two sessions. Prints `name verdict` for each call.
const CALLS: &str = r"
import json, socket, sys
path, token, one, two = sys.argv[1], open(sys.argv[2]).read().strip(), sys.argv[3], sys.argv[4]

class Desk:
    def __init__(self, token=None):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(60)
        self.socket.connect(path)
        if token:
            self.hello = self.call({'authenticate': {'token': token}})

    def call(self, request):
        try:
            self.socket.send(json.dumps(request).encode())
            said = self.socket.recv(1 << 20)
            return json.loads(said) if said else 'closed'
        except OSError as error:
            return 'closed'

def verdict(reply):
    if reply == 'closed':
        return 'closed'
    if isinstance(reply, dict) and 'failed' in reply:
        return 'failed:' + reply['failed']['code']
    return 'done'

def execute(session, **more):
    return {'exec': dict({'session': session, 'argv': ['true'], 'env': [], 'cwd': None,
        'terminal': None}, **more)}

act = {'tool': {'tool': 'bash', 'arguments': {}}}
own = [('sessions', {'sessions': {'session': one}}), ('exec', execute(one)),
    ('explain', {'explain': {'session': one, 'act': act}})]
foreign = [('sessions-two', {'sessions': {'session': two}}), ('exec-two', execute(two)),
    ('attach-two', {'attach': {'session': two, 'exec': 1}}), ('stop-two', {'stop': {'session': two}}),
    ('kill-two', {'kill': {'session': two}}), ('diff-two', {'diff': {'session': two}}),
    ('explain-two', {'explain': {'session': two, 'act': act}}),
    ('sessions-all', {'sessions': {'session': None}}), ('kill-all', {'kill': {'session': None}}),
    ('doctor', 'doctor'), ('token', {'issue_brain_token': {'session': two}}),
    ('pause', {'pause': {'session': one}}), ('leftovers', {'leftovers': {'remove': True}}),
    ('checkpoint', {'checkpoint': {'session': one, 'name': None}}),
    ('apply', {'apply': {'session': one, 'paths': None, 'confirmed': []}}),
    ('start', {'start': {'document': '', 'isolation': None, 'workspace': None, 'wall_seconds': None,
        'env': [], 'has_workspace': False, 'detached': True, 'also': [],
        'has_also': False, 'emulation': False, 'from': None}})]

def tell(who, make, calls):
    for name, request in calls:
        print(who, name, verdict(make().call(request)))

def wrong():
    return Desk('A' * 43)

tell('nobody', Desk, own + foreign)
print('wrong', 'hello', verdict(wrong().hello))
tell('wrong', wrong, own + foreign)
brain = Desk(token).call({'issue_brain_token': {'session': one}})['token']['token']
tell('brain', lambda: Desk(brain), own + foreign)
odd = [('exec-path', execute(one, record='/etc/cron.d/x')), ('exec-user', execute(one, user='root')),
    ('stop-path', {'stop': {'session': one, 'audit_path': '/x'}}),
    ('doctor-path', {'doctor': {'record': '/x'}}), ('set', {'set_record': {'path': '/x'}}),
    ('two', {'doctor': None, 'kill': {'session': None}})]
tell('operator', lambda: Desk(token), odd)
tell('operator', lambda: Desk(token), [('sessions-one', own[0][1]), ('sessions-two', foreign[0][1])])
Desk(token).call({'stop': {'session': one}})
tell('late', lambda: Desk(brain), own)
";

/// Two sessions of our own that run for a while.
fn two_sessions(stage: &Stage, level: &str) -> [String; 2] {
    let detach = ["run", "--quiet", "--isolation", level, "--detach"];
    for _ in 0..2 {
        stage.torno(&detach).good();
    }
    let end = Instant::now() + START_WAIT;
    loop {
        let sessions = stage.daemon.sessions().unwrap();
        if let Ok(two) = sessions.try_into() {
            return two;
        }
        assert!(Instant::now() < end, "no two sessions");
        std::thread::sleep(Duration::from_millis(100));
    }
}

// ATTACK: 126, 127, 219
#[test]
fn only_the_right_token_is_answered_and_a_brain_reaches_its_own_session_alone() {
    at_each_level("callers of the desk", |stage, level| {
        let [one, two] = two_sessions(stage, level);
        let run = stage.daemon.home().join("run");
        let (socket, token) = (run.join("desk.sock"), run.join("operator.token"));
        let stranger = Command::new("setpriv")
            .args(["--reuid", "65534", "--clear-groups", "--", PYTHON, "-c"])
            .arg("import socket, sys\nsocket.socket(1, 5).connect(sys.argv[1])")
            .arg(&socket)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&stranger.stderr);
        assert!(said.contains("Permission denied"), "{said}");
        let output = Command::new(PYTHON)
            .args(["-c", CALLS])
            .args([&socket, &token])
            .args([&one, &two])
            .output()
            .unwrap();
        let ran = stage.hear(&output).good();
        let mut calls = 0;
        for line in ran.stdout.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [who, name, verdict] = words.as_slice() else {
                panic!("{line}")
            };
            calls += 1;
            let own = ["sessions", "exec", "explain"].contains(name);
            let right = match *who {
                "brain" if own => *verdict == "done",
                "operator" if name.starts_with("sessions-") => *verdict == "done",
                _ => *verdict != "done",
            };
            assert!(right, "{line}\n{}", ran.stdout);
        }
        assert_eq!(calls, 19 + 1 + 19 + 19 + 6 + 2 + 3, "{}", ran.stdout);
        assert_eq!(stage.daemon.sessions().unwrap(), [two.as_str()]);
        stage.torno(&["session", "stop", &two]).good();
    });
}
