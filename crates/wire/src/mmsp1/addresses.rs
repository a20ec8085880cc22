//! The addresses that SYN and SYN-ACK name (spec 3.17, 3.18).
//!
//! ```text
//! thesis's list       | IPv4 address 32 | …                one for each outgoing stream, 0.0.0.0 fills up
//! parameter 0x0001    | type 16 | length 16 | IPv4 address 32 | …
//! parameter 0x0002    | type 16 | length 16 | IPv6 address 128 | …
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::parameters::{IPV4_LIST, IPV6_LIST, Parameters};
use crate::decode_error::DecodeError;
use crate::reader::Reader;

const FILLER: [u8; 4] = [0; 4];

/// Addresses of the sender of a SYN or SYN-ACK, in network byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Addresses<'a> {
    /// The list of the thesis. The encoder fills it up to one entry for each outgoing stream, the decoder takes the
    /// filler at its end away.
    pub listed: &'a [[u8; 4]],
    /// The list of parameter 0x0001.
    pub ipv4: &'a [[u8; 4]],
    /// The list of parameter 0x0002.
    pub ipv6: &'a [[u8; 16]],
}

impl<'a> Addresses<'a> {
    /// Most entries of the thesis's list; with more outgoing streams there is none.
    pub const MAX_LISTED: usize = 256;

    /// Every address, in the order of the lists, without filler. An address may stand in two lists.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> + Clone + use<'a> {
        let v4 = self.listed.iter().chain(self.ipv4).filter(|octets| **octets != FILLER);
        let v6 = self.ipv6.iter().map(|octets| IpAddr::V6(Ipv6Addr::from(*octets)));
        v4.map(|octets| IpAddr::V4(Ipv4Addr::from(*octets))).chain(v6)
    }

    /// Reads what stands behind the fixed fields of a SYN or SYN-ACK: the list, if there is one, and parameters of the
    /// types `known`, of which `first` comes first.
    ///
    /// Nothing on the wire tells whether there is a list. Read `outgoing` entries, then none; the first reading counts
    /// in which no entry lies in 0.0.0.0/8 but the filler, and in which the rest consists of parameters (spec 3.18).
    pub(super) fn decode(
        body: Reader<'a>,
        outgoing: u16,
        known: &[u16],
        first: Option<u16>,
    ) -> Result<(Self, Parameters<'a>), DecodeError> {
        let (offset, length) = (body.offset(), body.remaining());
        let mut error = body.out_of_range(offset, "address list length", length as u64);
        let entries = Some(usize::from(outgoing)).filter(|entries| *entries <= Self::MAX_LISTED);
        for count in [entries, Some(0)].into_iter().flatten() {
            let mut rest = body.clone();
            let Some(listed) = take_list(&mut rest, count) else { continue };
            let Ok(parameters) = Parameters::decode(rest.clone(), known) else { continue };
            if let Some(kind) = first.filter(|kind| rest.u16() != Ok(*kind)) {
                error = DecodeError::MissingParameter { kind };
                continue;
            }
            let (ipv4, ipv6) = (parameters.ipv4.unwrap_or_default(), parameters.ipv6.unwrap_or_default());
            return Ok((Self { listed: without_filler(listed), ipv4, ipv6 }, parameters));
        }
        Err(error)
    }

    /// The entries of the thesis's list on the wire: none if there is nothing to say and `always` does not ask for it.
    pub(super) fn entries(&self, outgoing: u16, always: bool) -> impl Iterator<Item = &'a [u8; 4]> + use<'a> {
        let entries = usize::from(outgoing);
        let is_wanted = always || !self.listed.is_empty();
        let count = if is_wanted && entries <= Self::MAX_LISTED { entries } else { 0 };
        self.listed.iter().chain(std::iter::repeat(&FILLER)).take(count)
    }

    /// The lists in parameters, with the types of the parameters.
    pub(super) fn parameters(&self) -> impl Iterator<Item = (u16, &'a [u8])> + Clone + use<'a> {
        let lists = [(IPV4_LIST, self.ipv4.as_flattened()), (IPV6_LIST, self.ipv6.as_flattened())];
        lists.into_iter().filter(|(_, bytes)| !bytes.is_empty())
    }
}

fn take_list<'a>(body: &mut Reader<'a>, count: usize) -> Option<&'a [[u8; 4]]> {
    let (list, _) = body.bytes(4 * count).ok()?.as_chunks::<4>();
    list.iter().all(|octets| octets[0] != 0 || *octets == FILLER).then_some(list)
}

fn without_filler(list: &[[u8; 4]]) -> &[[u8; 4]] {
    let end = list.iter().rposition(|octets| *octets != FILLER).map_or(0, |last| last + 1);
    list.get(..end).unwrap_or_default()
}
