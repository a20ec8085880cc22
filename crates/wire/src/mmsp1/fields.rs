//! Names every block of MMSP/1 and each of its fields, for people, JSON and logs.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use super::{
    Addresses, Block, Causes, Data, Duplicates, ErrorCode, Fragment, Opening, ProbeData, SackRanges, Tag,
};

/// A value within a block, as [`Block::fields`] gives it. [`Display`](fmt::Display) prints it as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Field<'a> {
    /// A number without a unit, or a byte count.
    Number(u64),
    /// A number that serves as an identifier, shown in hexadecimal.
    Nonce(u64),
    /// A tag of a connection.
    Tag(Tag),
    /// A span of time; whole µs on the wire.
    Duration(Duration),
    /// One of a few words.
    Word(&'static str),
    /// A flag: set or not.
    Flag(bool),
    /// Bytes that the protocol does not interpret; only their count is shown.
    Data(&'a [u8]),
    /// A few bytes that serve as an identifier; shown in hexadecimal.
    Bytes(&'a [u8]),
    /// An address.
    Address(IpAddr),
    /// Addresses of the sender.
    Addresses(Addresses<'a>),
    /// TSEQs that arrived, as first and last of each range.
    Ranges(SackRanges<'a>),
    /// TSEQs that arrived again.
    Duplicates(Duplicates<'a>),
    /// Causes of an error.
    Causes(Causes<'a>),
}

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Nonce(nonce) => write!(f, "{nonce:016x}"),
            Self::Tag(tag) => write!(f, "{tag}"),
            Self::Duration(duration) if duration.is_zero() => write!(f, "0s"),
            Self::Duration(duration) => write!(f, "{duration:?}"),
            Self::Word(word) => write!(f, "{word}"),
            Self::Flag(flag) => write!(f, "{}", if *flag { "yes" } else { "no" }),
            Self::Data(data) => write!(f, "{} bytes", data.len()),
            Self::Bytes(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            Self::Address(address) => write!(f, "{address}"),
            Self::Addresses(addresses) => write_list(f, ",", addresses.iter()),
            Self::Ranges(ranges) => {
                let texts = ranges.iter().map(|(first, last)| {
                    if first == last { format!("{first}") } else { format!("{first}-{last}") }
                });
                write_list(f, ",", texts)
            }
            Self::Duplicates(tseqs) => write_list(f, ",", tseqs.iter()),
            Self::Causes(causes) => {
                write_list(f, "; ", causes.iter().map(|cause| CauseText(cause.code, cause)))
            }
        }
    }
}

/// A cause in words.
struct CauseText<'a>(ErrorCode, super::Cause<'a>);

impl fmt::Display for CauseText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(code, cause) = self;
        write!(f, "{code}")?;
        match cause.expired_millis() {
            Some(millis) => write!(f, " {millis}ms ago"),
            None if cause.information.is_empty() => Ok(()),
            None => write!(f, " {}", Field::Bytes(cause.information)),
        }
    }
}

fn write_list<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    between: &str,
    items: impl Iterator<Item = T>,
) -> fmt::Result {
    items.enumerate().try_for_each(|(at, item)| {
        let separator = if at == 0 { "" } else { between };
        write!(f, "{separator}{item}")
    })
}

impl Fragment {
    /// The word for it in print.
    pub fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::First => "first",
            Self::Middle => "middle",
            Self::Last => "last",
        }
    }
}

impl Block<'_> {
    /// The name of the block in the specification.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Data(_) => "DATA",
            Self::Sack(_) => "SACK",
            Self::Syn(_) => "SYN",
            Self::SynAck(_) => "SYN-ACK",
            Self::Ping(_) => "PING",
            Self::Pong => "PONG",
            Self::Fin(_) => "FIN",
            Self::FinAck => "FIN-ACK",
            Self::FinDone(_) => "FIN-DONE",
            Self::Rst(_) => "RST",
            Self::Error(_) => "ERROR",
            Self::Probe(_) => "PROBE",
            Self::ProbeAck(_) => "PROBE-ACK",
        }
    }

    /// Passes every field, with its name in the specification, to `see`, in wire order.
    pub fn fields(&self, see: &mut dyn FnMut(&'static str, Field<'_>)) {
        match self {
            Self::Data(block) => data_fields(block, see),
            Self::Sack(block) => {
                see("ack", Field::Number(block.ack.0.into()));
                see("window", Field::Number(block.window.into()));
                if block.ranges.offsets().len() > 0 {
                    see("ranges", Field::Ranges(block.ranges));
                }
                if block.duplicates.iter().len() > 0 {
                    see("duplicates", Field::Duplicates(block.duplicates));
                }
            }
            Self::Syn(block) => {
                opening_fields(&block.opening, see);
                address_fields(block.addresses, see);
            }
            Self::SynAck(block) => {
                opening_fields(&block.opening, see);
                address_fields(block.addresses, see);
                see("info", Field::Bytes(block.info));
            }
            Self::Ping(block) => see("info", Field::Bytes(block.info)),
            Self::Pong | Self::FinAck => {}
            Self::Fin(block) => see("ack", Field::Number(block.ack.0.into())),
            Self::FinDone(block) => see("reflected", Field::Flag(block.reflected)),
            Self::Rst(block) => {
                if !block.causes.is_empty() {
                    see("causes", Field::Causes(block.causes));
                }
                see("reflected", Field::Flag(block.reflected));
            }
            Self::Error(block) => see("causes", Field::Causes(block.causes)),
            Self::Probe(block) => probe_fields(&block.data, see),
            Self::ProbeAck(block) => {
                see("echo of nonce", Field::Nonce(block.echo.nonce));
                see("echo of path", Field::Number(block.echo.path.into()));
                probe_fields(&block.data, see);
            }
        }
        if let Some(kind) = self.unrecognised() {
            see("unrecognised parameter", Field::Number(kind.into()));
        }
    }
}

/// Prints the block as one line: its name and its fields.
impl fmt::Display for Block<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        let mut result = Ok(());
        let mut first = true;
        self.fields(&mut |name, field| {
            let is_shown = field != Field::Flag(false);
            let separator = if is_shown && std::mem::take(&mut first) { " " } else { ", " };
            result = result.and_then(|()| match (name, field) {
                (_, Field::Flag(false)) => Ok(()),
                (name, Field::Flag(true)) => write!(f, "{separator}{name}"),
                // The value explains itself.
                ("data" | "causes" | "fragment", field) => write!(f, "{separator}{field}"),
                (name, field) => write!(f, "{separator}{name} {field}"),
            });
        });
        result
    }
}

fn data_fields(block: &Data<'_>, see: &mut dyn FnMut(&'static str, Field<'_>)) {
    see("tseq", Field::Number(block.tseq.0.into()));
    see("stream", Field::Number(block.stream.into()));
    see("sseq", Field::Number(block.sseq.0.into()));
    see("payload protocol", Field::Number(block.protocol.into()));
    see("data", Field::Data(block.data));
    see("fragment", Field::Word(block.fragment.name()));
    see("unordered", Field::Flag(block.unordered));
}

fn opening_fields(opening: &Opening, see: &mut dyn FnMut(&'static str, Field<'_>)) {
    see("tag", Field::Tag(opening.tag));
    see("window", Field::Number(opening.window.into()));
    see("outgoing streams", Field::Number(opening.outgoing.into()));
    see("incoming streams", Field::Number(opening.incoming.into()));
    see("tseq", Field::Number(opening.tseq.0.into()));
}

fn address_fields(addresses: Addresses<'_>, see: &mut dyn FnMut(&'static str, Field<'_>)) {
    if addresses.iter().next().is_some() {
        see("addresses", Field::Addresses(addresses));
    }
}

fn probe_fields(data: &ProbeData, see: &mut dyn FnMut(&'static str, Field<'_>)) {
    see("sent", Field::Duration(Duration::from_micros(data.sent_micros)));
    see("path", Field::Number(data.path.into()));
    see("address", Field::Address(data.address));
    see("nonce", Field::Nonce(data.nonce));
    see("mac", Field::Nonce(data.mac));
}

#[cfg(test)]
#[path = "fields/tests.rs"]
mod tests;
