//! TSEQ and SSEQ as numbers that do not wrap (spec 3.31, 3.32).

use manyway_wire::mmsp1::{Sseq, Tseq};

/// The first SSEQ of each stream: 0 on the wire. A number before it exists, so that an old SSEQ can be expanded.
pub(crate) const FIRST_SSEQ: u64 = 1 << 16;

/// The number of the initial TSEQ. A number before it exists: the cumulative acknowledgement before any data.
pub(crate) fn start(initial: Tseq) -> u64 {
    (1 << 32) + u64::from(initial.0)
}

/// The number of a TSEQ: of all that wrap to it, the nearest to `near`. `None` if two are equally near, at a distance
/// of 2³¹, where RFC 1982 defines no order.
pub(crate) fn expand_tseq(tseq: Tseq, near: u64) -> Option<u64> {
    let ahead = tseq.since(tseq_of(near)).cast_signed();
    (ahead != i32::MIN).then(|| near.checked_add_signed(ahead.into()))?
}

/// The same for an SSEQ; `None` at a distance of 2¹⁵.
pub(crate) fn expand_sseq(sseq: Sseq, near: u64) -> Option<u64> {
    let ahead = sseq.since(sseq_of(near)).cast_signed();
    (ahead != i16::MIN).then(|| near.checked_add_signed(ahead.into()))?
}

/// A TSEQ on the wire.
pub(crate) fn tseq_of(number: u64) -> Tseq {
    let [.., a, b, c, d] = number.to_be_bytes();
    Tseq(u32::from_be_bytes([a, b, c, d]))
}

/// An SSEQ on the wire.
pub(crate) fn sseq_of(number: u64) -> Sseq {
    let [.., a, b] = number.to_be_bytes();
    Sseq(u16::from_be_bytes([a, b]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_compare_around_the_wrap() {
        let last = start(Tseq(u32::MAX));
        assert_eq!(expand_tseq(Tseq(0), last), Some(last + 1));
        assert_eq!(expand_tseq(Tseq(u32::MAX), last + 1), Some(last));
        assert_eq!(expand_sseq(Sseq(u16::MAX), FIRST_SSEQ), Some(FIRST_SSEQ - 1));
        assert_eq!(expand_sseq(Sseq(0), FIRST_SSEQ + 0xffff), Some(FIRST_SSEQ + 0x1_0000));
        assert_eq!(tseq_of(start(Tseq(0)) - 1), Tseq(u32::MAX), "before any data");
    }

    #[test]
    fn numbers_half_of_all_apart_have_no_order() {
        let near = start(Tseq(7));
        assert_eq!(expand_tseq(Tseq(7 + (1 << 31)), near), None);
        assert_eq!(expand_tseq(Tseq(6 + (1 << 31)), near), Some(near + (1 << 31) - 1));
        assert_eq!(expand_tseq(Tseq(8 + (1 << 31)), near), Some(near - ((1 << 31) - 1)));
        assert_eq!(expand_sseq(Sseq(1 << 15), FIRST_SSEQ), None);
    }

    proptest! {
        #[test]
        fn a_number_comes_back_from_the_wire(near in 1_u64 << 33..1 << 40, ahead in -0x7fff_ffff_i64..=0x7fff_ffff) {
            let number = near.checked_add_signed(ahead).unwrap();
            prop_assert_eq!(expand_tseq(tseq_of(number), near), Some(number));
            let number = near.checked_add_signed(ahead % 0x8000).unwrap();
            prop_assert_eq!(expand_sseq(sseq_of(number), near), Some(number));
        }
    }
}
