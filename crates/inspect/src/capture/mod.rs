//! Reads datagrams from pcap, pcapng or hex text, and detects which it is.

mod error;
mod framing;
mod hex;
mod item;
mod link;
mod pcap;

use std::io::{self, Read};
use std::ops::ControlFlow;

pub use error::CaptureError;
pub use hex::{HexError, parse_bytes};
pub use item::{Datagram, Item, Skip};

/// Reads a capture to its end, or until `each` breaks. Every item is passed to `each` as soon as it is read, so that a
/// pipe from `tcpdump -w -` can be followed. Hex text is read as a whole: one datagram a line, or a dump of `xxd`,
/// `hexdump -C` or `tcpdump -x` (which shows IP packets).
///
/// # Errors
/// If the input cannot be read, is truncated or damaged, or is no capture. Items before the error have been passed to
/// `each`.
pub fn read(
    mut input: impl Read + Send,
    each: &mut dyn FnMut(Item<'_>) -> ControlFlow<()>,
) -> Result<(), CaptureError> {
    let mut head = Vec::new();
    read_up_to(&mut input, &mut head, pcap::LEAST)?;
    if pcap::is_capture(&head) {
        // The reader needs the whole first block at once.
        let first = pcap::first_block(&head);
        read_up_to(&mut input, &mut head, first)?;
        return pcap::read(framing::is_pcapng(&head), io::Cursor::new(head).chain(input), each);
    }
    input.take(hex::MOST_TEXT).read_to_end(&mut head)?;
    hex::read(&head, each).map_err(CaptureError::Hex)
}

fn read_up_to(input: &mut impl Read, head: &mut Vec<u8>, length: usize) -> io::Result<()> {
    let missing = length.saturating_sub(head.len()) as u64;
    input.take(missing).read_to_end(head).map(|_| ())
}
