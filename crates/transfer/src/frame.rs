//! Frames: `kind u8 | length u24 | body`. A stream consists of frames alone (but for bench filler).

use std::time::Duration;

use crate::answer::Answer;
use crate::bench::BenchAccount;
use crate::bench::request::micros;
use crate::codec::{CodecError, Fields, put_text};
use crate::entry::Entry;
use crate::failure::Failure;
use crate::name::RelativePath;
use crate::request::{Request, Totals, Unknown};

/// Bytes of a frame's header.
pub(crate) const HEADER: usize = 4;
/// Most bytes of a DATA frame's body.
// transfer 1.3
pub(crate) const DATA_LIMIT: usize = 256 * 1024;
/// Most bytes of any other frame's body.
// transfer 1.3
pub(crate) const BODY_LIMIT: usize = 64 * 1024;

/// Most bytes of one HOLE: its hash takes a second at most, so a reader soon sees that a stream has ended.
// transfer 3.6
pub(crate) const HOLE_LIMIT: u64 = 1 << 30;
/// Means "no entry" in ABANDONED.
const NO_ENTRY: u64 = u64::MAX;

/// The kinds of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Request = 0x01,
    Accepted = 0x02,
    Refused = 0x03,
    Hello = 0x04,
    Entry = 0x10,
    Data = 0x11,
    End = 0x12,
    Abandoned = 0x13,
    Done = 0x14,
    Start = 0x15,
    Hole = 0x16,
    Verdict = 0x20,
    Answer = 0x21,
    Interval = 0x30,
    Summary = 0x31,
    Account = 0x32,
}

impl Kind {
    fn from_code(code: u8) -> Result<Self, CodecError> {
        Ok(match code {
            0x01 => Self::Request,
            0x02 => Self::Accepted,
            0x03 => Self::Refused,
            0x04 => Self::Hello,
            0x10 => Self::Entry,
            0x11 => Self::Data,
            0x12 => Self::End,
            0x13 => Self::Abandoned,
            0x14 => Self::Done,
            0x15 => Self::Start,
            0x16 => Self::Hole,
            0x20 => Self::Verdict,
            0x21 => Self::Answer,
            0x30 => Self::Interval,
            0x31 => Self::Summary,
            0x32 => Self::Account,
            value => return Err(CodecError::Value { field: "kind of frame", value: value.into() }),
        })
    }
}

/// The first four bytes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) length: usize,
}

impl Header {
    pub(crate) fn decode(bytes: [u8; HEADER]) -> Result<Self, CodecError> {
        let [code, high, middle, low] = bytes;
        let kind = Kind::from_code(code)?;
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        let limit = if kind == Kind::Data { DATA_LIMIT } else { BODY_LIMIT };
        if length > limit {
            return Err(CodecError::TooLong { field: "frame", length, limit });
        }
        Ok(Self { kind, length })
    }

    pub(crate) fn encode(self) -> [u8; HEADER] {
        let length = u32::try_from(self.length).unwrap_or(u32::MAX).min(0xff_ffff);
        let [_, high, middle, low] = length.to_be_bytes();
        [self.kind as u8, high, middle, low]
    }
}

/// The receiver's verdict on a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Which entry of the stream, counted from 0.
    pub index: u64,
    /// Its name.
    pub path: RelativePath,
    /// Verified and in its place, or why not.
    pub outcome: Result<(), Failure>,
}

/// What a bench receiver received in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// Counted from 0, including omitted ones.
    pub index: u32,
    /// Whether it lies in the omitted beginning.
    pub omitted: bool,
    /// Its start, relative to that of the measurement or, if it is omitted, of the run.
    pub start: Duration,
    /// Its end, relative to the same.
    pub end: Duration,
    /// Bytes received in it.
    pub bytes: u64,
}

/// What a bench receiver received in total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BenchSummary {
    /// Bytes received.
    pub bytes: u64,
    /// Its duration: the requested time, or until the last byte.
    pub elapsed: Duration,
    /// The longest time without a byte, including the waits at both ends.
    pub longest_stall: Duration,
}

/// A frame other than DATA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    Request(Result<Request, Unknown>),
    Accepted(Totals),
    Refused(Failure),
    Hello {
        application: String,
        oldest: u8,
        newest: u8,
        read_only: bool,
    },
    Entry(Entry),
    /// The content of an announced file follows, from this offset on.
    Start {
        entry: u64,
        offset: u64,
    },
    /// This many zero bytes that occupy no space on the sender's disk; at least 1, at most [`HOLE_LIMIT`].
    Hole {
        length: u64,
    },
    End {
        hash: [u8; 32],
    },
    /// A file is abandoned: an announced one, or one that could not even be announced.
    Abandoned {
        entry: Option<u64>,
        name: String,
        failure: Failure,
    },
    Done(Totals),
    Verdict(Verdict),
    Answer(Answer),
    Interval(Interval),
    Summary(BenchSummary),
    Account(BenchAccount),
}

impl Frame {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Request(_) => Kind::Request,
            Self::Accepted(_) => Kind::Accepted,
            Self::Refused(_) => Kind::Refused,
            Self::Hello { .. } => Kind::Hello,
            Self::Entry(_) => Kind::Entry,
            Self::End { .. } => Kind::End,
            Self::Abandoned { .. } => Kind::Abandoned,
            Self::Done(_) => Kind::Done,
            Self::Start { .. } => Kind::Start,
            Self::Hole { .. } => Kind::Hole,
            Self::Verdict(_) => Kind::Verdict,
            Self::Answer(_) => Kind::Answer,
            Self::Interval(_) => Kind::Interval,
            Self::Summary(_) => Kind::Summary,
            Self::Account(_) => Kind::Account,
        }
    }

    /// Appends the whole frame.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER]);
        self.encode_body(out);
        let header = Header { kind: self.kind(), length: out.len() - start - HEADER };
        if let Some(place) = out.get_mut(start..start + HEADER) {
            place.copy_from_slice(&header.encode());
        }
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        match self {
            Self::Request(Ok(request)) => request.encode(out),
            Self::Request(Err(Unknown::Version(version))) => out.push(*version),
            Self::Request(Err(Unknown::Verb(verb))) => {
                out.extend_from_slice(&[crate::request::VERSION, *verb]);
            }
            Self::Accepted(totals) | Self::Done(totals) => totals.encode(out),
            Self::Refused(failure) => failure.encode(out),
            Self::Hello { application, oldest, newest, read_only } => {
                out.extend_from_slice(&[*oldest, *newest, u8::from(*read_only)]);
                put_text(out, application);
            }
            Self::Entry(entry) => entry.encode(out),
            Self::End { hash } => out.extend_from_slice(hash),
            Self::Start { entry, offset } => {
                out.extend_from_slice(&entry.to_be_bytes());
                out.extend_from_slice(&offset.to_be_bytes());
            }
            Self::Hole { length } => out.extend_from_slice(&length.to_be_bytes()),
            Self::Abandoned { entry, name, failure } => {
                out.extend_from_slice(&entry.unwrap_or(NO_ENTRY).to_be_bytes());
                failure.encode(out);
                put_text(out, name);
            }
            Self::Verdict(verdict) => verdict.encode(out),
            Self::Answer(answer) => answer.encode(out),
            Self::Interval(interval) => {
                out.extend_from_slice(&interval.index.to_be_bytes());
                out.push(u8::from(interval.omitted));
                out.extend_from_slice(&micros(interval.start).to_be_bytes());
                out.extend_from_slice(&micros(interval.end).to_be_bytes());
                out.extend_from_slice(&interval.bytes.to_be_bytes());
            }
            Self::Account(account) => account.encode(out),
            Self::Summary(summary) => {
                out.extend_from_slice(&summary.bytes.to_be_bytes());
                out.extend_from_slice(&micros(summary.elapsed).to_be_bytes());
                out.extend_from_slice(&micros(summary.longest_stall).to_be_bytes());
            }
        }
    }

    /// Reads the body of a frame of any kind but DATA.
    pub(crate) fn decode(kind: Kind, body: &[u8]) -> Result<Self, CodecError> {
        let mut fields = Fields::new(body);
        let frame = match kind {
            // A request of another version has unknown fields.
            Kind::Request => return Ok(Self::Request(Request::decode(&mut fields)?)),
            Kind::Accepted => Self::Accepted(Totals::decode(&mut fields)?),
            Kind::Refused => Self::Refused(Failure::decode(&mut fields)?),
            Kind::Hello => decode_hello(&mut fields)?,
            Kind::Entry => Self::Entry(Entry::decode(&mut fields)?),
            Kind::Data => return Err(CodecError::Value { field: "kind of frame", value: Kind::Data as u64 }),
            Kind::End => Self::End { hash: fields.array("hash")? },
            Kind::Start => Self::Start { entry: fields.u64("entry")?, offset: fields.u64("offset")? },
            Kind::Hole => match fields.u64("hole")? {
                length @ 1..=HOLE_LIMIT => Self::Hole { length },
                value => return Err(CodecError::Value { field: "hole", value }),
            },
            Kind::Abandoned => {
                let entry = Some(fields.u64("entry")?).filter(|entry| *entry != NO_ENTRY);
                let failure = Failure::decode(&mut fields)?;
                let name = fields.text("name", RelativePath::MAX_LENGTH)?.to_owned();
                Self::Abandoned { entry, name, failure }
            }
            Kind::Done => Self::Done(Totals::decode(&mut fields)?),
            Kind::Verdict => Self::Verdict(Verdict::decode(&mut fields)?),
            Kind::Answer => Self::Answer(Answer::decode(&mut fields)?),
            Kind::Interval => Self::Interval(Interval {
                index: fields.u32("index")?,
                omitted: decode_flag(&mut fields)?,
                start: Duration::from_micros(fields.u64("start")?),
                end: Duration::from_micros(fields.u64("end")?),
                bytes: fields.u64("bytes")?,
            }),
            Kind::Account => Self::Account(BenchAccount::decode(&mut fields)?),
            Kind::Summary => Self::Summary(BenchSummary {
                bytes: fields.u64("bytes")?,
                elapsed: Duration::from_micros(fields.u64("elapsed")?),
                longest_stall: Duration::from_micros(fields.u64("silence")?),
            }),
        };
        fields.finish()?;
        Ok(frame)
    }
}

impl Verdict {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.index.to_be_bytes());
        put_text(out, self.path.as_str());
        match &self.outcome {
            Ok(()) => out.push(0),
            Err(failure) => {
                out.push(1);
                failure.encode(out);
            }
        }
    }

    fn decode(fields: &mut Fields<'_>) -> Result<Self, CodecError> {
        let index = fields.u64("index")?;
        let path = RelativePath::parse(fields.text("path", RelativePath::MAX_LENGTH)?)?;
        let outcome = match fields.u8("outcome")? {
            0 => Ok(()),
            1 => Err(Failure::decode(fields)?),
            value => return Err(CodecError::Value { field: "outcome", value: value.into() }),
        };
        Ok(Self { index, path, outcome })
    }
}

fn decode_hello(fields: &mut Fields<'_>) -> Result<Frame, CodecError> {
    let oldest = fields.u8("oldest version")?;
    let newest = fields.u8("newest version")?;
    let read_only = decode_flag(fields)?;
    let application = fields.text("application", Request::MAX_APPLICATION)?.to_owned();
    Ok(Frame::Hello { application, oldest, newest, read_only })
}

/// A byte of which only the lowest bit is defined.
fn decode_flag(fields: &mut Fields<'_>) -> Result<bool, CodecError> {
    match fields.u8("flags")? {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(CodecError::Value { field: "flags", value: value.into() }),
    }
}

#[cfg(test)]
#[path = "frame/tests.rs"]
mod tests;
