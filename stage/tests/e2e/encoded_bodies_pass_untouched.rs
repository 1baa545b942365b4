// SPDX-License-Identifier: Apache-2.0
//! Bodies in an encoding, with a placeholder in them: they pass byte for byte with nothing put in,
//! and a push whose encoding can't be read is refused.

use crate::stage::at_each_level;
use torno_stage::unwalled::PYTHON;
use torno_stage::world::git::reference;

const UPLOAD: &str = r"
import gzip, hashlib, http.client, os, ssl, sys
token = os.environ['API_TOKEN']
body = gzip.compress(b'{token: ' + token.encode() + b'}')
for coding in ['gzip', 'br', 'gzip, gzip', 'x-unknown']:
    far = http.client.HTTPSConnection('api.torno.test', context=ssl.create_default_context())
    headers = {'authorization': 'Bearer ' + token, 'content-encoding': coding}
    far.request('POST', '/upload', body, headers)
    print(far.getresponse().status, hashlib.sha256(body).hexdigest())
";

const PUSH: &str = r"
import gzip, http.client, ssl, zlib
def push(name, coding, pack):
    line = ('0' * 40 + ' ' + 'a' * 40 + ' ' + name + '\0 report-status\n').encode()
    body = pack(b'%04x' % (len(line) + 4) + line + b'0000')
    far = http.client.HTTPSConnection('git.torno.test', context=ssl.create_default_context())
    headers = {'content-type': 'application/x-git-receive-pack-request'}
    if coding:
        headers['content-encoding'] = coding
    far.request('POST', '/acme/app.git/git-receive-pack', body, headers)
    answer = far.getresponse()
    print(answer.status, answer.read()[:200])
same = lambda body: body
main, fair = 'refs/heads/main2', 'refs/heads/agent/x'
push(main, None, same)
push(main, 'gzip', gzip.compress)
push(fair, 'br', same)
push(fair, 'deflate', zlib.compress)
push(fair, 'gzip, gzip', lambda body: gzip.compress(gzip.compress(body)))
push(fair, 'gzip', same)
push(fair, None, gzip.compress)
";

// ATTACK: 093
#[test]
fn an_encoded_body_reaches_the_far_end_as_it_was_sent() {
    at_each_level("encoded bodies", |stage, level| {
        let ran = stage.run(level, &[PYTHON, "-c", UPLOAD]).good();
        let seen = stage.world.api.journal.requests();
        let uploads: Vec<String> = seen
            .iter()
            .filter(|r| r.target == "/upload")
            .map(|r| format!("{} {}", r.status.unwrap(), r.body_sha256.as_ref().unwrap()))
            .collect();
        let said: Vec<&str> = ran.stdout.lines().collect();
        assert_eq!(said.len(), 4, "{ran:?}");
        assert_eq!(uploads, said);
        assert!(said.iter().all(|line| line.starts_with("201 ")), "{said:?}");
        let real = format!("Bearer {}", stage.world.api_token);
        assert!(
            seen.iter()
                .all(|r| r.header("authorization") == Some(real.clone()))
        );
    });
}

// ATTACK: 078, 093
#[test]
fn a_push_in_an_encoding_is_judged_by_what_is_in_it_or_refused() {
    at_each_level("encoded pushes", |stage, level| {
        let ran = stage.run(level, &[PYTHON, "-c", PUSH]).good();
        let said: Vec<&str> = ran.stdout.lines().collect();
        assert_eq!(said.len(), 7, "{ran:?}");
        for line in said.iter().take(2) {
            assert!(line.contains("ref_not_granted"), "{ran:?}");
        }
        for line in said.iter().skip(2) {
            assert!(line.starts_with("400 "), "{ran:?}");
        }
        assert!(stage.world.git.journal.requests().is_empty());
        let repositories = stage.world.repositories();
        for name in ["refs/heads/main2", "refs/heads/agent/x"] {
            assert_eq!(reference(&repositories, "acme/app", name), None);
        }
    });
}
