//! Integers of 1, 2, 4 or 8 bytes, as in RFC 9000, section 16: the top two bits give the length.

use crate::writer::Writer;

/// Largest value a varint holds: 2⁶² − 1.
pub const VARINT_MAX: u64 = (1 << 62) - 1;

/// How many bytes `value` takes as a varint: 1, 2, 4 or 8. Values above [`VARINT_MAX`] take 8.
pub fn varint_len(value: u64) -> usize {
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

/// The varint of `value` and how many of the bytes it takes; values above [`VARINT_MAX`] are clamped to it.
pub(crate) fn varint_bytes(value: u64) -> ([u8; 8], usize) {
    let value = value.min(VARINT_MAX);
    let length = varint_len(value);
    let mark = u64::from(length.trailing_zeros()) << 62;
    ((value << (64 - 8 * length) | mark).to_be_bytes(), length)
}

impl Writer<'_> {
    /// Appends `value` in the shortest form; values above [`VARINT_MAX`] are clamped to it.
    pub fn varint(&mut self, value: u64) {
        let (bytes, length) = varint_bytes(value);
        self.first_of(bytes, length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::Reader;

    fn encoded(value: u64) -> Vec<u8> {
        let mut buffer = Vec::new();
        Writer::new(&mut buffer, 8).varint(value);
        buffer
    }

    #[test]
    fn the_examples_of_rfc_9000_appendix_a_1_are_met() {
        assert_eq!(encoded(151_288_809_941_952_652), [0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c]);
        assert_eq!(encoded(494_878_333), [0x9d, 0x7f, 0x3e, 0x7d]);
        assert_eq!(encoded(15_293), [0x7b, 0xbd]);
        assert_eq!(encoded(37), [0x25]);
        assert_eq!(Reader::new(&[0x40, 0x25]).varint(), Ok(37));
    }

    #[test]
    fn the_predicted_length_is_the_encoded_length() {
        for value in [0, 63, 64, 16_383, 16_384, (1 << 30) - 1, 1 << 30, VARINT_MAX] {
            let bytes = encoded(value);
            assert_eq!(bytes.len(), varint_len(value));
            assert_eq!(Reader::new(&bytes).varint(), Ok(value));
        }
    }

    #[test]
    fn too_large_values_are_clamped_to_the_maximum() {
        assert_eq!(encoded(u64::MAX), encoded(VARINT_MAX));
    }

    #[test]
    fn a_cut_varint_is_truncated() {
        for bytes in [&[][..], &[0x40], &[0x80, 0, 0], &[0xc0, 0, 0, 0, 0, 0, 0]] {
            assert!(Reader::new(bytes).varint().is_err(), "{bytes:?}");
        }
    }
}
