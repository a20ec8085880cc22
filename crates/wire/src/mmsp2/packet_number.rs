//! Packet numbers: 62 bits in memory, 1 to 4 bytes on the wire (spec 4.6; RFC 9000, sections 17.1 and A).

use crate::varint::VARINT_MAX;
use crate::writer::Writer;

/// Number of bytes of `next` to send, 1 to 4, so that a receiver that knows only `largest_acked` can expand it.
pub fn truncated_len(next: u64, largest_acked: Option<u64>) -> usize {
    let unacked = match largest_acked {
        Some(acked) => next.saturating_sub(acked),
        None => next.saturating_add(1),
    };
    match unacked {
        0..=0x80 => 1,
        0x81..=0x8000 => 2,
        0x8001..=0x80_0000 => 3,
        _ => 4,
    }
}

/// Appends the lowest `length` bytes of `packet_number`; `length` is clamped to 1 to 4.
pub fn encode(writer: &mut Writer<'_>, packet_number: u64, length: usize) {
    let length = length.clamp(1, 4);
    writer.first_of(leading(packet_number, length), length);
}

/// The lowest `length` bytes of `packet_number`, 1 to 4, and others behind them.
pub(super) fn leading(packet_number: u64, length: usize) -> [u8; 8] {
    (packet_number << (64 - 8 * length)).to_be_bytes()
}

/// Expands a truncated number to the one nearest to `expected`, which is the largest number received so far plus 1.
pub fn expand(truncated: u32, length: usize, expected: u64) -> u64 {
    let window = 1_u64 << (8 * length.clamp(1, 4));
    let candidate = (expected & !(window - 1)) | (u64::from(truncated) & (window - 1));
    if candidate.saturating_add(window / 2) <= expected && candidate <= VARINT_MAX - window {
        candidate + window
    } else if candidate > expected.saturating_add(window / 2) && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_rfc_9000_appendix_a_hold() {
        assert_eq!(truncated_len(0x00ac_5c02, Some(0x00ab_e8b3)), 2);
        assert_eq!(truncated_len(0x00ac_e8fe, Some(0x00ab_e8b3)), 3);
        assert_eq!(expand(0x9b32, 2, 0xa82f_30eb), 0xa82f_9b32);
    }

    // spec 4.6: the receiver expands the number correctly whatever it received since the last acknowledgement
    #[test]
    fn a_number_survives_truncation_for_every_state_of_the_receiver() {
        for acked in [None, Some(0), Some(127), Some(255), Some(0xffff), Some(0xff_ffff), Some(1 << 40)] {
            for ahead in [1, 2, 127, 128, 129, 0x7fff, 0x8000, 0x8001, 0x80_0000, 0x80_0001_u64] {
                let next = acked.map_or(ahead - 1, |acked: u64| acked + ahead);
                let length = truncated_len(next, acked);
                let mut buffer = Vec::new();
                encode(&mut Writer::new(&mut buffer, 4), next, length);
                let truncated = buffer.iter().fold(0, |value, byte| (value << 8) | u32::from(*byte));
                let first = acked.map_or(0, |acked| acked + 1);
                for expected in [first, first.midpoint(next), next] {
                    assert_eq!(expand(truncated, length, expected), next, "{acked:?} {ahead} {expected}");
                }
            }
        }
    }

    #[test]
    fn no_expectation_overflows() {
        for expected in [0, VARINT_MAX, u64::MAX] {
            for length in 0..6 {
                expand(u32::MAX, length, expected);
                expand(0, length, expected);
            }
        }
    }
}
