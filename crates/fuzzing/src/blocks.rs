//! Blocks: every decoded value can be encoded, in the announced length, and then decodes to the same.

use manyway_wire::Writer;
use manyway_wire::mmsp2::{Block, BlockedBy, Blocks, Liveness};

/// Reads the input as the payload of a packet.
pub fn run(data: &[u8]) {
    let mut read = 0;
    for block in Blocks::new(data) {
        match block {
            Ok(block) => check(&block, data.len()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        read += 1;
        assert!(read <= data.len(), "every block has bytes of its own");
    }
}

fn check(block: &Block<'_>, available: usize) {
    let length = block.encoded_len();
    assert!(length.is_multiple_of(4), "{block:?}");
    let mut bytes = Vec::new();
    block.encode(&mut Writer::new(&mut bytes, length));
    assert_eq!(bytes.len(), length, "{block:?}");
    let again: Vec<_> = Blocks::new(&bytes).collect();
    assert_eq!(again, [Ok(*block)]);
    // A second encoding is equal to the byte: there is one shortest form.
    let mut second = Vec::new();
    again.into_iter().flatten().for_each(|block| block.encode(&mut Writer::new(&mut second, length)));
    assert_eq!(bytes, second);
    look_inside(block, available);
}

/// Values that the machine computes with are in their ranges.
fn look_inside(block: &Block<'_>, available: usize) {
    const MOST: u64 = (1 << 62) - 1;
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others have no ranges")]
    match block {
        Block::PathAck(ack) => {
            let mut above = None;
            let mut ranges = 0;
            for range in ack.ranges {
                let (start, end) = range.into_inner();
                assert!(start <= end && end <= MOST);
                assert!(above.is_none_or(|above| end + 1 < above), "ranges neither touch nor overlap");
                above = Some(start);
                ranges += 1;
            }
            assert!(ranges >= 1 && ranges <= available);
            assert!(above.is_some_and(|smallest| smallest <= ack.ranges.largest()));
        }
        Block::Stream(block) => {
            assert!(block.offset + block.data.len() as u64 <= MOST && block.data.len() <= available);
        }
        Block::Message(block) => {
            let end = u64::from(block.place.offset()) + block.data.len() as u64;
            assert!(end <= u64::from(u32::MAX) && block.data.len() <= available);
        }
        Block::Skip(block) => {
            let messages = block.messages.into_iter().count();
            assert!(messages >= 1 && messages <= available);
        }
        Block::Crypto(block) => {
            assert!(block.offset + block.data.len() as u64 <= MOST && block.data.len() <= available);
        }
        Block::ResetStream(block) => assert!(block.final_size <= MOST),
        Block::Close(block) => assert!(block.text.len() <= available),
        Block::Blocked(block) => match block.by {
            BlockedBy::Connection { limit }
            | BlockedBy::Streams { limit }
            | BlockedBy::Stream { limit, .. } => {
                assert!(limit <= MOST);
            }
        },
        Block::Liveness(Liveness::Answer { largest, .. }) => assert!(largest.is_none_or(|l| l <= MOST)),
        Block::NewCid(block) => assert!(block.id.as_slice().len() <= 20),
        _ => {}
    }
}
