//! Sequence numbers that wrap, compared by RFC 1982 (spec 3.31, 3.32).

use std::fmt;

/// Defines a sequence number: its type, its width and the signed type of the same width.
macro_rules! serial {
    ($(#[$doc:meta])* $name:ident, $raw:ty, $signed:ty) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(pub $raw);

        impl $name {
            /// The number `count` behind this one; wraps.
            #[must_use]
            pub const fn plus(self, count: $raw) -> Self {
                Self(self.0.wrapping_add(count))
            }

            /// The number `count` before this one; wraps.
            #[must_use]
            pub const fn minus(self, count: $raw) -> Self {
                Self(self.0.wrapping_sub(count))
            }

            /// How many numbers lie between `earlier` and this one, counting this one; wraps. Only meaningful if
            /// `earlier` does not come later.
            pub const fn since(self, earlier: Self) -> $raw {
                self.0.wrapping_sub(earlier.0)
            }

            /// Whether this number comes before `other`: less than half of all numbers ahead of it.
            ///
            /// Numbers exactly half of all apart have no order: then this is false both ways round (RFC 1982, section
            /// 3.2). There is no `Ord`, since the order is not transitive.
            pub const fn precedes(self, other: Self) -> bool {
                let ahead = other.0.wrapping_sub(self.0);
                ahead != 0 && ahead <= <$signed>::MAX.unsigned_abs()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

serial! {
    /// Transmission sequence number: counts the DATA blocks of one direction of a connection, modulo 2³².
    ///
    /// ```
    /// use manyway_wire::mmsp1::Tseq;
    ///
    /// let last = Tseq(u32::MAX);
    /// assert_eq!(last.plus(1), Tseq(0));
    /// assert!(last.precedes(Tseq(0)) && !Tseq(0).precedes(last));
    /// ```
    Tseq, u32, i32
}

serial! {
    /// Stream sequence number: counts the ordered messages of one direction of a stream, modulo 2¹⁶.
    Sseq, u16, i16
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 3.31, 3.32
    #[test]
    fn numbers_compare_by_rfc_1982_across_the_wrap() {
        assert!(Tseq(5).precedes(Tseq(6)));
        assert!(!Tseq(5).precedes(Tseq(5)));
        assert!(Tseq(0).precedes(Tseq(0x7fff_ffff)));
        assert!(Tseq(u32::MAX).precedes(Tseq(3)));
        assert_eq!(Tseq(3).since(Tseq(u32::MAX)), 4);
        assert_eq!(Tseq(0).minus(1), Tseq(u32::MAX));
        assert!(Sseq(u16::MAX).precedes(Sseq(0)));
        assert!(!Sseq(0).precedes(Sseq(u16::MAX)));
    }

    // spec 3.31
    #[test]
    fn numbers_half_of_all_apart_have_no_order() {
        assert!(!Tseq(0).precedes(Tseq(1 << 31)) && !Tseq(1 << 31).precedes(Tseq(0)));
        assert!(!Sseq(0).precedes(Sseq(1 << 15)) && !Sseq(1 << 15).precedes(Sseq(0)));
    }
}
