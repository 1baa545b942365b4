// SPDX-License-Identifier: Apache-2.0
//! What an image says of itself: OCI's index, manifest and configuration, as far as we act on them.
//! Hostile JSON; what else stands in it is dropped.

use crate::limits::LAYERS_MAX;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use torno_policy::names::ImageDigest;

/// Why an image's words are refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// No JSON of that kind.
    #[error("the image's {0} can't be read")]
    Json(&'static str, #[source] serde_json::Error),
    /// No layers, or too many.
    #[error("an image has 1 to {LAYERS_MAX} layers, and this one {0}")]
    Layers(usize),
    /// The configuration speaks of other layers.
    #[error("the image's configuration and its manifest count {0} and {1} layers")]
    Count(usize, usize),
    /// Layers that can't be used.
    #[error("the image has a layer of type `{0}`, which can't be unpacked here")]
    Type(String),
    /// For other machines.
    #[error("the image is for {found}, and this machine is {own}: choose one for {own}")]
    Platform {
        /// The image's.
        found: String,
        /// Ours.
        own: String,
    },
    /// Nothing in an index.
    #[error("no image of the index is for {own}; it has {found}")]
    NoneFits {
        /// Ours.
        own: String,
        /// Theirs.
        found: String,
    },
    /// Several in an index.
    #[error("the index has several images for this machine: name one, by tag or digest: {0}")]
    Several(String),
}

/// A pointer to bytes elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// What they are.
    pub media_type: String,
    /// Their digest.
    pub digest: ImageDigest,
    /// How many.
    pub size: u64,
    /// For which machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Notes; `org.opencontainers.image.ref.name` is a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
}

/// The one annotation that is read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Annotations {
    /// A tag.
    #[serde(
        rename = "org.opencontainers.image.ref.name",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub name: Option<String>,
}

/// Which machines an image is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// Go's word for a processor.
    pub architecture: String,
    /// And for a system.
    pub os: String,
}

impl Platform {
    /// This machine.
    #[must_use]
    pub fn own() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Self {
            architecture: architecture.to_owned(),
            os: "linux".to_owned(),
        }
    }

    fn shown(&self) -> String {
        let inert = |text: &str| crate::archive::EntryPath::inert(text.as_bytes());
        format!("{}/{}", inert(&self.os), inert(&self.architecture))
    }
}

/// An index of images, or an OCI layout's `index.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// One each.
    pub manifests: Vec<Descriptor>,
}

/// One image: a configuration and layers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// 2.
    pub schema_version: u32,
    /// What this is.
    #[serde(default)]
    pub media_type: Option<String>,
    /// The configuration.
    pub config: Descriptor,
    /// The layers, lowest first.
    pub layers: Vec<Descriptor>,
}

/// The configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configuration {
    /// For which processor.
    pub architecture: String,
    /// For which system.
    pub os: String,
    /// How its programs want to be started.
    #[serde(default)]
    pub config: Option<Settings>,
    /// What the layers unpack to.
    pub rootfs: RootFiles,
}

/// How programs of an image want to be started. Its user and its command are not looked at: a
/// workload has its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Settings {
    /// Variables.
    pub env: Option<Vec<String>>,
}

/// What the layers unpack to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootFiles {
    /// `layers`.
    #[serde(rename = "type")]
    pub kind: String,
    /// One for each layer.
    pub diff_ids: Vec<ImageDigest>,
}

/// Media types of an index and of manifests, as registries and layouts have them.
pub const INDEX_TYPES: [&str; 2] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];
/// See [`INDEX_TYPES`].
pub const MANIFEST_TYPES: [&str; 2] = [
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];
/// Layers that tar, gzip and zstd read.
const LAYER_TYPES: [&str; 5] = [
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
];
/// Ours for what we make.
pub(crate) const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
pub(crate) const LAYER_TYPE: &str = LAYER_TYPES[0];

impl Index {
    /// Reads it.
    ///
    /// # Errors
    /// [`ManifestError::Json`].
    pub fn parse(text: &[u8]) -> Result<Self, ManifestError> {
        serde_json::from_slice(text).map_err(|error| ManifestError::Json("index", error))
    }

    /// The one image for this machine, under that name where there is one to say.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub fn choose(self, name: Option<&str>) -> Result<Descriptor, ManifestError> {
        let own = Platform::own();
        let found: Vec<String> = self.manifests.iter().map(described).collect();
        let named = |entry: &Descriptor| {
            let annotations = entry.annotations.as_ref();
            let called = annotations.and_then(|annotations| annotations.name.as_deref());
            name.is_none() || called == name
        };
        let fits = |entry: &Descriptor| entry.platform.as_ref().is_none_or(|found| *found == own);
        let mut fitting = self.manifests.into_iter().filter(|e| named(e) && fits(e));
        match (fitting.next(), fitting.next()) {
            (Some(entry), None) => Ok(entry),
            (None, _) => Err(ManifestError::NoneFits {
                own: own.shown(),
                found: found.join(", "),
            }),
            (Some(_), Some(_)) => Err(ManifestError::Several(found.join(", "))),
        }
    }
}

/// An entry of an index for a person.
fn described(entry: &Descriptor) -> String {
    let annotations = entry.annotations.as_ref();
    let name = annotations.and_then(|annotations| annotations.name.as_ref());
    match (name, &entry.platform) {
        (Some(name), _) => crate::archive::EntryPath::inert(name.as_bytes()),
        (None, Some(platform)) => platform.shown(),
        (None, None) => entry.digest.to_string(),
    }
}

impl Manifest {
    /// Reads it.
    ///
    /// # Errors
    /// [`ManifestError`] also for layers that can't be unpacked.
    pub fn parse(text: &[u8]) -> Result<Self, ManifestError> {
        let manifest: Self =
            serde_json::from_slice(text).map_err(|error| ManifestError::Json("manifest", error))?;
        if !(1..=LAYERS_MAX).contains(&manifest.layers.len()) {
            return Err(ManifestError::Layers(manifest.layers.len()));
        }
        for layer in &manifest.layers {
            if !LAYER_TYPES.contains(&layer.media_type.as_str()) {
                let inert = crate::archive::EntryPath::inert(layer.media_type.as_bytes());
                return Err(ManifestError::Type(inert));
            }
        }
        Ok(manifest)
    }
}

impl Configuration {
    /// Reads the configuration of that manifest.
    ///
    /// # Errors
    /// [`ManifestError`] also when it is for other machines, or speaks of other layers.
    pub fn parse(text: &[u8], manifest: &Manifest) -> Result<Self, ManifestError> {
        let read: Self = serde_json::from_slice(text)
            .map_err(|error| ManifestError::Json("configuration", error))?;
        let (said, there) = (read.rootfs.diff_ids.len(), manifest.layers.len());
        if said != there {
            return Err(ManifestError::Count(said, there));
        }
        let found = Platform {
            architecture: read.architecture.clone(),
            os: read.os.clone(),
        };
        let own = Platform::own();
        if found != own {
            return Err(ManifestError::Platform {
                found: found.shown(),
                own: own.shown(),
            });
        }
        Ok(read)
    }

    /// The variables whose names and values can be set, in their order.
    #[must_use]
    pub fn variables(&self) -> Vec<(String, String)> {
        let settings = self.config.as_ref();
        let env = settings.and_then(|settings| settings.env.as_ref());
        let pairs = env
            .into_iter()
            .flatten()
            .filter_map(|line| line.split_once('='));
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        pairs
            .filter(|(name, value)| {
                let first = name.bytes().next();
                first.is_some_and(|byte| !byte.is_ascii_digit())
                    && name.bytes().all(plain)
                    && !value.contains('\0')
                    && value.len() <= VALUE_BYTES_MAX
            })
            .take(VARIABLES_MAX)
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }
}

/// LIMIT: images have a dozen variables, paths and versions.
const VARIABLES_MAX: usize = 64;
const VALUE_BYTES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(digit: &str) -> ImageDigest {
        ImageDigest::parse(&format!("sha256:{}", digit.repeat(64))).unwrap()
    }

    fn entry(digit: &str, platform: Option<Platform>, name: Option<&str>) -> Descriptor {
        let name = name.map(str::to_owned);
        Descriptor {
            media_type: MANIFEST_TYPES[0].to_owned(),
            digest: digest(digit),
            size: 1,
            platform,
            annotations: name.map(|name| Annotations { name: Some(name) }),
        }
    }

    #[test]
    fn of_an_index_the_one_image_for_this_machine_is_taken() {
        let other = Platform {
            architecture: "s390x".to_owned(),
            ..Platform::own()
        };
        let index = |manifests: &[Descriptor]| Index {
            manifests: manifests.to_vec(),
        };
        let (ours, theirs) = (
            entry("a", Some(Platform::own()), None),
            entry("b", Some(other), None),
        );
        let chosen = index(&[theirs.clone(), ours.clone()]).choose(None).unwrap();
        assert_eq!(chosen, ours);
        let error = index(&[theirs]).choose(None).unwrap_err().to_string();
        assert!(error.contains("it has linux/s390x"), "{error}");
        let (one, two) = (entry("a", None, Some("1")), entry("b", None, Some("2")));
        assert!(index(&[one.clone(), two.clone()]).choose(None).is_err());
        assert_eq!(index(&[one, two.clone()]).choose(Some("2")).unwrap(), two);
    }

    fn manifest(layers: &[&str]) -> String {
        let layer = |kind: &&str| {
            let digest = digest("c");
            format!(r#"{{"mediaType":"{kind}","digest":"{digest}","size":1}}"#)
        };
        let layers: Vec<String> = layers.iter().map(layer).collect();
        let (config, layers) = (digest("d"), layers.join(","));
        format!(
            r#"{{"schemaVersion":2,"config":{{"mediaType":"x","digest":"{config}","size":1}},
            "layers":[{layers}],"annotations":{{"a":"b"}}}}"#
        )
    }

    #[test]
    fn a_manifest_with_layers_that_cant_be_unpacked_is_refused() {
        assert!(Manifest::parse(manifest(&[LAYER_TYPE]).as_bytes()).is_ok());
        let foreign = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip";
        for layers in [vec![], vec![LAYER_TYPE; LAYERS_MAX + 1], vec![foreign]] {
            assert!(Manifest::parse(manifest(&layers).as_bytes()).is_err());
        }
        let short = manifest(&[LAYER_TYPE]).replace(&"d".repeat(64), "../../etc/passwd");
        assert!(Manifest::parse(short.as_bytes()).is_err());
    }

    #[test]
    fn a_configuration_for_other_machines_or_layers_is_refused() {
        let manifest = Manifest::parse(manifest(&[LAYER_TYPE]).as_bytes()).unwrap();
        let own = Platform::own().architecture;
        let text = |architecture: &str, ids: &str| {
            format!(
                r#"{{"architecture":"{architecture}","os":"linux","config":{{"Env":
                ["PATH=/opt/bin","1BAD=x","NUL=a\u0000b","nothing"],"User":"root"}},
                "rootfs":{{"type":"layers","diff_ids":[{ids}]}}}}"#
            )
        };
        let one = format!(r#""{}""#, digest("e"));
        let read = Configuration::parse(text(&own, &one).as_bytes(), &manifest).unwrap();
        let path = ("PATH".to_owned(), "/opt/bin".to_owned());
        assert_eq!(read.variables(), [path]);
        let error = Configuration::parse(text("s390x", &one).as_bytes(), &manifest);
        assert!(matches!(error, Err(ManifestError::Platform { .. })));
        let error = Configuration::parse(text(&own, "").as_bytes(), &manifest);
        assert!(matches!(error, Err(ManifestError::Count(0, 1))));
    }
}
