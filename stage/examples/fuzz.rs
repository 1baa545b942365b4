// SPDX-License-Identifier: Apache-2.0
//! Fuzzing on stable: the committed inputs of each hostile parser, then mutations of them for so
//! many seconds. `list` names the targets; `run TARGET SECONDS [SEED]` runs one; `once TARGET FILE`
//! runs one input. An input that fails is kept in `target/fuzz`, and belongs into `stage/fuzz`.
//!
//! Coverage-guided fuzzing finds more and needs a nightly compiler; this finds what is shallow,
//! everywhere and each time.

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use torno_policy::document::{self, Presets};

struct Target {
    name: &'static str,
    /// Panics when a property does not hold.
    run: fn(&[u8]),
    /// Words that are more likely to lead somewhere than random bytes.
    words: &'static [&'static [u8]],
}

/// LIMIT: some targets look at every prefix of their input.
const INPUT_BYTES_MAX: usize = 2048;

const HTTP: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"Host: allow.test\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Length: 5\r\n",
    b"GET ",
    b" HTTP/1.1\r\n",
    b"/../",
    b"%2e",
    b"%2F",
    b"//",
    b";",
    b"@",
    b"0\r\n\r\n",
    b"https://allow.test",
    b"\0",
    b":",
    b"#",
    b"?",
    b"\\",
];

const TARGETS: [Target; 27] = [
    Target {
        name: "archive",
        run: torno_guest_protocol::fuzz_archive,
        words: &[
            b"\x01\x01d",
            b"\x02",
            b"\x03\x01f\0\0\x01x\0\0",
            b"\x04\x01l\0\x04/tmp",
            b"\x05",
            b"\x02..",
            b"\x03a/b",
        ],
    },
    Target {
        name: "request_head",
        run: torno_egress::fuzz::fuzz_request_head,
        words: HTTP,
    },
    Target {
        name: "http2_request",
        run: torno_egress::fuzz::fuzz_http2_request,
        words: &[
            b"\n:path /",
            b"\n:method POST",
            b"\n:authority allow.test",
            b"\n:scheme https",
            b"\nhost allow.test",
            b"\ncookie a=b",
            b"\ncontent-length 5",
            b"\nte trailers",
            b"\nexpect 100-continue",
            b"\r\n",
            b"?_method=DELETE",
            b"%2F",
            b"\t",
        ],
    },
    Target {
        name: "postgres_messages",
        run: torno_egress::fuzz::fuzz_postgres_messages,
        words: &[
            b"\0\x03\0\0",
            b"\x04\xd2\x16\x2f",
            b"user\0app\0",
            b"database\0shop\0",
            b"client_encoding\0UTF8\0",
            b"options\0-c x=y\0",
            b"Q\0\0\0\x05\0",
            b"S\0\0\0\x04",
            b"\0\0",
        ],
    },
    Target {
        name: "postgres_statement",
        run: torno_egress::fuzz::fuzz_postgres_statement,
        words: &[
            b"select ",
            b"E'\\'",
            b"''",
            b"\"\"",
            b"$a$",
            b"$$",
            b"/*",
            b"*/",
            b"--",
            b"U&'",
            b"1e5",
            b"set role x",
            b"commit",
            b";",
            b"\n",
        ],
    },
    Target {
        name: "tls_hello",
        run: torno_egress::fuzz::fuzz_tls_hello,
        words: &[
            b"\x16\x03\x01",
            b"\x16\x03\x03",
            b"\0\0",
            b"allow.test",
            b"GET ",
            b"CONNECT ",
        ],
    },
    Target {
        name: "chunked",
        run: torno_egress::fuzz::fuzz_chunked,
        words: HTTP,
    },
    Target {
        name: "websocket_frames",
        run: torno_egress::fuzz::fuzz_websocket_frames,
        words: &[
            b"\x81\x85\x01\x02\x03\x04",
            b"\x01\x80\0\0\0\0",
            b"\x80\x80\0\0\0\0",
            b"\x89\x80\0\0\0\0",
            b"\x88\x82\0\0\0\0\x03\xe8",
            b"\x82\xfe\x01\0",
            b"\x81\x05Hello",
            b"\x01\x03\xe2\x82\xac",
            b"\x80\0",
            b"\xff\0\0\0\0\0\x01\0\0",
        ],
    },
    Target {
        name: "aws_form",
        run: torno_egress::fuzz::fuzz_aws_form,
        words: &[
            b"Action=",
            b"action=",
            b"%41ction=",
            b"&",
            b";",
            b"+",
            b"GetObject",
        ],
    },
    Target {
        name: "signature",
        run: torno_egress::fuzz::fuzz_signature,
        words: &[
            b"/20150830/eu-central-1/s3/aws4_request",
            b", SignedHeaders=host;x-amz-date",
            b", Signature=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            b",",
            b"=",
            b"/",
            b"\r\nX-Amz-Content-Sha256: UNSIGNED-PAYLOAD",
        ],
    },
    Target {
        name: "slot",
        run: torno_egress::fuzz::fuzz_slot,
        words: &[
            b"{credential}",
            b"/bot",
            b"key=",
            b"&",
            b";",
            b"%6b",
            b"?",
            b"[",
        ],
    },
    Target {
        name: "body_slot",
        run: torno_egress::fuzz::fuzz_body_slot,
        words: &[
            b"secret=",
            b"&",
            b";",
            b"%73",
            b"[]",
            b"--X\r\n",
            b"--X--\r\n",
            b"\r\n\r\n",
            b"Content-Disposition: form-data; name=\"secret\"\r\n",
            b"; filename=\"a\"",
            b"{\"d\":{\"token\":",
            b"}}",
            b"null",
            b"\\u0074",
        ],
    },
    Target {
        name: "json_pointer",
        run: torno_egress::fuzz::fuzz_json_pointer,
        words: &[
            b"/d/token\n",
            b"/0",
            b"~1",
            b"~0",
            b"{\"d\":",
            b"[",
            b"]",
            b"}",
            b"\"token\":",
            b",",
            b"\\u0064",
        ],
    },
    Target {
        name: "pkt_line",
        run: torno_egress::fuzz::fuzz_pkt_line,
        words: &[
            b"0000",
            b"0001",
            b"ffff",
            b"refs/heads/",
            b" report-status",
            b"\0",
            b"PACK",
        ],
    },
    Target {
        name: "graphql",
        run: torno_egress::fuzz::fuzz_graphql,
        words: &[
            b"query=",
            b"mutation",
            b"subscription",
            b"fragment",
            b"\"\"\"",
            b"...",
            b"#",
            b"\"operationName\":",
            b"{\"query\":\"",
        ],
    },
    Target {
        name: "jsonrpc",
        run: torno_egress::fuzz::fuzz_jsonrpc,
        words: &[
            b"\"method\":\"",
            b"{\"jsonrpc\":\"2.0\",",
            b"\\ud83d",
            b"\\u006d",
            b"1e999",
            b"[",
            b"\"operation\":\"upload\"",
        ],
    },
    Target {
        name: "scrub",
        run: torno_egress::fuzz::fuzz_scrub,
        words: &[
            b"ghp_0123456789abcdefABCDEF&<\"/+x",
            b"ghp_0123456789ab",
            b"6768705f30313233",
            b"Z2hwXzAxMjM0NTY3ODlhYmNkZWZBQkNERUYmPCIvK3g",
            b"%67%68%70%5F",
            b"&amp;",
            b"\\u0067",
        ],
    },
    Target {
        name: "unpack",
        run: torno_egress::fuzz::fuzz_unpack,
        words: &[
            b"\x28\xb5\x2f\xfd",
            b"\0\x1f\x8b\x08",
            b"\x01\0\0",
            b"\x02\x04\0a",
        ],
    },
    Target {
        name: "set_cookie",
        run: torno_egress::fuzz::fuzz_set_cookie,
        words: &[
            b"sid=0123456789abcdef",
            b"; Path=/a",
            b"; Domain=allow.test",
            b"; Max-Age=-1",
            b"; Expires=Sun, 06 Nov 2094 08:49:37 GMT",
            b"__Host-",
            b"__secure-",
            b"; Secure",
            b"\n",
        ],
    },
    Target {
        name: "minted",
        run: torno_egress::fuzz::fuzz_minted,
        words: &[
            b"\"access_token\":\"",
            b"\"refreshToken\" : \"",
            b"ghp_0123456789abcdefABCDEF",
            b"\\u0067",
            b"\\\"",
            b"eyJhbGciOi.eyJzdWIiOi.c2ln",
        ],
    },
    Target {
        name: "guest_frame",
        run: torno_guest_protocol::fuzz_frame,
        words: &[
            b"\0\0\0\0",
            b"\x01\0\0\0",
            b"{\"",
            b"\":",
            b"}",
            b"\xff\xff\xff\xff",
        ],
    },
    Target {
        name: "dns",
        run: torno_guest_protocol::fuzz_dns,
        words: &[
            b"\xc0\x0c",
            b"\x05allow\x04test\0",
            b"\0\x01\0\x01",
            b"\0\x1c",
            b"\0\x41",
        ],
    },
    Target {
        name: "policy_text",
        run: policy_text,
        words: &[
            b"[[allow]]\n",
            b"host = \"a.example.org\"\n",
            b"[secret.x]\n",
            b"env = \"X\"\n",
            b"[sandbox]\n",
            b"\"",
            b"= [",
            b"]\n",
            b"{ ",
            b" }",
            b"paths = [\"/**\"]\n",
        ],
    },
    Target {
        name: "notary_message",
        run: notary_message,
        words: &[
            b"\0\0\0\0",
            b"{\"",
            b"\":",
            b"}",
            b"\"ticket\"",
            b"\xff\xff\xff\x7f",
        ],
    },
    Target {
        name: "http2_frames",
        run: torno_egress::fuzz::fuzz_http2_frames,
        words: &[
            b"\0\0\0\x04\0\0\0\0\0",
            b"\0\0\x01\x01\x04\0\0\0\x01\x82",
            b"\0\0\x01\0\x09\0\0\0\x01a",
            b"\0\0\0\x09\x04\0\0\0\x01",
            b"\0\0\x04\x08\0\0\0\0\0",
            b"\0\0\x04\x03\0\0\0\0\x01",
        ],
    },
    Target {
        name: "image_archive",
        run: torno_image::fuzz::fuzz_archive,
        words: &[
            b"ustar\x0000",
            b"ustar  \0",
            b"../",
            b"./",
            b"12 path=../x\n",
            b"11 size=99\n",
            b".wh..wh..opq",
            b"\x80\0\0\0\0\0\0\x01",
            b"\x1f\x8b",
            b"\x28\xb5\x2f\xfd",
        ],
    },
    Target {
        name: "image_manifest",
        run: torno_image::fuzz::fuzz_manifest,
        words: &[
            b"\"digest\":",
            b"\"sha256:",
            b"\"layers\":[",
            b"\"diff_ids\":[",
            b"\"platform\":",
            b"\"mediaType\":",
            b"null",
        ],
    },
];

/// The record's reader stands apart: its property is a value.
const AUDIT: Target = Target {
    name: "audit_reader",
    run: |input| {
        assert!(
            torno_audit::fuzz_reader(input),
            "a line does not print back as itself"
        )
    },
    words: &[
        b"\n",
        b"{\"",
        b"\":",
        b"}",
        b"\"kind\"",
        b"\"seq\"",
        b"\\u0000",
    ],
};

/// A text that is refused points into itself, on a character's border.
fn policy_text(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    if let Err(error) = document::parse(text, &Presets::shipped()) {
        if let Some(span) = &error.span {
            assert!(
                text.get(span.clone()).is_some(),
                "the error points outside of the text"
            );
        }
        let _shown = document::render(&error, text);
    }
}

/// A message that is read is written back as the same bytes' meaning.
fn notary_message(input: &[u8]) {
    use torno_notary_protocol::{desk, gate, operator, transit};
    if let Ok((message, attachments)) = transit::decode_compact::<gate::GateMessage>(input) {
        let frame = transit::encode_compact(&message, &attachments).map(|frame| frame.len());
        assert!(frame.is_ok(), "what was read can't be written");
    }
    let _ = transit::decode_compact::<gate::NotaryMessage>(input);
    let _ = transit::decode::<desk::DeskMessage>(input);
    let _ = transit::decode::<operator::OperatorRequest>(input);
}

fn targets() -> impl Iterator<Item = &'static Target> {
    TARGETS.iter().chain(std::iter::once(&AUDIT))
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let find = |name: &str| {
        targets()
            .find(|t| t.name == name)
            .with_context(|| format!("no target `{name}`"))
    };
    match words.as_slice() {
        ["list"] => {
            targets().for_each(|target| println!("{}", target.name));
            Ok(())
        }
        ["once", name, file] => {
            let input = std::fs::read(file).with_context(|| format!("cannot read {file}"))?;
            (find(name)?.run)(&input);
            Ok(())
        }
        ["run", name, seconds] => campaign(find(name)?, seconds.parse()?, 1),
        ["run", name, seconds, seed] => campaign(find(name)?, seconds.parse()?, seed.parse()?),
        _ => bail!("list | run TARGET SECONDS [SEED] | once TARGET FILE"),
    }
}

fn campaign(target: &Target, seconds: u64, seed: u64) -> Result<()> {
    let corpus = corpus(target.name)?;
    for input in &corpus {
        check(target, input)?;
    }
    let mut random = Random(seed | 1);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut inputs = 0_u64;
    while Instant::now() < end {
        for _ in 0..100 {
            let input = mutate(&corpus, target.words, &mut random);
            check(target, &input)?;
            inputs += 1;
        }
    }
    println!(
        "{}: {} committed inputs, {inputs} mutations, seed {seed}",
        target.name,
        corpus.len()
    );
    Ok(())
}

fn check(target: &Target, input: &[u8]) -> Result<()> {
    if catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_ok() {
        return Ok(());
    }
    let digest = data_encoding::HEXLOWER.encode(&Sha256::digest(input));
    let name = format!("{}-{}", target.name, digest.get(..16).unwrap_or_default());
    let file = root().join("target/fuzz").join(name);
    std::fs::create_dir_all(root().join("target/fuzz")).context("cannot make target/fuzz")?;
    std::fs::write(&file, input).context("cannot keep the input")?;
    bail!(
        "{} failed; the input is kept in {}",
        target.name,
        file.display()
    )
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn corpus(name: &str) -> Result<Vec<Vec<u8>>> {
    let directory = root().join("stage/fuzz").join(name);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&directory)
        .with_context(|| format!("no committed inputs in {}", directory.display()))?
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .collect();
    paths.sort();
    let inputs = paths
        .iter()
        .map(std::fs::read)
        .collect::<std::io::Result<Vec<_>>>();
    inputs.context("cannot read a committed input")
}

/// xorshift64*: what matters is that a seed repeats a run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(number).unwrap_or_default() % limit.max(1)
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap_or_default()
    }
}

fn mutate(corpus: &[Vec<u8>], words: &[&[u8]], random: &mut Random) -> Vec<u8> {
    let mut input = corpus
        .get(random.below(corpus.len()))
        .cloned()
        .unwrap_or_default();
    for _ in 0..=random.below(5) {
        let at = random.below(input.len() + 1);
        let length = random.below(16).min(input.len() - at.min(input.len()));
        match random.below(6) {
            0 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
            1 => input.insert(at, random.byte()),
            2 => {
                input.drain(at..at + length);
            }
            3 => {
                let word = words
                    .get(random.below(words.len()))
                    .copied()
                    .unwrap_or_default();
                input.splice(at..at, word.iter().copied());
            }
            4 => {
                let again = input.get(at..at + length).unwrap_or_default().to_vec();
                input.splice(at..at, again);
            }
            _ => {
                let other = corpus
                    .get(random.below(corpus.len()))
                    .cloned()
                    .unwrap_or_default();
                let from = random.below(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(other.get(from..).unwrap_or_default());
            }
        }
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}
