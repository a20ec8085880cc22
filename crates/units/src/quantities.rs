//! Sizes and rates as types, in integers: rate × time = size, size ÷ rate = time.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};
use std::time::Duration;

/// A number of bytes. Arithmetic saturates.
///
/// ```
/// use manyway_units::{ByteCount, Rate};
/// use std::time::Duration;
/// let rate = Rate::from_bits_per_second(8_000_000);
/// assert_eq!(rate * Duration::from_millis(5), ByteCount(5_000));
/// assert_eq!(ByteCount(5_000) / rate, Duration::from_millis(5));
/// assert_eq!(ByteCount(5) - ByteCount(7), ByteCount(0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteCount(pub u64);

impl ByteCount {
    /// No bytes.
    pub const ZERO: Self = Self(0);
    /// More than there can be.
    pub const MAX: Self = Self(u64::MAX);

    /// The number as `u64`.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The length of data in memory.
    #[inline]
    pub fn of(length: usize) -> Self {
        Self(u64::try_from(length).unwrap_or(u64::MAX))
    }

    /// The number as `usize`, or the largest `usize`.
    #[inline]
    pub fn to_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// The rate that delivers this many bytes in `time`; the largest rate if `time` is zero.
    #[inline]
    pub fn per(self, time: Duration) -> Rate {
        // Within centuries no part of a second counts.
        let exact = |nanos| product_by(self.0, NANOS_PER_SECOND, nanos);
        Rate(u64::try_from(time.as_nanos()).map_or_else(|_| self.0 / time.as_secs(), exact))
    }
}

impl Add for ByteCount {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for ByteCount {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for ByteCount {
    type Output = Self;
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for ByteCount {
    #[inline]
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Mul<u64> for ByteCount {
    type Output = Self;
    #[inline]
    fn mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl Div<u64> for ByteCount {
    type Output = Self;
    #[inline]
    fn div(self, divisor: u64) -> Self {
        Self(self.0.checked_div(divisor).unwrap_or(u64::MAX))
    }
}

/// The time that `rate` needs for this many bytes; the longest time if the rate is zero.
impl Div<Rate> for ByteCount {
    type Output = Duration;
    #[inline]
    fn div(self, rate: Rate) -> Duration {
        Duration::from_nanos(product_by(self.0, NANOS_PER_SECOND, rate.0))
    }
}

impl std::iter::Sum for ByteCount {
    #[inline]
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// `a` × `b` ÷ `divisor`, rounded down; the largest number if the result is larger, or the divisor is zero.
#[inline]
fn product_by(a: u64, b: u64, divisor: u64) -> u64 {
    if let Some(product) = a.checked_mul(b) {
        return product.checked_div(divisor).unwrap_or(u64::MAX);
    }
    // A division of 128 bits takes several times as long as one of 64.
    let exact = (u128::from(a) * u128::from(b)).checked_div(divisor.into());
    exact.and_then(|exact| u64::try_from(exact).ok()).unwrap_or(u64::MAX)
}

/// A rate in bytes a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

impl Rate {
    /// The zero rate.
    pub const ZERO: Self = Self(0);
    /// The largest rate.
    pub const MAX: Self = Self(u64::MAX);

    /// A rate in bytes per second.
    #[inline]
    pub const fn from_bytes_per_second(bytes: u64) -> Self {
        Self(bytes)
    }

    /// A rate in bits per second, rounded down to whole bytes.
    #[inline]
    pub const fn from_bits_per_second(bits: u64) -> Self {
        Self(bits / 8)
    }

    /// Bytes per second.
    #[inline]
    pub const fn bytes_per_second(self) -> u64 {
        self.0
    }

    /// Bits per second.
    #[inline]
    pub const fn bits_per_second(self) -> u64 {
        self.0.saturating_mul(8)
    }

    /// The rate times `numerator / denominator`, without intermediate overflow.
    #[inline]
    pub fn scaled(self, numerator: u64, denominator: u64) -> Self {
        Self(product_by(self.0, numerator, denominator))
    }
}

impl Add for Rate {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Mul<Duration> for Rate {
    type Output = ByteCount;
    #[inline]
    fn mul(self, time: Duration) -> ByteCount {
        // Within centuries no part of a second counts.
        let exact = |nanos| product_by(self.0, nanos, NANOS_PER_SECOND);
        let coarse = || self.0.saturating_mul(time.as_secs());
        ByteCount(u64::try_from(time.as_nanos()).map_or_else(|_| coarse(), exact))
    }
}

impl std::iter::Sum for Rate {
    #[inline]
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

/// Prints in the largest unit that leaves a number of at least one: `12.5 Mbit/s`.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.bits_per_second();
        let (unit, name) = match bits {
            0..1_000 => return write!(f, "{bits} bit/s"),
            1_000..1_000_000 => (1_000, "kbit/s"),
            1_000_000..1_000_000_000 => (1_000_000, "Mbit/s"),
            _ => (1_000_000_000, "Gbit/s"),
        };
        let tenths = bits / (unit / 10);
        write!(f, "{}.{} {name}", tenths / 10, tenths % 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_exact_whether_they_fit_in_64_bits_or_not() {
        let values = [0, 1, 7, 999_999_999, 12_500_000_000, u64::from(u32::MAX), u64::MAX / 2, u64::MAX];
        for (a, b, divisor) in values
            .iter()
            .flat_map(|a| values.iter().flat_map(move |b| values.map(|divisor| (*a, *b, divisor))))
        {
            let exact = (u128::from(a) * u128::from(b)).checked_div(divisor.into());
            let exact = exact.map_or(u64::MAX, |exact| u64::try_from(exact).unwrap_or(u64::MAX));
            assert_eq!(product_by(a, b, divisor), exact, "{a} × {b} ÷ {divisor}");
        }
    }

    #[test]
    fn the_longest_duration_gives_no_overflow() {
        let (rate, years) = (Rate::from_bytes_per_second(1), Duration::MAX.as_secs());
        assert_eq!(rate * Duration::MAX, ByteCount(years));
        assert_eq!(ByteCount(years).per(Duration::MAX), rate);
        assert_eq!(ByteCount(1).per(Duration::ZERO), Rate::MAX);
        assert_eq!(ByteCount(1) / Rate::ZERO, Duration::from_nanos(u64::MAX));
    }
}
