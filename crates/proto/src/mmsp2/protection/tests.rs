use manyway_wire::Writer;
use manyway_wire::mmsp2::{LongHeader, LongKind, decode_protected, encode_short, patch_length};

mod jobs;

use super::job::SealError;
use super::open::Opened;
use super::*;
use crate::Rng;
use crate::mmsp2::tls::testing;
use crate::packet::replay::ReplayWindow;

const PTO: Duration = Duration::from_millis(100);

/// One end, with one replay window for each of a few paths and for the levels before paths.
struct End {
    protector: Protector,
    windows: Vec<ReplayWindow>,
    sent: Vec<u64>,
}

impl End {
    fn new(side: Side, limits: KeyLimits) -> Self {
        let mut protector = Protector::new(side, limits);
        protector.set_initial_keys(&ConnectionId::from_u64(0x8394_c8f0_3e51_5708));
        Self { protector, windows: vec![ReplayWindow::new(); 4], sent: vec![0; 4] }
    }

    /// Builds and seals a packet; the header is 1 + 8 bytes, `long` or not.
    fn seal_as(
        &mut self,
        level: EncryptionLevel,
        path: u32,
        long: bool,
        number_length: usize,
        text: &[u8],
    ) -> Vec<u8> {
        let at = path as usize;
        let number = self.sent[at];
        self.sent[at] += 1;
        // Other bytes may precede the packet in the buffer.
        let mut buffer = vec![0xee; 3];
        buffer.push(if long { 0xc0 } else { 0x40 } | u8::try_from(number_length - 1).unwrap());
        buffer.extend_from_slice(&[0x55; 8]);
        buffer.extend_from_slice(&number.to_be_bytes()[8 - number_length..]);
        buffer.extend_from_slice(text);
        let packet = Outgoing {
            level,
            path: PathId(path),
            packet_number: number,
            start: 3,
            number_offset: 12,
            number_length,
        };
        self.protector.seal_now(&packet, &mut buffer).unwrap();
        assert_eq!(buffer[..3], [0xee; 3]);
        assert_eq!(buffer.len(), 12 + number_length + text.len() + Protector::TAG_LENGTH);
        buffer.split_off(3)
    }

    fn seal(&mut self, path: u32) -> Vec<u8> {
        self.seal_as(EncryptionLevel::OneRtt, path, false, 2, b"some blocks")
    }

    fn open_as(
        &mut self,
        level: EncryptionLevel,
        path: u32,
        packet: &[u8],
    ) -> Result<(Opened, Vec<u8>), OpenError> {
        let window = &mut self.windows[path as usize];
        let mut packet = packet.to_vec();
        let at = Incoming { level, path: PathId(path), number_offset: 9, expected: window.next() };
        let opened = self.protector.open(&at, &mut packet, window)?;
        window.mark(opened.packet_number);
        let payload = packet[opened.payload.clone()].to_vec();
        Ok((opened, payload))
    }

    fn open(&mut self, path: u32, packet: &[u8]) -> Result<bool, OpenError> {
        let (opened, payload) = self.open_as(EncryptionLevel::OneRtt, path, packet)?;
        assert_eq!(payload, b"some blocks");
        Ok(opened.key_phase_changed)
    }
}

/// A client and a server with all keys.
fn ends(limits: KeyLimits) -> (End, End) {
    let (mut client, mut server) = testing::pair();
    testing::run(&mut client, &mut server).unwrap();
    let mut ends = [End::new(Side::Client, limits), End::new(Side::Server, limits)];
    for (end, handshake) in ends.iter_mut().zip([&mut client, &mut server]) {
        let (handshake_keys, (one_rtt, secrets)) = testing::keys(handshake);
        end.protector.install_handshake(handshake_keys);
        end.protector.install_one_rtt(one_rtt, secrets);
        end.protector.on_confirmed();
    }
    ends.into()
}

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

/// Limits under which a key update is due after every packet.
fn eager() -> KeyLimits {
    KeyLimits { update_after_packets: 1, ..KeyLimits::default() }
}

/// Both ends send and receive a packet on path 0; the client gets the acknowledgement of its own.
fn exchange(client: &mut End, server: &mut End, now: Instant) {
    let (from_client, from_server) = (client.seal(0), server.seal(0));
    server.open(0, &from_client).unwrap();
    client.open(0, &from_server).unwrap();
    client.protector.on_acked(now, PathId(0), client.sent[0] - 1);
    server.seal(0);
    client.seal(0);
}

#[test]
fn packets_open_at_each_level_with_both_header_forms_and_all_number_lengths() {
    for level in [EncryptionLevel::Initial, EncryptionLevel::Handshake, EncryptionLevel::OneRtt] {
        for long in [true, false] {
            for number_length in 1..=4 {
                let (mut client, mut server) = ends(KeyLimits::default());
                for (round, path) in [0, 3, 1, 0].into_iter().enumerate() {
                    let text = vec![u8::try_from(round).unwrap(); 3 + round * 400];
                    let number = client.sent[path as usize];
                    let packet = client.seal_as(level, path, long, number_length, &text);
                    let (opened, payload) = server.open_as(level, path, &packet).unwrap();
                    assert_eq!((opened.packet_number, payload), (number, text.clone()));
                    let packet = server.seal_as(level, path, long, number_length, &text);
                    assert_eq!(client.open_as(level, path, &packet).unwrap().1, text);
                }
            }
        }
    }
}

#[test]
fn the_initial_level_uses_the_initial_keys_of_quic_version_1() {
    // RFC 9001, section A.2: header and first bytes of the protected client Initial.
    let mut protector = Protector::new(Side::Client, KeyLimits::default());
    protector.set_initial_keys(&ConnectionId::from_u64(0x8394_c8f0_3e51_5708));
    let mut packet = vec![0xc3, 0, 0, 0, 1, 8, 0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 8, 0, 0, 0x44, 0x9e];
    packet.extend_from_slice(&[0, 0, 0, 2]);
    packet.extend_from_slice(&[0x06, 0x00, 0x40, 0xf1, 0x01, 0x00, 0x00, 0xed, 0x03, 0x03, 0xeb, 0xf8, 0xfa]);
    packet.extend_from_slice(&[0x56, 0xf1, 0x29]);
    packet.resize(22 + 1162, 0);
    let at = Outgoing {
        level: EncryptionLevel::Initial,
        path: PathId(5),
        packet_number: 2,
        start: 0,
        number_offset: 18,
        number_length: 4,
    };
    protector.seal_now(&at, &mut packet).unwrap();
    assert_eq!(packet[0], 0xc0);
    assert_eq!(packet[18..22], [0x7b, 0x9a, 0xec, 0x34]);
    assert_eq!(
        packet[22..38],
        [0xd1, 0xb1, 0xc9, 0x8d, 0xd7, 0x68, 0x9f, 0xb8, 0xec, 0x11, 0xd2, 0x42, 0xb1, 0x23, 0xdc, 0x9b]
    );
}

#[test]
fn a_packet_with_any_bit_flipped_does_not_open() {
    for (level, long) in [
        (EncryptionLevel::Initial, true),
        (EncryptionLevel::Handshake, true),
        (EncryptionLevel::OneRtt, false),
    ] {
        let (mut client, mut server) = ends(KeyLimits::default());
        let packet = client.seal_as(level, 1, long, 2, b"precious");
        for bit in 0..packet.len() * 8 {
            let mut flipped = packet.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(server.open_as(level, 1, &flipped), Err(OpenError::Failed), "{level:?} bit {bit}");
        }
        assert_eq!(server.protector.failed_openings(), packet.len() as u64 * 8);
        server.open_as(level, 1, &packet).unwrap();
    }
}

#[test]
fn packets_cut_anywhere_do_not_open() {
    let (mut client, mut server) = ends(KeyLimits::default());
    let packet = client.seal(0);
    for length in 0..packet.len() {
        assert_eq!(server.open(0, &packet[..length]), Err(OpenError::Failed), "{length}");
    }
}

#[test]
fn a_packet_of_one_path_does_not_open_on_another_or_for_its_sender() {
    let (mut client, mut server) = ends(KeyLimits::default());
    let packet = client.seal(1);
    assert_eq!(server.open(2, &packet), Err(OpenError::Failed));
    assert_eq!(client.open(1, &packet), Err(OpenError::Failed));
    assert_eq!(server.open(1, &packet), Ok(false));
}

#[test]
fn a_packet_opens_once() {
    let (mut client, mut server) = ends(KeyLimits::default());
    let (first, second) = (client.seal(0), client.seal(0));
    server.open(0, &second).unwrap();
    server.open(0, &first).unwrap();
    for packet in [first, second] {
        assert_eq!(server.open(0, &packet), Err(OpenError::Replayed));
    }
    assert_eq!(server.protector.failed_openings(), 0, "an echo of the network wears no key");
}

#[test]
fn reserved_bits_are_refused_only_if_the_peer_itself_has_set_them() {
    let (mut client, mut server) = ends(KeyLimits::default());
    for reserved in [0x48, 0x50, 0x58] {
        let mut buffer = vec![reserved; 1];
        buffer.extend_from_slice(&[0; 9]);
        buffer.extend_from_slice(b"blocks");
        let at = Outgoing {
            level: EncryptionLevel::OneRtt,
            path: PathId(0),
            packet_number: 0,
            start: 0,
            number_offset: 9,
            number_length: 1,
        };
        client.protector.seal_now(&at, &mut buffer).unwrap();
        assert_eq!(server.open(0, &buffer), Err(OpenError::ReservedBits));
    }
}

#[test]
fn levels_without_keys_neither_seal_nor_open() {
    let (mut client, mut server) = ends(KeyLimits::default());
    for level in [EncryptionLevel::Initial, EncryptionLevel::Handshake, EncryptionLevel::OneRtt] {
        let packet = client.seal_as(level, 0, true, 1, b"text");
        server.protector.discard(level);
        assert!(!server.protector.has(level) && client.protector.has(level));
        assert_eq!(server.open_as(level, 0, &packet), Err(OpenError::NoKeys));
        let at = Outgoing {
            level,
            path: PathId(0),
            packet_number: 0,
            start: 0,
            number_offset: 9,
            number_length: 1,
        };
        assert_eq!(server.protector.seal_now(&at, &mut vec![0; 20]), Err(SealError::NoKeys));
    }
}

#[test]
fn a_packet_too_short_for_header_protection_is_not_sealed() {
    let (mut client, _) = ends(KeyLimits::default());
    let at = |number_offset, number_length| Outgoing {
        level: EncryptionLevel::OneRtt,
        path: PathId(0),
        packet_number: 0,
        start: 0,
        number_offset,
        number_length,
    };
    assert_eq!(client.protector.seal_now(&at(9, 1), &mut vec![0x40; 12]), Err(SealError::Malformed));
    assert_eq!(client.protector.seal_now(&at(9, 1), &mut vec![0x40; 13]), Ok(()));
    assert_eq!(client.protector.seal_now(&at(30, 1), &mut vec![0x40; 13]), Err(SealError::Malformed));
}

#[test]
fn keys_are_updated_after_the_limit_when_an_acknowledgement_is_three_ptos_old() {
    let (mut client, mut server) = ends(eager());
    assert!(!client.protector.maybe_update(at(0), || PTO));
    exchange(&mut client, &mut server, at(10));
    assert!(!client.protector.maybe_update(at(309), || PTO));
    assert!(client.protector.maybe_update(at(310), || PTO));
    assert!(client.protector.key_phase());
    assert!(!client.protector.maybe_update(at(10_000), || PTO), "nothing of the new phase was acknowledged");

    let packet = client.seal(1);
    assert_eq!(server.open(1, &packet), Ok(true), "the server follows");
    assert!(server.protector.key_phase());
    let answer = server.seal(1);
    assert_eq!(client.open(1, &answer), Ok(false));
}

#[test]
fn keys_are_not_updated_before_the_confirmation() {
    let (mut client, mut server) = ends(eager());
    let (mut handshake, mut other) = testing::pair();
    testing::run(&mut handshake, &mut other).unwrap();
    let (_, (one_rtt, secrets)) = testing::keys(&mut handshake);
    client.protector.install_one_rtt(one_rtt, secrets);
    let (_, (one_rtt, secrets)) = testing::keys(&mut other);
    server.protector.install_one_rtt(one_rtt, secrets);

    exchange(&mut client, &mut server, at(0));
    assert!(!client.protector.maybe_update(at(5_000), || PTO));
    client.protector.on_confirmed();
    assert!(client.protector.maybe_update(at(5_000), || PTO));
}

#[test]
fn keys_are_updated_after_an_hour() {
    let (mut client, mut server) = ends(KeyLimits::default());
    assert!(!client.protector.maybe_update(at(0), || PTO));
    exchange(&mut client, &mut server, at(10));
    assert!(!client.protector.maybe_update(at(3_599_999), || PTO));
    assert!(client.protector.maybe_update(at(3_600_000), || PTO));
}

#[test]
fn an_acknowledgement_of_the_previous_phase_does_not_count() {
    let (mut client, mut server) = ends(eager());
    exchange(&mut client, &mut server, at(0));
    assert!(client.protector.maybe_update(at(300), || PTO));
    let newest_old = client.sent[0] - 1;
    let packet = client.seal(0);
    server.open(0, &packet).unwrap();
    let answer = server.seal(0);
    client.open(0, &answer).unwrap();
    client.protector.on_acked(at(300), PathId(0), newest_old);
    client.protector.maybe_update(at(300), || PTO);
    assert!(!client.protector.maybe_update(at(9_000), || PTO));
    client.protector.on_acked(at(9_000), PathId(0), newest_old + 1);
    assert!(!client.protector.maybe_update(at(9_299), || PTO));
    assert!(client.protector.maybe_update(at(9_300), || PTO));
}

#[test]
fn late_packets_of_the_old_phase_open_on_every_path_for_three_ptos() {
    let (mut client, mut server) = ends(eager());
    exchange(&mut client, &mut server, at(0));
    let late: Vec<_> = [0, 0, 1, 1, 2].map(|path| (path, client.seal(path))).into();
    assert!(client.protector.maybe_update(at(400), || PTO));
    let fresh = client.seal(0);
    assert_eq!(server.open(0, &fresh), Ok(true));
    server.protector.maybe_update(at(400), || PTO);

    assert_eq!(server.open(late[1].0, &late[1].1), Ok(false), "overtaken on the same path");
    assert_eq!(server.open(late[2].0, &late[2].1), Ok(false), "a path that has seen nothing new yet");
    let fresh = client.seal(1);
    assert_eq!(server.open(1, &fresh), Ok(false));
    assert_eq!(server.open(late[3].0, &late[3].1), Ok(false));
    server.protector.maybe_update(at(699), || PTO);
    assert_eq!(server.open(late[0].0, &late[0].1), Ok(false));
    server.protector.maybe_update(at(700), || PTO);
    assert_eq!(server.open(late[4].0, &late[4].1), Err(OpenError::Failed), "the old key is dropped");
}

#[test]
fn the_initiator_opens_packets_of_the_old_phase_until_the_peer_follows() {
    let (mut client, mut server) = ends(eager());
    exchange(&mut client, &mut server, at(0));
    assert!(client.protector.maybe_update(at(300), || PTO));
    for later in [400, 5_000, 60_000] {
        client.protector.maybe_update(at(later), || PTO);
        let old = server.seal(2);
        assert_eq!(client.open(2, &old), Ok(false));
    }
}

#[test]
fn both_ends_may_update_keys_at_the_same_time() {
    let (mut client, mut server) = ends(eager());
    exchange(&mut client, &mut server, at(0));
    server.protector.on_acked(at(0), PathId(0), 0);
    let old = server.seal(3);
    assert!(client.protector.maybe_update(at(300), || PTO));
    assert!(server.protector.maybe_update(at(300), || PTO));
    let (from_client, from_server) = (client.seal(0), server.seal(0));
    assert_eq!(server.open(0, &from_client), Ok(false));
    assert_eq!(client.open(0, &from_server), Ok(false));
    assert_eq!(client.open(3, &old), Ok(false));
}

#[test]
fn many_successive_key_updates_work_on_all_paths() {
    let (mut client, mut server) = ends(eager());
    for round in 0..20 {
        for path in 0..4 {
            let packet = client.seal(path);
            server.open(path, &packet).unwrap();
            let packet = server.seal(path);
            client.open(path, &packet).unwrap();
            client.protector.on_acked(at(round * 1000), PathId(path), client.sent[path as usize] - 1);
        }
        client.protector.maybe_update(at(round * 1000), || PTO);
        server.protector.maybe_update(at(round * 1000), || PTO);
        let before = client.protector.key_phase();
        assert!(client.protector.maybe_update(at(round * 1000 + 500), || PTO));
        server.protector.maybe_update(at(round * 1000 + 500), || PTO);
        assert_ne!(client.protector.key_phase(), before);
    }
}

#[test]
fn a_second_update_before_the_first_was_acknowledged_is_a_violation() {
    let (mut client, mut server) = ends(eager());
    exchange(&mut client, &mut server, at(0));
    assert!(client.protector.maybe_update(at(300), || PTO));
    let first = client.seal(0);
    assert_eq!(server.open(0, &first), Ok(true));
    // The server has sent nothing since, so the client cannot have an acknowledgement.
    client.protector.force_update();
    let second = client.seal(0);
    assert_eq!(server.open(0, &second), Err(OpenError::KeyUpdate));
}

#[test]
fn the_next_keys_are_derived_for_the_first_packet_that_seems_to_need_them_and_kept() {
    let (mut client, mut server) = ends(KeyLimits::default());
    exchange(&mut client, &mut server, at(0));
    let has_next = |end: &End| end.protector.one_rtt.as_ref().unwrap().has_next();
    assert!(!has_next(&server) && !has_next(&client));
    // Flips every bit below the mask in turn: some change the key phase.
    for bit in 0..8 {
        let mut forged = client.seal(0);
        forged[0] ^= 1 << bit;
        assert!(server.open(0, &forged).is_err());
    }
    assert!(has_next(&server), "a forger caused it");
    let (before, failed) = (has_next(&server), server.protector.failed_openings());
    let mut forged = client.seal(0);
    forged[0] ^= 0x04;
    assert_eq!(server.open(0, &forged), Err(OpenError::Failed));
    assert_eq!((before, server.protector.failed_openings()), (has_next(&server), failed + 1));
    client.protector.force_update();
    let update = client.seal(0);
    assert_eq!(server.open(0, &update), Ok(true));
    assert!(!has_next(&server), "those of the phase after are derived when that begins");
    exchange(&mut client, &mut server, at(1));
}

#[test]
fn an_update_before_any_packet_of_the_first_phase_was_sent_is_a_violation() {
    let (mut client, mut server) = ends(eager());
    client.protector.force_update();
    let packet = client.seal(0);
    assert_eq!(server.open(0, &packet), Err(OpenError::KeyUpdate));
}

#[test]
fn a_key_at_its_limit_is_updated_automatically_if_the_peer_has_it() {
    let limits = KeyLimits { max_sealed: 4, ..KeyLimits::default() };
    let (mut client, mut server) = ends(limits);
    exchange(&mut client, &mut server, at(0));
    let packets: Vec<_> = (0..4).map(|_| client.seal(1)).collect();
    assert!(client.protector.key_phase(), "two packets of the exchange and two more were all");
    let changed: Vec<_> = packets.iter().map(|packet| server.open(1, packet).unwrap()).collect();
    assert_eq!(changed, [false, false, true, false]);
}

#[test]
fn a_key_at_its_limit_that_the_peer_never_used_seals_no_more() {
    let limits = KeyLimits { max_sealed: 4, ..KeyLimits::default() };
    let (mut client, _) = ends(limits);
    (0..4).for_each(|_| drop(client.seal(1)));
    let at = Outgoing {
        level: EncryptionLevel::OneRtt,
        path: PathId(1),
        packet_number: 4,
        start: 0,
        number_offset: 9,
        number_length: 1,
    };
    assert_eq!(client.protector.seal_now(&at, &mut vec![0x40; 20]), Err(SealError::KeyExhausted));
    let at = Outgoing { level: EncryptionLevel::Handshake, ..at };
    (0..4).for_each(|_| client.protector.seal_now(&at, &mut vec![0xc0; 20]).unwrap());
    assert_eq!(client.protector.seal_now(&at, &mut vec![0xc0; 20]), Err(SealError::KeyExhausted));
}

#[test]
fn failed_openings_count_over_all_levels_and_end_the_connection_at_the_limit() {
    let limits = KeyLimits { max_failed: 3, ..KeyLimits::default() };
    let (_, mut server) = ends(limits);
    for (level, exhausted) in [
        (EncryptionLevel::Initial, false),
        (EncryptionLevel::OneRtt, false),
        (EncryptionLevel::Handshake, true),
    ] {
        assert_eq!(server.open_as(level, 0, &[0x40; 60]).map(|_| ()), Err(OpenError::Failed));
        assert_eq!(server.protector.integrity_exhausted(), exhausted);
    }
}

#[test]
fn packets_written_by_the_wire_crate_open_where_its_decoder_finds_them() {
    let (mut client, mut server) = ends(KeyLimits::default());
    let (destination, source) = (ConnectionId::from_u64(1), ConnectionId::from_slice(&[9; 5]).unwrap());
    let mut datagram = Vec::new();
    for (level, kind) in
        [(EncryptionLevel::Initial, LongKind::Initial), (EncryptionLevel::Handshake, LongKind::Handshake)]
    {
        let start = datagram.len();
        let mut writer = Writer::new(&mut datagram, 1200);
        let header = LongHeader { kind, destination, source };
        let length = header.encode(&mut writer, 300, 2);
        writer.bytes(b"blocks");
        let end = datagram.len() + Protector::TAG_LENGTH;
        patch_length(&mut datagram, length, end);
        let at = Outgoing {
            level,
            path: PathId(0),
            packet_number: 300,
            start,
            number_offset: length.number_offset(),
            number_length: 2,
        };
        client.protector.seal_now(&at, &mut datagram).unwrap();
    }
    let start = datagram.len();
    let mut writer = Writer::new(&mut datagram, 1200);
    let number_offset = encode_short(&mut writer, &destination, true, 70_000, 3);
    writer.bytes(b"blocks");
    let at = Outgoing {
        level: EncryptionLevel::OneRtt,
        path: PathId(6),
        packet_number: 70_000,
        start,
        number_offset,
        number_length: 3,
    };
    client.protector.seal_now(&at, &mut datagram).unwrap();

    let mut rest = &mut datagram[..];
    for (level, path, number) in [
        (EncryptionLevel::Initial, 0, 300),
        (EncryptionLevel::Handshake, 0, 300),
        (EncryptionLevel::OneRtt, 6, 70_000),
    ] {
        let found = decode_protected(rest, 8).unwrap();
        let (packet, later) = rest.split_at_mut(found.length);
        let at = Incoming {
            level,
            path: PathId(path),
            number_offset: found.number_offset,
            expected: number - 100,
        };
        let opened = server.protector.open(&at, packet, &ReplayWindow::new()).unwrap();
        assert_eq!((opened.packet_number, &packet[opened.payload]), (number, &b"blocks"[..]));
        rest = later;
    }
    assert!(rest.is_empty());
}

/// A packet in flight, with the acknowledgement state of its sender.
struct Flying {
    to: usize,
    path: u32,
    arrives: u64,
    packet: Vec<u8>,
    acks: Vec<(PathId, u64)>,
}

/// Both ends send on four paths of different delay with loss, and update keys as often as they may; every packet that
/// arrives must open.
fn run_with_key_updates(seed: u8) -> u32 {
    let limits = KeyLimits { update_after_packets: 10, ..KeyLimits::default() };
    let mut ends: [End; 2] = ends(limits).into();
    let mut rng = Rng::from_seed([seed; 32]);
    let mut below = |limit: u64| rng.next_u64() % limit;
    let mut received: [Vec<(PathId, u64)>; 2] = Default::default();
    let (mut flying, mut updates): (Vec<Flying>, u32) = (Vec::new(), 0);
    for now in (0..20_000).step_by(5) {
        for (who, end) in ends.iter_mut().enumerate() {
            updates += u32::from(end.protector.maybe_update(at(now), || PTO));
            // Some paths are unused for long periods.
            let path = u32::try_from(below(4) * below(2)).unwrap();
            let arrives = now + 5 + below(20 * u64::from(path) + 10);
            if below(10) > 1 && (path != 3 || now % 4000 < 300) {
                let acks = std::mem::take(&mut received[who]);
                flying.push(Flying { to: 1 - who, path, arrives, packet: end.seal(path), acks });
            }
        }
        flying.retain(|flight| below(10) > 0 || flight.arrives != now + 5);
        let (due, later) = flying.into_iter().partition::<Vec<_>, _>(|flight| flight.arrives <= now);
        flying = later;
        for flight in due {
            let end = &mut ends[flight.to];
            let opened = end.open_as(EncryptionLevel::OneRtt, flight.path, &flight.packet);
            let (opened, _) = opened.unwrap_or_else(|error| panic!("at {now} on {}: {error}", flight.path));
            received[flight.to].push((PathId(flight.path), opened.packet_number));
            flight.acks.iter().for_each(|(path, largest)| end.protector.on_acked(at(now), *path, *largest));
            updates += u32::from(end.protector.maybe_update(at(now), || PTO));
        }
    }
    updates
}

#[test]
fn no_packet_is_lost_by_key_updates_however_paths_reorder() {
    for seed in 0..8 {
        let updates = run_with_key_updates(seed);
        assert!(updates > 20, "seed {seed}: only {updates} updates");
    }
}
