// SPDX-License-Identifier: Apache-2.0
//! APIs that want their credential in the path (`/bot…/getMe`) or in the query (`?key=`), and
//! repeat it in redirects, links and bodies; and one that makes keys.

use crate::world::listen::{Answer, Origin, Visit, answer, with};
use std::sync::{Arc, Mutex, PoisonError};

/// The maps' name: wants `?key=`.
pub const MAPS: &str = "maps.torno.test";
/// A name with a template: wants `/bot…/`.
pub const BOTS: &str = "api.telegram.org";
/// A name with a template: wants a bearer token, and makes keys.
pub const HUB: &str = "api.github.com";

/// All of them.
#[derive(Debug, Default)]
pub struct Places {
    token: Mutex<String>,
}

impl Places {
    /// The token that counts from now on.
    pub fn know(&self, token: &str) {
        let mut known = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        token.clone_into(&mut known);
    }

    fn route(&self, visit: &Visit) -> Answer {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        let token = token.clone();
        let target = visit.request.uri().to_string();
        let key = format!("key={token}");
        let bot = format!("/bot{token}/");
        let bearer = format!("Bearer {token}");
        match visit.header("host") {
            Some(MAPS) if target.contains(&key) => maps(&target, &key),
            Some(BOTS) if target.starts_with(&bot) => {
                let method = target.trim_start_matches(&bot);
                with(answer(200, format!("did {method}\n")), "x-target", &target)
            }
            Some(HUB) if visit.header("authorization") == Some(&bearer) => {
                answer(200, format!("{} {target}\n", visit.request.method()))
            }
            _ => answer(401, "the credential is needed, in its place\n"),
        }
    }
}

fn maps(target: &str, key: &str) -> Answer {
    if target.starts_with("/moved") {
        let to = format!("/v1/geo?{key}&from=moved");
        let moved = with(answer(302, format!("see {to}\n")), "location", &to);
        let moved = with(moved, "link", &format!("<{to}>; rel=\"next\""));
        let moved = with(moved, "refresh", &format!("0; url={to}"));
        return with(moved, "content-location", target);
    }
    answer(200, format!("you asked {target}\n"))
}

impl Origin for Places {
    async fn answer(self: Arc<Self>, mut visit: Visit) -> Answer {
        let _broken = visit.drain().await;
        self.route(&visit)
    }
}
