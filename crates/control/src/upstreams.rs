// SPDX-License-Identifier: Apache-2.0
//! The operator's own configuration of the way out: pinned upstreams, further roots, a company
//! proxy. Read once, before any role starts; certificates are taken in, so that no role opens
//! files.
//!
//! ```toml
//! [[pin]]                      # this name is at this address, and is verified with this CA
//! host = "api.example.org"
//! port = 443
//! address = "10.1.2.3:8443"
//! ca = "/etc/torno/example-ca.pem"
//!
//! [[root]]                     # a further root for every upstream
//! file = "/etc/torno/company-ca.pem"
//!
//! [proxy]                      # every other upstream is reached through it, by CONNECT
//! address = "10.0.0.1:3128"
//! ```

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use torno_control_api::places::open_trusted;
use torno_policy::names::{Host, Port};

/// LIMIT: the file and each certificate file; an operator's configuration is small.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The way out, as configured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Upstreams {
    pub(crate) pins: Vec<Pin>,
    /// PEM of further roots.
    pub(crate) roots: Vec<String>,
    pub(crate) proxy: Option<SocketAddr>,
}

/// A name whose address the operator fixed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pin {
    pub(crate) host: Host,
    pub(crate) port: Port,
    pub(crate) address: SocketAddr,
    /// PEM of the one root that counts for this name; nothing means the ordinary roots.
    pub(crate) ca: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    pin: Vec<FilePin>,
    #[serde(default)]
    root: Vec<FileRoot>,
    proxy: Option<FileProxy>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FilePin {
    host: String,
    port: u16,
    address: SocketAddr,
    ca: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRoot {
    file: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileProxy {
    address: SocketAddr,
}

impl Upstreams {
    /// Reads the file; no file is no configuration, an unreadable one is an error.
    pub(crate) fn load(path: &Path) -> anyhow::Result<Self> {
        let Some(text) = read_bounded(path)? else {
            return Ok(Self::default());
        };
        Self::parse(&text).with_context(|| {
            let name = path.display();
            format!("`{name}` is not as expected; correct it, then start tornod again")
        })
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let file: File = toml::from_str(text)?;
        let mut upstreams = Self {
            proxy: file.proxy.map(|p| p.address),
            ..Self::default()
        };
        for pin in file.pin {
            let host = Host::parse(&pin.host).with_context(|| format!("pin `{}`", pin.host))?;
            let port = Port::new(pin.port).with_context(|| format!("pin `{host}`: port 0"))?;
            let ca = pin.ca.map(|path| pem(&path)).transpose()?;
            let twice = upstreams
                .pins
                .iter()
                .any(|p| p.host == host && p.port == port);
            ensure!(!twice, "`{host}:{port}` is pinned twice; keep one [[pin]]");
            upstreams.pins.push(Pin {
                host,
                port,
                address: pin.address,
                ca,
            });
        }
        for root in file.root {
            upstreams.roots.push(pem(&root.file)?);
        }
        Ok(upstreams)
    }

    /// The pin of this name and port.
    pub(crate) fn pin(&self, host: &Host, port: Port) -> Option<&Pin> {
        self.pins
            .iter()
            .find(|pin| pin.host == *host && pin.port == port)
    }
}

/// The text of a small file that only root and we may write, or nothing when there is none.
pub(crate) fn read_bounded(path: &Path) -> anyhow::Result<Option<String>> {
    let about = || format!("can't read `{}`", path.display());
    let path = &std::path::absolute(path).with_context(about)?;
    if !path.parent().is_some_and(Path::exists) {
        return Ok(None);
    }
    let Some(file) = open_trusted(path).with_context(about)? else {
        return Ok(None);
    };
    let mut text = String::new();
    let mut file = file.take(FILE_BYTES_MAX + 1);
    let read = file.read_to_string(&mut text).with_context(about)?;
    ensure!(
        u64::try_from(read)? <= FILE_BYTES_MAX,
        "`{}` is over 1 MiB",
        path.display()
    );
    Ok(Some(text))
}

fn pem(path: &Path) -> anyhow::Result<String> {
    let text =
        read_bounded(path)?.with_context(|| format!("`{}` does not exist", path.display()))?;
    ensure!(
        text.contains("BEGIN CERTIFICATE"),
        "`{}` has no PEM certificate",
        path.display()
    );
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> anyhow::Result<Upstreams> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("upstreams.toml");
        write(&path, text, 0o600);
        Upstreams::load(&path)
    }

    fn write(path: &Path, text: &str, mode: u32) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_others_may_write_is_no_configuration_and_no_certificate() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("upstreams.toml");
        let ca = dir.path().join("ca.pem");
        let named = format!("[[root]]\nfile = \"{}\"\n", ca.display());
        let pinned = format!(
            "[[pin]]\nhost='a.test'\nport=1\naddress='127.0.0.1:1'\nca='{}'\n",
            ca.display()
        );
        for text in [named, pinned] {
            for (mode, ca_mode, open) in [
                (0o600, 0o644, None),
                (0o602, 0o644, Some(&own)),
                (0o600, 0o646, Some(&ca)),
            ] {
                write(&own, &text, mode);
                write(&ca, "-----BEGIN CERTIFICATE-----", ca_mode);
                let said = Upstreams::load(&own).map_err(|error| format!("{error:#}"));
                match open {
                    None => assert!(said.is_ok(), "{said:?}"),
                    Some(path) => {
                        let fix = format!("run `chmod go-w {}`", path.display());
                        assert!(said.unwrap_err().contains(&fix));
                    }
                }
            }
        }
    }

    #[test]
    fn no_file_is_no_configuration_and_an_unknown_key_is_an_error() {
        assert_eq!(
            Upstreams::load(Path::new("/nonexistent")).unwrap(),
            Upstreams::default()
        );
        assert!(
            load("[[pin]]\nhost='a.test'\nport=1\naddress='127.0.0.1:1'\ninsecure=true").is_err()
        );
    }

    #[test]
    fn a_pin_names_one_address_once() {
        let pin = "[[pin]]\nhost='A.test'\nport=443\naddress='127.0.0.1:8443'\n";
        let upstreams = load(pin).unwrap();
        let host = Host::parse("a.test").unwrap();
        assert!(upstreams.pin(&host, Port::HTTPS).is_some());
        assert!(upstreams.pin(&host, Port::HTTP).is_none());
        let error = load(&format!("{pin}{pin}")).unwrap_err();
        assert!(format!("{error:#}").contains("upstreams.toml"), "{error:#}");
    }
}
