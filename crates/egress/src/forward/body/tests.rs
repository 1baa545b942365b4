// SPDX-License-Identifier: Apache-2.0

use super::*;

fn read(bytes: &[u8]) -> Result<(Vec<u8>, usize), Fault> {
    let mut body = Body::from(Framing::Chunked);
    let (mut out, mut at) = (Vec::new(), 0);
    loop {
        match body.step(&bytes[at..])? {
            Step::More => return Err(Fault::malformed("cut")),
            Step::Skip(count) | Step::Trailers(count, _) => at += count,
            Step::Data(count) => {
                out.extend_from_slice(&bytes[at..at + count]);
                at += count;
            }
            Step::End => return Ok((out, at)),
        }
    }
}

#[test]
fn chunks_and_their_extensions_are_read() {
    let bytes = b"5\r\nhello\r\n1;name=value\r\n!\r\n0\r\nX: 1\r\n\r\nGET";
    assert_eq!(read(bytes).unwrap(), (b"hello!".to_vec(), bytes.len() - 3));
}

#[test]
fn odd_chunks_are_refused() {
    // ATTACK: 051, 052
    let long_zeros = format!("{}5\r\nhello\r\n0\r\n\r\n", "0".repeat(1000));
    let cases: Vec<&[u8]> = vec![
        b"5\nhello\r\n0\r\n\r\n",
        b"5\r\nhello\n0\r\n\r\n",
        b"5\r\nhelloX\r\n0\r\n\r\n",
        b"5\r\nhello\r\r\n0\r\n\r\n",
        b"10000000000000000\r\n",
        b"8000000000000000\r\n",
        b"00000000000000005\r\nhello\r\n0\r\n\r\n",
        long_zeros.as_bytes(),
        b"-1\r\n",
        b"+5\r\nhello\r\n0\r\n\r\n",
        b"0x5\r\nhello\r\n0\r\n\r\n",
        b" 5\r\nhello\r\n0\r\n\r\n",
        b"5 \r\nhello\r\n0\r\n\r\n",
        b"\r\n",
        b";x\r\n",
        b"g\r\n",
        b"5;a=\x01\r\nhello\r\n0\r\n\r\n",
        b"5;a=\rb\r\nhello\r\n0\r\n\r\n",
        b"5;a=\0\r\nhello\r\n0\r\n\r\n",
        b"0\r\nX : 1\r\n\r\n",
        b"0\r\n folded\r\n\r\n",
        b"0\r\nX: 1\n\r\n",
        b"0\r\nX: \0\r\n\r\n",
    ];
    for bytes in cases {
        let fault = read(bytes).unwrap_err();
        assert_ne!(fault.hint, "cut", "{}", bytes.escape_ascii());
    }
}

#[test]
fn a_chunk_has_its_size_whatever_was_guessed() {
    let sizes = [0, 1, 15, 16, 17, 255, 256, 4095, 4096, 70_000];
    for (guess, count) in sizes
        .iter()
        .flat_map(|a| sizes.iter().map(move |b| (*a, *b)))
    {
        let mut out = b"before".to_vec();
        let chunk = Chunk::begin(&mut out, guess);
        out.resize(out.len() + count, b'x');
        chunk.end(&mut out);
        let data = "x".repeat(count);
        let expected = match count {
            0 => "before".to_owned(),
            _ => format!("before{count:x}\r\n{data}\r\n"),
        };
        assert_eq!(out, expected.as_bytes(), "{guess} {count}");
    }
}
