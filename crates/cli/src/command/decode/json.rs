//! Packets for programs: one JSON object a line.

use std::io::{self, Write};

use manyway_inspect::capture::Skip;
use manyway_inspect::{BlockAt, ClearBlockAt, ClearPacket, Inside, Packet, blocks, handshake_message};
use manyway_wire::mmsp1::{self, HEADER_LEN};
use manyway_wire::mmsp2::{Block, Field, HeaderForm};
use manyway_wire::{ConnectionId, Side};
use serde_json::{Map, Value, json};

use super::show::{Place, Show, Summary};

/// Writes JSON.
pub(super) struct Json<W> {
    out: W,
}

impl<W: Write> Json<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out }
    }

    fn line(&mut self, object: Map<String, Value>) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, &Value::Object(object))?;
        self.out.write_all(b"\n")
    }
}

impl<W: Write> Show for Json<W> {
    fn packet(&mut self, place: &Place, packet: &Packet, bytes: &[u8]) -> io::Result<()> {
        let mut object = at(place);
        header(packet, &mut object);
        match &packet.inside {
            Inside::Opened(opened) => {
                object.insert("packet_number".into(), json!(opened.packet_number));
                if let Some(phase) = opened.key_phase {
                    object.insert("key_phase".into(), json!(phase));
                }
                if opened.reserved_bits_set {
                    object.insert("malformed".into(), json!("reserved bits are set"));
                }
                object.insert("blocks".into(), opened.blocks().map(|at| block(&at)).collect());
            }
            Inside::Sealed(why) => {
                object.insert("sealed".into(), json!(why.to_string()));
                object.insert("bytes".into(), json!(hex(bytes)));
            }
            Inside::Nothing => {
                object.insert("bytes".into(), json!(hex(bytes)));
            }
        }
        self.line(object)
    }

    fn clear_packet(&mut self, place: &Place, packet: &ClearPacket<'_>) -> io::Result<()> {
        let mut object = at(place);
        object.insert("size".into(), json!(HEADER_LEN + packet.payload.len()));
        object.insert("form".into(), json!("mmsp1"));
        object.insert("destination".into(), json!(packet.header.connection.to_string()));
        object.insert("source_port".into(), json!(packet.header.source_port));
        object.insert("destination_port".into(), json!(packet.header.destination_port));
        if let Some(fault) = &packet.fault {
            object.insert("malformed".into(), json!(fault.to_string()));
        }
        object.insert("blocks".into(), packet.blocks().map(|at| clear_block(&at)).collect());
        self.line(object)
    }

    fn skipped(&mut self, place: &Place, why: Skip) -> io::Result<()> {
        let mut object = at(place);
        object.insert("skipped".into(), json!(why.to_string()));
        self.line(object)
    }

    fn blocks(&mut self, payload: &[u8]) -> io::Result<()> {
        let mut object = Map::new();
        object.insert("blocks".into(), blocks(payload).map(|at| block(&at)).collect());
        self.line(object)?;
        self.out.flush()
    }

    fn end(&mut self, _summary: &Summary) -> io::Result<()> {
        self.out.flush()
    }
}

fn at(place: &Place) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("number".into(), json!(place.number));
    if let Some(time) = place.time {
        object.insert("time".into(), json!(time.as_secs_f64()));
    }
    if let Some((from, to)) = place.addresses {
        object.insert("from".into(), json!(from.to_string()));
        object.insert("to".into(), json!(to.to_string()));
    }
    if place.missing > 0 {
        object.insert("bytes_missing".into(), json!(place.missing));
    }
    object
}

fn header(packet: &Packet, object: &mut Map<String, Value>) {
    object.insert("offset".into(), json!(packet.offset));
    object.insert("size".into(), json!(packet.length));
    if let Some(connection) = packet.connection {
        object.insert("connection".into(), json!(connection));
    }
    if let Some(sender) = packet.sender {
        let sender = match sender {
            Side::Client => "client",
            Side::Server => "server",
        };
        object.insert("sender".into(), json!(sender));
    }
    if let Some(path) = packet.path {
        object.insert("path".into(), json!(path.0));
    }
    let form = match (&packet.header, packet.level()) {
        (Ok(HeaderForm::OtherVersion { .. }), _) => "other version".to_owned(),
        (Ok(HeaderForm::VersionList { .. }), _) => "version list".to_owned(),
        (_, Some(level)) => level.to_string(),
        (_, None) => "unreadable".to_owned(),
    };
    object.insert("form".into(), json!(form));
    let mut ids = |destination: &[u8], source: Option<&[u8]>| {
        object.insert("destination".into(), json!(hex(destination)));
        if let Some(source) = source {
            object.insert("source".into(), json!(hex(source)));
        }
    };
    match &packet.header {
        Ok(HeaderForm::Long { destination, source, .. }) => {
            ids(destination.as_slice(), Some(source.as_slice()));
        }
        Ok(HeaderForm::Short { destination }) => ids(destination.as_slice(), None),
        Ok(HeaderForm::OtherVersion { version, destination, source }) => {
            ids(destination, Some(source));
            object.insert("version".into(), json!(version));
        }
        Ok(HeaderForm::VersionList { destination, source, versions }) => {
            ids(destination.as_slice(), Some(source.as_slice()));
            object.insert("versions".into(), json!(versions));
        }
        Err(error) => {
            object.insert("malformed".into(), json!(error.to_string()));
        }
    }
}

fn block(at: &BlockAt<'_>) -> Value {
    let mut object = Map::new();
    object.insert("offset".into(), json!(at.offset));
    object.insert("size".into(), json!(at.length));
    match &at.block {
        Ok(block) => {
            object.insert("block".into(), json!(block.name()));
            block.fields(&mut |name, field| {
                object.insert(key(name), value(field));
            });
            if let Block::Crypto(piece) = block
                && piece.offset == 0
                && let Some(message) = piece.data.first().and_then(|first| handshake_message(*first))
            {
                object.insert("message".into(), json!(message));
            }
        }
        Err(error) => {
            object.insert("malformed".into(), json!(error.to_string()));
        }
    }
    Value::Object(object)
}

fn clear_block(at: &ClearBlockAt<'_>) -> Value {
    let mut object = Map::new();
    object.insert("offset".into(), json!(at.offset));
    object.insert("size".into(), json!(at.length));
    match &at.block {
        Ok(Some(block)) => {
            object.insert("block".into(), json!(block.name()));
            block.fields(&mut |name, field| {
                object.insert(key(name), clear_value(field));
            });
        }
        Ok(None) => {
            object.insert("skipped".into(), json!(at.kind));
        }
        Err(error) => {
            object.insert("malformed".into(), json!(error.to_string()));
        }
    }
    Value::Object(object)
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the list of the wire crate is open; words do for the rest"
)]
fn clear_value(field: mmsp1::Field<'_>) -> Value {
    use mmsp1::Field;
    match field {
        Field::Number(number) => json!(number),
        // In µs, as on the wire.
        Field::Duration(duration) => json!(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)),
        Field::Flag(flag) => json!(flag),
        Field::Data(bytes) | Field::Bytes(bytes) => json!(hex(bytes)),
        Field::Addresses(addresses) => addresses.iter().map(|address| json!(address.to_string())).collect(),
        Field::Ranges(ranges) => ranges.iter().map(|(first, last)| json!([first.0, last.0])).collect(),
        Field::Duplicates(tseqs) => tseqs.iter().map(|tseq| json!(tseq.0)).collect(),
        Field::Causes(causes) => causes
            .iter()
            .map(|cause| json!({"code": cause.code.0, "information": hex(cause.information)}))
            .collect(),
        other => json!(other.to_string()),
    }
}

/// `final size` becomes `final_size`, `ECT(0)` becomes `ect0`.
fn key(name: &str) -> String {
    name.chars()
        .filter(|c| !matches!(c, '(' | ')'))
        .map(|c| if c == ' ' { '_' } else { c.to_ascii_lowercase() })
        .collect()
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the list of the wire crate is open; words do for the rest"
)]
fn value(field: Field<'_>) -> Value {
    match field {
        Field::Number(number) => json!(number),
        Field::Path(path) => json!(path.0),
        Field::Stream(stream) => json!(stream.0),
        // In µs, as on the wire.
        Field::Duration(duration) => json!(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)),
        Field::Code(code) => json!(code.0),
        Field::Flag(flag) => json!(flag),
        Field::Text(text) => json!(String::from_utf8_lossy(text)),
        Field::Data(bytes) | Field::Bytes(bytes) => json!(hex(bytes)),
        Field::Ranges(ranges) => ranges.iter().map(|range| json!([range.start(), range.end()])).collect(),
        Field::Skipped(messages) => {
            messages.into_iter().map(|skipped| json!([skipped.number, skipped.reach])).collect()
        }
        Field::Id(id) => json!(ConnectionId::to_string(&id)),
        other => json!(other.to_string()),
    }
}

fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_of_mmsp1_has_its_ports_its_tag_and_its_blocks() {
        let mut packet = vec![0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 7];
        packet.extend([0x90, 0, 0, 4, 1, 0, 0, 20, 0, 0, 0, 9, 0, 0, 1, 0, 0, 1, 0, 0, 0, 2, 0, 3]);
        mmsp1::seal(&mut packet);
        let mut out = Vec::new();
        let place = Place { number: 1, time: None, elapsed: None, addresses: None, missing: 0 };
        let packet = manyway_inspect::clear_packet(&packet).unwrap();
        Json::new(&mut out).clear_packet(&place, &packet).unwrap();
        let value: Value = serde_json::from_slice(&out).unwrap();
        let expected = json!({
            "number": 1, "size": 36, "form": "mmsp1", "destination": "00000007", "source_port": 1,
            "destination_port": 2,
            "blocks": [
                {"offset": 0, "size": 4, "skipped": 0x90},
                {"offset": 4, "size": 20, "block": "SACK", "ack": 9, "window": 256, "ranges": [[11, 12]]},
            ],
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn every_field_of_a_block_has_a_key_and_malformed_ones_a_reason() {
        let mut out = Vec::new();
        // STREAM 0 at 0 with "hi" and the end; an acknowledgement with ECN counts; an unknown block.
        let payload = [
            &[0x82, 1, 0, 8, 0, 0, b'h', b'i'][..],
            &[0x80, 1, 0, 17, 0, 9, 5, 0, 0, 0, 7, 1, 0, 2, 3, 0, 0, 0, 0, 0],
            &[0xee, 0, 0, 4],
        ]
        .concat();
        Json::new(&mut out).blocks(&payload).unwrap();
        let value: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(
            value["blocks"][0],
            json!({"offset": 0, "size": 8, "block": "STREAM", "stream": 0, "data": "6869", "end": true})
        );
        assert_eq!(value["blocks"][1]["ranges"], json!([[6, 9], [4, 4]]));
        assert_eq!(value["blocks"][1]["ce"], json!(2));
        assert_eq!(value["blocks"][2]["malformed"], json!("unknown block 0xee at byte 28"));
    }
}
