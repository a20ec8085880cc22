//! The answer of the server's end.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use crate::codec::{CodecError, Fields};
use crate::destination::{decode_ip, encode_ip};
use crate::request::{Header, VERSION};

/// Why a connection was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// None of the others.
    Other,
    /// The destination refused the connection.
    Refused,
    /// No route leads to the destination's network.
    NetworkUnreachable,
    /// The destination is not reachable.
    HostUnreachable,
    /// The destination did not answer in time.
    TimedOut,
    /// The rules of the server forbid the destination.
    Forbidden,
    /// There is no such name.
    NameNotFound,
    /// The name server did not answer, or not in time.
    LookupFailed,
    /// The server carries no connections of clients.
    NotEnabled,
    /// Too many parallel connections.
    TooMany,
    /// A version or request that the server does not know.
    Unsupported,
    /// The server could not decode the request.
    Malformed,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Other,
        Self::Refused,
        Self::NetworkUnreachable,
        Self::HostUnreachable,
        Self::TimedOut,
        Self::Forbidden,
        Self::NameNotFound,
        Self::LookupFailed,
        Self::NotEnabled,
        Self::TooMany,
        Self::Unsupported,
        Self::Malformed,
    ];

    // egress 3.2
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Other => 1,
            Self::Refused => 2,
            Self::NetworkUnreachable => 3,
            Self::HostUnreachable => 4,
            Self::TimedOut => 5,
            Self::Forbidden => 6,
            Self::NameNotFound => 7,
            Self::LookupFailed => 8,
            Self::NotEnabled => 9,
            Self::TooMany => 10,
            Self::Unsupported => 11,
            Self::Malformed => 12,
        }
    }

    /// An unknown code is [`Reason::Other`].
    pub(crate) fn from_code(code: u8) -> Self {
        Self::ALL.into_iter().find(|reason| reason.code() == code).unwrap_or(Self::Other)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Other => "the server could not connect",
            Self::Refused => "connection refused",
            Self::NetworkUnreachable => "network unreachable",
            Self::HostUnreachable => "host unreachable",
            Self::TimedOut => "connection timed out",
            Self::Forbidden => "forbidden by the rules of the server",
            Self::NameNotFound => "no such host name",
            Self::LookupFailed => "the name server of the server's side does not answer",
            Self::NotEnabled => {
                "the server connects to nothing; it must be started with: manyway serve --egress"
            }
            Self::TooMany => "too many connections at the same time",
            Self::Unsupported => "the server does not know this request; update Manyway there",
            Self::Malformed => "the server did not understand the request",
        })
    }
}

/// A reason, and the server's text with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The reason.
    pub reason: Reason,
    /// More for people; may be empty. It comes from the peer.
    pub text: String,
}

impl Refusal {
    /// Most bytes of a text.
    pub const MAX_TEXT: usize = 512;

    /// A refusal without a text.
    pub fn new(reason: Reason) -> Self {
        Self { reason, text: String::new() }
    }

    /// A refusal with a text, of which [`Self::MAX_TEXT`] bytes are sent.
    pub fn with_text(reason: Reason, text: impl Into<String>) -> Self {
        Self { reason, text: text.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.reason)?;
        if self.text.is_empty() {
            return Ok(());
        }
        f.write_str(": ")?;
        // It comes from the peer, so it may hold any characters.
        for character in self.text.chars() {
            if character.is_control() { f.write_str("\u{fffd}")? } else { write!(f, "{character}")? }
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

/// The single frame of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Granted: a connection to this address, or a server that carries connections of clients.
    Done(Option<SocketAddr>),
    /// The connection was refused.
    Refused(Refusal),
}

impl Answer {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut body = Vec::new();
        let kind = match self {
            Self::Done(None) => DONE,
            Self::Done(Some(address)) => {
                encode_ip(address.ip(), &mut body);
                body.extend_from_slice(&address.port().to_be_bytes());
                DONE
            }
            Self::Refused(refusal) => {
                body.extend_from_slice(cut(&refusal.text, Refusal::MAX_TEXT).as_bytes());
                refusal.reason.code()
            }
        };
        Header { version: VERSION, kind, length: body.len() }.encode(out);
        out.extend_from_slice(&body);
    }

    /// Reads a whole frame.
    ///
    /// # Errors
    /// If the bytes are not a frame of this version, or more or less than one.
    pub fn decode(frame: &[u8]) -> Result<Self, CodecError> {
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

    pub(crate) fn decode_body(header: Header, body: &[u8]) -> Result<Self, CodecError> {
        let mut fields = Fields::new(body);
        if header.kind != DONE {
            // A newer server still sends its reason, in a frame of its own version.
            let text =
                std::str::from_utf8(fields.rest()).map_err(|_| CodecError::NotText { field: "text" })?;
            let reason = Reason::from_code(header.kind);
            return Ok(Self::Refused(Refusal::with_text(reason, cut(text, Refusal::MAX_TEXT))));
        }
        if header.version != VERSION {
            return Err(CodecError::Value { field: "version", value: header.version.into() });
        }
        if body.is_empty() {
            return Ok(Self::Done(None));
        }
        let kind = fields.u8("kind of address")?;
        let address: IpAddr = decode_ip(kind, &mut fields)?;
        let port = fields.u16("port")?;
        fields.finish()?;
        Ok(Self::Done(Some(SocketAddr::new(address, port))))
    }
}

/// The longest prefix of `text` that has at most `limit` bytes and ends between two characters.
fn cut(text: &str, limit: usize) -> &str {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

const DONE: u8 = 0;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(answer: &Answer) -> Vec<u8> {
        let mut out = Vec::new();
        answer.encode(&mut out);
        out
    }

    // egress 3.1, 3.2
    #[test]
    fn answers_have_the_bytes_of_the_specification() {
        let done = |text: &str| encoded(&Answer::Done(Some(text.parse().unwrap())));
        assert_eq!(encoded(&Answer::Done(None)), [0x45, 1, 0, 0, 0]);
        assert_eq!(done("192.0.2.7:443"), [0x45, 1, 0, 0, 7, 1, 192, 0, 2, 7, 1, 0xbb]);
        assert_eq!(
            done("[2001:db8::1]:22"),
            [&[0x45, 1, 0, 0, 19, 4, 0x20, 1, 0x0d, 0xb8][..], &[0; 11], &[1, 0, 22]].concat()
        );
        let refused = Answer::Refused(Refusal::with_text(Reason::Forbidden, "no"));
        assert_eq!(encoded(&refused), [0x45, 1, 6, 0, 2, b'n', b'o']);
    }

    #[test]
    fn an_unknown_reason_becomes_other_and_its_text_is_cut_and_cleaned() {
        let decoded = Answer::decode(&[0x45, 7, 99, 0, 3, b'a', 0x1b, b'c']);
        let refusal = Refusal::with_text(Reason::Other, "a\u{1b}c");
        assert_eq!(decoded, Ok(Answer::Refused(refusal.clone())));
        assert!(!refusal.to_string().contains('\u{1b}'));
        let long = encoded(&Answer::Refused(Refusal::with_text(Reason::Other, "\u{fc}".repeat(400))));
        assert_eq!(long.len(), 5 + 512);
    }

    fn answer() -> impl Strategy<Value = Answer> {
        prop_oneof![
            Just(Answer::Done(None)),
            (any::<IpAddr>(), any::<u16>()).prop_map(|(ip, port)| Answer::Done(Some((ip, port).into()))),
            (prop::sample::select(Reason::ALL.to_vec()), "\\PC{0,100}")
                .prop_map(|(reason, text)| Answer::Refused(Refusal::with_text(reason, text))),
        ]
    }

    proptest! {
        #[test]
        fn every_answer_survives_its_encoding(answer in answer()) {
            prop_assert_eq!(Answer::decode(&encoded(&answer)), Ok(answer));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            drop(Answer::decode(&bytes));
        }
    }
}
