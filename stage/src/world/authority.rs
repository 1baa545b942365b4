// SPDX-License-Identifier: Apache-2.0
//! A certificate authority for one run, and server configurations that it vouches for.

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::sync::Arc;

/// A throw-away authority.
#[derive(Debug)]
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// Makes one under a name that a certificate viewer shows.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn new(name: &str) -> Result<Self> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().context("no key for the test authority")?;
        let issuer = CertifiedIssuer::self_signed(parameters, key).context("no test authority")?;
        Ok(Self { issuer })
    }

    /// The authority's certificate, PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A server that proves these names, TLS 1.2 and 1.3, HTTP/1.1.
    ///
    /// # Errors
    /// When a name is no DNS name.
    pub fn server(&self, names: &[&str]) -> Result<Arc<ServerConfig>> {
        self.serve_with(parameters(names)?)
    }

    /// The same, with a certificate whose time is over.
    ///
    /// # Errors
    /// When a name is no DNS name.
    pub fn stale_server(&self, names: &[&str]) -> Result<Arc<ServerConfig>> {
        let mut parameters = parameters(names)?;
        parameters.not_before = rcgen::date_time_ymd(2019, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(2020, 1, 1);
        self.serve_with(parameters)
    }

    /// Chain and key of a server that is no part of this program, PEM.
    ///
    /// # Errors
    /// When a name is no DNS name.
    pub fn pem_server(&self, names: &[&str]) -> Result<(String, String)> {
        let (certificate, key) = self.sign(parameters(names)?)?;
        let chain = format!("{}{}", certificate.pem(), self.issuer.pem());
        Ok((chain, key.serialize_pem()))
    }

    fn sign(&self, mut parameters: CertificateParams) -> Result<(Certificate, KeyPair)> {
        parameters.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().context("no key for a test server")?;
        let certificate = parameters
            .signed_by(&key, &self.issuer)
            .context("no certificate for a test server")?;
        Ok((certificate, key))
    }

    fn serve_with(&self, parameters: CertificateParams) -> Result<Arc<ServerConfig>> {
        let (certificate, key) = self.sign(parameters)?;
        let chain = vec![certificate.der().clone(), self.issuer.der().clone()];
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .context("no TLS versions")?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .context("the test certificate does not fit its key")?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn parameters(names: &[&str]) -> Result<CertificateParams> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    CertificateParams::new(names).context("not a DNS name")
}
