// SPDX-License-Identifier: Apache-2.0
//! Making the API give the credential back.

use crate::attempt::{Attempt, Goal};

const fn echo(name: &'static str, script: &'static str) -> Attempt {
    Attempt {
        name,
        goal: Goal::SeeSecret,
        wall: "answers are scrubbed",
        script,
    }
}

pub(super) const ATTEMPTS: [Attempt; 12] = [
    echo(
        "echo in a body",
        "call('GET', API, '/echo?as=raw', [('Authorization', AUTH)])",
    ),
    echo(
        "echo in a gzip body",
        "call('GET', API, '/echo?as=gzip', [('Authorization', AUTH), ('Accept-Encoding', 'gzip')])",
    ),
    echo(
        "echo as base64",
        "call('GET', API, '/echo?as=base64', [('Authorization', AUTH)])",
    ),
    echo(
        "echo as base64url, shifted",
        "call('GET', API, '/echo?as=base64url', [('Authorization', AUTH)])",
    ),
    echo(
        "echo as hex",
        "call('GET', API, '/echo?as=hex', [('Authorization', AUTH)])",
    ),
    echo(
        "echo as percent",
        "call('GET', API, '/echo?as=percent', [('Authorization', AUTH)])",
    ),
    echo(
        "echo as JSON escapes",
        "call('GET', API, '/echo?as=json', [('Authorization', AUTH)])",
    ),
    echo(
        "echo in a header",
        "call('GET', API, '/echo?as=header', [('Authorization', AUTH)])",
    ),
    echo(
        "echo one byte a chunk",
        r"
got = call('GET', API, '/echo?as=split', [('Authorization', AUTH)])
head, _, rest = got.partition(b'\r\n\r\n')
body = b''
while rest:
    size, _, rest = rest.partition(b'\r\n')
    count = int(size.split(b';')[0] or b'0', 16)
    if not count:
        break
    body, rest = body + rest[:count], rest[count + 2:]
out(body)
",
    ),
    echo(
        "store it there, fetch it later",
        r"
call('POST', API, '/store', [('Authorization', AUTH)], b'keep this')
call('GET', API, '/fetch', [('Authorization', AUTH)])
",
    ),
    echo(
        "have it put into a redirect",
        "call('GET', API, '/redirect', [('Authorization', AUTH)])",
    ),
    echo(
        "have it put into a cookie",
        "call('GET', API, '/cookie', [('Authorization', AUTH)])",
    ),
];
