//! The parameters within blocks of MMSP/1 (spec 3.15, 3.16).

use super::ProbeData;
use crate::decode_error::DecodeError;
use crate::frame::padded;
use crate::parameter::{INFO, check_skippable, encode_unpadded, next_parameter};
use crate::reader::Reader;
use crate::writer::Writer;

/// Type of a list of IPv4 addresses.
pub(super) const IPV4_LIST: u16 = 0x0001;
/// Type of a list of IPv6 addresses.
pub(super) const IPV6_LIST: u16 = 0x0002;
/// Type of what a PROBE or a PROBE-ACK says for itself.
pub(super) const PROBE_DATA: u16 = 0x0010;
/// Type of the data of the PROBE that is answered.
pub(super) const PROBE_ECHO: u16 = 0x0011;

const HEADER_LEN: usize = 4;

/// The parameters of a block.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Parameters<'a> {
    pub(super) info: Option<&'a [u8]>,
    pub(super) ipv4: Option<&'a [[u8; 4]]>,
    pub(super) ipv6: Option<&'a [[u8; 16]]>,
    pub(super) probe: Option<ProbeData>,
    pub(super) echo: Option<ProbeData>,
    /// The first unknown one that may not be skipped.
    pub(super) unrecognised: Option<u16>,
}

impl<'a> Parameters<'a> {
    /// Reads a list. Types outside `known` are those of other blocks and count as unknown.
    pub(super) fn decode(mut list: Reader<'a>, known: &[u16]) -> Result<Self, DecodeError> {
        let mut found = Self::default();
        while let Some(parameter) = next_parameter(&mut list)? {
            let (kind, offset) = (parameter.kind, parameter.offset);
            if !known.contains(&kind) {
                if check_skippable(kind, offset).is_err() {
                    found.unrecognised.get_or_insert(kind);
                }
            } else if !found.take(kind, parameter.value)? {
                return Err(DecodeError::DuplicateParameter { kind, offset });
            }
        }
        Ok(found)
    }

    /// Takes a known parameter; false if it was there already.
    fn take(&mut self, kind: u16, mut value: Reader<'a>) -> Result<bool, DecodeError> {
        let is_first = match kind {
            INFO => self.info.replace(value.rest()).is_none(),
            IPV4_LIST => self.ipv4.replace(take_addresses(&mut value)?).is_none(),
            IPV6_LIST => self.ipv6.replace(take_addresses(&mut value)?).is_none(),
            PROBE_DATA => self.probe.replace(ProbeData::decode(&mut value)?).is_none(),
            PROBE_ECHO => self.echo.replace(ProbeData::decode(&mut value)?).is_none(),
            _ => true,
        };
        value.finish()?;
        Ok(is_first)
    }
}

fn take_addresses<'a, const N: usize>(value: &mut Reader<'a>) -> Result<&'a [[u8; N]], DecodeError> {
    let (offset, length) = (value.offset(), value.remaining());
    let (addresses, rest) = value.rest().as_chunks::<N>();
    if rest.is_empty() {
        return Ok(addresses);
    }
    Err(value.out_of_range(offset, "address list length", length as u64))
}

/// Bytes of a list of parameters or causes whose values have these lengths. The last one lacks its padding: that of the
/// block follows.
pub(super) fn list_len(values: impl Iterator<Item = usize>) -> usize {
    values.fold(0, longer)
}

/// Bytes of a list of `list_len` bytes with one more value of `value_len`.
pub(super) fn longer(list_len: usize, value_len: usize) -> usize {
    padded(list_len) + HEADER_LEN + value_len
}

/// Appends a list of parameters or causes.
pub(super) fn encode_list<'v>(w: &mut Writer<'_>, list: impl Iterator<Item = (u16, &'v [u8])>) {
    let mut len = 0;
    for (kind, value) in list {
        w.zeros(padded(len) - len);
        encode_unpadded(w, kind, value);
        len = longer(len, value.len());
    }
}
