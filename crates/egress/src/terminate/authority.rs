// SPDX-License-Identifier: Apache-2.0
//! The session's own certificate authority: made at the start, held in memory only, gone with the
//! session. Leaves share one key, so that a storm of names costs one signature each.

use crate::ports::Clock;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SerialNumber,
};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::sign::{CertifiedKey, SigningKey, SingleCertAndKey};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use sha2::{Digest, Sha256};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use torno_policy::names::Host;

/// Why the authority, or a leaf of it, can't be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityFault {
    /// A key or certificate could not be made.
    #[error("a certificate of the session could not be made: start a new session")]
    Certificate(#[source] rcgen::Error),
    /// The TLS library refused it.
    #[error("a certificate of the session could not be used: start a new session")]
    Tls(#[source] rustls::Error),
}

/// LIMIT: a session's life is shorter; its CA counts from a day before (clocks differ) for 90 days.
const VALID_BEFORE: Duration = Duration::from_secs(24 * 3600);
const VALID_FOR: Duration = Duration::from_secs(90 * 24 * 3600);
/// LIMIT: leaves that are kept; the oldest goes first. ATTACK: 163 – a storm of names stays
/// bounded.
const LEAVES_MAX: usize = 256;
/// LIMIT: TLS sessions that can be resumed for each host.
const RESUMABLE_MAX: usize = 32;
/// What a client may choose in its hello, the best first. Who offers nothing of it gets no
/// handshake (RFC 7301 §3.2), so what is spoken is said: `curl --http1.0` offers that alone.
const SPOKEN: [&[u8]; 3] = [b"h2", b"http/1.1", b"http/1.0"];

/// The authority and the leaves it made.
pub(crate) struct SessionAuthority {
    issuer: Issuer<'static, KeyPair>,
    ca_pem: String,
    leaf_key: KeyPair,
    leaf_signer: Arc<dyn SigningKey>,
    valid: (SystemTime, SystemTime),
    provider: Arc<CryptoProvider>,
    leaves: Mutex<Leaves>,
}

#[derive(Default)]
struct Leaves {
    by_host: HashMap<Host, Arc<ServerConfig>>,
    in_order: VecDeque<Host>,
}

impl fmt::Debug for SessionAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionAuthority").finish_non_exhaustive()
    }
}

impl SessionAuthority {
    /// Makes the authority's keys and certificate.
    pub(crate) fn new(
        clock: &dyn Clock,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, AuthorityFault> {
        let now = clock.now();
        let valid = (now - VALID_BEFORE, now + VALID_FOR);
        let ca_key = KeyPair::generate().map_err(AuthorityFault::Certificate)?;
        let leaf_key = KeyPair::generate().map_err(AuthorityFault::Certificate)?;
        let mut params = CertificateParams::default();
        params.not_before = valid.0.into();
        params.not_after = valid.1.into();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name = rcgen::DistinguishedName::new();
        let name = "Torno session CA";
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params
            .self_signed(&ca_key)
            .map_err(AuthorityFault::Certificate)?;
        let leaf_der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(leaf_key.serialize_der()));
        let leaf_signer = provider
            .key_provider
            .load_private_key(leaf_der)
            .map_err(AuthorityFault::Tls)?;
        Ok(Self {
            ca_pem: certificate.pem(),
            issuer: Issuer::new(params, ca_key),
            leaf_key,
            leaf_signer,
            valid,
            provider,
            leaves: Mutex::new(Leaves::default()),
        })
    }

    /// The certificate that the sandbox trusts.
    pub(crate) fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// The server side of TLS for one host.
    pub(crate) fn leaf(&self, host: &Host) -> Result<Arc<ServerConfig>, AuthorityFault> {
        let mut leaves = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = leaves.by_host.get(host) {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(self.mint(host)?);
        if leaves.in_order.len() >= LEAVES_MAX
            && let Some(oldest) = leaves.in_order.pop_front()
        {
            leaves.by_host.remove(&oldest);
        }
        leaves.in_order.push_back(host.clone());
        leaves.by_host.insert(host.clone(), Arc::clone(&config));
        Ok(config)
    }

    fn mint(&self, host: &Host) -> Result<ServerConfig, AuthorityFault> {
        let name = match host {
            Host::Name(name) => name.to_string(),
            Host::V4(address) => address.to_string(),
            Host::V6(address) => address.to_string(),
        };
        let mut params =
            CertificateParams::new(vec![name.clone()]).map_err(AuthorityFault::Certificate)?;
        params.not_before = self.valid.0.into();
        params.not_after = self.valid.1.into();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let common = "Torno session leaf";
        params.distinguished_name.push(DnType::CommonName, common);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        params.serial_number = Some(self.serial(&name));
        let certificate = params
            .signed_by(&self.leaf_key, &self.issuer)
            .map_err(AuthorityFault::Certificate)?;
        let chain = vec![certificate.der().clone()];
        let key = CertifiedKey::new(chain, Arc::clone(&self.leaf_signer));
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .map_err(AuthorityFault::Tls)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
        config.alpn_protocols = SPOKEN.map(<[u8]>::to_vec).to_vec();
        config.session_storage = rustls::server::ServerSessionMemoryCache::new(RESUMABLE_MAX);
        config.send_tls13_tickets = 1;
        Ok(config)
    }

    /// Leaves share a key, from which serials are made by default; some clients refuse two
    /// certificates of one issuer with one serial.
    fn serial(&self, name: &str) -> SerialNumber {
        let mut hash = Sha256::new();
        hash.update(self.leaf_key.public_key_raw());
        hash.update(name.as_bytes());
        let digest: [u8; 32] = hash.finalize().into();
        let mut serial: Vec<u8> = digest.into_iter().take(16).collect();
        if let Some(first) = serial.first_mut() {
            // Positive and never zero.
            *first = (*first & 0x7f) | 0x40;
        }
        SerialNumber::from(serial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Fixed;
    impl Clock for Fixed {
        fn now(&self) -> SystemTime {
            SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
        }
    }

    #[test]
    fn a_storm_of_names_keeps_a_bounded_number_of_leaves() {
        // ATTACK: 163
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let authority = SessionAuthority::new(&Fixed, provider).unwrap();
        for number in 0..LEAVES_MAX + 50 {
            let host = Host::parse(&format!("h{number}.test")).unwrap();
            authority.leaf(&host).unwrap();
        }
        let leaves = authority.leaves.lock().unwrap();
        assert_eq!(leaves.by_host.len(), LEAVES_MAX);
        assert_eq!(leaves.in_order.len(), LEAVES_MAX);
    }

    /// A TLS library that takes no key.
    #[derive(Debug)]
    struct NoKeys;
    impl rustls::crypto::KeyProvider for NoKeys {
        fn load_private_key(
            &self,
            _: PrivateKeyDer<'static>,
        ) -> Result<Arc<dyn SigningKey>, rustls::Error> {
            Err(rustls::Error::General("no key is taken".to_owned()))
        }
    }

    // ATTACK: 071
    #[test]
    fn without_a_key_there_is_no_authority_and_without_a_suite_no_leaf() {
        let keyless = CryptoProvider {
            key_provider: &NoKeys,
            ..rustls::crypto::aws_lc_rs::default_provider()
        };
        let none = SessionAuthority::new(&Fixed, Arc::new(keyless));
        assert!(matches!(none, Err(AuthorityFault::Tls(_))), "{none:?}");
        let mute = CryptoProvider {
            cipher_suites: Vec::new(),
            ..rustls::crypto::aws_lc_rs::default_provider()
        };
        let authority = SessionAuthority::new(&Fixed, Arc::new(mute)).unwrap();
        for _ in 0..2 {
            let leaf = authority.leaf(&Host::parse("a.test").unwrap());
            assert!(matches!(leaf, Err(AuthorityFault::Tls(_))));
        }
    }

    #[test]
    fn two_leaves_have_two_serials() {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let authority = SessionAuthority::new(&Fixed, provider).unwrap();
        let serial = |name| authority.serial(name).to_bytes();
        assert_ne!(serial("a.test"), serial("b.test"));
    }
}
