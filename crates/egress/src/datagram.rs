//! A datagram of a flow in a message.

use bytes::Bytes;

use crate::answer::Reason;
use crate::codec::{CodecError, Fields};
use crate::destination::Destination;
use crate::order::Numbered;

/// The payload protocol of messages with a datagram.
// egress 8.2
pub(crate) const DATAGRAM: u32 = 0;
/// The payload protocol of messages with a frame.
pub(crate) const FRAME: u32 = 0x45;

/// A datagram, and where it goes or comes from; or an error about one that was sent there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datagram {
    /// Its place in its direction of the flow, from 0, modulo 2³².
    pub number: u32,
    /// The other end; `None` is the destination that the flow was opened for.
    pub address: Option<Destination>,
    /// Why a datagram to `address` did not arrive; `None` if this is a datagram itself.
    pub error: Option<Reason>,
    /// Its payload, at most 65 535 bytes. Of an error the beginning of the payload that the error is about, at most
    /// [`Self::MAX_QUOTE`] bytes.
    pub payload: Bytes,
}

impl Numbered for Datagram {
    fn number(&self) -> u32 {
        self.number
    }

    fn size(&self) -> usize {
        self.payload.len()
    }
}

impl Datagram {
    /// Most bytes of a payload that an error quotes.
    pub const MAX_QUOTE: usize = 8;

    /// The message that carries a datagram.
    // egress 8.4
    pub fn encode(number: u32, address: Option<&Destination>, payload: &[u8]) -> Bytes {
        Self::compose((number, address, None), payload)
    }

    /// The message that carries an error about a datagram whose payload began with `quote`.
    // egress 8.9
    pub fn encode_error(number: u32, address: Option<&Destination>, error: Reason, quote: &[u8]) -> Bytes {
        Self::compose((number, address, Some(error)), quote)
    }

    fn compose(
        (number, address, error): (u32, Option<&Destination>, Option<Reason>),
        payload: &[u8],
    ) -> Bytes {
        let mut bytes = Vec::with_capacity(payload.len() + USUAL_OVERHEAD);
        let has_destination = if address.is_some() { HAS_DESTINATION } else { 0 };
        bytes.push(has_destination | if error.is_some() { ERROR } else { 0 });
        bytes.extend_from_slice(&number.to_be_bytes());
        if let Some(address) = address {
            address.encode(&mut bytes);
        }
        bytes.extend(error.map(Reason::code));
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
        if form > (HAS_DESTINATION | ERROR) {
            return Err(CodecError::Value { field: "form of a datagram", value: form.into() });
        }
        let has_destination = form & HAS_DESTINATION != 0;
        let address = has_destination.then(|| Destination::decode(&mut fields)).transpose()?;
        let error = (form & ERROR != 0).then(|| fields.u8("reason of an error")).transpose()?;
        if error == Some(0) {
            return Err(CodecError::Value { field: "reason of an error", value: 0 });
        }
        let payload = fields.rest();
        let limit = if error.is_some() { Self::MAX_QUOTE } else { MAX_PAYLOAD };
        if payload.len() > limit {
            return Err(CodecError::TooLong { length: payload.len(), limit });
        }
        let error = error.map(Reason::from_code);
        Ok(Self { number, address, error, payload: message.slice_ref(payload) })
    }
}

// Bits of the form.
const HAS_DESTINATION: u8 = 1;
const ERROR: u8 = 2;
/// Form, number, port, kind and an IPv6 address.
const USUAL_OVERHEAD: usize = 24;
/// No packet holds more.
const MAX_PAYLOAD: usize = 65_535;

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
        assert_eq!(Datagram::encode_error(7, None, Reason::Refused, b"")[..], [2, 0, 0, 0, 7, 2]);
        assert_eq!(
            Datagram::encode_error(7, Some(&address), Reason::HostUnreachable, &[0, 9])[..],
            [3, 0, 0, 0, 7, 0, 53, 1, 192, 0, 2, 7, 4, 0, 9]
        );
    }

    #[test]
    fn other_forms_and_payloads_that_no_packet_carries_are_refused() {
        for wrong in [
            &[][..],
            &[0, 0, 0, 0],
            &[4, 0, 0, 0, 0, 1],
            &[1, 0, 0, 0, 0, 0, 53, 9, 1, 1, 1, 1],
            &[2, 0, 0, 0, 0],
            &[2, 0, 0, 0, 0, 0],
            &[2, 0, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        ] {
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
            reason in prop::sample::select(Reason::ALL.to_vec()),
        ) {
            let decoded = Datagram::decode(&Datagram::encode(number, address.as_ref(), &payload)).unwrap();
            let quote = payload[..payload.len().min(Datagram::MAX_QUOTE)].to_vec();
            let error = Datagram::encode_error(number, address.as_ref(), reason, &quote);
            let expected = Datagram { number, address, error: None, payload: payload.into() };
            prop_assert_eq!(&decoded, &expected);
            let expected = Datagram { error: Some(reason), payload: quote.into(), ..expected };
            prop_assert_eq!(Datagram::decode(&error).unwrap(), expected);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            drop(Datagram::decode(&bytes.into()));
        }
    }
}
