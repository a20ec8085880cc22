//! Blocks as frames of qlog: with the names of QUIC if their meaning is the same, otherwise with names of their own.

use manyway_wire::mmsp2::{Block, Blocked, BlockedBy, Close, Field, MessageData};

use super::json::{Array, Object};

/// Appends a block. Omits the bytes of applications and TLS, tokens and INFOs: they are secrets.
pub(super) fn write(array: &mut Array<'_>, block: &Block<'_>) {
    array.object(|o| {
        o.text("frame_type", frame_type(block));
        match block {
            Block::Stream(piece) => {
                o.number("stream_id", piece.stream.0);
                o.number("offset", piece.offset);
                o.flag("fin", piece.end);
                payload(o, piece.data.len());
            }
            Block::Message(piece) => message(o, piece),
            Block::Crypto(piece) => {
                o.number("offset", piece.offset);
                payload(o, piece.data.len());
            }
            Block::PathAck(ack) => {
                o.number("path_id", ack.path.0);
                o.millis("ack_delay", ack.delay);
                o.array("acked_ranges", |a| {
                    ack.ranges.iter().for_each(|range| a.range(*range.start(), *range.end()));
                });
                if let Some(ecn) = ack.ecn {
                    o.number("ect1", ecn.ect1);
                    o.number("ect0", ecn.ect0);
                    o.number("ce", ecn.ce);
                }
            }
            Block::MaxData(block) => o.number("maximum", block.credit),
            Block::MaxStreamData(block) => {
                o.number("stream_id", block.stream.0);
                o.number("maximum", block.credit);
            }
            Block::MaxStreams(block) => {
                o.text("stream_type", "bidirectional");
                o.number("maximum", block.count);
            }
            Block::Blocked(block) => blocked(o, *block),
            Block::NewCid(block) => {
                o.number("path_id", block.path.0);
                o.number("sequence_number", block.sequence);
                o.number("retire_prior_to", block.retire_prior_to);
                o.text("connection_id", block.id.to_string());
            }
            Block::RetireCid(block) => {
                o.number("path_id", block.path.0);
                o.number("sequence_number", block.sequence);
            }
            Block::ResetStream(block) => {
                o.number("stream_id", block.stream.0);
                error(o, "error", block.code);
                o.number("final_size", block.final_size);
            }
            Block::StopSending(block) => {
                o.number("stream_id", block.stream.0);
                error(o, "error", block.code);
            }
            Block::Probe(block) => o.text("data", format!("{:016x}", block.nonce)),
            Block::ProbeAck(block) => {
                o.text("data", format!("{:016x}", block.nonce));
                o.text("observed_address", block.observed.to_string());
            }
            Block::Close(block) => close(o, block),
            Block::Syn(_)
            | Block::SynAck(_)
            | Block::Ping(_)
            | Block::Pong
            | Block::AckNow
            | Block::Padding => {}
            Block::Skip(_)
            | Block::AddAddress(_)
            | Block::RemoveAddress(_)
            | Block::PathStatus(_)
            | Block::PathClose(_)
            | Block::Liveness(_)
            | Block::ReceiveLimit(_)
            | Block::PathLimit(_)
            | Block::TcpConnections(_) => own(o, block),
        }
    });
}

fn close(o: &mut Object<'_>, block: &Close<'_>) {
    o.text("step", block.step.name());
    error(o, "error", block.code);
    o.text("reason", String::from_utf8_lossy(block.text));
}

fn message(o: &mut Object<'_>, piece: &MessageData<'_>) {
    o.number("stream_id", piece.stream.0);
    o.number("message", piece.message.number);
    o.flag("unordered", piece.message.unordered);
    o.number("offset", piece.place.offset());
    o.flag("end", piece.end);
    payload(o, piece.data.len());
}

fn payload(o: &mut Object<'_>, length: usize) {
    o.object("raw", |o| o.number("payload_length", length as u64));
}

/// Codes are not those of QUIC, so they have no name there.
pub(super) fn error(o: &mut Object<'_>, key: &str, code: u64) {
    o.text(key, "unknown");
    o.number("error_code", code);
}

fn blocked(o: &mut Object<'_>, block: Blocked) {
    match block.by {
        BlockedBy::Connection { limit } => o.number("limit", limit),
        BlockedBy::Stream { stream, limit } => {
            o.number("stream_id", stream.0);
            o.number("limit", limit);
        }
        BlockedBy::Streams { limit } => {
            o.text("stream_type", "bidirectional");
            o.number("limit", limit);
        }
    }
}

/// The fields of a block that QUIC does not have.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the list of the wire crate is open; words do for the rest"
)]
fn own(o: &mut Object<'_>, block: &Block<'_>) {
    block.fields(&mut |name, field| {
        let key = name.replace(' ', "_");
        match field {
            Field::Number(number) => o.number(&key, number),
            Field::Path(path) => o.number("path_id", path.0),
            Field::Stream(stream) => o.number("stream_id", stream.0),
            Field::Duration(duration) => o.millis(&key, duration),
            Field::Flag(flag) => o.flag(&key, flag),
            other => o.text(&key, other.to_string()),
        }
    });
}

fn frame_type(block: &Block<'_>) -> &'static str {
    match block {
        Block::Syn(_) => "mmsp_syn",
        Block::SynAck(_) => "mmsp_syn_ack",
        Block::Ping(_) => "ping",
        Block::Pong => "mmsp_pong",
        Block::Probe(_) => "path_challenge",
        Block::ProbeAck(_) => "path_response",
        Block::PathAck(_) => "ack",
        Block::Crypto(_) => "crypto",
        Block::Stream(_) => "stream",
        Block::Message(_) => "mmsp_message",
        Block::Skip(_) => "mmsp_skip",
        Block::MaxData(_) => "max_data",
        Block::MaxStreamData(_) => "max_stream_data",
        Block::MaxStreams(_) => "max_streams",
        Block::ResetStream(_) => "reset_stream",
        Block::StopSending(_) => "stop_sending",
        Block::Blocked(Blocked { by: BlockedBy::Connection { .. } }) => "data_blocked",
        Block::Blocked(Blocked { by: BlockedBy::Stream { .. } }) => "stream_data_blocked",
        Block::Blocked(Blocked { by: BlockedBy::Streams { .. } }) => "streams_blocked",
        Block::NewCid(_) => "new_connection_id",
        Block::RetireCid(_) => "retire_connection_id",
        Block::AddAddress(_) => "mmsp_add_address",
        Block::RemoveAddress(_) => "mmsp_remove_address",
        Block::PathStatus(_) => "mmsp_path_status",
        Block::PathClose(_) => "mmsp_path_close",
        Block::Liveness(_) => "mmsp_liveness",
        Block::AckNow => "mmsp_ack_now",
        Block::Close(_) => "connection_close",
        Block::Padding => "padding",
        Block::PathLimit(_) => "mmsp_path_limit",
        Block::ReceiveLimit(_) => "mmsp_receive_limit",
        Block::TcpConnections(_) => "mmsp_tcp_connections",
    }
}
