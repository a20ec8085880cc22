//! The curve of CUBIC in integers (RFC 9438, section 4.2): `W(t) = C·(t − K)³ + W_max`, `K = ∛((W_max − W) / C)`.

use std::time::Duration;

use crate::ByteCount;

/// `C` = 0.4 datagrams / s³, as a fraction.
const C: (u128, u128) = (4, 10);
/// Microseconds³ in a second³.
const CUBIC_SECOND: u128 = 1_000_000_000_000_000_000;
/// Distances from the plateau are limited to this (about 3 hours), so that nothing overflows.
const LONGEST_MICROS: u128 = 10_000_000_000;

/// One cubic function, given by its plateau and the time at which it reaches it.
///
/// ```
/// use manyway_proto::ByteCount;
/// use manyway_proto::congestion::CubicCurve;
/// use std::time::Duration;
///
/// // From 70 to 100 datagrams of 1000 bytes in ∛(30 / 0.4) = 4.217 s.
/// let curve = CubicCurve::new(ByteCount(70_000), ByteCount(100_000), 1000);
/// assert_eq!(curve.at(Duration::from_millis(4217), 1000), ByteCount(100_000));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Curve {
    plateau: ByteCount,
    /// `K`: time from the start to the plateau, in microseconds.
    plateau_micros: u128,
}

impl Curve {
    /// The curve that starts at `window` and flattens at `plateau`; it starts flat if that is not above the window.
    /// `max_datagram` is in bytes.
    pub fn new(window: ByteCount, plateau: ByteCount, max_datagram: u16) -> Self {
        let deficit = u128::from((plateau - window).get());
        let cube = deficit.saturating_mul(CUBIC_SECOND).saturating_mul(C.1)
            / (C.0 * u128::from(max_datagram.max(1)));
        Self { plateau: plateau.max(window), plateau_micros: cube_root(cube) }
    }

    /// The window at `time` after the start, for the same size of datagrams.
    pub fn at(&self, time: Duration, max_datagram: u16) -> ByteCount {
        let micros = time.as_micros();
        let distance = micros.abs_diff(self.plateau_micros).min(LONGEST_MICROS);
        let cube = distance * distance * distance;
        let bytes = cube.saturating_mul(C.0 * u128::from(max_datagram)) / (C.1 * CUBIC_SECOND);
        let bytes = ByteCount(u64::try_from(bytes).unwrap_or(u64::MAX));
        if micros < self.plateau_micros { self.plateau - bytes } else { self.plateau + bytes }
    }

    /// `K`.
    #[cfg(test)]
    pub(super) fn time_to_plateau(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.plateau_micros).unwrap())
    }
}

/// The largest integer whose cube is at most `value`.
fn cube_root(value: u128) -> u128 {
    if value == 0 {
        return 0;
    }
    // Newton's method from above: the value falls until it converges.
    let bits = u128::BITS - value.leading_zeros();
    let mut root = 1u128 << bits.div_ceil(3);
    loop {
        let next = (2 * root + value / (root * root)) / 3;
        if next >= root {
            return root;
        }
        root = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_window_reduced_to_seven_tenths_of_100_datagrams_returns_after_4_217_seconds() {
        // K = cbrt(100 · 0.3 / 0.4) = cbrt(75)
        let curve = Curve::new(ByteCount(70_000), ByteCount(100_000), 1000);
        assert_eq!(curve.time_to_plateau().as_millis(), 4217);
        assert_eq!(curve.at(curve.time_to_plateau(), 1000), ByteCount(100_000));
        // K is truncated to microseconds, so the descent is a byte less.
        assert!(curve.at(Duration::ZERO, 1000).get().abs_diff(70_000) <= 1);
    }

    proptest! {
        #[test]
        fn cube_roots_are_exact(root in 0u128..5_000_000_000_000, extra in 0u128..1000) {
            let cube = root * root * root;
            prop_assert_eq!(cube_root(cube + extra.min(3 * root * root + 3 * root)), root);
        }

        #[test]
        fn the_curve_agrees_with_floats_within_a_hundredth(
            plateau in 4u64..1_000_000, reduction in 1u64..100, micros in 0u64..60_000_000, size in 500u16..9000
        ) {
            let (plateau, mss) = (plateau * u64::from(size), f64::from(size));
            let window = plateau * reduction / 100;
            let curve = Curve::new(ByteCount(window), ByteCount(plateau), size);
            let k = ((plateau - window) as f64 / mss / 0.4).cbrt();
            let t = micros as f64 / 1e6;
            let expected = (0.4 * (t - k).powi(3) + plateau as f64 / mss) * mss;
            let found = curve.at(Duration::from_micros(micros), size).get() as f64;
            prop_assert!((found - expected).abs() <= expected.max(mss) * 0.01, "{found} instead of {expected}");
        }
    }
}
