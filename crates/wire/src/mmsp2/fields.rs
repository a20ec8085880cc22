//! Names every block and each of its fields, for people, JSON and logs.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use crate::ids::{ConnectionId, PathId, StreamId};
use crate::mmsp2::Block;
use crate::mmsp2::ErrorCode;
use crate::mmsp2::Parameters;
use crate::mmsp2::{
    AckRanges, BlockedBy, CloseStep, EcnCounts, Liveness, MessageData, MessagePlace, PathAvailability, Skip,
    SkippedMessages,
};

/// A value within a block, as [`Block::fields`] gives it. [`Display`](fmt::Display) prints it as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Field<'a> {
    /// A number without a unit, or a byte count.
    Number(u64),
    /// A number that serves as an identifier, shown in hexadecimal.
    Nonce(u64),
    /// A version of the protocol.
    Version(u32),
    /// A number of a path.
    Path(PathId),
    /// A number of a stream.
    Stream(StreamId),
    /// A span of time; whole µs on the wire.
    Duration(Duration),
    /// An id of a connection.
    Id(ConnectionId),
    /// An address with its port.
    Address(SocketAddr),
    /// Why something ended.
    Code(ErrorCode),
    /// One of a few words.
    Word(&'static str),
    /// A flag: set or not.
    Flag(bool),
    /// Text for people; UTF-8 unless the peer is careless.
    Text(&'a [u8]),
    /// Bytes that the protocol does not interpret, such as those of a stream; only their count is shown.
    Data(&'a [u8]),
    /// A few bytes that serve as an identifier, such as a token; shown in hexadecimal.
    Bytes(&'a [u8]),
    /// Packet numbers, newest first.
    Ranges(AckRanges<'a>),
    /// Abandoned messages, each with the highest offset sent.
    Skipped(SkippedMessages<'a>),
}

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Nonce(nonce) => write!(f, "{nonce:016x}"),
            Self::Version(version) => write!(f, "{version:#010x}"),
            Self::Path(path) => write!(f, "{path}"),
            Self::Stream(stream) => write!(f, "{stream}"),
            Self::Duration(duration) if duration.is_zero() => write!(f, "0s"),
            Self::Duration(duration) => write!(f, "{duration:?}"),
            Self::Id(id) if id.as_slice().is_empty() => write!(f, "(empty)"),
            Self::Id(id) => write!(f, "{id}"),
            Self::Address(address) => write!(f, "{address}"),
            Self::Code(code) => write!(f, "{code}"),
            Self::Word(word) => write!(f, "{word}"),
            Self::Flag(flag) => write!(f, "{}", if *flag { "yes" } else { "no" }),
            // Quoted and escaped: the text comes from the peer and may hold control sequences of terminals.
            Self::Text(text) => write!(f, "{:?}", String::from_utf8_lossy(text)),
            Self::Data(data) => write!(f, "{} bytes", data.len()),
            Self::Bytes(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            Self::Ranges(ranges) => write_ranges(f, *ranges),
            Self::Skipped(messages) => messages.into_iter().enumerate().try_for_each(|(at, skipped)| {
                let comma = if at == 0 { "" } else { "," };
                write!(f, "{comma}{} up to {}", skipped.number, skipped.reach)
            }),
        }
    }
}

fn write_ranges(f: &mut fmt::Formatter<'_>, ranges: AckRanges<'_>) -> fmt::Result {
    for (at, range) in ranges.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let (start, end) = range.into_inner();
        if start == end {
            write!(f, "{comma}{end}")?;
        } else {
            write!(f, "{comma}{start}-{end}")?;
        }
    }
    Ok(())
}

impl Block<'_> {
    /// The name of the block in the specification.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Syn(_) => "SYN",
            Self::SynAck(_) => "SYN-ACK",
            Self::Ping(_) => "PING",
            Self::Pong => "PONG",
            Self::Probe(_) => "PROBE",
            Self::ProbeAck(_) => "PROBE-ACK",
            Self::PathAck(_) => "PATH-ACK",
            Self::Crypto(_) => "CRYPTO",
            Self::Stream(_) => "STREAM",
            Self::Message(_) => "MESSAGE",
            Self::Skip(_) => "SKIP",
            Self::MaxData(_) => "MAX-DATA",
            Self::MaxStreamData(_) => "MAX-STREAM-DATA",
            Self::MaxStreams(_) => "MAX-STREAMS",
            Self::ResetStream(_) => "RESET-STREAM",
            Self::StopSending(_) => "STOP-SENDING",
            Self::Blocked(_) => "BLOCKED",
            Self::NewCid(_) => "NEW-CID",
            Self::RetireCid(_) => "RETIRE-CID",
            Self::AddAddress(_) => "ADD-ADDRESS",
            Self::RemoveAddress(_) => "REMOVE-ADDRESS",
            Self::PathStatus(_) => "PATH-STATUS",
            Self::PathClose(_) => "PATH-CLOSE",
            Self::Liveness(_) => "LIVENESS",
            Self::AckNow => "ACK-NOW",
            Self::Close(_) => "CLOSE",
            Self::Padding => "PADDING",
            Self::PathLimit(_) => "PATH-LIMIT",
            Self::ReceiveLimit(_) => "RECEIVE-LIMIT",
            Self::TcpConnections(_) => "TCP-CONNECTIONS",
        }
    }

    /// Passes every field, with its name in the specification, to `see`, in wire order. Reset tokens are among them:
    /// filter them before output that others may read.
    pub fn fields(&self, see: &mut dyn FnMut(&'static str, Field<'_>)) {
        match self {
            Self::Syn(crate::mmsp2::Syn { info })
            | Self::SynAck(crate::mmsp2::SynAck { info })
            | Self::Ping(crate::mmsp2::Ping { info }) => {
                if !info.is_empty() {
                    see("info", Field::Bytes(info));
                }
            }
            Self::Pong | Self::AckNow | Self::Padding => {}
            Self::Probe(block) => see("nonce", Field::Nonce(block.nonce)),
            Self::ProbeAck(block) => {
                see("nonce", Field::Nonce(block.nonce));
                see("address", Field::Address(block.observed));
            }
            Self::PathAck(block) => path_ack_fields(block, see),
            Self::Crypto(block) => {
                see("offset", Field::Number(block.offset));
                see("data", Field::Data(block.data));
            }
            Self::Stream(block) => {
                see("stream", Field::Stream(block.stream));
                see("offset", Field::Number(block.offset));
                see("data", Field::Data(block.data));
                see("end", Field::Flag(block.end));
            }
            Self::Message(block) => message_fields(block, see),
            Self::Skip(block) => skip_fields(block, see),
            Self::ResetStream(block) => {
                see("stream", Field::Stream(block.stream));
                see("code", Field::Number(block.code));
                see("final size", Field::Number(block.final_size));
            }
            Self::StopSending(block) => {
                see("stream", Field::Stream(block.stream));
                see("code", Field::Number(block.code));
            }
            Self::MaxData(block) => see("credit", Field::Number(block.credit)),
            Self::MaxStreamData(block) => {
                see("stream", Field::Stream(block.stream));
                see("credit", Field::Number(block.credit));
            }
            Self::MaxStreams(block) => see("count", Field::Number(block.count)),
            Self::Blocked(block) => blocked_fields(block.by, see),
            Self::NewCid(_)
            | Self::RetireCid(_)
            | Self::AddAddress(_)
            | Self::RemoveAddress(_)
            | Self::PathStatus(_)
            | Self::PathClose(_)
            | Self::Liveness(_)
            | Self::ReceiveLimit(_)
            | Self::PathLimit(_)
            | Self::TcpConnections(_) => self.path_fields(see),
            Self::Close(block) => {
                see("step", Field::Word(block.step.name()));
                see("code", Field::Code(ErrorCode(block.code)));
                see("text", Field::Text(block.text));
            }
        }
    }

    /// The fields of the blocks about ids, addresses and paths.
    fn path_fields(&self, see: &mut dyn FnMut(&'static str, Field<'_>)) {
        match self {
            Self::NewCid(block) => {
                see("path", Field::Path(block.path));
                see("sequence", Field::Number(block.sequence));
                see("retire prior to", Field::Number(block.retire_prior_to));
                see("id", Field::Id(block.id));
                see("reset token", Field::Bytes(&block.reset_token));
            }
            Self::RetireCid(block) => {
                see("path", Field::Path(block.path));
                see("sequence", Field::Number(block.sequence));
            }
            Self::AddAddress(block) => {
                see("address id", Field::Number(block.id));
                see("sequence", Field::Number(block.sequence));
                see("priority", Field::Number(u64::from(block.priority)));
                see("cost", Field::Number(u64::from(block.cost)));
                see("address", Field::Address(block.address));
            }
            Self::RemoveAddress(block) => {
                see("address id", Field::Number(block.id));
                see("sequence", Field::Number(block.sequence));
            }
            Self::PathStatus(block) => {
                see("path", Field::Path(block.path));
                see("sequence", Field::Number(block.sequence));
                see("state", Field::Word(block.state.name()));
                see("cost", Field::Number(u64::from(block.cost)));
                if let Some(rate) = block.rate {
                    see("rate", Field::Number(rate));
                }
            }
            Self::PathClose(block) => {
                see("path", Field::Path(block.path));
                see("code", Field::Code(ErrorCode(block.code)));
            }
            Self::Liveness(block) => liveness_fields(block, see),
            Self::ReceiveLimit(block) => {
                see("path", Field::Path(block.path));
                see("sequence", Field::Number(block.sequence));
                see("window", Field::Number(block.window));
                if let Some(rate) = block.rate {
                    see("rate", Field::Number(rate));
                }
            }
            Self::PathLimit(block) => see("limit", Field::Number(u64::from(block.limit))),
            Self::TcpConnections(block) => {
                see("sequence", Field::Number(block.sequence));
                see("count", Field::Number(block.count));
            }
            Self::Syn(_)
            | Self::SynAck(_)
            | Self::Ping(_)
            | Self::Pong
            | Self::Probe(_)
            | Self::ProbeAck(_)
            | Self::PathAck(_)
            | Self::Crypto(_)
            | Self::Stream(_)
            | Self::Message(_)
            | Self::Skip(_)
            | Self::MaxData(_)
            | Self::MaxStreamData(_)
            | Self::MaxStreams(_)
            | Self::ResetStream(_)
            | Self::StopSending(_)
            | Self::Blocked(_)
            | Self::AckNow
            | Self::Close(_)
            | Self::Padding => {}
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
            let separator = if std::mem::take(&mut first) { " " } else { ", " };
            result = result.and_then(|()| match (name, field) {
                (_, Field::Flag(false)) => Ok(()),
                (name, Field::Flag(true)) => write!(f, "{separator}{name}"),
                // The value explains itself.
                ("data" | "kind" | "what" | "step", field) => write!(f, "{separator}{field}"),
                (name, field) => write!(f, "{separator}{name} {field}"),
            });
        });
        result
    }
}

fn path_ack_fields(block: &crate::mmsp2::PathAck<'_>, see: &mut dyn FnMut(&'static str, Field<'_>)) {
    see("path", Field::Path(block.path));
    see("ranges", Field::Ranges(block.ranges));
    see("delay", Field::Duration(block.delay));
    see("receive time", Field::Number(u64::from(block.receive_time_micros)));
    if let Some(EcnCounts { ect0, ect1, ce }) = block.ecn {
        see("ECT(0)", Field::Number(ect0));
        see("ECT(1)", Field::Number(ect1));
        see("CE", Field::Number(ce));
    }
}

fn message_fields(block: &MessageData<'_>, see: &mut dyn FnMut(&'static str, Field<'_>)) {
    see("stream", Field::Stream(block.stream));
    see("number", Field::Number(block.message.number));
    match block.place {
        MessagePlace::Begin { protocol } => see("payload protocol", Field::Number(u64::from(protocol))),
        MessagePlace::At(offset) => see("offset", Field::Number(u64::from(offset))),
    }
    see("data", Field::Data(block.data));
    see("unordered", Field::Flag(block.message.unordered));
    see("end", Field::Flag(block.end));
}

fn skip_fields(block: &Skip<'_>, see: &mut dyn FnMut(&'static str, Field<'_>)) {
    see("stream", Field::Stream(block.stream));
    see("messages", Field::Skipped(block.messages));
    see("unordered", Field::Flag(block.unordered));
}

fn blocked_fields(by: BlockedBy, see: &mut dyn FnMut(&'static str, Field<'_>)) {
    match by {
        BlockedBy::Connection { limit } => {
            see("what", Field::Word("connection"));
            see("limit", Field::Number(limit));
        }
        BlockedBy::Stream { stream, limit } => {
            see("what", Field::Word("stream"));
            see("stream", Field::Stream(stream));
            see("limit", Field::Number(limit));
        }
        BlockedBy::Streams { limit } => {
            see("what", Field::Word("streams"));
            see("limit", Field::Number(limit));
        }
    }
}

fn liveness_fields(block: &Liveness, see: &mut dyn FnMut(&'static str, Field<'_>)) {
    match block {
        Liveness::Query { path } => {
            see("kind", Field::Word("query"));
            see("path", Field::Path(*path));
        }
        Liveness::Answer { path, largest, age } => {
            see("kind", Field::Word("answer"));
            see("path", Field::Path(*path));
            match largest {
                Some(largest) => {
                    see("largest", Field::Number(*largest));
                    see("age", Field::Duration(*age));
                }
                None => see("nothing received", Field::Flag(true)),
            }
        }
    }
}

impl Parameters {
    /// Passes every parameter that is present, with its name in the specification, to `see`. The reset token is among
    /// them.
    pub fn fields(&self, see: &mut dyn FnMut(&'static str, Field<'_>)) {
        see("version", Field::Version(self.version));
        if let Some(id) = self.original_destination {
            see("original destination", Field::Id(id));
        }
        see("source", Field::Id(self.source));
        see("idle timeout", Field::Duration(self.idle_timeout));
        see("initial max data", Field::Number(self.initial_max_data));
        see("initial max stream data", Field::Number(self.initial_max_stream_data));
        see("initial max streams", Field::Number(self.initial_max_streams));
        see("path limit", Field::Number(u64::from(self.path_limit)));
        see("max ack delay", Field::Duration(self.max_ack_delay));
        see("max datagram", Field::Number(u64::from(self.max_datagram)));
        if let Some(token) = &self.reset_token {
            see("reset token", Field::Bytes(token));
        }
        see("application", Field::Text(&self.application));
        see("max message", Field::Number(self.max_message));
        self.rendezvous.iter().for_each(|address| see("rendezvous", Field::Address(*address)));
        if self.rates {
            see("rates", Field::Flag(true));
        }
    }
}

impl CloseStep {
    /// The name of the step in the specification.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fin => "FIN",
            Self::FinAck => "FIN-ACK",
            Self::FinDone => "FIN-DONE",
            Self::Abort => "ABORT",
        }
    }
}

impl PathAvailability {
    /// The name of the state in the specification.
    pub fn name(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Backup => "backup",
            Self::Suspect => "suspect",
            Self::Dead => "dead",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmsp2::Blocks;
    use crate::mmsp2::{Close, MessageId, StreamData, encode_path_ack};
    use crate::writer::Writer;

    #[test]
    fn a_block_prints_as_one_line() {
        let stream = StreamData { stream: StreamId(4), offset: 1200, end: true, data: b"abc" };
        assert_eq!(Block::Stream(stream).to_string(), "STREAM stream 4, offset 1200, 3 bytes, end");
        assert_eq!(Block::Pong.to_string(), "PONG");
        let (message, place) = (MessageId::unordered(9), MessagePlace::Begin { protocol: 51 });
        let message = MessageData { stream: StreamId(4), message, place, end: true, data: b"abc" };
        let words = "MESSAGE stream 4, number 9, payload protocol 51, 3 bytes, unordered, end";
        assert_eq!(Block::Message(message).to_string(), words);
        let mut bytes = Vec::new();
        let ranges = [90..=100, 88..=88, 0..=3];
        let delay = Duration::from_micros(2500);
        encode_path_ack(&mut Writer::new(&mut bytes, 99), PathId(1), delay, 7, ranges.into_iter(), None);
        let words: Vec<_> = Blocks::new(&bytes).map(|block| block.unwrap().to_string()).collect();
        assert_eq!(words, ["PATH-ACK path 1, ranges 90-100,88,0-3, delay 2.5ms, receive time 7"]);
    }

    #[test]
    fn text_of_the_peer_cannot_control_the_terminal() {
        let close = Close { step: CloseStep::Abort, code: 0x10, text: b"\x1b[2Jbye\xff\n" };
        let words = Block::Close(close).to_string();
        assert_eq!(words, "CLOSE ABORT, code no path left (0x10), text \"\\u{1b}[2Jbye\u{fffd}\\n\"");
    }
}
