// SPDX-License-Identifier: Apache-2.0
//! Unmodified clients of Debian inside, each using the API with its placeholder.

use crate::stage::at_each_level;

const URL: &str = "https://api.torno.test/v1/me";

/// Name, what must exist on the host, and the command.
const CLIENTS: &[(&str, &str, &[&str])] = &[
    (
        "curl",
        "/usr/bin/curl",
        &[
            "sh",
            "-c",
            "curl -sSf -H \"authorization: Bearer $API_TOKEN\" https://api.torno.test/v1/me",
        ],
    ),
    (
        "wget",
        "/usr/bin/wget",
        &[
            "sh",
            "-c",
            "wget -q -O - --header \"authorization: Bearer $API_TOKEN\" https://api.torno.test/v1/me",
        ],
    ),
    (
        "python urllib",
        "/usr/bin/python3",
        &[
            "/usr/bin/python3",
            "-c",
            "import os, urllib.request as u\n\
             h = {'Authorization': 'Bearer ' + os.environ['API_TOKEN']}\n\
             r = u.Request('https://api.torno.test/v1/me', headers=h)\n\
             print(u.urlopen(r, timeout=20).read().decode())",
        ],
    ),
    (
        "python requests",
        "/usr/lib/python3/dist-packages/requests",
        &[
            "/usr/bin/python3",
            "-c",
            "import os, requests\n\
             h = {'Authorization': 'Bearer ' + os.environ['API_TOKEN']}\n\
             print(requests.get('https://api.torno.test/v1/me', headers=h, timeout=20).text)",
        ],
    ),
    (
        "python httpx",
        "/usr/lib/python3/dist-packages/httpx",
        &[
            "/usr/bin/python3",
            "-c",
            "import os, httpx\n\
             h = {'Authorization': 'Bearer ' + os.environ['API_TOKEN']}\n\
             print(httpx.get('https://api.torno.test/v1/me', headers=h, timeout=20).text)",
        ],
    ),
    (
        "node fetch",
        "/usr/bin/node",
        &[
            "/usr/bin/node",
            // Its one way to export keys for the search; it changes nothing of a request.
            "--tls-keylog=/workspace/.stage-keys",
            "-e",
            "fetch('https://api.torno.test/v1/me', \
             {headers: {authorization: 'Bearer ' + process.env.API_TOKEN}})\
             .then(r => r.text()).then(console.log)",
        ],
    ),
    (
        "a client that ignores proxy variables",
        "/usr/bin/curl",
        &[
            "sh",
            "-c",
            "env -u https_proxy -u HTTPS_PROXY -u http_proxy -u HTTP_PROXY -u ALL_PROXY \
             curl --noproxy '*' -sSf -H \"authorization: Bearer $API_TOKEN\" \
             https://api.torno.test/v1/me",
        ],
    ),
    (
        "git",
        "/usr/bin/git",
        &[
            "git",
            "ls-remote",
            "https://git.torno.test/acme/app",
            "refs/heads/main",
        ],
    ),
];

#[test]
fn each_client_works_unmodified() {
    at_each_level("real clients", |stage, level| {
        let mut failed = Vec::new();
        for (name, needs, command) in CLIENTS {
            if !std::path::Path::new(needs).exists() {
                println!("SKIP: real clients: {name} is not installed");
                continue;
            }
            let ran = stage.run(level, command);
            let right = ran.stdout.contains("\"agent\"") || ran.stdout.contains("refs/heads/main");
            if ran.code != Some(0) || !right {
                failed.push(format!("{name}: {ran:?}"));
            }
        }
        assert!(failed.is_empty(), "{URL}\n{}", failed.join("\n"));
    });
}
