//! What a client of a network gets.

use ipnet::IpNet;

use super::networks::{self, count, number};
use crate::answer::{Answer, Refusal};
use crate::codec::{CodecError, Fields};
use crate::request::{HEADER, Header, VERSION};

/// What a client gets.
// egress 11.2
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Largest packet, in bytes, of both directions.
    pub mtu: u16,
    /// The client's addresses, at most one of each family, each with the length of the network that it is part of.
    pub addresses: Vec<IpNet>,
    /// Networks that the client reaches by this stream beside those of its addresses, at most
    /// [`Joining::MOST_NETWORKS`](crate::Joining::MOST_NETWORKS).
    pub networks: Vec<IpNet>,
}

impl Assignment {
    /// The least MTU of IPv6, and so of a site.
    pub const LEAST_MTU: u16 = 1280;

    /// Appends the frame of the answer.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut body = self.mtu.to_be_bytes().to_vec();
        count(self.addresses.len(), &mut body);
        self.addresses.iter().for_each(|address| networks::encode_prefix(*address, &mut body));
        networks::encode(&self.networks, &mut body);
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
        for _ in 0..number(&mut fields, "number of addresses", networks::MOST_ADDRESSES)? {
            addresses.push(networks::decode_prefix(&mut fields)?);
        }
        networks::of_two_families(addresses.iter().map(IpNet::addr))?;
        let networks = networks::decode(&mut fields)?;
        fields.finish()?;
        Ok(Ok(Self { mtu, addresses, networks }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::answer::Reason;
    use crate::site::networks::tests::net;

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
            networks in prop::collection::vec(net(), 0..=networks::MOST),
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
