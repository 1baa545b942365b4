// SPDX-License-Identifier: Apache-2.0
//! The large files of the git server: the batch API of git LFS, with its objects in memory and on
//! the same host.

use crate::world::GIT;
use crate::world::listen::{Answer, Visit, answer, with};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Objects by their hash.
#[derive(Debug, Default)]
pub struct Objects(Mutex<BTreeMap<String, Vec<u8>>>);

impl Objects {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Answers what lies below `/info/lfs/` of a repository.
    pub(super) async fn answer(&self, visit: &mut Visit) -> Answer {
        let Ok(body) = visit.body().await else {
            return answer(400, "broken off\n");
        };
        let path = visit.request.uri().path().to_owned();
        let Some((repository, rest)) = path.split_once("/info/lfs/") else {
            return answer(404, "no such thing\n");
        };
        let oid = rest.strip_prefix("objects/").unwrap_or_default().to_owned();
        match (visit.request.method().as_str(), rest) {
            ("POST", "objects/batch") => self.batch(repository, &body),
            ("POST", "locks/verify") => said(&json!({ "ours": [], "theirs": [] })),
            ("PUT", _) => {
                self.lock().insert(oid, body);
                answer(200, "")
            }
            ("GET", _) => match self.lock().get(&oid) {
                Some(object) => answer(200, object.clone()),
                None => answer(404, "no such object\n"),
            },
            _ => answer(405, "not so\n"),
        }
    }

    fn batch(&self, repository: &str, body: &[u8]) -> Answer {
        let asked: Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |value: &Value, name: &str| {
            let value = value.get(name).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let operation = text(&asked, "operation");
        let objects = asked.get("objects").and_then(Value::as_array).cloned();
        let known = self.lock();
        let answered = objects.unwrap_or_default().into_iter().map(|object| {
            let oid = text(&object, "oid");
            let href = format!("https://{GIT}{repository}/info/lfs/objects/{oid}");
            let actions = json!({ &operation: { "href": href } });
            // Who has an object is told nothing to do.
            let is_there = operation == "upload" && known.contains_key(&oid);
            let size = object.get("size");
            if is_there {
                json!({ "oid": oid, "size": size })
            } else {
                json!({ "oid": oid, "size": size, "actions": actions })
            }
        });
        let answered: Vec<Value> = answered.collect();
        said(&json!({ "transfer": "basic", "objects": answered }))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn said(value: &Value) -> Answer {
    let body = answer(200, value.to_string());
    with(body, "content-type", "application/vnd.git-lfs+json")
}
