use super::*;

fn long(kind: LongKind) -> LongHeader {
    let source = ConnectionId::from_slice(&[7; 8]).unwrap();
    LongHeader { kind, destination: ConnectionId::from_slice(&[9; 20]).unwrap(), source }
}

fn sealed_long(header: LongHeader, number: u64, number_len: usize, payload: usize) -> Vec<u8> {
    let mut buffer = Vec::new();
    let mut w = Writer::new(&mut buffer, 1200);
    let field = header.encode(&mut w, number, number_len);
    assert_eq!(w.position(), header.encoded_len(number_len));
    w.zeros(payload + 16);
    let end = buffer.len();
    patch_length(&mut buffer, field, end);
    assert_eq!(buffer[field.number_offset() + number_len - 1], number.to_be_bytes()[7]);
    buffer
}

// spec 4.4
#[test]
fn a_long_header_comes_back_as_it_was_written() {
    for kind in [LongKind::Initial, LongKind::Handshake] {
        for number_len in 1..=4 {
            let header = long(kind);
            let packet = sealed_long(header, 0x0102_0304, number_len, 40);
            let decoded = decode_protected(&packet, 8).unwrap();
            let form = HeaderForm::Long {
                kind,
                version: VERSION,
                destination: header.destination,
                source: header.source,
            };
            assert_eq!(decoded.form, form);
            assert_eq!(decoded.length, packet.len());
            assert_eq!(decoded.number_offset, header.encoded_len(number_len) - number_len);
            assert_eq!(number_length(packet[0]), number_len);
            assert!(reserved_bits_are_clear(packet[0]));
        }
    }
}

// spec 4.5
#[test]
fn a_short_header_comes_back_as_it_was_written() {
    for (phase, length) in [(false, 8), (true, 8), (false, 13), (true, 20)] {
        let destination = ConnectionId::from_slice(&[0xde; 20][..length]).unwrap();
        let mut buffer = Vec::new();
        let mut w = Writer::new(&mut buffer, 100);
        let number_offset = encode_short(&mut w, &destination, phase, 0x0a0b, 2);
        assert_eq!((number_offset, w.position()), (1 + length, 1 + length + 2));
        w.zeros(30);
        let decoded = decode_protected(&buffer, length).unwrap();
        assert_eq!(decoded.form, HeaderForm::Short { destination });
        assert_eq!((decoded.number_offset, decoded.length), (number_offset, buffer.len()));
        assert_eq!(key_phase(buffer[0]), phase);
        assert_eq!(number_length(buffer[0]), 2);
        assert!(reserved_bits_are_clear(buffer[0]));
    }
}

// spec 4.9
#[test]
fn a_coalesced_packet_begins_where_the_first_one_ends() {
    let first = sealed_long(long(LongKind::Initial), 1, 1, 50);
    let second = sealed_long(long(LongKind::Handshake), 0, 1, 70);
    let datagram = [first.clone(), second.clone()].concat();
    let decoded = decode_protected(&datagram, 8).unwrap();
    assert_eq!(decoded.length, first.len());
    assert_eq!(decode_protected(&datagram[first.len()..], 8).unwrap().length, second.len());
}

// spec 4.7
#[test]
fn a_packet_too_short_for_the_sample_is_refused() {
    let mut short = vec![0x40];
    short.extend([1; 8]);
    short.extend([0; MIN_SEALED]);
    assert!(decode_protected(&short, 8).is_ok());
    short.pop();
    assert!(matches!(decode_protected(&short, 8), Err(DecodeError::Truncated { part: Part::Header, .. })));

    let packet = sealed_long(long(LongKind::Initial), 0, 1, 2);
    assert!(matches!(decode_protected(&packet, 8), Err(DecodeError::OutOfRange { field: "length", .. })));
}

#[test]
fn a_length_beyond_the_datagram_is_refused() {
    let mut packet = sealed_long(long(LongKind::Initial), 0, 1, 40);
    packet.pop();
    assert!(matches!(decode_protected(&packet, 8), Err(DecodeError::Truncated { part: Part::Header, .. })));
}

// spec 4.1
#[test]
fn first_bytes_of_other_protocols_are_refused() {
    let mut packet = vec![0; 60];
    for first in [0x00, 0x3f, 0x60] {
        packet[0] = first;
        assert_eq!(decode_protected(&packet, 8), Err(DecodeError::FirstByte { first }));
    }
    let mut packet = sealed_long(long(LongKind::Initial), 0, 1, 40);
    for first in [0x80, 0xe0, 0xf0] {
        packet[0] = first;
        assert_eq!(decode_protected(&packet, 8), Err(DecodeError::FirstByte { first }), "reserved type");
    }
}

// spec 4.3: RFC 8999 allows ids of 255 bytes in versions we don't know
#[test]
fn another_version_gives_its_version_and_ids_only() {
    let mut packet = vec![0x80, 0, 0, 0, 1, 255];
    packet.extend([1; 255]);
    packet.push(0);
    packet.extend([0xff; 10]);
    let decoded = decode_protected(&packet, 8).unwrap();
    let form = HeaderForm::OtherVersion { version: 1, destination: vec![1; 255], source: vec![] };
    assert_eq!(decoded, ProtectedPacket { form, number_offset: packet.len(), length: packet.len() });
}

#[test]
fn our_own_version_has_ids_of_at_most_20_bytes() {
    let mut packet = vec![0xc0];
    packet.extend(VERSION.to_be_bytes());
    packet.push(21);
    packet.extend([0; 100]);
    let error = decode_protected(&packet, 8).unwrap_err();
    assert!(matches!(error, DecodeError::OutOfRange { field: "connection id length", value: 21, .. }));
}

// spec 4.10, 4.33
#[test]
fn a_version_list_comes_back_and_is_cut_at_32() {
    let ours = ConnectionId::from_u64(5);
    let theirs = ConnectionId::from_slice(&[3; 12]).unwrap();
    let listed: Vec<u32> = (1..=40).collect();
    let mut buffer = Vec::new();
    let mut w = Writer::new(&mut buffer, 1200);
    encode_version_list(&mut w, ours.as_slice(), theirs.as_slice(), &listed);
    let decoded = decode_protected(&buffer, 8).unwrap();
    let versions = listed[..32].to_vec();
    assert_eq!(decoded.form, HeaderForm::VersionList { destination: ours, source: theirs, versions });
    assert_eq!(decoded.length, buffer.len());
}

#[test]
fn reserved_bits_differ_between_the_forms() {
    assert!(!reserved_bits_are_clear(0xc4) && !reserved_bits_are_clear(0xc8));
    assert!(reserved_bits_are_clear(0xd3));
    assert!(!reserved_bits_are_clear(0x48) && !reserved_bits_are_clear(0x50));
    assert!(reserved_bits_are_clear(0x47));
}

// spec 4.5
#[test]
fn the_destination_of_a_short_header_is_the_one_that_decoding_finds() {
    for first in 0..=u8::MAX {
        for (id_length, length) in [8, 13, 20].into_iter().flat_map(|id| (0..50).map(move |it| (id, it))) {
            let mut datagram: Vec<u8> = (1..=length).collect();
            if let Some(byte) = datagram.first_mut() {
                *byte = first;
            }
            let decoded = decode_protected(&datagram, id_length).ok().and_then(|packet| {
                let HeaderForm::Short { destination } = packet.form else { return None };
                assert_eq!((packet.number_offset, packet.length), (1 + id_length, datagram.len()));
                Some(destination)
            });
            assert_eq!(short_destination(&datagram, id_length), decoded, "{first:#04x} {id_length} {length}");
        }
    }
}
