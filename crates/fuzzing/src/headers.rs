//! Headers and packet numbers: the walk over a datagram ends, stays inside, and encoded values decode again.

use manyway_wire::mmsp2::{
    HeaderForm, LongHeader, LongKind, MIN_SEALED, VERSION, decode_protected, encode_short,
    encode_version_list, number_length, packet_number, patch_length,
};
use manyway_wire::{ConnectionId, Writer};

use crate::script::Script;

/// Reads the input as a datagram, for receivers with IDs of every length, and as numbers.
pub fn run(data: &[u8]) {
    (ConnectionId::MIN_ISSUED..=ConnectionId::MAX_LENGTH).for_each(|id_length| walk(data, id_length));
    numbers(&mut Script::new(data));
}

fn walk(mut rest: &[u8], id_length: usize) {
    while let Ok(packet) = decode_protected(rest, id_length) {
        assert!(packet.length > 0 && packet.length <= rest.len(), "the walk over a datagram has to advance");
        assert!(packet.number_offset <= packet.length);
        write_again(&packet.form, id_length, packet.length - packet.number_offset);
        let (whole, next) = rest.split_at(packet.length);
        // A packet does not depend on what follows it, but for the short form, which takes everything.
        assert_eq!(decode_protected(whole, id_length), Ok(packet));
        rest = next;
    }
}

/// The header in its shortest form decodes to the same; `sealed` bytes follow the position of its packet number.
fn write_again(form: &HeaderForm, id_length: usize, sealed: usize) {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, 1 << 17);
    match form {
        HeaderForm::Long { kind, version, destination, source } => {
            assert_eq!(*version, VERSION);
            let header = LongHeader { kind: *kind, destination: *destination, source: *source };
            let field = header.encode(&mut writer, 0, 1);
            // The length field of our own packets is made for datagrams.
            let end = field.number_offset() + sealed.min(16_000);
            bytes.resize(end, 0);
            patch_length(&mut bytes, field, end);
        }
        HeaderForm::Short { destination } => {
            let number_offset = encode_short(&mut writer, destination, false, 0, 1);
            bytes.resize(number_offset + sealed, 0);
        }
        HeaderForm::VersionList { destination, source, versions } => {
            encode_version_list(&mut writer, destination.as_slice(), source.as_slice(), versions);
        }
        HeaderForm::OtherVersion { version, destination, source } => {
            assert!(*version != VERSION && *version != 0);
            assert!(destination.len() <= 255 && source.len() <= 255);
            return;
        }
    }
    assert_eq!(decode_protected(&bytes, id_length).map(|packet| packet.form), Ok(form.clone()));
}

fn numbers(script: &mut Script<'_>) {
    const MOST: u64 = (1 << 62) - 1;
    let (truncated, length, expected) = (script.u32(), usize::from(script.u8()), script.u64());
    let expanded = packet_number::expand(truncated, length, expected);
    let window = 1_u64 << (8 * length.clamp(1, 4));
    assert_eq!(expanded % window, u64::from(truncated) % window);
    // A number truncated by a sender with some acknowledgement is expanded by a receiver that is not further behind.
    let next = script.u64() & MOST;
    let acked = next.saturating_sub(1 + u64::from(script.u32() >> 1));
    let length = packet_number::truncated_len(next, Some(acked));
    let mut bytes = Vec::new();
    packet_number::encode(&mut Writer::new(&mut bytes, 4), next, length);
    let truncated = bytes.iter().fold(0_u32, |number, byte| (number << 8) | u32::from(*byte));
    assert_eq!(packet_number::expand(truncated, length, acked + 1), next);
    let kind = if script.u8().is_multiple_of(2) { LongKind::Initial } else { LongKind::Handshake };
    let id = ConnectionId::from_u64(next);
    let mut packet = Vec::new();
    let header = LongHeader { kind, destination: id, source: id };
    let field = header.encode(&mut Writer::new(&mut packet, 100), next, length);
    assert_eq!(number_length(packet.first().copied().unwrap_or_default()), length);
    packet.resize(field.number_offset() + MIN_SEALED, 0);
    let end = packet.len();
    patch_length(&mut packet, field, end);
    assert!(decode_protected(&packet, ConnectionId::MIN_ISSUED).is_ok_and(|read| read.length == end));
}
