//! Helpers of the tests of MMSP/1.

use super::{Block, Blocks};
use crate::decode_error::DecodeError;
use crate::writer::Writer;

pub(crate) use crate::testing::framed;

/// All blocks of a payload.
pub(crate) fn walk(payload: &[u8]) -> Vec<Result<Block<'_>, DecodeError>> {
    Blocks::new(payload).collect()
}

/// The error of decoding a payload of one block.
pub(crate) fn refusal(payload: &[u8]) -> DecodeError {
    Blocks::new(payload).next().expect("there is a block").expect_err("it is wrong")
}

/// The encoded block; checks that its announced length was right.
pub(crate) fn encoded(block: &Block<'_>) -> Vec<u8> {
    let mut payload = Vec::new();
    block.encode(&mut Writer::new(&mut payload, 1 << 20));
    assert_eq!(payload.len(), block.encoded_len());
    payload
}

/// Encodes and decodes a block, and checks that the result is equal.
pub(crate) fn round_trip(block: Block<'_>) {
    let payload = encoded(&block);
    assert_eq!(payload.len() % 4, 0);
    assert_eq!(walk(&payload), [Ok(block)]);
}
