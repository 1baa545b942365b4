// SPDX-License-Identifier: Apache-2.0
//! A peer of the egress benchmark: hudsucker as an intercepting proxy that verifies the upstream
//! with one CA and sets one header, on two threads, as a program that uses it would.

use hudsucker::certificate_authority::RcgenAuthority;
use hudsucker::hyper::Request;
use hudsucker::hyper::header::{AUTHORIZATION, HeaderValue};
use hudsucker::hyper_util::client::legacy::connect::HttpConnector;
use hudsucker::rcgen::{Issuer, KeyPair};
use hudsucker::rustls::crypto::aws_lc_rs;
use hudsucker::rustls::pki_types::{CertificateDer, pem::PemObject};
use hudsucker::rustls::{ClientConfig, RootCertStore};
use hudsucker::{Body, HttpContext, HttpHandler, Proxy, RequestOrResponse};
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpSocket;

/// LIMIT: leaves that are kept, as in the library's own example.
const LEAVES_MAX: u64 = 1_000;

/// LIMIT: connections that wait to be accepted, as the standard library asks for.
const WAITING_MAX: u32 = 128;

#[derive(Clone)]
struct Inject(HeaderValue);

impl HttpHandler for Inject {
    async fn handle_request(
        &mut self,
        _: &HttpContext,
        mut request: Request<Body>,
    ) -> RequestOrResponse {
        request.headers_mut().insert(AUTHORIZATION, self.0.clone());
        request.into()
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [port, certificate, key, header] = arguments.as_slice() else {
        return Err("usage: torno-bench-hudsucker PORT CA.crt CA.key HEADER-VALUE".into());
    };
    let pem = std::fs::read_to_string(certificate)?;
    let key = KeyPair::from_pem(&std::fs::read_to_string(key)?)?;
    let issuer = Issuer::from_ca_cert_pem(&pem, key)?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes())?)?;
    let client = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(client)
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp);
    let authority = RcgenAuthority::new(issuer, LEAVES_MAX, aws_lc_rs::default_provider());
    // The library leaves Nagle's algorithm on, which costs 40 ms of each new connection. On Linux
    // what is accepted inherits this from the listener.
    let socket = TcpSocket::new_v4()?;
    socket.set_nodelay(true)?;
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse()?)))?;
    let proxy = Proxy::builder()
        .with_listener(socket.listen(WAITING_MAX)?)
        .with_ca(authority)
        .with_http_connector(connector)
        .with_http_handler(Inject(HeaderValue::from_str(header)?))
        .build()?;
    Ok(proxy.start().await?)
}
