//! What both ends tell each other before the first packet.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::answer::{Answer, Refusal};
use crate::codec::{CodecError, Fields};
use crate::destination::{decode_ip, encode_ip};
use crate::request::{HEADER, Header, VERSION};

/// What a client asks for.
// egress 11.1
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Joining {
    /// The addresses that it would like, those that it had before, at most one of each family.
    pub wanted: Vec<IpAddr>,
    /// Networks behind it, at most [`Self::MOST_NETWORKS`].
    pub networks: Vec<IpNet>,
}

/// What a client gets.
// egress 11.2
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Largest packet, in bytes, of both directions.
    pub mtu: u16,
    /// The client's addresses, at most one of each family, each with the length of the network that it is part of.
    pub addresses: Vec<IpNet>,
    /// Networks that the client reaches by this stream beside those of its addresses, at most
    /// [`Joining::MOST_NETWORKS`].
    pub networks: Vec<IpNet>,
}

impl Joining {
    /// Most networks that an end announces.
    pub const MOST_NETWORKS: usize = 32;

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        count(self.wanted.len(), out);
        self.wanted.iter().for_each(|address| encode_ip(*address, out));
        encode_networks(&self.networks, out);
    }

    pub(crate) fn decode(fields: &mut Fields<'_>) -> Result<Self, CodecError> {
        let mut wanted = Vec::new();
        for _ in 0..number(fields, "number of addresses", MOST_ADDRESSES)? {
            let kind = fields.u8("kind of address")?;
            wanted.push(decode_ip(kind, fields)?);
        }
        of_two_families(wanted.iter().copied())?;
        Ok(Self { wanted, networks: decode_networks(fields)? })
    }
}

impl Assignment {
    /// The least MTU of IPv6, and so of a site.
    pub const LEAST_MTU: u16 = 1280;

    /// Appends the frame of the answer.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut body = self.mtu.to_be_bytes().to_vec();
        count(self.addresses.len(), &mut body);
        self.addresses.iter().for_each(|address| encode_network(*address, &mut body));
        encode_networks(&self.networks, &mut body);
        Header { version: VERSION, kind: 0, length: body.len() }.encode(out);
        out.extend_from_slice(&body);
    }

    /// Reads a whole frame: an assignment or a refusal.
    ///
    /// # Errors
    /// As [`Answer::decode`].
    pub fn decode(frame: &[u8]) -> Result<Result<Self, Refusal>, CodecError> {
        let header = Header::decode(Fields::new(frame).array::<HEADER>("header")?)?;
        if header.kind != 0 || header.length == 0 || header.version != VERSION {
            return match Answer::decode(frame)? {
                Answer::Refused(refusal) => Ok(Err(refusal)),
                Answer::Done(_) => Err(CodecError::Truncated { field: "MTU", needed: 2, left: 0 }),
            };
        }
        let mut fields = Fields::new(frame.get(HEADER..).unwrap_or_default());
        let body = fields.take("body", header.length)?;
        fields.finish()?;
        let mut fields = Fields::new(body);
        let mtu = fields.u16("MTU")?;
        if mtu < Self::LEAST_MTU {
            return Err(CodecError::Value { field: "MTU", value: mtu.into() });
        }
        let mut addresses = Vec::new();
        for _ in 0..number(&mut fields, "number of addresses", MOST_ADDRESSES)? {
            addresses.push(decode_prefix(&mut fields)?);
        }
        of_two_families(addresses.iter().map(IpNet::addr))?;
        let networks = decode_networks(&mut fields)?;
        fields.finish()?;
        Ok(Ok(Self { mtu, addresses, networks }))
    }
}

fn count(number: usize, out: &mut Vec<u8>) {
    out.push(u8::try_from(number).unwrap_or(u8::MAX));
}

fn number(fields: &mut Fields<'_>, field: &'static str, most: usize) -> Result<u8, CodecError> {
    let number = fields.u8(field)?;
    if usize::from(number) > most {
        return Err(CodecError::Value { field, value: number.into() });
    }
    Ok(number)
}

/// At most one address of each family.
fn of_two_families(addresses: impl Iterator<Item = IpAddr>) -> Result<(), CodecError> {
    let (v4, v6): (Vec<_>, Vec<_>) = addresses.partition(IpAddr::is_ipv4);
    if v4.len() > 1 || v6.len() > 1 {
        return Err(CodecError::Value { field: "family of an address", value: 2 });
    }
    Ok(())
}

fn encode_networks(networks: &[IpNet], out: &mut Vec<u8>) {
    count(networks.len(), out);
    networks.iter().for_each(|network| encode_network(*network, out));
}

fn encode_network(network: IpNet, out: &mut Vec<u8>) {
    encode_ip(network.addr(), out);
    out.push(network.prefix_len());
}

fn decode_networks(fields: &mut Fields<'_>) -> Result<Vec<IpNet>, CodecError> {
    let mut networks = Vec::new();
    for _ in 0..number(fields, "number of networks", Joining::MOST_NETWORKS)? {
        let network = decode_prefix(fields)?;
        if network != network.trunc() {
            return Err(CodecError::Value { field: "bits behind a network", value: 1 });
        }
        networks.push(network);
    }
    Ok(networks)
}

fn decode_prefix(fields: &mut Fields<'_>) -> Result<IpNet, CodecError> {
    let kind = fields.u8("kind of address")?;
    let address = decode_ip(kind, fields)?;
    let length = fields.u8("length of a network")?;
    IpNet::new(address, length)
        .map_err(|_| CodecError::Value { field: "length of a network", value: length.into() })
}

/// One of each family.
const MOST_ADDRESSES: usize = 2;

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::answer::Reason;

    fn net() -> impl Strategy<Value = IpNet> {
        (any::<IpAddr>(), 0..=128_u8).prop_map(|(address, length)| {
            let length = if address.is_ipv4() { length.min(32) } else { length };
            IpNet::new(address, length).unwrap().trunc()
        })
    }

    pub(crate) fn joining() -> impl Strategy<Value = Joining> {
        let wanted =
            (prop::option::of(any::<std::net::Ipv4Addr>()), prop::option::of(any::<std::net::Ipv6Addr>()));
        (wanted, prop::collection::vec(net(), 0..=Joining::MOST_NETWORKS)).prop_map(|((v4, v6), networks)| {
            let wanted = v4.map(IpAddr::from).into_iter().chain(v6.map(IpAddr::from)).collect();
            Joining { wanted, networks }
        })
    }

    fn assigned(assignment: &Assignment) -> Vec<u8> {
        let mut out = Vec::new();
        assignment.encode(&mut out);
        out
    }

    // egress 11.2
    #[test]
    fn an_assignment_has_the_bytes_of_the_specification_and_a_refusal_is_read_instead() {
        let assignment = Assignment {
            mtu: 1400,
            addresses: vec!["10.99.0.2/24".parse().unwrap()],
            networks: vec!["192.168.9.0/24".parse().unwrap()],
        };
        let bytes =
            [&[0x45, 1, 0, 0, 16, 0x05, 0x78][..], &[1, 1, 10, 99, 0, 2, 24], &[1, 1, 192, 168, 9, 0, 24]];
        assert_eq!(assigned(&assignment), bytes.concat());
        let mut refused = Vec::new();
        let refusal = Refusal::with_text(Reason::Forbidden, "no");
        Answer::Refused(refusal.clone()).encode(&mut refused);
        assert_eq!(Assignment::decode(&refused), Ok(Err(refusal)));
    }

    #[test]
    fn lengths_counts_and_sizes_out_of_range_are_refused() {
        let body = |body: &[u8]| [&[0x45, 1, 0, 0, u8::try_from(body.len()).unwrap()], body].concat();
        for wrong in [
            &[][..],
            &[0x04, 0xff, 0, 0],                                   // an MTU of 1279
            &[5, 0, 1, 1, 10, 0, 0, 1, 33, 0],                     // 33 bits of IPv4
            &[5, 0, 0, 1, 1, 10, 0, 0, 1, 24],                     // bits behind the network
            &[5, 0, 2, 1, 10, 0, 0, 1, 24, 1, 10, 0, 0, 2, 24, 0], // two of a family
            &[5, 0, 3, 1, 10, 0, 0, 1, 24],                        // three addresses
            &[5, 0, 0, 33],                                        // 33 networks
            &[5, 0, 0, 0, 0],                                      // a byte too many
        ] {
            assert!(Assignment::decode(&body(wrong)).is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn every_assignment_survives_its_encoding(
            mtu in Assignment::LEAST_MTU..,
            address in net(),
            networks in prop::collection::vec(net(), 0..=Joining::MOST_NETWORKS),
        ) {
            let assignment = Assignment { mtu, addresses: vec![address], networks };
            prop_assert_eq!(Assignment::decode(&assigned(&assignment)), Ok(Ok(assignment)));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            drop(Assignment::decode(&bytes));
        }
    }
}
