//! A list of typed values inside a block or in the TLS extension (spec 2.10).
//!
//! ```text
//!  0            2            4
//! |  type 16  |  length 16  | value … | 0-3 zero bytes to a multiple of 4 |
//! ```
//! `length` counts header and value, not the padding; the last parameter may lack its padding.

use crate::decode_error::{DecodeError, Part};
use crate::frame::padded;
use crate::reader::Reader;
use crate::writer::Writer;

/// Type of the INFO parameter: the server's sealed state of a SYN.
pub(crate) const INFO: u16 = 0x0000;

/// Set in the type of parameters that a receiver without knowledge of them may skip.
pub(crate) const SKIPPABLE: u16 = 0x8000;

const HEADER_LEN: usize = 4;

/// One parameter: its type, where it begins, and its value ready to be read.
#[derive(Debug, Clone)]
pub(crate) struct Parameter<'a> {
    pub(crate) kind: u16,
    pub(crate) offset: usize,
    pub(crate) value: Reader<'a>,
}

/// Takes the next parameter from `list`; `None` at its end.
pub(crate) fn next_parameter<'a>(list: &mut Reader<'a>) -> Result<Option<Parameter<'a>>, DecodeError> {
    if list.is_empty() {
        return Ok(None);
    }
    let offset = list.offset();
    let kind = list.u16()?;
    let length = usize::from(list.u16()?);
    let Some(value_len) = length.checked_sub(HEADER_LEN) else {
        return Err(list.out_of_range(offset + 2, "parameter length", length as u64));
    };
    let value = Reader::within(Part::Parameter(kind), list.offset(), list.bytes(value_len)?);
    let padding = (padded(length) - length).min(list.remaining());
    list.bytes(padding)?;
    Ok(Some(Parameter { kind, offset, value }))
}

/// Refuses a parameter of unknown type unless it may be skipped.
pub(crate) fn check_skippable(kind: u16, offset: usize) -> Result<(), DecodeError> {
    if kind & SKIPPABLE != 0 {
        return Ok(());
    }
    Err(DecodeError::UnknownParameter { kind, offset })
}

/// Appends a parameter without its padding.
pub(crate) fn encode_unpadded(w: &mut Writer<'_>, kind: u16, value: &[u8]) {
    w.u16(kind);
    w.u16(u16::try_from(HEADER_LEN + value.len()).unwrap_or(u16::MAX));
    w.bytes(value);
}

/// Bytes of the body that carries `info`: none if it is empty.
pub(crate) fn info_len(info: &[u8]) -> usize {
    if info.is_empty() { 0 } else { HEADER_LEN + info.len() }
}

/// Appends INFO as the whole body of a block, or nothing if it is empty.
pub(crate) fn encode_info(w: &mut Writer<'_>, info: &[u8]) {
    if !info.is_empty() {
        encode_unpadded(w, INFO, info);
    }
}

/// Reads a body that holds INFO, or nothing, or parameters that may be skipped.
pub(crate) fn decode_info<'a>(mut body: Reader<'a>) -> Result<&'a [u8], DecodeError> {
    let mut info = None;
    while let Some(mut parameter) = next_parameter(&mut body)? {
        match parameter.kind {
            INFO if info.is_some() => {
                return Err(DecodeError::DuplicateParameter { kind: INFO, offset: parameter.offset });
            }
            INFO => info = Some(parameter.value.rest()),
            kind => check_skippable(kind, parameter.offset)?,
        }
    }
    Ok(info.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info_of(body: &[u8]) -> Result<&[u8], DecodeError> {
        decode_info(Reader::within(Part::Block(2), 4, body))
    }

    // spec 2.10
    #[test]
    fn an_unknown_parameter_is_skipped_only_if_its_type_says_so() {
        assert_eq!(info_of(&[0x80, 1, 0, 5, 9, 0, 0, 0, 0, 0, 0, 6, 1, 2]), Ok(&[1, 2][..]));
        let expected = DecodeError::UnknownParameter { kind: 1, offset: 4 };
        assert_eq!(info_of(&[0, 1, 0, 4]), Err(expected));
    }

    #[test]
    fn a_second_info_is_refused() {
        let expected = DecodeError::DuplicateParameter { kind: INFO, offset: 8 };
        assert_eq!(info_of(&[0, 0, 0, 4, 0, 0, 0, 4]), Err(expected));
    }

    #[test]
    fn an_impossible_length_is_refused() {
        assert!(matches!(info_of(&[0, 0, 0, 3]), Err(DecodeError::OutOfRange { offset: 6, value: 3, .. })));
        assert!(matches!(info_of(&[0, 0, 0, 9, 1, 2, 3, 4]), Err(DecodeError::Truncated { needed: 5, .. })));
    }

    #[test]
    fn no_parameter_is_no_info() {
        assert_eq!(info_of(&[]), Ok(&[][..]));
    }
}
