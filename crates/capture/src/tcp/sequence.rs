//! Sequence numbers without their wrap-around: positions in a stream.

/// The numbers of one direction. Position 0 is the SYN, and the first byte of data has position 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbering {
    initial: u32,
}

impl Numbering {
    pub(super) fn new(initial: u32) -> Self {
        Self { initial }
    }

    pub(super) fn number(self, position: u64) -> u32 {
        // Modulo 2^32.
        self.initial.wrapping_add(u32::try_from(position & u64::from(u32::MAX)).unwrap_or_default())
    }

    /// The position of a number that is nearest to another position. `None` before the SYN.
    pub(super) fn position(self, number: u32, near: u64) -> Option<u64> {
        let difference = number.wrapping_sub(self.number(near)).cast_signed();
        near.checked_add_signed(difference.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_number_near_a_position_has_its_own(initial: u32, near in 0..1_u64 << 40, ahead in -(1_i64 << 31)..1 << 31) {
            let numbering = Numbering::new(initial);
            if let Some(position) = near.checked_add_signed(ahead) {
                prop_assert_eq!(numbering.position(numbering.number(position), near), Some(position));
            }
        }
    }
}
