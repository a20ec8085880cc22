use std::fmt;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use super::tests::{accepts, server};
use super::*;
use crate::mmsp2::tls::{Handshake, testing};
use crate::{Violation, is_authentication_alert};

/// A certificate authority created for the test.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        Self::named("test authority")
    }

    fn named(name: &str) -> Self {
        let mut parameters = CertificateParams::new([]).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap())
    }

    fn roots(&self) -> RootCertificates {
        RootCertificates::from_pem(self.0.pem().as_bytes()).unwrap()
    }

    fn issue(&self, name: &str) -> ServerCertificate {
        let (chain, key) = self.pem(name, 2100);
        ServerCertificate::from_pem(chain.as_bytes(), key.as_bytes()).unwrap()
    }

    fn pem(&self, name: &str, until: i32) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new([name.to_owned()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(until, 1, 1);
        let certificate = parameters.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

fn client_of(config: Arc<ClientConfig>, name: &str) -> Handshake {
    let name = rustls::pki_types::ServerName::try_from(name.to_owned()).unwrap();
    Handshake::client(config, name, &testing::parameters("client")).unwrap()
}

/// A server with a raw key and a certificate.
fn server_with(certificate: &ServerCertificate, client: &Identity) -> Handshake {
    let authoriser = accepts(&[*client.public_key()]);
    let parameters = testing::parameters("server");
    Handshake::server(server_config(&server(), Arc::clone(&authoriser)), &parameters)
        .and_then(|handshake| {
            handshake.with_fallback(certificate_config(certificate, authoriser), &parameters)
        })
        .unwrap()
}

fn client() -> Identity {
    Identity::from_seed(&[5; 32])
}

fn run(trust: impl Into<ServerTrust>, name: &str, shown: &ServerCertificate) -> Result<Vec<u8>, Violation> {
    let mut at_client = client_of(client_config(trust, &client()), name);
    let mut at_server = server_with(shown, &client());
    testing::run(&mut at_client, &mut at_server).map_err(|(_, violation)| violation)?;
    assert_eq!(at_server.peer_public_key(), Some(client().public_key().to_spki()));
    Ok(at_client.peer_public_key().unwrap())
}

#[test]
fn a_server_shows_its_certificate_on_request_and_its_key_otherwise() {
    let authority = Authority::new();
    let shown = authority.issue("server.example");
    let trust = ServerTrust::Certificate(authority.roots());
    assert_eq!(run(trust, "server.example", &shown).unwrap(), shown.leaf());
    let key = server().public_key().to_spki();
    assert_eq!(run(server().public_key().hash(), "whatever", &shown).unwrap(), key);
    assert_eq!(run(ServerTrust::AnyKey, "whatever", &shown).unwrap(), key);
}

#[test]
fn a_certificate_for_another_name_is_refused() {
    let authority = Authority::new();
    let trust = ServerTrust::Certificate(authority.roots());
    let reason = refusal(run(trust, "other.example", &authority.issue("server.example")));
    assert!(reason.contains("other.example"), "{reason}");
}

#[test]
fn a_certificate_of_an_unknown_authority_is_refused() {
    let trust = ServerTrust::Certificate(Authority::named("another").roots());
    let reason = refusal(run(trust, "server.example", &Authority::new().issue("server.example")));
    assert!(reason.contains("authority"), "{reason}");
}

#[test]
fn an_expired_certificate_is_refused() {
    let authority = Authority::new();
    let (chain, key) = authority.pem("server.example", 2001);
    let shown = ServerCertificate::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
    let reason = refusal(run(ServerTrust::Certificate(authority.roots()), "server.example", &shown));
    assert!(reason.contains("expired"), "{reason}");
}

#[test]
fn a_replaced_certificate_is_shown_from_then_on() {
    let authority = Authority::new();
    let shown = authority.issue("server.example");
    // TLS holds a clone.
    let given_away = shown.clone();
    shown.replace(&authority.issue("new.example"));
    let trust = ServerTrust::Certificate(authority.roots());
    assert_eq!(run(trust, "new.example", &given_away).unwrap(), shown.leaf());
}

#[test]
fn a_client_that_requests_a_certificate_is_notified_if_there_is_none() {
    let trust = ServerTrust::Certificate(Authority::new().roots());
    let mut at_client = client_of(client_config(trust, &client()), "server.example");
    let parameters = testing::parameters("server");
    let config = server_config(&server(), accepts(&[*client().public_key()]));
    let mut at_server = Handshake::server(config, &parameters).unwrap();
    let reason = refusal(testing::run(&mut at_client, &mut at_server).map_err(|(_, violation)| violation));
    assert!(reason.contains("certificate"), "{reason}");
}

#[test]
fn files_that_do_not_match_are_distinguished() {
    let authority = Authority::new();
    let (chain, key) = authority.pem("a.example", 2100);
    let (_, other) = authority.pem("b.example", 2100);
    let read = |chain: &str, key: &str| {
        ServerCertificate::from_pem(chain.as_bytes(), key.as_bytes()).map(|_| ()).unwrap_err()
    };
    assert_eq!(read(&chain, &other), CertificateFault::Mismatch);
    assert_eq!(read(&key, &key), CertificateFault::NoCertificate);
    assert_eq!(read(&chain, &chain), CertificateFault::NoKey);
    assert!(matches!(read("-----BEGIN CERTIFICATE-----\n", &key), CertificateFault::Pem(_)));
    let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(matches!(read(nonsense, &key), CertificateFault::Certificate(_)));
    assert_eq!(RootCertificates::from_pem(b"").unwrap_err(), CertificateFault::NoCertificate);
    assert_eq!(RootCertificates::from_der([vec![1, 2]]).unwrap_err(), CertificateFault::NoCertificate);
}

#[track_caller]
fn refusal<T: fmt::Debug>(result: Result<T, Violation>) -> String {
    let Violation::Tls { alert, reason } = result.unwrap_err() else { panic!("another violation") };
    assert!(is_authentication_alert(alert), "{alert}: {reason}");
    reason
}
