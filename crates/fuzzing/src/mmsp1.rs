//! Packets of MMSP/1: every decoded block can be encoded, in the announced length, and then decodes to the same; the
//! values that a session computes with are in their ranges.

use manyway_wire::Writer;
use manyway_wire::mmsp1::{
    Block, Blocks, HEADER_LEN, Header, Info, MAX_PORT, Packet, Response, StreamEnd, Tag, checksum, seal,
    travels_alone,
};

/// Reads the input as a packet, as it is and with a right checksum, as the inside of one, and as INFO.
pub fn run(data: &[u8]) {
    packet(data);
    let mut sealed = data.to_vec();
    seal(&mut sealed);
    if let Some(packet) = packet(&sealed) {
        let mut again = Vec::new();
        packet.header.encode(&mut Writer::new(&mut again, HEADER_LEN));
        again.extend_from_slice(packet.payload);
        seal(&mut again);
        assert_eq!(again, sealed);
    }
    blocks(data);
    info(data);
    let _ = StreamEnd::decode(data);
}

fn packet(datagram: &[u8]) -> Option<Packet<'_>> {
    let packet = match Packet::decode(datagram) {
        Ok(packet) => packet,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return None;
        }
    };
    let Header { source_port, destination_port, .. } = packet.header;
    assert!((1..=MAX_PORT).contains(&source_port) && (1..=MAX_PORT).contains(&destination_port));
    assert_eq!(Header::decode(datagram), Ok((packet.header, checksum(datagram))));
    assert_eq!(packet.header.answer(Tag(1)).answer(packet.header.connection), packet.header);
    assert_eq!(packet.payload.len(), datagram.len() - HEADER_LEN);
    let kinds: Vec<_> = packet.blocks().flatten().map(|block| block.kind()).collect();
    assert!(kinds.len() < 2 || !kinds.iter().any(|kind| travels_alone(*kind)));
    blocks(packet.payload);
    Some(packet)
}

fn blocks(payload: &[u8]) {
    let mut walk = Blocks::new(payload);
    let mut read = 0;
    let mut end = 0;
    while let Some(block) = walk.next() {
        assert!(walk.offset() > end && walk.offset() <= payload.len(), "every block has bytes of its own");
        end = walk.offset();
        read += 1;
        match block {
            Ok(block) => check(&block, payload.len()),
            Err(error) => {
                let _ = Response::to(&error);
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(read <= payload.len() / 4 && walk.next().is_none());
}

fn check(block: &Block<'_>, available: usize) {
    let length = block.encoded_len();
    assert!(length.is_multiple_of(4), "{block:?}");
    let mut bytes = Vec::new();
    block.encode(&mut Writer::new(&mut bytes, length));
    assert_eq!(bytes.len(), length, "{block:?}");
    let again: Vec<_> = Blocks::new(&bytes).map(Result::unwrap).collect();
    assert!(matches!(again[..], [read] if read.kind() == block.kind() && read.unrecognised().is_none()));
    if block.unrecognised().is_none() {
        assert_eq!(again, [*block]);
    }
    // Text of the peer must not control a terminal.
    assert!(!block.to_string().contains(char::is_control));
    look_inside(block, available);
}

/// Values that a session computes with are in their ranges.
fn look_inside(block: &Block<'_>, available: usize) {
    match block {
        Block::Data(block) => assert!(block.data.len() <= available),
        Block::Sack(sack) => {
            let ranges = sack.ranges.offsets();
            assert!(4 * (ranges.len() + sack.duplicates.iter().len()) <= available);
            for ((first, last), offsets) in sack.ranges.iter().zip(ranges) {
                assert!(*offsets.start() >= 1 && offsets.start() <= offsets.end());
                assert!(sack.ack.precedes(first) && last.since(first) < 1 << 16);
                assert!(!sack.highest().precedes(last));
            }
        }
        Block::Syn(syn) => {
            assert!(syn.opening.tag != Tag(0) && syn.opening.outgoing > 0 && syn.opening.incoming > 0);
            assert!(4 * syn.addresses.iter().count() <= available);
        }
        Block::SynAck(answer) => {
            assert!(
                answer.opening.tag != Tag(0) && answer.opening.outgoing > 0 && answer.opening.incoming > 0
            );
            assert!(4 * answer.addresses.iter().count() + answer.info.len() <= available);
        }
        Block::Ping(ping) => assert!(ping.info.len() <= available),
        Block::Rst(rst) => assert!(4 * rst.causes.iter().count() <= available),
        Block::Error(error) => {
            assert!(!error.causes.is_empty() && 4 * error.causes.iter().count() <= available);
        }
        Block::Probe(probe) => assert_eq!(probe.data.to_bytes().len(), 44),
        Block::ProbeAck(answer) => assert_eq!(answer.echo.to_bytes().len(), 44),
        Block::Fin(_) | Block::FinAck | Block::FinDone(_) | Block::Pong => {}
    }
}

fn info(data: &[u8]) {
    let Ok((info, covered, mac)) = Info::decode(data) else { return };
    let mut again = Vec::new();
    info.encode_covered(&mut Writer::new(&mut again, data.len()));
    assert_eq!(again.len(), covered.len());
    again.extend_from_slice(mac);
    assert_eq!((again.len(), info.encoded_len()), (data.len(), data.len()));
    assert_eq!(Info::decode(&again).map(|(info, _, _)| info), Ok(info));
}
