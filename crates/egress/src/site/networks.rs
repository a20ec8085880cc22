//! Lists of addresses and networks on the wire.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::codec::{CodecError, Fields};
use crate::destination::{decode_ip, encode_ip};

pub(super) fn count(number: usize, out: &mut Vec<u8>) {
    out.push(u8::try_from(number).unwrap_or(u8::MAX));
}

pub(super) fn number(fields: &mut Fields<'_>, field: &'static str, most: usize) -> Result<u8, CodecError> {
    let number = fields.u8(field)?;
    if usize::from(number) > most {
        return Err(CodecError::Value { field, value: number.into() });
    }
    Ok(number)
}

/// At most one address of each family.
pub(super) fn of_two_families(addresses: impl Iterator<Item = IpAddr>) -> Result<(), CodecError> {
    let (v4, v6): (Vec<_>, Vec<_>) = addresses.partition(IpAddr::is_ipv4);
    if v4.len() > 1 || v6.len() > 1 {
        return Err(CodecError::Value { field: "family of an address", value: 2 });
    }
    Ok(())
}

pub(super) fn encode(networks: &[IpNet], out: &mut Vec<u8>) {
    count(networks.len(), out);
    networks.iter().for_each(|network| encode_prefix(*network, out));
}

pub(super) fn encode_prefix(network: IpNet, out: &mut Vec<u8>) {
    encode_ip(network.addr(), out);
    out.push(network.prefix_len());
}

pub(super) fn decode(fields: &mut Fields<'_>) -> Result<Vec<IpNet>, CodecError> {
    let mut networks = Vec::new();
    for _ in 0..number(fields, "number of networks", MOST)? {
        let network = decode_prefix(fields)?;
        if network != network.trunc() {
            return Err(CodecError::Value { field: "bits behind a network", value: 1 });
        }
        networks.push(network);
    }
    Ok(networks)
}

pub(super) fn decode_prefix(fields: &mut Fields<'_>) -> Result<IpNet, CodecError> {
    let kind = fields.u8("kind of address")?;
    let address = decode_ip(kind, fields)?;
    let length = fields.u8("length of a network")?;
    IpNet::new(address, length)
        .map_err(|_| CodecError::Value { field: "length of a network", value: length.into() })
}

/// Most networks of a list.
pub(super) const MOST: usize = 32;
/// Most addresses of an end: one of each family.
pub(super) const MOST_ADDRESSES: usize = 2;

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn net() -> impl Strategy<Value = IpNet> {
        (any::<IpAddr>(), 0..=128_u8).prop_map(|(address, length)| {
            let length = if address.is_ipv4() { length.min(32) } else { length };
            IpNet::new(address, length).unwrap().trunc()
        })
    }
}
