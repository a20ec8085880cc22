//! A datagram of a flow in a message.

use bytes::Bytes;

use crate::codec::{CodecError, Fields};
use crate::destination::Destination;

/// The payload protocol of messages with a datagram.
// egress 8.2
pub(crate) const DATAGRAM: u32 = 0;
/// The payload protocol of messages with a frame.
pub(crate) const FRAME: u32 = 0x45;

/// A datagram, and where it goes or comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datagram {
    /// Its place in its direction of the flow, from 0, modulo 2³².
    pub number: u32,
    /// The other end; `None` is the destination that the flow was opened for.
    pub address: Option<Destination>,
    /// Its payload, at most 65 507 bytes.
    pub payload: Bytes,
}

impl Datagram {
    /// The message that carries a datagram.
    // egress 8.4
    pub fn encode(number: u32, address: Option<&Destination>, payload: &[u8]) -> Bytes {
        let mut bytes = Vec::with_capacity(payload.len() + USUAL_OVERHEAD);
        bytes.push(if address.is_none() { OF_FLOW } else { OF_ITS_OWN });
        bytes.extend_from_slice(&number.to_be_bytes());
        if let Some(address) = address {
            address.encode(&mut bytes);
        }
        bytes.extend_from_slice(payload);
        bytes.into()
    }

    /// Reads a message.
    ///
    /// # Errors
    /// It holds no datagram.
    pub fn decode(message: &Bytes) -> Result<Self, CodecError> {
        let mut fields = Fields::new(message);
        let form = fields.u8("form of a datagram")?;
        let number = u32::from_be_bytes(fields.array("number of a datagram")?);
        let address = match form {
            OF_FLOW => None,
            OF_ITS_OWN => Some(Destination::decode(&mut fields)?),
            form => return Err(CodecError::Value { field: "form of a datagram", value: form.into() }),
        };
        let payload = fields.rest();
        if payload.len() > MAX_PAYLOAD {
            return Err(CodecError::TooLong { length: payload.len(), limit: MAX_PAYLOAD });
        }
        Ok(Self { number, address, payload: message.slice_ref(payload) })
    }
}

const OF_FLOW: u8 = 0;
const OF_ITS_OWN: u8 = 1;
/// Form, number, port, kind and an IPv6 address.
const USUAL_OVERHEAD: usize = 24;
/// Most bytes that a datagram of UDP over IPv4 holds.
const MAX_PAYLOAD: usize = 65_507;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::destination::any_destination;

    // egress 8.4
    #[test]
    fn datagrams_have_the_bytes_of_the_specification() {
        assert_eq!(Datagram::encode(7, None, b"hi")[..], [0, 0, 0, 0, 7, b'h', b'i']);
        let address = Destination::parse("192.0.2.7", 53).unwrap();
        assert_eq!(
            Datagram::encode(7, Some(&address), b"hi")[..],
            [1, 0, 0, 0, 7, 0, 53, 1, 192, 0, 2, 7, b'h', b'i']
        );
    }

    #[test]
    fn other_forms_and_payloads_that_udp_cannot_carry_are_refused() {
        for wrong in [&[][..], &[0, 0, 0, 0], &[2, 0, 0, 0, 0, 1], &[1, 0, 0, 0, 0, 0, 53, 9, 1, 1, 1, 1]] {
            assert!(Datagram::decode(&Bytes::copy_from_slice(wrong)).is_err(), "{wrong:?}");
        }
        let limit = Datagram::encode(0, None, &vec![0; MAX_PAYLOAD]);
        assert_eq!(Datagram::decode(&limit).unwrap().payload.len(), MAX_PAYLOAD);
        assert!(Datagram::decode(&Datagram::encode(0, None, &vec![0; MAX_PAYLOAD + 1])).is_err());
    }

    proptest! {
        #[test]
        fn every_datagram_survives_its_encoding(
            number in any::<u32>(),
            address in prop::option::of(any_destination()),
            payload in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let decoded = Datagram::decode(&Datagram::encode(number, address.as_ref(), &payload)).unwrap();
            prop_assert_eq!(decoded, Datagram { number, address, payload: payload.into() });
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            drop(Datagram::decode(&bytes.into()));
        }
    }
}
