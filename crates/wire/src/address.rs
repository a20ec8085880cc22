//! An address with its port as 18 bytes: port, then IPv6, with IPv4 as IPv4-mapped IPv6 (spec 2.11).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::decode_error::DecodeError;
use crate::reader::Reader;
use crate::writer::Writer;

/// Bytes of a port and an address.
pub(crate) const SOCKET_ADDRESS_LEN: usize = 18;

/// Appends port and address. Flow label and scope of an IPv6 address have a local meaning only and are not sent.
pub(crate) fn encode_socket_address(w: &mut Writer<'_>, address: SocketAddr) {
    w.u16(address.port());
    let ip = match address.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    w.bytes(&ip.octets());
}

/// Takes port and address, and makes an IPv4-mapped one IPv4 again.
pub(crate) fn decode_socket_address(reader: &mut Reader<'_>) -> Result<SocketAddr, DecodeError> {
    let port = reader.u16()?;
    let ip = Ipv6Addr::from(reader.array::<16>()?);
    Ok(SocketAddr::new(ip.to_canonical(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 2.11
    #[test]
    fn ipv4_travels_as_ipv4_mapped_ipv6() {
        let mut buffer = Vec::new();
        let address = "192.0.2.1:258".parse().unwrap();
        encode_socket_address(&mut Writer::new(&mut buffer, 18), address);
        assert_eq!(buffer, [1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1]);
        assert_eq!(buffer.len(), SOCKET_ADDRESS_LEN);
        assert_eq!(decode_socket_address(&mut Reader::new(&buffer)), Ok(address));
    }
}
