//! The first frame of a stream: the request of its opener.

use std::net::SocketAddr;

use crate::codec::{CodecError, Fields};
use crate::destination::{Destination, decode_ip, encode_ip};
use crate::site::Joining;
use crate::treatment::Treatment;

/// The first byte of every stream of this protocol.
// egress 1.1
pub const PROTOCOL: u8 = 0x45;
/// The version of the protocol that this crate speaks.
pub const VERSION: u8 = 1;
/// Bytes before the body of a frame.
pub(crate) const HEADER: usize = 5;
/// Most bytes of a body.
// egress 1.3
pub(crate) const BODY_LIMIT: usize = 1024;

/// The request of the opener of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Request {
    /// Asks whether the server carries connections of clients at all.
    Check,
    /// A TCP connection.
    Connect(Destination),
    /// A flow: to this destination, and to those that datagrams name themselves.
    Flow(FlowKind, Option<Destination>),
    /// How the request that follows is treated.
    Treatment(Treatment),
    /// A listener at the server, whose connections come back with its number.
    Listen {
        /// Chosen by the client.
        number: u16,
        /// Where the server listens; port 0 leaves it to the server.
        address: SocketAddr,
    },
    /// A connection to a listener: the server asks the client.
    Incoming {
        /// The number of the listener.
        number: u16,
        /// Who connected.
        peer: SocketAddr,
    },
    /// A place at the server's network, and the packets of this client.
    Packets(Joining),
}

/// What a flow carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowKind {
    /// Datagrams of UDP.
    Udp,
    /// Echo requests of ICMP and their replies: the sequence number, two bytes, and the data. Ports mean nothing.
    Echo,
}

impl FlowKind {
    /// The port that the destinations of echo requests have on the wire (RFC 862).
    // egress 10.2
    pub const ECHO_PORT: u16 = 7;

    /// The port of a destination for the rules and the sockets of a flow: 0 where there are no ports.
    pub(crate) fn port_of(self, destination: &Destination) -> u16 {
        match self {
            Self::Udp => destination.port(),
            Self::Echo => 0,
        }
    }
}

/// The fields at the beginning of both kinds of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) version: u8,
    /// The request, or the outcome.
    pub(crate) kind: u8,
    pub(crate) length: usize,
}

impl Header {
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        let length = u16::try_from(self.length).unwrap_or(u16::MAX);
        out.extend_from_slice(&[PROTOCOL, self.version, self.kind]);
        out.extend_from_slice(&length.to_be_bytes());
    }

    pub(crate) fn decode(bytes: [u8; HEADER]) -> Result<Self, CodecError> {
        let [protocol, version, kind, high, low] = bytes;
        if protocol != PROTOCOL {
            return Err(CodecError::Value { field: "protocol", value: protocol.into() });
        }
        let length = usize::from(u16::from_be_bytes([high, low]));
        if length > BODY_LIMIT {
            return Err(CodecError::TooLong { length, limit: BODY_LIMIT });
        }
        Ok(Self { version, kind, length })
    }
}

/// The unknown part of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unknown {
    /// A version.
    Version(u8),
    /// A kind of request.
    Request(u8),
}

impl Request {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut body = Vec::new();
        let kind = match self {
            Self::Connect(destination) => {
                destination.encode(&mut body);
                CONNECT
            }
            Self::Flow(kind, destination) => {
                if let Some(destination) = destination {
                    destination.encode(&mut body);
                }
                match kind {
                    FlowKind::Udp => FLOW,
                    FlowKind::Echo => ECHO,
                }
            }
            Self::Listen { number, address } | Self::Incoming { number, peer: address } => {
                body.extend_from_slice(&number.to_be_bytes());
                encode_ip(address.ip(), &mut body);
                body.extend_from_slice(&address.port().to_be_bytes());
                if matches!(self, Self::Listen { .. }) { LISTEN } else { INCOMING }
            }
            Self::Check => CHECK,
            Self::Treatment(treatment) => {
                treatment.encode(&mut body);
                TREATMENT
            }
            Self::Packets(joining) => {
                joining.encode(&mut body);
                PACKETS
            }
        };
        Header { version: VERSION, kind, length: body.len() }.encode(out);
        out.extend_from_slice(&body);
    }

    /// Reads a whole frame. The outer error is a malformed frame, the inner one an unknown version or request.
    ///
    /// # Errors
    /// If the bytes are not exactly one frame.
    pub fn decode(frame: &[u8]) -> Result<Result<Self, Unknown>, CodecError> {
        let mut fields = Fields::new(frame);
        let header = Header::decode(fields.array("header")?)?;
        let body = fields.rest();
        if body.len() < header.length {
            return Err(CodecError::Truncated { field: "body", needed: header.length, left: body.len() });
        }
        if body.len() > header.length {
            return Err(CodecError::Trailing { left: body.len() - header.length });
        }
        Self::decode_body(header, body)
    }

    // egress 1.4: version and request are read before anything else
    pub(crate) fn decode_body(header: Header, body: &[u8]) -> Result<Result<Self, Unknown>, CodecError> {
        if header.version != VERSION {
            return Ok(Err(Unknown::Version(header.version)));
        }
        let mut fields = Fields::new(body);
        let request = match header.kind {
            CONNECT => Self::Connect(Destination::decode(&mut fields)?),
            CHECK => Self::Check,
            FLOW => Self::Flow(FlowKind::Udp, usual(&mut fields)?),
            ECHO => Self::Flow(FlowKind::Echo, usual(&mut fields)?),
            TREATMENT => Self::Treatment(Treatment::decode(&mut fields)?),
            LISTEN => {
                let (number, address) = numbered(&mut fields)?;
                Self::Listen { number, address }
            }
            INCOMING => {
                let (number, peer) = numbered(&mut fields)?;
                Self::Incoming { number, peer }
            }
            PACKETS => Self::Packets(Joining::decode(&mut fields)?),
            kind => return Ok(Err(Unknown::Request(kind))),
        };
        fields.finish()?;
        Ok(Ok(request))
    }
}

/// The destination of a flow, if it has one.
fn usual(fields: &mut Fields<'_>) -> Result<Option<Destination>, CodecError> {
    if fields.finish().is_ok() { Ok(None) } else { Destination::decode(fields).map(Some) }
}

/// A number and an address with its port.
fn numbered(fields: &mut Fields<'_>) -> Result<(u16, SocketAddr), CodecError> {
    let number = fields.u16("number of a listener")?;
    let kind = fields.u8("kind of address")?;
    let ip = decode_ip(kind, fields)?;
    Ok((number, SocketAddr::new(ip, fields.u16("port")?)))
}

const CONNECT: u8 = 1;
const CHECK: u8 = 2;
const FLOW: u8 = 3;
const LISTEN: u8 = 4;
const INCOMING: u8 = 5;
const ECHO: u8 = 6;
const TREATMENT: u8 = 7;
const PACKETS: u8 = 8;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use manyway_session::Urgency;
    use proptest::prelude::*;

    use super::*;
    use crate::destination::{Host, any_destination as destination};
    use crate::site::any_joining as joining;

    fn encoded(request: &Request) -> Vec<u8> {
        let mut out = Vec::new();
        request.encode(&mut out);
        out
    }

    // egress 2.1, 2.2
    #[test]
    fn requests_have_the_bytes_of_the_specification() {
        let connect = |host, port| encoded(&Request::Connect(Destination::parse(host, port).unwrap()));
        assert_eq!(connect("192.0.2.7", 443), [0x45, 1, 1, 0, 7, 1, 0xbb, 1, 192, 0, 2, 7]);
        assert_eq!(
            connect("2001:db8::1", 22),
            [&[0x45, 1, 1, 0, 19, 0, 22, 4, 0x20, 1, 0x0d, 0xb8][..], &[0; 11], &[1]].concat()
        );
        assert_eq!(
            connect("example.org", 80),
            [&[0x45, 1, 1, 0, 15, 0, 80, 3, 11][..], b"example.org"].concat()
        );
        assert_eq!(encoded(&Request::Check), [0x45, 1, 2, 0, 0]);
        assert_eq!(encoded(&Request::Flow(FlowKind::Udp, None)), [0x45, 1, 3, 0, 0]);
        assert_eq!(encoded(&Request::Flow(FlowKind::Echo, None)), [0x45, 1, 6, 0, 0]);
        let treatment =
            Treatment { class: Some(Urgency::Deadline), lifetime: Some(Duration::from_millis(150)) };
        assert_eq!(encoded(&Request::Treatment(treatment)), [0x45, 1, 7, 0, 3, 2, 0, 150]);
        let address = "192.0.2.7:8080".parse().unwrap();
        assert_eq!(
            encoded(&Request::Listen { number: 1, address }),
            [0x45, 1, 4, 0, 9, 0, 1, 1, 192, 0, 2, 7, 0x1f, 0x90]
        );
        assert_eq!(encoded(&Request::Incoming { number: 1, peer: address })[2], 5);
        let networks = vec!["192.168.5.0/24".parse().unwrap()];
        assert_eq!(
            encoded(&Request::Packets(Joining { wanted: Vec::new(), networks })),
            [0x45, 1, 8, 0, 8, 0, 1, 1, 192, 168, 5, 0, 24]
        );
        let resolver = Destination::new(Host::Resolver, 53).unwrap();
        assert_eq!(encoded(&Request::Flow(FlowKind::Udp, Some(resolver))), [0x45, 1, 3, 0, 3, 0, 53, 0]);
    }

    // egress 1.4
    #[test]
    fn a_request_of_another_version_or_kind_is_recognised() {
        let decoded = |bytes: &[u8]| Request::decode(bytes).unwrap().unwrap_err();
        assert_eq!(decoded(&[0x45, 9, 1, 0, 2, 1, 2]), Unknown::Version(9));
        assert_eq!(decoded(&[0x45, 1, 77, 0, 2, 1, 2]), Unknown::Request(77));
    }

    // egress 1.3, 2.2
    #[test]
    fn wrong_lengths_names_and_ports_are_refused() {
        for wrong in [
            &[0x45, 1, 2, 0, 1, 0][..],                    // a field too many
            &[0x45, 1, 2, 4, 1],                           // a body of 1025 bytes
            &[0x45, 1, 1, 0, 7, 0, 0, 1, 192, 0, 2, 7],    // port 0
            &[0x45, 1, 1, 0, 7, 1, 0xbb, 2, 192, 0, 2, 7], // no kind of host
            &[0x45, 1, 1, 0, 4, 0, 80, 3, 0],              // an empty name
            &[0x45, 1, 1, 0, 5, 0, 80, 3, 1, b'/'],        // not a name
            &[0x45, 1, 1, 0, 6, 0, 80, 3, 1, b'a', b'b'],  // a name and more
            &[0x45, 1, 1, 0, 5, 0, 80, 3, 2, b'a'],        // less than a name
            &[0x01, 1, 2, 0, 0],                           // another protocol
            &[0x45, 1, 8, 0, 1, 0],                        // packets without a number of networks
            &[0x45, 1, 8, 0, 2, 0, 33],                    // 33 networks
            &[0x45, 1, 8, 0, 8, 0, 1, 1, 10, 1, 0, 1, 24], // a network with bits behind it
        ] {
            assert!(Request::decode(wrong).is_err(), "{wrong:?}");
        }
    }

    fn request() -> impl Strategy<Value = Request> {
        let kind = prop_oneof![Just(FlowKind::Udp), Just(FlowKind::Echo)];
        let flow = (kind, prop::option::of(destination())).prop_map(|(kind, to)| Request::Flow(kind, to));
        let connect = destination().prop_map(Request::Connect);
        let numbered =
            (any::<u16>(), any::<SocketAddr>(), any::<bool>()).prop_map(|(number, address, is_incoming)| {
                if is_incoming {
                    Request::Incoming { number, peer: SocketAddr::new(address.ip(), address.port()) }
                } else {
                    Request::Listen { number, address: SocketAddr::new(address.ip(), address.port()) }
                }
            });
        let class = prop::option::of(prop::sample::select(vec![
            Urgency::Interactive,
            Urgency::Deadline,
            Urgency::Bulk,
        ]));
        let lifetime = prop::option::of((1..=u16::MAX).prop_map(|it| Duration::from_millis(it.into())));
        let treatment =
            (class, lifetime).prop_map(|(class, lifetime)| Request::Treatment(Treatment { class, lifetime }));
        let packets = joining().prop_map(Request::Packets);
        prop_oneof![numbered, connect, flow, treatment, packets, Just(Request::Check)]
    }

    proptest! {
        #[test]
        fn every_request_survives_its_encoding(request in request()) {
            prop_assert_eq!(Request::decode(&encoded(&request)), Ok(Ok(request)));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic_and_have_one_encoding(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(Ok(request)) = Request::decode(&bytes) {
                // Names are written in lower case.
                prop_assert!(encoded(&request).eq_ignore_ascii_case(&bytes));
            }
        }
    }
}
