// SPDX-License-Identifier: Apache-2.0
//! Rules that know what a request does: npm installs and does not publish, GraphQL reads and does
//! not change, JSON-RPC calls what is listed; with real clients.

use crate::registries::NPM;
use crate::stage::{Stage, at_each_level};
use torno_stage::world::registry::PACKAGE;

/// Accepts a policy that speaks of one host.
fn accept(stage: &Stage, rules: &str) {
    let policy = format!(
        "[sandbox]\nenv = {{ SSLKEYLOGFILE = \"/workspace/.stage-keys\" }}\n\
         limits = {{ memory = \"1GiB\" }}\n\n{rules}"
    );
    stage.daemon.write_workspace("torno.toml", &policy).unwrap();
    stage.daemon.must(&["trust", "--yes"]).unwrap();
}

#[test]
fn npm_installs_audits_and_does_not_publish() {
    at_each_level("npm reads its registry", |stage, level| {
        stage.is_not_seen_whole("npm exports no keys");
        accept(
            stage,
            "[[allow]]\nhost = \"npm.torno.test\"\nregistry = \"npm\"\nown_credentials = true\n",
        );
        let script = format!(
            "export NPM_CONFIG_REGISTRY=https://npm.torno.test/ NPM_CONFIG_UPDATE_NOTIFIER=false\n\
             mkdir app && cd app && echo '{{\"name\":\"mine\",\"version\":\"1.0.0\"}}' >package.json\n\
             {NPM} install --fetch-retries=0 {PACKAGE} && \
             node -e 'console.log(require(\"{PACKAGE}\"))'\n\
             {NPM} config set //npm.torno.test/:_authToken my-own --location=project\n\
             {NPM} publish --fetch-retries=0 && echo published\n\
             {NPM} unpublish --force --fetch-retries=0 {PACKAGE}@1.0.0 && echo unpublished\n\
             {NPM} dist-tag add {PACKAGE}@1.0.0 old --fetch-retries=0 && echo tagged\n\
             {NPM} token list --fetch-retries=0 && echo listed\ntrue"
        );
        let ran = stage.shell(level, &script).good();
        assert!(ran.stdout.contains("installed"), "{ran:#?}");
        for done in ["published", "tagged", "listed"] {
            assert!(!ran.stdout.contains(done), "{done}: {ran:#?}");
        }
        let seen = stage.world.npm.journal.requests();
        let posted = |path: &str| {
            seen.iter()
                .any(|r| r.method == "POST" && r.target.starts_with(path))
        };
        assert!(posted("/-/npm/v1/security/"), "{seen:#?}");
        let reads = |method: &str| matches!(method, "GET" | "HEAD" | "POST");
        assert!(seen.iter().all(|r| reads(&r.method)), "{seen:#?}");
        let records = stage.daemon.records().unwrap();
        let refused = records.iter().filter(|record| {
            record["event"]["reason"] == "operation_not_granted"
                && record["event"]["rule"] == "grant.allow[0]"
        });
        assert!(refused.count() >= 2, "{records:#?}");
    });
}

/// One call after another by `requests`, and the code of what each was answered.
const CALLS: &str = r#"
import requests, sys
def call(method, path, **more):
    answer = requests.request(method, 'https://other.torno.test' + path, timeout=20, **more)
    code = answer.json()['code'] if answer.status_code in (400, 403, 413) else 'ok'
    print(path.split('?')[0], code)
"#;

#[test]
fn a_graphql_client_queries_and_does_not_change_anything() {
    at_each_level("GraphQL", |stage, level| {
        accept(
            stage,
            "[[allow]]\nhost = \"other.torno.test\"\npaths = [\"/public/graphql\"]\n\
             graphql = [\"query\"]\n\n[[allow]]\nhost = \"other.torno.test\"\n\
             methods = [\"GET\", \"POST\"]\n",
        );
        let script = format!(
            "{CALLS}
at = '/public/graphql'
two = 'query A {{ a }} mutation B {{ b }}'
call('POST', at, json={{'query': '{{ me {{ name }} }}', 'variables': {{'a': 'é'}}}})
call('POST', at, json={{'query': two, 'operationName': 'A'}})
call('GET', at, params={{'query': '{{ me }}'}})
call('POST', at, json=[{{'query': '{{ a }}'}}, {{'query': '{{ b }}'}}])
call('POST', at, json={{'query': two, 'operationName': 'B'}})
call('POST', at, json={{'query': 'mutation {{ drop }}'}})
call('POST', at, json=[{{'query': '{{ a }}'}}, {{'query': 'mutation {{ b }}'}}])
call('POST', at + '/', json={{'query': 'mutation {{ drop }}'}})
call('POST', at, data='{{\"query\":\"{{a}}\",\"query\":\"mutation{{b}}\"}}',
     headers={{'content-type': 'application/json'}})
call('POST', '/public/rest', data='mutation {{ drop }}')
"
        );
        let ran = stage
            .run(level, &["/usr/bin/python3", "-c", &script])
            .good();
        let expected = "/public/graphql ok\n".repeat(4)
            + &"/public/graphql operation_not_granted\n".repeat(3)
            + "/public/graphql/ path_not_granted\n/public/graphql malformed_request\n\
               /public/rest ok\n";
        assert_eq!(ran.stdout, expected, "{ran:#?}");
        let seen = stage.world.other.journal.requests();
        assert_eq!(seen.len(), 5, "{seen:#?}");
    });
}

#[test]
fn a_json_rpc_client_calls_what_is_listed() {
    at_each_level("JSON-RPC", |stage, level| {
        accept(
            stage,
            "[[allow]]\nhost = \"other.torno.test\"\npaths = [\"/public/back\"]\n\
             jsonrpc = [\"initialize\", \"tools/*\"]\n",
        );
        let script = format!(
            "{CALLS}
at = '/public/back'
def of(method, **more): return {{'jsonrpc': '2.0', 'id': 1, 'method': method, **more}}
call('POST', at, json=of('initialize', params={{'a': [1, 2.5, None]}}))
call('POST', at, json=[of('tools/list'), of('tools/call', params={{'name': 'x'}})])
call('POST', at, json=of('resources/read'))
call('POST', at, json=[of('tools/list'), of('resources/read')])
call('POST', at, data='{{\"jsonrpc\":\"2.0\",\"method\":\"tools/list\",\"method\":\"drop\"}}',
     headers={{'content-type': 'application/json'}})
call('POST', at, json=of('tools/list', params={{'x': 'y' * (1 << 20)}}))
call('GET', at)
body = json = b'{{ \"jsonrpc\" :\"2.0\",  \"method\":\"tools/list\" }}'
back = requests.post('https://other.torno.test' + at, data=body, timeout=20,
                     headers={{'content-type': 'application/json; charset=utf-8'}})
print(back.content == body)
"
        );
        let ran = stage
            .run(level, &["/usr/bin/python3", "-c", &script])
            .good();
        let of = |codes: &[&str]| -> String {
            codes
                .iter()
                .map(|code| format!("/public/back {code}\n"))
                .collect()
        };
        let expected = of(&[
            "ok",
            "ok",
            "operation_not_granted",
            "operation_not_granted",
            "malformed_request",
            "too_large",
            "method_not_granted",
        ]) + "True\n";
        assert_eq!(ran.stdout, expected, "{ran:#?}");
        assert_eq!(stage.world.other.journal.requests().len(), 3);
    });
}
