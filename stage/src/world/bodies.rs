// SPDX-License-Identifier: Apache-2.0
//! An API that wants its credential in the body: a token endpoint (a form), a login (JSON) and an
//! upload (parts of a form). It keeps every body.

use crate::world::listen::{Answer, Origin, Visit, answer};
use std::sync::{Arc, Mutex, PoisonError};

/// Its name.
pub const LOGIN: &str = "login.torno.test";

/// The API.
#[derive(Debug, Default)]
pub struct Bodies {
    token: Mutex<String>,
    kept: Mutex<Vec<String>>,
}

impl Bodies {
    /// The token that counts from now on.
    pub fn know(&self, token: &str) {
        let mut known = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        token.clone_into(&mut known);
    }

    /// The bodies that came in since the last time.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn route(&self, visit: &Visit, (body, size): (&str, usize)) -> Answer {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        let token = token.clone();
        let wanted = match visit.request.uri().path() {
            "/oauth/token" => format!("client_secret={token}"),
            "/v1/login" => format!("\"{token}\""),
            "/v1/upload" => format!("name=\"token\"\r\n\r\n{token}\r\n"),
            _ => return answer(200, format!("{size} bytes\n")),
        };
        let length = visit.header("content-length");
        if length != Some(size.to_string().as_str()) {
            return answer(411, "a length is needed\n");
        }
        if body.matches(&wanted).count() == 1 && body.matches(&token).count() == 1 {
            answer(200, format!("welcome, {token}\n"))
        } else {
            answer(401, "the credential is needed, in its place\n")
        }
    }
}

impl Origin for Bodies {
    async fn answer(self: Arc<Self>, mut visit: Visit) -> Answer {
        let Ok(body) = visit.body().await else {
            return answer(400, "broken off\n");
        };
        let size = body.len();
        let body = String::from_utf8_lossy(&body).into_owned();
        let answer = self.route(&visit, (&body, size));
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(body);
        answer
    }
}
