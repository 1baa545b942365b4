// SPDX-License-Identifier: Apache-2.0
//! Requests that a real client of AWS signs with a placeholder, and that leave with a signature of
//! the real key: to a store that checks each by botocore's own signer.

mod far_end;

use crate::stage::{Stage, at_each_level_with};
use far_end::{FarEnd, HOST, KEY_ID};

/// What boto3 does inside: one line for each thing that it tried.
const CLIENT: &str = r#"
import json, os, urllib.request, urllib.error
import boto3
from botocore.config import Config
from botocore.exceptions import ClientError
def store(region='eu-central-1', version='v4', **more):
    config = Config(retries={'total_max_attempts': 1}, s3={'addressing_style': 'path'},
                    signature_version=None if version == 'v4' else version)
    return boto3.client('s3', region_name=region, config=config,
                        endpoint_url='https://s3.torno.test', **more)
def tell(name, act):
    try:
        print(name, act())
    except ClientError as refused:
        print(name, refused.response['ResponseMetadata']['HTTPStatusCode'])
s3 = store()
put = lambda s3, key, body: s3.put_object(Bucket='bucket', Key=key, Body=body) and 'done'
get = lambda s3, key: s3.get_object(Bucket='bucket', Key=key)['Body'].read()
names = lambda: [o['Key'] for o in s3.list_objects_v2(Bucket='bucket')['Contents']]
"#;

struct Store {
    far: FarEnd,
}

impl Store {
    fn tell(&self, story: &str, policy: &str, tell: impl Fn(&Stage, &str)) {
        at_each_level_with(story, &self.far.pin(), |stage, level| {
            self.far.know(&stage.world.api_token);
            let bind = [
                "secret",
                "bind",
                "api",
                "--host",
                HOST,
                "--path",
                "/bucket/**",
                "--method",
                "GET",
                "--method",
                "PUT",
                "--method",
                "DELETE",
                "--sigv4",
                KEY_ID,
                "--region",
                "eu-central-1",
                "--service",
                "s3",
            ];
            stage.torno(&bind).good();
            stage.daemon.write_workspace("torno.toml", policy).unwrap();
            stage.torno(&["trust", "--yes"]).good();
            tell(stage, level);
        });
    }

    fn lines(&self) -> Vec<String> {
        let lines = self.far.journal().into_iter();
        lines
            .map(|noted| format!("{} {}", noted["line"].as_str().unwrap(), noted["status"]))
            .collect()
    }
}

const POLICY: &str = r#"[sandbox]
env = { AWS_SECRET_ACCESS_KEY = "signed-anew-outside", SSLKEYLOGFILE = "/workspace/.stage-keys" }

[secret.api]
env = "AWS_ACCESS_KEY_ID"
"#;

fn python(stage: &Stage, level: &str, script: &str) -> Vec<String> {
    let script = format!("{CLIENT}{script}");
    let ran = stage.run(level, &["/usr/bin/python3", "-c", &script]);
    let ran = ran.good();
    ran.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn boto3_puts_gets_and_lists_with_a_key_that_it_never_has() {
    // ATTACK: 083, 099
    let store = Store {
        far: FarEnd::start(),
    };
    store.tell("boto3 and a store", POLICY, |stage, level| {
        let before = store.far.journal().len();
        let said = python(
            stage,
            level,
            "
tell('put', lambda: put(s3, 'a b/\u{f6}+=&.txt', b'hello'))
tell('large', lambda: put(s3, 'large', os.urandom(1 << 20) * 3))
tell('get', lambda: get(s3, 'a b/\u{f6}+=&.txt'))
tell('list', lambda: len(names()))
tell('token', lambda: get(store(aws_session_token='mine'), 'a b/\u{f6}+=&.txt'))
tell('echo', lambda: get(s3, 'echo').replace(os.environ['AWS_ACCESS_KEY_ID'].encode(), b'STANDS'))
",
        );
        let key = format!("AWS4-HMAC-SHA256 Credential={KEY_ID}/");
        assert_eq!(said[..2], ["put done", "large done"], "{said:#?}");
        assert_eq!(said[2..5], ["get b'hello'", "list 2", "token b'hello'"]);
        assert!(said[5].starts_with("echo b'key STANDS and "), "{said:#?}");
        assert!(said[5].contains(&key), "{said:#?}");
        let noted = store.far.journal().split_off(before);
        assert_eq!(noted.len(), 6);
        for noted in noted {
            assert_eq!(noted["status"], 200, "{noted:#}");
            let sent = noted.to_string();
            assert!(!sent.contains("TRNO"), "{sent}");
            assert!(!sent.contains("x-amz-security-token"), "{sent}");
            assert!(!sent.contains(&stage.world.api_token), "{sent}");
        }
    });
}

#[test]
fn what_is_signed_elsewhere_or_in_a_url_reaches_nobody() {
    // ATTACK: 083
    let store = Store {
        far: FarEnd::start(),
    };
    // A rule for everybody does not let the client's own signatures through.
    let policy = format!("{POLICY}\n[[allow]]\nhost = \"{HOST}\"\nmethods = [\"GET\", \"PUT\"]\n");
    store.tell("signatures that are refused", &policy, |stage, level| {
        let before = store.far.journal().len();
        let said = python(
            stage,
            level,
            "
def fetch(url):
    try:
        return urllib.request.urlopen(url, timeout=20).status
    except urllib.error.HTTPError as refused:
        return json.loads(refused.read())['code']
own = dict(aws_access_key_id='AKIAI44QH8DHBEXAMPLE', aws_secret_access_key='mine')
url = lambda s3: s3.generate_presigned_url('get_object', Params={'Bucket': 'bucket', 'Key': 'k'})
tell('region', lambda: put(store('us-east-1'), 'k', b'x'))
tell('own', lambda: put(store(**own), 'k', b'x'))
tell('bucket', lambda: s3.put_object(Bucket='other', Key='k', Body=b'x'))
tell('presigned', lambda: fetch(url(store(version='s3v4'))))
tell('own presigned', lambda: fetch(url(store(version='s3v4', **own))))
tell('old', lambda: put(store(version='s3'), 'k', b'x'))
tell('whole', lambda: s3.get_object(Bucket='bucket', Key='k', Range='bytes=0-9'))
",
        );
        assert_eq!(
            said,
            [
                "region 403",
                "own 403",
                "bucket 403",
                "presigned credential_endpoint_mismatch",
                "own presigned own_credential",
                "old 400",
                "whole 403",
            ]
        );
        assert_eq!(store.far.journal().len(), before, "{:#?}", store.lines());
    });
}

#[test]
fn who_may_read_a_store_deletes_and_writes_nothing_there() {
    let store = Store {
        far: FarEnd::start(),
    };
    let policy = format!(
        "{POLICY}\n[[allow]]\nhost = \"{HOST}\"\naws = {{ service = \"s3\", bucket = \"path\", \
         action = [\"read\", \"PutObject\"] }}\n"
    );
    store.tell("rules that know actions", &policy, |stage, level| {
        let said = python(
            stage,
            level,
            "
tell('put', lambda: put(s3, 'k', b'hello'))
tell('get', lambda: get(s3, 'k'))
tell('list', lambda: names())
tell('delete', lambda: s3.delete_object(Bucket='bucket', Key='k'))
tell('acl', lambda: s3.put_object(Bucket='bucket', Key='k', Body=b'x', ACL='public-read'))
tell('copy', lambda: s3.copy_object(Bucket='bucket', Key='l', CopySource='secrets/k'))
tell('torrent', lambda: s3.get_object_torrent(Bucket='bucket', Key='k'))
tell('still', lambda: get(s3, 'k'))
",
        );
        let refused = ["delete 403", "acl 403", "copy 403", "torrent 403"];
        assert_eq!(
            said[..3],
            ["put done", "get b'hello'", "list ['k']"],
            "{said:#?}"
        );
        assert_eq!(said[3..7], refused, "{said:#?}");
        assert_eq!(said[7], "still b'hello'");
        let records = stage.daemon.records().unwrap();
        let reasons = records.iter().filter(|record| {
            record["event"]["reason"] == "operation_not_granted"
                && record["event"]["rule"] == "grant.allow[0]"
        });
        assert_eq!(reasons.count(), 4, "{records:#?}");
    });
}
