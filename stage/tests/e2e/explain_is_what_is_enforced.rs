// SPDX-License-Identifier: Apache-2.0
//! A thousand live requests and some tool calls, of every kind that the layers tell apart, each
//! recorded as it was decided; `torno policy explain` is asked about the facts that were sent, and
//! must give the same answer by the same layer and rule.

mod requests;

use crate::stage::{Stage, cannot};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use requests::{Placeholders, line, sent};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use torno_policy::facts::{Act, ToolFacts};
use torno_policy::names::ToolName;
use torno_policy::organisation::SHIPPED;
use torno_policy::placeholder::Placeholder;
use torno_stage::account::Who;
use torno_stage::daemon::POLICY;
use torno_stage::daemon::level::told;
use torno_stage::unwalled::PYTHON;

/// Requests at each level.
const REQUESTS: [(&str, u32); 4] = [
    ("container", 1000),
    ("gvisor", 200),
    ("microvm", 100),
    ("vm", 100),
];
/// An organisation that forbids, and one that asks.
const ORGANISATION: &str = r#"
@id("no-delete")
forbid (principal, action == Action::"request", resource)
when { context.method == "DELETE" };
@id("ask-about-ask") @ask
forbid (principal, action == Action::"request", resource)
when { context.path == "/public/ask" };
"#;
/// No command may begin in /tmp.
const TOOLS: &str = "\n[tool]\nexec = { trust = \"deny\", when = { args = { cwd = \"/tmp\" } } }\n";
/// So many requests meet everything of [`MET`].
const ALL_MET_FROM: u32 = 1000;
/// What must have been met at least once; a story that meets less proves less.
const MET: [&str; 17] = [
    "allow",
    "ask",
    "organisation_forbids",
    "host_not_granted",
    "port_not_granted",
    "method_not_granted",
    "path_not_granted",
    "websocket_not_granted",
    "git_not_granted",
    "ref_not_granted",
    "credential_endpoint_mismatch",
    "placeholder_unknown",
    "placeholder_missing",
    "placeholder_repeated",
    "binding_not_granted",
    "own_credential",
    "tool_not_granted",
];

/// Sends what it is told, one after the other, with the session's own placeholders.
const SEND: &str = r"
import base64, http.client, json, os, sys
words = {'{api}': os.environ['API_TOKEN'], '{git}': os.environ['GIT_TOKEN'],
         '{dead}': base64.b64decode(sys.argv[1]).decode()}
def fill(text):
    for word, value in words.items():
        text = text.replace(word, value)
    return text
open_ones = {}
for line in open('requests.jsonl'):
    one = json.loads(line)
    body = base64.b64decode(one['body'])
    headers = [('content-length', str(len(body)))] if one['method'] != 'GET' else []
    for name, value in one['headers']:
        value = fill(value)
        if value.startswith('Basic '):
            value = 'Basic ' + base64.b64encode(value[6:].encode()).decode()
        headers.append((name, value))
    host = one['host']
    for attempt in range(2):
        if host not in open_ones:
            open_ones[host] = http.client.HTTPSConnection(host, timeout=60)
        try:
            connection = open_ones[host]
            connection.putrequest(one['method'], one['target'])
            for name, value in headers:
                connection.putheader(name, value)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            answer.read()
            break
        except http.client.RemoteDisconnected:
            open_ones.pop(host).close()
    if answer.will_close:
        open_ones.pop(host).close()
    print(answer.status)
";

// ATTACK: 243
#[test]
fn each_live_decision_is_explained_by_the_same_layer_and_rule() {
    for &level in told() {
        if let Some(why) = cannot(Who::Caller, "explain is what is enforced", level) {
            println!("SKIP: explain is what is enforced at {level}: {why}");
            continue;
        }
        let mut stage = Stage::new();
        let organisation = format!("{SHIPPED}{ORGANISATION}");
        let file = stage.daemon.home().join("config/organisation.cedar");
        std::fs::write(file, organisation).unwrap();
        stage.daemon.down();
        stage.daemon.up().unwrap();
        let key = stage.daemon.key_file();
        let key = key.to_str().unwrap();
        stage.torno(&["vault", "unseal", "--key-file", key]).good();
        let policy = format!("{POLICY}{TOOLS}");
        stage.daemon.write_workspace("torno.toml", &policy).unwrap();
        stage.torno(&["trust", "--yes"]).good();
        let count = REQUESTS.iter().find(|(name, _)| *name == level).unwrap().1;
        compare(&stage, level, count);
        stage.end_at(level);
    }
}

fn compare(stage: &Stage, level: &str, count: u32) {
    let print = "printf '%s\\n' $API_TOKEN $GIT_TOKEN";
    let earlier = stage.shell(level, print).good().stdout;
    let run = ["run", "--quiet", "--isolation", level, "--detach"];
    // The list enters with the workspace, so it is made before its placeholders are known.
    let lines: String = (0..count).map(|n| format!("{}\n", line(n))).collect();
    stage
        .daemon
        .write_workspace("requests.jsonl", &lines)
        .unwrap();
    let session = stage.torno(&run).good().stdout;
    let session = session.trim();
    let exec = |words: &[&str]| {
        let mut arguments = vec!["session", "exec", session];
        arguments.extend(words);
        stage.torno(&arguments)
    };
    let printed = exec(&["--", "/bin/sh", "-c", print]).good().stdout;
    let known = Placeholders {
        api: placeholder(&printed, 0),
        git: placeholder(&printed, 1),
        dead: placeholder(&earlier, 0),
    };
    let mut acts = Vec::new();
    for cwd in ["/workspace", "/tmp", "/", "/tmp"] {
        let argv = json!(["true"]);
        exec(&["--cwd", cwd, "--", "true"]);
        acts.push(Act::Tool(ToolFacts {
            tool: ToolName::parse("exec").unwrap(),
            arguments: json!({ "argv": argv, "cwd": cwd }),
        }));
    }
    let dead = STANDARD.encode(known.dead.as_str());
    exec(&["--", PYTHON, "-c", SEND, &dead]).good();
    acts.extend((0..count).map(|n| Act::Request(sent(n, &known).facts)));
    let recorded = recorded(stage, session);
    assert_eq!(recorded.len(), acts.len());
    let explained = explained(stage, session, &acts);
    assert_eq!(explained.len(), acts.len());
    let mut met: BTreeMap<String, u32> = BTreeMap::new();
    for ((act, recorded), explained) in acts.iter().zip(&recorded).zip(&explained) {
        assert_same_act(act, recorded);
        let enforced = enforced(recorded);
        assert_eq!(
            enforced,
            said(explained),
            "{act:#?}\n{recorded:#}\n{explained:#}"
        );
        let name = if enforced.3.is_empty() {
            enforced.0
        } else {
            enforced.3
        };
        *met.entry(name).or_default() += 1;
    }
    println!("{level}: {met:?}");
    for name in MET.iter().filter(|_| count >= ALL_MET_FROM) {
        assert!(met.contains_key(*name), "`{name}` was never met: {met:?}");
    }
    stage.torno(&["session", "stop", session]).good();
}

fn placeholder(printed: &str, number: usize) -> Placeholder {
    Placeholder::parse(printed.lines().nth(number).unwrap()).unwrap()
}

/// Verdict, layer, rule and reason.
type Answer = (String, String, String, String);

/// As the record has it.
fn enforced(event: &Value) -> Answer {
    let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
    (text("verdict"), text("layer"), text("rule"), text("reason"))
}

/// As `torno policy explain` has it: the refusal, else the layer that asks, else the one whose rule
/// a permit names.
fn said(explained: &Value) -> Answer {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let verdict = text(&explained["verdict"]);
    let refusal = &explained["refusal"];
    if !refusal.is_null() {
        let [layer, rule, code] = ["layer", "rule", "code"].map(|name| text(&refusal[name]));
        return (verdict, layer, rule, code);
    }
    let layers = explained["layers"].as_array().unwrap();
    let decides = |layer: &&Value| {
        let (name, said) = (text(&layer[0]), text(&layer[1]));
        said == verdict && (verdict == "ask" || ["session", "tool"].contains(&name.as_str()))
    };
    let layer = layers.iter().find(decides).unwrap();
    (verdict, text(&layer[0]), text(&layer[2]), String::new())
}

/// The decisions of a session, in their order; what was asked first is not among them.
fn recorded(stage: &Stage, session: &str) -> Vec<Value> {
    let of_session = |record: &&Value| record["session"] == session;
    let records = stage.daemon.records().unwrap();
    let decided = records.iter().filter(of_session).map(|r| &r["event"]);
    let mut tools: Vec<Value> = Vec::new();
    let mut requests = Vec::new();
    for event in decided {
        match event["kind"].as_str() {
            Some("tool_decided") => tools.push(event.clone()),
            Some("request_decided") => requests.push(event.clone()),
            _ => {}
        }
    }
    // The first command printed the placeholders, the last one sent the requests.
    tools.remove(0);
    tools.pop();
    tools.extend(requests);
    tools
}

fn assert_same_act(act: &Act, recorded: &Value) {
    if let Act::Request(facts) = act {
        let text = |name: &str| recorded[name].as_str().unwrap();
        assert_eq!(text("method"), facts.method.as_str(), "{recorded:#}");
        assert_eq!(text("path"), facts.path.path(), "{recorded:#}");
        let host = recorded["endpoint"]["host"].as_str().unwrap();
        assert_eq!(host, facts.endpoint.host.to_string());
    }
}

fn explained(stage: &Stage, session: &str, acts: &[Act]) -> Vec<Value> {
    let lines = acts.iter().map(|act| serde_json::to_string(act).unwrap());
    let lines: String = lines.map(|line| line + "\n").collect();
    stage.daemon.write_workspace("acts.jsonl", &lines).unwrap();
    let explain = ["policy", "explain", "--session", session, "--acts"];
    let ran = stage
        .torno(&[&explain[..], &["acts.jsonl"]].concat())
        .good();
    let lines = ran.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}
