use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rustls::crypto::ring;

use super::testing::*;
use super::*;
use crate::Rng;

#[test]
fn a_handshake_ends_with_keys_parameters_and_identities_on_both_sides() {
    let (mut client, mut server) = pair();
    assert!(client.poll_keys().is_none() && server.poll_keys().is_none());
    assert_eq!(run(&mut client, &mut server), Ok(()));
    assert!(client.is_complete() && server.is_complete());
    assert_eq!(client.take_peer_parameters(), Some(Ok(parameters("server"))));
    assert_eq!(server.take_peer_parameters(), Some(Ok(parameters("client"))));
    assert_eq!(client.take_peer_parameters(), None, "they are given once");
    assert_eq!(client.peer_public_key(), Some(public_key(2)));
    assert_eq!(server.peer_public_key(), Some(public_key(1)));
    keys(&mut client);
    keys(&mut server);
    assert!(client.poll_keys().is_none() && server.poll_keys().is_none());
    assert_eq!((client.alert(), server.alert()), (None, None));
}

#[test]
fn a_server_releases_no_one_rtt_keys_before_the_client_is_authorised() {
    let (mut client, mut server) = pair();
    let (hello, _) = write(&mut client, EncryptionLevel::Initial, 2000);
    read(&mut server, EncryptionLevel::Initial, &hello).unwrap();
    assert!(matches!(server.poll_keys(), Some(NewKeys::Handshake(_))));
    assert!(server.poll_keys().is_none(), "TLS has derived them, but the client has proved nothing");
    assert_eq!(server.take_peer_parameters(), None);
    assert_eq!(server.peer_public_key(), None);
    run(&mut client, &mut server).unwrap();
    assert!(matches!(server.poll_keys(), Some(NewKeys::OneRtt(..))));
}

#[test]
fn a_server_with_another_key_than_the_pinned_one_is_refused() {
    let (mut client, mut server) = pair_of(client_config(1, 3), server_config(2, 1));
    let (by, violation) = run(&mut client, &mut server).unwrap_err();
    assert_eq!(by, Side::Client);
    let Violation::Tls { alert, .. } = violation else { panic!("{violation:?}") };
    assert!(is_authentication_alert(alert), "{alert}");
    assert_eq!(client.alert(), Some(alert));
    assert!(!client.is_complete() && !server.is_complete());
    assert!(matches!(
        client.on_bytes(EncryptionLevel::Handshake, 1 << 12, b"more"),
        Err(Violation::Tls { .. })
    ));
}

#[test]
fn a_client_that_is_not_authorised_is_refused() {
    let (mut client, mut server) = pair_of(client_config(4, 2), server_config(2, 1));
    let (by, violation) = run(&mut client, &mut server).unwrap_err();
    assert_eq!(by, Side::Server);
    let Violation::Tls { alert, .. } = violation else { panic!("{violation:?}") };
    assert_eq!(alert, u8::from(AlertDescription::AccessDenied));
    assert!(is_authentication_alert(alert));
    assert!(matches!(server.poll_keys(), Some(NewKeys::Handshake(_))));
    assert!(server.poll_keys().is_none(), "it can neither send nor take data");
    assert_eq!(server.peer_public_key(), None);
}

#[test]
fn a_client_of_another_application_protocol_is_refused_but_not_for_its_identity() {
    for names in [vec![b"h3".to_vec()], vec![b"mmsp/1".to_vec(), b"mmsp/20".to_vec()], vec![]] {
        let mut config = Arc::unwrap_or_clone(client_config(1, 2));
        config.alpn_protocols = names;
        let name = ServerName::try_from("peer").unwrap();
        let mut foreign = ClientConnection::new(config.into(), Version::V1, name, vec![]).unwrap();
        let mut hello = Vec::new();
        assert!(foreign.write_hs(&mut hello).is_none());

        let (_, mut server) = pair();
        let violation = server.on_bytes(EncryptionLevel::Initial, 0, &hello).unwrap_err();
        let Violation::Tls { alert, .. } = violation else { panic!("{violation:?}") };
        assert_eq!(alert, u8::from(AlertDescription::NoApplicationProtocol));
        assert!(!is_authentication_alert(alert));
    }
}

#[test]
fn an_unsuitable_configuration_is_refused() {
    let mut config = Arc::unwrap_or_clone(client_config(1, 2));
    config.alpn_protocols.push(b"h3".to_vec());
    let name = ServerName::try_from("peer").unwrap();
    let refused = Handshake::client(config.into(), name, &parameters("client")).unwrap_err();
    assert_eq!(refused, HandshakeError::ApplicationProtocol);

    let refused = |change: fn(&mut rustls::ServerConfig)| {
        let mut config = Arc::unwrap_or_clone(server_config(2, 1));
        change(&mut config);
        Handshake::server(config.into(), &parameters("server")).unwrap_err()
    };
    assert_eq!(refused(|config| config.alpn_protocols.clear()), HandshakeError::ApplicationProtocol);
    assert_eq!(refused(|config| config.send_tls13_tickets = 2), HandshakeError::Resumption);
    assert_eq!(refused(|config| config.max_early_data_size = u32::MAX), HandshakeError::Resumption);
}

#[test]
fn a_server_may_request_another_client_hello() {
    let mut provider = ring::default_provider();
    provider.kx_groups = vec![ring::kx_group::SECP384R1];
    let (mut client, mut server) =
        pair_of(client_config(1, 2), Arc::new(server_config_of(Arc::new(provider), 2, 1)));
    assert_eq!(run(&mut client, &mut server), Ok(()));
    assert!(client.is_complete() && server.is_complete());
    keys(&mut client);
    keys(&mut server);
}

#[test]
fn bytes_after_the_last_message_of_a_level_are_refused() {
    let (mut client, mut server) = pair();
    let (hello, _) = write(&mut client, EncryptionLevel::Initial, 2000);
    read(&mut server, EncryptionLevel::Initial, &hello).unwrap();
    assert_eq!(read(&mut server, EncryptionLevel::Initial, &hello), Ok(()), "a repetition is none");
    let misplaced = Err(Violation::UnexpectedBlock { kind: Crypto::KIND });
    assert_eq!(server.on_bytes(EncryptionLevel::Initial, 2000, b"more"), misplaced);
    run(&mut client, &mut server).unwrap();
    assert_eq!(client.on_bytes(EncryptionLevel::Handshake, 3000, b"more"), misplaced);
    assert_eq!(server.on_bytes(EncryptionLevel::OneRtt, 0, b"more"), misplaced);
}

#[test]
fn a_first_message_that_is_no_client_hello_fails() {
    let (_, mut server) = pair();
    let violation = server.on_bytes(EncryptionLevel::Initial, 0, &[20, 0, 0, 1, 0]).unwrap_err();
    assert!(matches!(violation, Violation::Tls { .. }), "{violation:?}");
    assert!(server.alert().is_some());
}

/// A packet in flight, with its content and its receiver.
struct Flying {
    to_server: bool,
    level: EncryptionLevel,
    payload: Vec<u8>,
    contents: Contents,
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24, failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default()
    })]

    #[test]
    fn a_handshake_completes_under_any_loss_or_reordering(seed in any::<[u8; 32]>(), room in 24_usize..1400) {
        let mut rng = Rng::from_seed(seed);
        let (mut client, mut server) = pair();
        let mut flying: Vec<Flying> = Vec::new();
        for step in 0..20_000 {
            if client.is_complete() && server.is_complete() {
                break;
            }
            prop_assert!(step < 19_999, "no end: {:?} {:?}", client, server);
            for (to_server, sender) in [(true, &mut client), (false, &mut server)] {
                for level in [EncryptionLevel::Initial, EncryptionLevel::Handshake] {
                    if sender.wants(level) {
                        let room = 12 + usize::try_from(rng.next_u64()).unwrap() % room;
                        let (payload, contents) = write(sender, level, room);
                        prop_assert!(payload.len() <= room);
                        flying.push(Flying { to_server, level, payload, contents });
                    }
                }
            }
            if flying.is_empty() {
                client.resend_all(EncryptionLevel::Initial);
                continue;
            }
            let packet = flying.swap_remove(usize::try_from(rng.next_u64()).unwrap() % flying.len());
            let (sender, receiver) =
                if packet.to_server { (&mut client, &mut server) } else { (&mut server, &mut client) };
            if rng.next_u64() % 10 < 3 {
                packet.contents.iter().for_each(|content| sender.on_lost(packet.level, content));
            } else if packet.level == EncryptionLevel::Handshake && receiver.writing == EncryptionLevel::Initial {
                // The receiver has no keys for it yet: lost, as far as the sender can tell.
                packet.contents.iter().for_each(|content| sender.on_lost(packet.level, content));
            } else {
                prop_assert_eq!(read(receiver, packet.level, &packet.payload), Ok(()));
                match rng.next_u64() % 10 {
                    0 => flying.push(packet),
                    1 => packet.contents.iter().for_each(|content| sender.on_lost(packet.level, content)),
                    _ => packet.contents.iter().for_each(|content| sender.on_delivered(packet.level, content)),
                }
            }
        }
        prop_assert_eq!(client.take_peer_parameters(), Some(Ok(parameters("server"))));
        prop_assert_eq!(server.take_peer_parameters(), Some(Ok(parameters("client"))));
    }
}

#[test]
fn what_tls_says_of_a_certificate_becomes_a_sentence() {
    #[derive(Debug)]
    struct Told(&'static str);
    impl fmt::Display for Told {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }
    impl std::error::Error for Told {}
    let reason = |told: &'static str| {
        let other = rustls::OtherError(Arc::new(Told(told)));
        reason_of(&CertificateError::Other(other).into())
    };
    assert_eq!(
        reason("CaUsedAsEndEntity"),
        "the server's certificate is that of an authority (CA:TRUE); a CA certificate cannot identify a server"
    );
    assert_eq!(reason("Odd"), "the server's certificate can not be used: Odd");
    let violation = Violation::Tls { alert: 49, reason: "not accepted".into() };
    assert_eq!(violation.to_string(), "not accepted (TLS alert 49)");
}
