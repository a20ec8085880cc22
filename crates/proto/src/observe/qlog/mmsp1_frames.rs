//! Blocks of MMSP/1 as frames of qlog.

use manyway_wire::mmsp1::{Block, Field};

use super::json::{Array, Object};

/// Appends a block. Omits the bytes of applications, and INFOs.
pub(super) fn write(array: &mut Array<'_>, block: &Block<'_>) {
    array.object(|o| {
        o.text("frame_type", frame_type(block));
        block.fields(&mut |name, field| write_field(o, &name.replace(' ', "_"), field));
    });
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the list of the wire crate is open; words do for the rest"
)]
fn write_field(o: &mut Object<'_>, key: &str, field: Field<'_>) {
    match field {
        Field::Number(number) => o.number(key, number),
        Field::Flag(flag) => o.flag(key, flag),
        Field::Data(data) => o.object("raw", |o| o.number("payload_length", data.len() as u64)),
        other => o.text(key, other.to_string()),
    }
}

fn frame_type(block: &Block<'_>) -> &'static str {
    match block {
        Block::Data(_) => "mmsp1_data",
        Block::Sack(_) => "mmsp1_sack",
        Block::Syn(_) => "mmsp1_syn",
        Block::SynAck(_) => "mmsp1_syn_ack",
        Block::Ping(_) => "mmsp1_ping",
        Block::Pong => "mmsp1_pong",
        Block::Fin(_) => "mmsp1_fin",
        Block::FinAck => "mmsp1_fin_ack",
        Block::FinDone(_) => "mmsp1_fin_done",
        Block::Rst(_) => "mmsp1_rst",
        Block::Error(_) => "mmsp1_error",
        Block::Probe(_) => "mmsp1_probe",
        Block::ProbeAck(_) => "mmsp1_probe_ack",
    }
}
