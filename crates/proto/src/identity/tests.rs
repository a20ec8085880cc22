use rustls::AlertDescription;
use rustls::quic::{ClientConnection, Connection, ServerConnection, Version};
use rustls::sign::CertifiedKey;

use super::*;

const SECRET: [u8; 16] = [7; 16];

pub(super) fn server() -> Identity {
    Identity::from_seed(&[1; 32])
}

pub(super) fn accepts(keys: &[PublicKey]) -> Arc<dyn Authoriser> {
    Arc::new(AuthorisedKeys::from_iter(keys.iter().copied()))
}

/// Runs a TLS handshake; returns the end that refuses and its alert, if one does.
pub(super) fn connect(
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
) -> Result<(Connection, Connection), (&'static str, AlertDescription)> {
    let (mut client, mut server) = connections(client, server);
    for _ in 0..10 {
        carry(&mut client, &mut server).map_err(|alert| ("server", alert))?;
        carry(&mut server, &mut client).map_err(|alert| ("client", alert))?;
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    Ok((client, server))
}

fn connections(client: Arc<ClientConfig>, server: Arc<ServerConfig>) -> (Connection, Connection) {
    let name = "peer".try_into().unwrap();
    let client = ClientConnection::new(client, Version::V1, name, vec![]).unwrap();
    (client.into(), ServerConnection::new(server, Version::V1, vec![]).unwrap().into())
}

/// Passes the output of one end to the other, level by level; returns the alert if that one refuses it.
fn carry(from: &mut Connection, to: &mut Connection) -> Result<(), AlertDescription> {
    loop {
        let mut bytes = Vec::new();
        let change = from.write_hs(&mut bytes);
        if change.is_none() && bytes.is_empty() {
            return Ok(());
        }
        if to.read_hs(&bytes).is_err() {
            return Err(to.alert().expect("a refusal comes with an alert"));
        }
    }
}

#[test]
fn a_client_with_the_ticket_and_its_server_authenticate_each_other() {
    let client = Identity::from_ticket_secret(&SECRET);
    let for_server = server_config(&server(), accepts(&[*client.public_key()]));
    let (at_client, at_server) =
        connect(client_config(server().public_key().hash(), &client), for_server).unwrap();
    assert_eq!(at_client.alpn_protocol(), Some(ALPN));
    assert_eq!(at_server.alpn_protocol(), Some(ALPN));
    let shown = |connection: &Connection| PublicKey::from_spki(&connection.peer_certificates().unwrap()[0]);
    assert_eq!(shown(&at_server), Some(*client.public_key()));
    assert_eq!(shown(&at_client), Some(*server().public_key()));
}

#[test]
fn a_server_with_another_key_is_refused_by_the_client() {
    let client = Identity::from_ticket_secret(&SECRET);
    let other = Identity::from_seed(&[2; 32]);
    let for_server = server_config(&other, accepts(&[*client.public_key()]));
    let refused = connect(client_config(server().public_key().hash(), &client), for_server);
    assert_eq!(refused.unwrap_err(), ("client", AlertDescription::CertificateUnknown));
}

#[test]
fn a_client_that_accepts_any_key_learns_which_one_it_is() {
    let client = Identity::from_seed(&[5; 32]);
    let for_server = server_config(&server(), accepts(&[*client.public_key()]));
    let (at_client, _) = connect(client_config(ServerTrust::AnyKey, &client), for_server).unwrap();
    let shown = &at_client.peer_certificates().unwrap()[0];
    assert_eq!(PublicKey::from_spki(shown), Some(*server().public_key()));
}

#[test]
fn a_server_that_does_not_own_the_key_it_shows_is_refused_by_a_client_that_accepts_any() {
    let client = Identity::from_seed(&[5; 32]);
    let impostor = Identity::from_seed(&[6; 32]);
    let stolen = Identity {
        key: Arc::new(CertifiedKey::new(server().key.cert.clone(), Arc::clone(&impostor.key.key))),
        public_key: *server().public_key(),
    };
    let for_server = server_config(&stolen, accepts(&[*client.public_key()]));
    let refused = connect(client_config(ServerTrust::AnyKey, &client), for_server);
    assert_eq!(refused.unwrap_err(), ("client", AlertDescription::DecryptError));
}

#[test]
fn a_client_with_another_secret_is_denied_access() {
    let client = Identity::from_ticket_secret(&[8; 16]);
    let for_server =
        server_config(&server(), accepts(&[*Identity::from_ticket_secret(&SECRET).public_key()]));
    let refused = connect(client_config(server().public_key().hash(), &client), for_server);
    assert_eq!(refused.unwrap_err(), ("server", AlertDescription::AccessDenied));
}

#[test]
fn a_client_that_shows_no_key_is_refused() {
    let mut client = ClientConfig::clone(&client_config(server().public_key().hash(), &server()));
    client.client_auth_cert_resolver = Arc::new(NoKey);
    let refused = connect(Arc::new(client), server_config(&server(), accepts(&[])));
    let (by, alert) = refused.unwrap_err();
    assert_eq!(by, "server");
    assert!(crate::is_authentication_alert(alert.into()), "{alert:?}");
}

#[test]
fn a_client_that_shows_an_accepted_key_without_owning_it_is_refused() {
    let owner = Identity::from_ticket_secret(&SECRET);
    let thief = Identity::from_seed(&[9; 32]);
    let stolen = Identity {
        key: Arc::new(CertifiedKey::new(owner.key.cert.clone(), Arc::clone(&thief.key.key))),
        public_key: *owner.public_key(),
    };
    let for_server = server_config(&server(), accepts(&[*owner.public_key()]));
    let refused = connect(client_config(server().public_key().hash(), &stolen), for_server);
    assert_eq!(refused.unwrap_err(), ("server", AlertDescription::DecryptError));
}

#[test]
fn a_client_of_another_protocol_is_refused() {
    let client = Identity::from_ticket_secret(&SECRET);
    let mut config = ClientConfig::clone(&client_config(server().public_key().hash(), &client));
    config.alpn_protocols = vec![b"h3".to_vec()];
    let refused =
        connect(Arc::new(config), server_config(&server(), accepts(&[*client.public_key()]))).unwrap_err();
    assert_eq!(refused, ("server", AlertDescription::NoApplicationProtocol));
}

#[test]
fn the_client_hello_reveals_neither_name_nor_key() {
    let client = Identity::from_ticket_secret(&SECRET);
    let config = client_config(server().public_key().hash(), &client);
    let name = "secret.example".try_into().unwrap();
    let mut client_side = ClientConnection::new(config, Version::V1, name, vec![]).unwrap();
    let mut hello = Vec::new();
    assert!(client_side.write_hs(&mut hello).is_none());
    for told in [&b"secret"[..], &client.public_key().0, &server().public_key().hash()] {
        assert!(!hello.windows(told.len()).any(|window| window == told));
    }
}

#[test]
fn a_seed_and_a_secret_always_lead_to_the_same_key() {
    // RFC 8032, section 7.1, test 1.
    let seed = [
        0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4, 0x44,
        0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60,
    ];
    let key = Identity::from_seed(&seed);
    assert_eq!(key.public_key().0[..4], [0xd7, 0x5a, 0x98, 0x01]);
    assert_eq!(PublicKey::from_spki(&key.public_key().to_spki()), Some(*key.public_key()));
    assert_eq!(PublicKey::from_spki(&key.public_key().to_spki()[1..]), None);

    let derived = |secret| *Identity::from_ticket_secret(&secret).public_key();
    assert_eq!(derived(SECRET), derived(SECRET));
    assert_ne!(derived(SECRET), derived([8; 16]));
}

#[test]
fn printing_an_identity_shows_the_public_key_only() {
    let identity = Identity::from_seed(&[0xab; 32]);
    let expected = format!("Identity {{ public_key: PublicKey({}), .. }}", identity.public_key());
    assert_eq!(format!("{identity:?}"), expected);
}

#[derive(Debug)]
struct NoKey;

impl rustls::client::ResolvesClientCert for NoKey {
    fn resolve(&self, _: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        None
    }

    fn only_raw_public_keys(&self) -> bool {
        true
    }

    fn has_certs(&self) -> bool {
        false
    }
}
