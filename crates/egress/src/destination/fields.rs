//! The fields of a destination in a frame.

use std::net::IpAddr;

use super::{Destination, Host, Name};
use crate::codec::{CodecError, Fields};

// The numbers of SOCKS5 (RFC 1928, section 5).
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;
/// SOCKS5 leaves it free.
const RESOLVER: u8 = 0;

impl Destination {
    // egress 2.2
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.port.to_be_bytes());
        match &self.host {
            Host::Ip(address) => encode_ip(*address, out),
            Host::Resolver => out.push(RESOLVER),
            Host::Name(name) => {
                out.push(NAME);
                // At most 253, which was checked.
                out.push(u8::try_from(name.0.len()).unwrap_or(u8::MAX));
                out.extend_from_slice(name.0.as_bytes());
            }
        }
    }

    pub(crate) fn decode(fields: &mut Fields<'_>) -> Result<Self, CodecError> {
        let port = fields.u16("port")?;
        let host = match fields.u8("kind of host")? {
            NAME => {
                let length = usize::from(fields.u8("length of a name")?);
                let bytes = fields.take("name", length)?;
                let text = std::str::from_utf8(bytes).map_err(|_| CodecError::NotText { field: "name" })?;
                Host::Name(Name::new(text)?)
            }
            RESOLVER => Host::Resolver,
            kind => Host::Ip(decode_ip(kind, fields)?),
        };
        Ok(Self::new(host, port)?)
    }
}

/// Appends the kind of an address and the address.
pub(crate) fn encode_ip(address: IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(v4) => {
            out.push(IPV4);
            out.extend_from_slice(&v4.octets());
        }
        IpAddr::V6(v6) => {
            out.push(IPV6);
            out.extend_from_slice(&v6.octets());
        }
    }
}

/// Reads an address whose kind was read already.
pub(crate) fn decode_ip(kind: u8, fields: &mut Fields<'_>) -> Result<IpAddr, CodecError> {
    match kind {
        IPV4 => Ok(IpAddr::from(fields.array::<4>("address")?)),
        IPV6 => Ok(IpAddr::from(fields.array::<16>("address")?)),
        kind => Err(CodecError::Value { field: "kind of host", value: kind.into() }),
    }
}
