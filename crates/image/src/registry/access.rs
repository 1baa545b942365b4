// SPDX-License-Identifier: Apache-2.0
//! How a registry is got into: as nobody, by a token that nobody may have, or with the person's own
//! login from docker's configuration. A login goes to the registry, or to a host of the same
//! owner; a token goes to the registry alone, and neither follows a redirection.

use super::PullError;
use super::http::{Http, HttpError, Response, Target, not_followed};
use super::reference::Reference;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::io::Read;
use zeroize::Zeroizing;

/// LIMIT: a registry, its front, its store of files, and one to spare.
const REDIRECTIONS_MAX: usize = 4;
/// LIMIT: tokens are a few kB.
const TOKEN_BYTES_MAX: u64 = 64 << 10;

/// A login, as docker keeps it: base64 of user and password. It has no text form.
#[expect(
    missing_debug_implementations,
    reason = "a login has no text form, not even for a debugger"
)]
pub struct Credential(Zeroizing<String>);

#[derive(Deserialize)]
struct DockerConfiguration {
    #[serde(default)]
    auths: BTreeMap<String, Auth>,
}

#[derive(Deserialize)]
struct Auth {
    #[serde(default, deserialize_with = "wiped")]
    auth: Option<Zeroizing<String>>,
}

/// The login for a registry from the text of docker's `config.json`; nothing where there is none.
/// Helpers that keep logins elsewhere are not asked.
#[must_use]
pub fn credential_for(reference: &Reference, configuration: &[u8]) -> Option<Credential> {
    let read: DockerConfiguration = serde_json::from_slice(configuration).ok()?;
    let registry = reference.registry();
    let mut names = vec![registry.as_str()];
    if registry == "registry-1.docker.io" {
        names.extend(["docker.io", "https://index.docker.io/v1/"]);
    }
    let mut auths = read.auths;
    let found = names
        .into_iter()
        .find_map(|name| auths.remove(name))?
        .auth?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    let is_one = !found.is_empty() && found.bytes().all(plain);
    is_one.then_some(Credential(found))
}

/// The way into one repository.
pub(super) struct Access<'a> {
    http: &'a Http,
    reference: &'a Reference,
    credential: Option<Credential>,
    /// What the registry wants with each request: a whole header.
    header: Option<Zeroizing<String>>,
}

impl<'a> Access<'a> {
    pub(super) fn new(
        http: &'a Http,
        reference: &'a Reference,
        credential: Option<Credential>,
    ) -> Self {
        Self {
            http,
            reference,
            credential,
            header: None,
        }
    }

    /// Gets a path of the registry, with what it takes, and follows where it points.
    pub(super) fn get(&mut self, path: &str, accepted: &str) -> Result<Response, PullError> {
        let first = Target {
            place: self.reference.place().clone(),
            path: path.to_owned(),
        };
        let accept = format!("Accept: {accepted}");
        let mut answer = self.ask(&first, &accept)?;
        if answer.status == 401 {
            let challenge = answer
                .header("www-authenticate")
                .unwrap_or_default()
                .to_owned();
            self.meet(&challenge)?;
            answer = self.ask(&first, &accept)?;
        }
        let mut at = first.place;
        for _ in 0..REDIRECTIONS_MAX {
            if !matches!(answer.status, 301 | 302 | 303 | 307 | 308) {
                return Ok(answer);
            }
            let text = answer.header("location").unwrap_or_default();
            let target = Target::parse(text, &at).ok_or_else(|| not_followed(text))?;
            answer = self.http.get(&target, &[&accept])?;
            at = target.place;
        }
        Err(HttpError::Head("it points on and on").into())
    }

    fn ask(&self, target: &Target, accept: &str) -> Result<Response, HttpError> {
        match &self.header {
            Some(header) => self.http.get(target, &[accept, header.as_str()]),
            None => self.http.get(target, &[accept]),
        }
    }

    /// Meets a challenge: a login, or a token that is asked for elsewhere.
    fn meet(&mut self, challenge: &str) -> Result<(), PullError> {
        let refused = |why| Err(PullError::Challenge(why));
        if self.header.is_some() {
            return refused("what it asked for is not enough; is there a login for it?");
        }
        let (scheme, rest) = challenge.split_once(' ').unwrap_or((challenge, ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return match &self.credential {
                Some(login) => {
                    self.header = Some(basic(login));
                    Ok(())
                }
                None => refused("log in with `docker login`"),
            };
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return refused("it is neither Basic nor Bearer");
        }
        let said = parameters(rest);
        let registry = self.reference.place();
        let realm = said
            .get("realm")
            .and_then(|realm| Target::parse(realm, registry));
        let Some(mut realm) = realm.filter(|realm| !realm.path.contains('?')) else {
            return refused("it names no place for a token");
        };
        let scope = format!("repository:{}:pull", self.reference.repository());
        let service = said.get("service").map_or("", String::as_str);
        realm.path = format!(
            "{}?service={}&scope={}",
            realm.path,
            encoded(service),
            encoded(&scope)
        );
        let is_ours = same_owner(&realm.place.host, &registry.host);
        let login = self.credential.as_ref().filter(|_| is_ours).map(basic);
        let answer = match &login {
            Some(login) => self.http.get(&realm, &[login.as_str()])?,
            None => self.http.get(&realm, &[])?,
        };
        self.header = Some(token(answer)?);
        Ok(())
    }
}

fn basic(login: &Credential) -> Zeroizing<String> {
    Zeroizing::new(format!("Authorization: Basic {}", login.0.as_str()))
}

#[derive(Deserialize)]
struct Token {
    #[serde(default, deserialize_with = "wiped")]
    token: Option<Zeroizing<String>>,
    #[serde(default, deserialize_with = "wiped")]
    access_token: Option<Zeroizing<String>>,
}

/// A secret that is wiped from memory when it goes.
fn wiped<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Zeroizing<String>>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.map(Zeroizing::new))
}

fn token(answer: Response) -> Result<Zeroizing<String>, PullError> {
    if answer.status != 200 {
        return Err(PullError::Status {
            status: answer.status,
            what: "the question for a token".to_owned(),
        });
    }
    let mut text = Zeroizing::new(Vec::new());
    let read = answer.body.take(TOKEN_BYTES_MAX).read_to_end(&mut text);
    read.map_err(HttpError::Read)?;
    let read: Token = serde_json::from_slice(&text)
        .map_err(|_| PullError::Challenge("what came instead of a token is none"))?;
    let plain = |byte: u8| byte.is_ascii_graphic();
    let token = read.token.or(read.access_token);
    match token.filter(|token| !token.is_empty() && token.bytes().all(plain)) {
        Some(token) => Ok(Zeroizing::new(format!(
            "Authorization: Bearer {}",
            token.as_str()
        ))),
        None => Err(PullError::Challenge("what came instead of a token is none")),
    }
}

/// `key="value"` between commas; values of registries hold no quote.
fn parameters(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut rest = text;
    while let Some((key, after)) = rest.split_once("=\"") {
        let Some((value, after)) = after.split_once('"') else {
            break;
        };
        let key = key.trim_matches([' ', ',']).to_ascii_lowercase();
        found.entry(key).or_insert_with(|| value.to_owned());
        rest = after;
    }
    found
}

/// A value of a query.
fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| {
            if byte.is_ascii_alphanumeric() || b"-._~/:".contains(&byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

/// One host, or two of one registrable domain: a registry that points elsewhere gets no login.
fn same_owner(one: &str, other: &str) -> bool {
    let owner = |host: &str| psl::domain_str(host).map(str::to_owned);
    one == other || owner(one).is_some_and(|of_one| Some(of_one) == owner(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_goes_to_the_registry_and_to_hosts_of_its_owner() {
        assert!(same_owner("auth.docker.io", "registry-1.docker.io"));
        assert!(same_owner("r.test", "r.test"));
        for other in ["docker.io.evil.test", "evil.io", "a.github.io"] {
            assert!(!same_owner(other, "registry-1.docker.io"), "{other}");
        }
        assert!(!same_owner("a.github.io", "b.github.io"));
        assert!(!same_owner("a.co.uk", "b.co.uk"));
    }

    #[test]
    fn a_login_is_found_by_the_registrys_name_and_nothing_else() {
        let text =
            br#"{"auths":{"r.test:5000":{"auth":"dXNlcjpwYXNz"},"bad.test":{"auth":"a\r\nb"},
            "https://index.docker.io/v1/":{"auth":"aHVi"}},"credsStore":"x"}"#;
        let login = |name: &str| {
            let reference = Reference::parse(&format!("{name}/a:1")).unwrap();
            credential_for(&reference, text).map(|login| login.0.to_string())
        };
        assert_eq!(login("r.test:5000").as_deref(), Some("dXNlcjpwYXNz"));
        assert_eq!(login("docker.io").as_deref(), Some("aHVi"));
        assert_eq!(login("r.test"), None);
        assert_eq!(login("bad.test"), None);
    }

    #[test]
    fn a_challenge_is_read_and_a_query_is_spelled_plainly() {
        let said = parameters(r#"realm="https://a.test/token",service="r.test", scope="x""#);
        assert_eq!(said["realm"], "https://a.test/token");
        assert_eq!(said["service"], "r.test");
        assert_eq!(encoded("a&b=c d\r\n"), "a%26b%3Dc%20d%0D%0A");
    }
}
