//! What the opener of a bench stream, or of a run, requests.

use std::time::Duration;

use crate::codec::{CodecError, Fields, put_text};

/// Which side sends the bytes of a bench stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BenchDirection {
    /// The opener of the stream.
    Upload,
    /// The side that accepted it.
    Download,
}

/// When a bench run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BenchLimit {
    /// After this time, in microseconds on the wire.
    Duration(Duration),
    /// After this many bytes.
    Bytes(u64),
}

/// One stream of a bench run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BenchRequest {
    /// Which side sends.
    pub(crate) direction: BenchDirection,
    /// When it ends.
    pub(crate) limit: BenchLimit,
    /// How often the receiver reports; at least [`BenchRequest::MIN_INTERVAL`].
    pub(crate) interval: Duration,
    /// Bytes of this initial time are not counted.
    pub(crate) omit: Duration,
    /// Bits a second on average; `None` without a limit.
    pub(crate) rate: Option<u64>,
    /// Bytes of each write, from 1 to [`BenchRequest::MAX_LENGTH`].
    pub(crate) length: u32,
}

/// The account of a run: what the acceptor did meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AccountRequest {
    /// The congestion control that the acceptor is to use; empty to leave it.
    pub(crate) congestion: String,
}

/// Messages to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MessagesRequest {
    /// Bytes of each answer, from [`MessagesRequest::MIN_SIZE`] to [`MessagesRequest::MAX_SIZE`].
    pub(crate) size: u32,
    /// Lifetime of an answer; `None` for ever.
    pub(crate) lifetime: Option<Duration>,
}

impl MessagesRequest {
    /// A number and a time.
    pub(crate) const MIN_SIZE: u32 = 16;
    /// The default limit of a connection.
    pub(crate) const MAX_SIZE: u32 = 256 << 10;

    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.size.to_be_bytes());
        out.extend_from_slice(&self.lifetime.map_or(0, micros).to_be_bytes());
    }

    pub(crate) fn decode(fields: &mut Fields<'_>) -> Result<Self, CodecError> {
        let size = fields.u32("size")?;
        if !(Self::MIN_SIZE..=Self::MAX_SIZE).contains(&size) {
            return Err(CodecError::Value { field: "size", value: size.into() });
        }
        let lifetime = Some(fields.u64("lifetime")?).filter(|micros| *micros > 0).map(Duration::from_micros);
        Ok(Self { size, lifetime })
    }
}

impl BenchRequest {
    /// The shortest interval between two reports.
    // transfer 6.6: a shorter interval would make the report the load
    pub(crate) const MIN_INTERVAL: Duration = Duration::from_millis(10);
    /// Most bytes of a write.
    pub(crate) const MAX_LENGTH: u32 = 1 << 20;

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(match self.direction {
            BenchDirection::Upload => 0,
            BenchDirection::Download => 1,
        });
        let (kind, amount) = match self.limit {
            BenchLimit::Duration(duration) => (0, micros(duration)),
            BenchLimit::Bytes(bytes) => (1, bytes),
        };
        out.push(kind);
        out.extend_from_slice(&amount.to_be_bytes());
        out.extend_from_slice(&micros(self.interval).to_be_bytes());
        out.extend_from_slice(&micros(self.omit).to_be_bytes());
        out.extend_from_slice(&self.rate.unwrap_or(0).to_be_bytes());
        out.extend_from_slice(&self.length.to_be_bytes());
    }

    pub(crate) fn decode(fields: &mut Fields<'_>) -> Result<Self, CodecError> {
        let direction = match fields.u8("direction")? {
            0 => BenchDirection::Upload,
            1 => BenchDirection::Download,
            value => return Err(CodecError::Value { field: "direction", value: value.into() }),
        };
        let kind = fields.u8("kind of limit")?;
        let amount = fields.u64("limit")?;
        let limit = match kind {
            0 => BenchLimit::Duration(Duration::from_micros(amount)),
            1 => BenchLimit::Bytes(amount),
            value => return Err(CodecError::Value { field: "kind of limit", value: value.into() }),
        };
        let interval = fields.u64("interval")?;
        if u128::from(interval) < Self::MIN_INTERVAL.as_micros() {
            return Err(CodecError::Value { field: "interval", value: interval });
        }
        let omit = Duration::from_micros(fields.u64("omit")?);
        let rate = Some(fields.u64("rate")?).filter(|rate| *rate > 0);
        let length = fields.u32("length")?;
        if !(1..=Self::MAX_LENGTH).contains(&length) {
            return Err(CodecError::Value { field: "length", value: length.into() });
        }
        Ok(Self { direction, limit, interval: Duration::from_micros(interval), omit, rate, length })
    }
}

impl AccountRequest {
    /// Most bytes of a name.
    const MAX_NAME: usize = 64;

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_text(out, &self.congestion);
    }

    pub(crate) fn decode(fields: &mut Fields<'_>) -> Result<Self, CodecError> {
        Ok(Self { congestion: fields.text("congestion control", Self::MAX_NAME)?.to_owned() })
    }
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
