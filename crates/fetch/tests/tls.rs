//! Encrypted servers.

use std::sync::Arc;

use manyway_fetch::{FetchError, RootCertStore, client_config};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::common::{Act, Client, MB, Site, assert_content, bytes};

/// A server for `localhost`, and its certificate.
fn encrypted(versions: &[&'static rustls::SupportedProtocolVersion]) -> (Site, CertificateDer<'static>) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let content = bytes(2 * MB, 1);
    let site = Site::listen("127.0.0.1:0", content, Some(Arc::new(config)), |_| Act::Serve { tag: "\"v1\"" });
    (site, cert.der().clone())
}

#[tokio::test]
async fn an_encrypted_file_comes_with_tls_1_2_and_1_3() {
    for versions in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13]] {
        let (site, certificate) = encrypted(versions);
        let mut client = Client::new(&format!("https://localhost:{}/f", site.port()), &[2, 3]);
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        client.plan.tls = client_config(roots).unwrap();
        client.run().await.unwrap();
        assert_content(&client.path("f"), &site.content());
        assert!(client.received("i2") + client.received("i3") > 2_000_000);
    }
}

#[tokio::test]
async fn a_server_without_a_certificate_of_an_authority_is_refused() {
    let (site, certificate) = encrypted(&[&rustls::version::TLS13]);
    let mut client = Client::new(&format!("https://localhost:{}/f", site.port()), &[2, 3]);
    let error = client.run().await.unwrap_err();
    assert!(matches!(error, FetchError::Untrusted { .. }), "{error}");
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    client.plan.tls = client_config(roots).unwrap();
    let other = format!("https://127.0.0.1:{}/f", site.port());
    client.plan.address = manyway_fetch::WebAddress::parse(&other).unwrap();
    let error = client.run().await.unwrap_err();
    assert!(error.to_string().starts_with("the certificate of 127.0.0.1 is not accepted"), "{error}");
    assert_eq!(site.asked().len(), 0, "no request was sent");
}
