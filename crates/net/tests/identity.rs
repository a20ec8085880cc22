//! Identities: keys that are learned, certificates, and rights that end.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::net::SocketAddr;
use std::sync::Arc;

use crate::common::{Pair, address, client, identity, soon};
use manyway::{
    AuthorisedKeys, ConnectError, ConnectionConfig, ConnectionError, Endpoint, EndpointOptions, HostPort,
    Identity, RootCertificates, ServerCertificate, ServerOptions, ServerTrust,
};

#[tokio::test]
async fn a_client_learns_the_key_of_its_server_and_the_server_that_of_its_client() {
    let pair = Pair::new().await;
    assert_eq!(pair.connected.peer_key(), Some(*identity().public_key()));
    let of_ticket = Identity::from_ticket_secret(&crate::common::SECRET);
    assert_eq!(pair.accepted.peer_key(), Some(*of_ticket.public_key()));

    let server = server(None);
    let (client, own) = (client(ConnectionConfig::default()), own());
    let hosts = [HostPort::from(address(&server))];
    let connected = soon(client.connect_to(&hosts, ServerTrust::AnyKey, &own)).await.unwrap();
    assert_eq!(connected.peer_key(), Some(*identity().public_key()));
    assert_eq!(soon(server.accept()).await.unwrap().peer_key(), Some(*own.public_key()));
}

#[tokio::test]
async fn a_server_with_a_certificate_is_known_by_its_name_or_by_its_key() {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let roots = RootCertificates::from_pem(made.cert.pem().as_bytes()).unwrap();
    let shown =
        ServerCertificate::from_pem(made.cert.pem().as_bytes(), made.signing_key.serialize_pem().as_bytes());
    let server = server(Some(shown.unwrap()));
    let client = client(ConnectionConfig::default());
    let hosts = [HostPort::from(address(&server))];
    let by_name = ServerTrust::Certificate(roots.clone());
    let connected = soon(client.connect_to(&hosts, by_name, &own())).await.unwrap();
    assert_eq!(connected.peer_key(), None);
    assert_eq!(soon(server.accept()).await.unwrap().peer_key(), Some(*own().public_key()));
    let by_key = identity().public_key().hash();
    assert!(soon(client.connect_to(&hosts, by_key, &own())).await.is_ok());

    let elsewhere = HostPort::from(SocketAddr::from(([127, 0, 0, 9], 1)));
    let hosts = [elsewhere, HostPort::from(address(&server))];
    let refused = soon(client.connect_to(&hosts, ServerTrust::Certificate(roots), &own())).await;
    let Err(ConnectError::Failed(ConnectionError::Authentication { reason, .. })) = refused else {
        panic!("{refused:?}")
    };
    assert!(reason.contains("127.0.0.9"), "{reason}");
}

#[tokio::test]
async fn a_certificate_above_the_amplification_limit_of_the_first_flight_arrives() {
    // Three times the first datagram of the client are less than 4 KB.
    let names = (0..400).map(|number| format!("{number}.server.example"));
    let names: Vec<_> = std::iter::once("127.0.0.1".to_owned()).chain(names).collect();
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    assert!(made.cert.der().len() > 8_000);
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let server = server(Some(ServerCertificate::from_pem(chain.as_bytes(), key.as_bytes()).unwrap()));
    let client = client(ConnectionConfig::default());
    let trust = ServerTrust::Certificate(RootCertificates::from_pem(chain.as_bytes()).unwrap());
    let hosts = [HostPort::from(address(&server))];
    soon(client.connect_to(&hosts, trust, &own())).await.unwrap();
}

#[tokio::test]
async fn a_server_with_another_key_is_refused_and_its_key_is_told() {
    let (server, client) = (server(None), client(ConnectionConfig::default()));
    let hosts = [HostPort::from(address(&server))];
    let refused = soon(client.connect_to(&hosts, [1; 16], &own())).await;
    let Err(ConnectError::Failed(ConnectionError::Authentication { shown, .. })) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(shown, Some(*identity().public_key()));
}

#[tokio::test]
async fn a_client_whose_rights_end_learns_so_at_once() {
    let pair = Pair::new().await;
    pair.accepted.revoke("the ticket was revoked");
    let end = soon(pair.connected.closed()).await;
    assert_eq!(end, ConnectionError::Authentication { reason: "the ticket was revoked".into(), shown: None });
    assert!(matches!(soon(pair.accepted.closed()).await, ConnectionError::Closed { .. }));
}

fn own() -> Identity {
    Identity::from_seed(&[5; 32])
}

/// A server that accepts [`own`].
fn server(certificate: Option<ServerCertificate>) -> Endpoint {
    let accepted: AuthorisedKeys = std::iter::once(*own().public_key()).collect();
    let mut server = ServerOptions::with_authoriser(identity(), Arc::new(accepted));
    server.listen = vec!["127.0.0.1:0".parse().unwrap()];
    server.certificate = certificate;
    let mut options = EndpointOptions::default();
    options.server = Some(server);
    Endpoint::bind(options).unwrap()
}
