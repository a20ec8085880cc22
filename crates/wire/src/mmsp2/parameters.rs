//! Transport parameters, exchanged inside TLS (spec 4.17).
//!
//! A list of parameters, each `type 16 | length 16 | value … | padding` (spec 2.10), in any order.

use std::net::SocketAddr;
use std::time::Duration;

use crate::address::{SOCKET_ADDRESS_LEN, decode_socket_address, encode_socket_address};
use crate::decode_error::{DecodeError, Part};
use crate::ids::ConnectionId;
use crate::mmsp2::MaxStreams;
use crate::mmsp2::header::VERSION;
use crate::parameter::{check_skippable, encode_unpadded, next_parameter};
use crate::reader::Reader;
use crate::varint::{VARINT_MAX, varint_len};
use crate::writer::Writer;

const VERSION_USED: u16 = 0x0100;
const ORIGINAL_DESTINATION: u16 = 0x0101;
const SOURCE: u16 = 0x0102;
const IDLE_TIMEOUT: u16 = 0x0103;
const INITIAL_MAX_DATA: u16 = 0x0104;
const INITIAL_MAX_STREAM_DATA: u16 = 0x0105;
const INITIAL_MAX_STREAMS: u16 = 0x0106;
const PATH_LIMIT: u16 = 0x0107;
const MAX_ACK_DELAY: u16 = 0x0108;
const MAX_DATAGRAM: u16 = 0x0109;
const RESET_TOKEN: u16 = 0x010a;
const APPLICATION: u16 = 0x010b;
/// Skippable: a peer without messages ignores it.
const MAX_MESSAGE: u16 = 0x8100;
/// Skippable: a peer without rendezvous ignores it.
const RENDEZVOUS: u16 = 0x8101;
/// Skippable: a peer that reports no rates ignores it.
const RATES: u16 = 0x8102;

/// The parameters of one endpoint, opaque to TLS and protected by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// Version of the packets, repeated here under the protection of TLS. Required.
    pub version: u32,
    /// Destination ID of the client's first packet; from the server only.
    pub original_destination: Option<ConnectionId>,
    /// Source ID of the sender's first packet. Required.
    pub source: ConnectionId,
    /// Idle time after which the sender discards the connection, in whole ms (rounded up); 0 = never.
    pub idle_timeout: Duration,
    /// Initial credit of the connection, in bytes. Default 0.
    pub initial_max_data: u64,
    /// Initial credit of each stream, in bytes. Default 0.
    pub initial_max_stream_data: u64,
    /// How many streams the peer may open initially, at most 2⁶⁰. Default 0.
    pub initial_max_streams: u64,
    /// Highest path id that the peer may use. Default 7.
    pub path_limit: u32,
    /// Longest time for which the sender delays an acknowledgement, in whole µs, at most 16 s. Default 25 ms.
    pub max_ack_delay: Duration,
    /// Largest UDP payload that the sender takes, in bytes, at least 1200. Default 65 527.
    pub max_datagram: u16,
    /// Last bytes of a stateless reset of path 0; from the server only.
    pub reset_token: Option<[u8; 16]>,
    /// Name of the application protocol, at most [`Parameters::MAX_APPLICATION`] bytes. Default empty.
    pub application: Vec<u8>,
    /// Largest message that the sender takes, in bytes, below 2³²; 0 = no messages at all. Default 0.
    pub max_message: u64,
    /// Rendezvous servers at which both ends find each other after both moved, at most [`Parameters::MAX_RENDEZVOUS`];
    /// from the server only. Default none.
    pub rendezvous: Vec<SocketAddr>,
    /// Whether the sender wants reports of the delivery rate of paths
    /// ([`PathStatus::rate`](crate::mmsp2::PathStatus::rate)), by which it selects address pairs. Default no.
    pub rates: bool,
}

impl Parameters {
    /// Default of [`Parameters::path_limit`]: eight paths.
    pub const DEFAULT_PATH_LIMIT: u32 = 7;
    /// Default of [`Parameters::max_ack_delay`].
    pub const DEFAULT_MAX_ACK_DELAY: Duration = Duration::from_millis(25);
    /// Highest [`Parameters::max_ack_delay`].
    pub const HIGHEST_MAX_ACK_DELAY: Duration = Duration::from_secs(16);
    /// Default of [`Parameters::max_datagram`]: what UDP can carry over IPv6.
    pub const DEFAULT_MAX_DATAGRAM: u16 = 65_527;
    /// Lowest [`Parameters::max_datagram`]: what every path has to carry.
    pub const MIN_MAX_DATAGRAM: u16 = 1200;
    /// Longest [`Parameters::application`], in bytes.
    pub const MAX_APPLICATION: usize = 64;
    /// Highest [`Parameters::max_message`].
    pub const HIGHEST_MAX_MESSAGE: u64 = u32::MAX as u64;
    /// Most addresses of [`Parameters::rendezvous`].
    pub const MAX_RENDEZVOUS: usize = 4;

    /// Parameters of an end whose first packet came from `source`, everything else at its default.
    pub fn new(source: ConnectionId) -> Self {
        Self {
            version: VERSION,
            original_destination: None,
            source,
            idle_timeout: Duration::ZERO,
            initial_max_data: 0,
            initial_max_stream_data: 0,
            initial_max_streams: 0,
            path_limit: Self::DEFAULT_PATH_LIMIT,
            max_ack_delay: Self::DEFAULT_MAX_ACK_DELAY,
            max_datagram: Self::DEFAULT_MAX_DATAGRAM,
            reset_token: None,
            application: Vec::new(),
            max_message: 0,
            rendezvous: Vec::new(),
            rates: false,
        }
    }

    /// The list as bytes. Values beyond their range are clamped; a name or list that is too long is cut.
    pub fn encode(&self) -> Vec<u8> {
        let mut buffer = Vec::with_capacity(192);
        let w = &mut Writer::new(&mut buffer, usize::from(u16::MAX));
        put(w, VERSION_USED, &self.version.to_be_bytes());
        if let Some(id) = &self.original_destination {
            put(w, ORIGINAL_DESTINATION, id.as_slice());
        }
        put(w, SOURCE, self.source.as_slice());
        put_varint(w, IDLE_TIMEOUT, whole(self.idle_timeout.as_nanos().div_ceil(1_000_000)));
        put_varint(w, INITIAL_MAX_DATA, self.initial_max_data);
        put_varint(w, INITIAL_MAX_STREAM_DATA, self.initial_max_stream_data);
        put_varint(w, INITIAL_MAX_STREAMS, self.initial_max_streams.min(MaxStreams::MAX));
        put_varint(w, PATH_LIMIT, u64::from(self.path_limit));
        let max_ack_delay = self.max_ack_delay.min(Self::HIGHEST_MAX_ACK_DELAY);
        put_varint(w, MAX_ACK_DELAY, whole(max_ack_delay.as_micros()));
        put_varint(w, MAX_DATAGRAM, u64::from(self.max_datagram.max(Self::MIN_MAX_DATAGRAM)));
        if let Some(token) = &self.reset_token {
            put(w, RESET_TOKEN, token);
        }
        if !self.application.is_empty() {
            let name = self.application.get(..Self::MAX_APPLICATION).unwrap_or(&self.application);
            put(w, APPLICATION, name);
        }
        if self.max_message > 0 {
            put_varint(w, MAX_MESSAGE, self.max_message.min(Self::HIGHEST_MAX_MESSAGE));
        }
        let rendezvous = self.rendezvous.get(..Self::MAX_RENDEZVOUS).unwrap_or(&self.rendezvous);
        if !rendezvous.is_empty() {
            let mut value = Vec::with_capacity(rendezvous.len() * SOCKET_ADDRESS_LEN);
            for address in rendezvous {
                encode_socket_address(&mut Writer::new(&mut value, usize::from(u16::MAX)), *address);
            }
            put(w, RENDEZVOUS, &value);
        }
        if self.rates {
            put(w, RATES, &[]);
        }
        buffer
    }

    /// Reads the list. The caller checks which parameters suit which endpoint, and whether the IDs are those of the
    /// packets.
    ///
    /// # Errors
    /// [`DecodeError`] if a parameter is cut, out of range, duplicate, or unknown and not skippable, or if version or
    /// source is missing.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut list = Reader::within(Part::Parameters, 0, bytes);
        let mut found = Self::new(ConnectionId::from_u64(0));
        let mut seen = 0_u16;
        while let Some(parameter) = next_parameter(&mut list)? {
            let (kind, offset) = (parameter.kind, parameter.offset);
            let Some(bit) = seen_bit(kind) else {
                check_skippable(kind, offset)?;
                continue;
            };
            if seen & bit != 0 {
                return Err(DecodeError::DuplicateParameter { kind, offset });
            }
            seen |= bit;
            found.take(kind, parameter.value)?;
        }
        for kind in [VERSION_USED, SOURCE] {
            if seen_bit(kind).is_none_or(|bit| seen & bit == 0) {
                return Err(DecodeError::MissingParameter { kind });
            }
        }
        Ok(found)
    }

    fn take(&mut self, kind: u16, mut value: Reader<'_>) -> Result<(), DecodeError> {
        match kind {
            VERSION_USED => self.version = value.u32()?,
            ORIGINAL_DESTINATION => self.original_destination = Some(take_id(&mut value)?),
            SOURCE => self.source = take_id(&mut value)?,
            IDLE_TIMEOUT => self.idle_timeout = Duration::from_millis(value.varint()?),
            INITIAL_MAX_DATA => self.initial_max_data = value.varint()?,
            INITIAL_MAX_STREAM_DATA => self.initial_max_stream_data = value.varint()?,
            INITIAL_MAX_STREAMS => {
                self.initial_max_streams =
                    take_within(&mut value, "initial max streams", 0, MaxStreams::MAX)?;
            }
            PATH_LIMIT => self.path_limit = value.path()?.0,
            MAX_ACK_DELAY => {
                let highest = whole(Self::HIGHEST_MAX_ACK_DELAY.as_micros());
                let micros = take_within(&mut value, "max ack delay", 0, highest)?;
                self.max_ack_delay = Duration::from_micros(micros);
            }
            MAX_DATAGRAM => {
                // spec 4.17: a value above a u16 is valid, though no datagram is that large
                let size =
                    take_within(&mut value, "max datagram", Self::MIN_MAX_DATAGRAM.into(), VARINT_MAX)?;
                self.max_datagram = u16::try_from(size).unwrap_or(u16::MAX);
            }
            RESET_TOKEN => self.reset_token = Some(value.array()?),
            APPLICATION => {
                let length = value.remaining();
                if length > Self::MAX_APPLICATION {
                    return Err(value.out_of_range(value.offset(), "application length", length as u64));
                }
                self.application = value.rest().to_vec();
            }
            MAX_MESSAGE => {
                self.max_message = take_within(&mut value, "max message", 0, Self::HIGHEST_MAX_MESSAGE)?;
            }
            RENDEZVOUS => {
                let (offset, length) = (value.offset(), value.remaining());
                if length > Self::MAX_RENDEZVOUS * SOCKET_ADDRESS_LEN {
                    return Err(value.out_of_range(offset, "rendezvous length", length as u64));
                }
                while !value.is_empty() {
                    self.rendezvous.push(decode_socket_address(&mut value)?);
                }
            }
            RATES => self.rates = true,
            _ => return Err(DecodeError::UnknownParameter { kind, offset: value.offset() }),
        }
        value.finish()
    }
}

/// The bit that marks a parameter as seen; `None` for unknown ones.
fn seen_bit(kind: u16) -> Option<u16> {
    match kind {
        VERSION_USED..=APPLICATION => Some(1 << (kind - VERSION_USED)),
        MAX_MESSAGE => Some(1 << (APPLICATION - VERSION_USED + 1)),
        RENDEZVOUS => Some(1 << (APPLICATION - VERSION_USED + 2)),
        RATES => Some(1 << (APPLICATION - VERSION_USED + 3)),
        _ => None,
    }
}

fn take_id(value: &mut Reader<'_>) -> Result<ConnectionId, DecodeError> {
    let (offset, length) = (value.offset(), value.remaining());
    ConnectionId::from_slice(value.rest())
        .ok_or_else(|| value.out_of_range(offset, "connection id length", length as u64))
}

fn take_within(
    value: &mut Reader<'_>,
    field: &'static str,
    lowest: u64,
    highest: u64,
) -> Result<u64, DecodeError> {
    let offset = value.offset();
    let number = value.varint()?;
    if (lowest..=highest).contains(&number) {
        return Ok(number);
    }
    Err(value.out_of_range(offset, field, number))
}

fn put(w: &mut Writer<'_>, kind: u16, value: &[u8]) {
    encode_unpadded(w, kind, value);
    w.zeros(value.len().next_multiple_of(4) - value.len());
}

fn put_varint(w: &mut Writer<'_>, kind: u16, value: u64) {
    let mut bytes = Vec::with_capacity(varint_len(value));
    Writer::new(&mut bytes, 8).varint(value);
    put(w, kind, &bytes);
}

fn whole(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "parameters/tests.rs"]
mod tests;
