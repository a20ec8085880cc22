//! Facts as qlog, the log format of the IETF for QUIC (draft-ietf-quic-qlog-main-schema-14 and -quic-events-13): one
//! JSON record for each event, in sequence (JSON-SEQ), for tools that draw and analyse.
//!
//! Events with the same meaning as in QUIC have its names (`quic:packet_sent`, `quic:recovery_metrics_updated`);
//! others are in the namespace `mmsp`:
//!
//! | event | meaning |
//! |---|---|
//! | `mmsp:path_updated` | a path changed its state: `path_id`, `state`, `reason`, `role` |
//! | `mmsp:reinjected` | packets in flight on a suspect path are sent again on others: `path_id`, `packets` |
//! | `mmsp:spurious_loss` | packets declared lost arrived after all: `path_id`, `packets` |
//! | `mmsp:records_dropped` | this many records are missing here, because the sink could not keep up: `count` |
//!
//! Blocks of MMSP/1 are frames with the names `mmsp1_data`, `mmsp1_sack` and so on, in packets of the type `mmsp1`.
//!
//! Every event of a path has its id as `tuple`. `quic:connection_started` and `quic:tuple_assigned` also name the
//! `carrier`, `udp` or `tcp`: paths over both may have equal addresses. The log contains addresses and connection IDs,
//! sizes and times; it contains no key, no token and no byte of the application.

mod events;
mod frames;
mod json;
mod mmsp1_frames;
mod streams;

use std::collections::BTreeMap;
use std::fmt;

use manyway_wire::{PathId, Side};

use self::json::Object;
use self::streams::Streams;
use super::{Beginning, Fact, Metrics, ObservedPacket, Observer};
use crate::{ConnectionError, FourTuple, Instant};

/// Names of the events' schemas; the second one belongs to this project.
const SCHEMAS: [&str; 2] = ["urn:ietf:params:qlog:events:quic-13", "urn:manyway:qlog:events:mmsp-1"];

/// Takes records.
pub trait Sink: Send + fmt::Debug {
    /// Takes one record, complete with its separator and its end of line; must not block. Returns false if there is
    /// no space: then the record is dropped, and a later one reports how many were.
    fn take(&mut self, now: Instant, record: &str) -> bool;

    /// A record was written that a reader should see at once.
    fn flush(&mut self) {}
}

/// An observer that writes qlog.
///
/// Costs some µs for each packet, and no memory that grows with the connection.
#[derive(Debug)]
pub struct Qlog {
    sink: Box<dyn Sink>,
    start: Instant,
    record: String,
    /// Records dropped since the last one that the sink took.
    dropped: u64,
    paths: BTreeMap<PathId, PathNotes>,
    /// Whether the last packet was one of MMSP/1.
    speaks_mmsp1: bool,
    streams: Streams,
}

/// The last logged values of a path.
#[derive(Debug, Default)]
struct PathNotes {
    tuple: Option<FourTuple>,
    metrics: Option<Metrics>,
    metrics_at: Option<Instant>,
    is_in_slow_start: Option<bool>,
    datagram: Option<u16>,
}

impl Qlog {
    /// Starts the log of a connection. `wall_clock` is the time of the start as in RFC 3339, if it is known; times of
    /// events count from there.
    pub fn new(beginning: &Beginning, wall_clock: Option<&str>, sink: Box<dyn Sink>) -> Self {
        let mut log = Self {
            sink,
            start: beginning.now,
            record: String::new(),
            dropped: 0,
            paths: BTreeMap::new(),
            speaks_mmsp1: false,
            streams: Streams::default(),
        };
        log.write(beginning.now, |o| head(o, beginning, wall_clock));
        log.log_start(beginning);
        log
    }

    /// Appends an event; that of a path with its id.
    fn event(&mut self, now: Instant, path: Option<PathId>, name: &str, data: impl FnOnce(&mut Object<'_>)) {
        let time = now - self.start;
        if self.dropped > 0 {
            let count = self.dropped;
            let taken = self.write(now, |o| {
                o.millis("time", time);
                o.text("name", "mmsp:records_dropped");
                o.object("data", |o| o.number("count", count));
            });
            if !taken {
                self.dropped += 1;
                return;
            }
            self.dropped = 0;
        }
        let taken = self.write(now, |o| {
            o.millis("time", time);
            o.text("name", name);
            if let Some(path) = path {
                o.text("tuple", path.to_string());
            }
            o.object("data", data);
        });
        if !taken {
            self.dropped += 1;
        }
    }

    fn write(&mut self, now: Instant, content: impl FnOnce(&mut Object<'_>)) -> bool {
        self.record.clear();
        // RFC 7464: a record separator before each text, a line feed after it.
        self.record.push('\u{1e}');
        Object::write(&mut self.record, content);
        self.record.push('\n');
        self.sink.take(now, &self.record)
    }

    fn notes(&mut self, path: PathId) -> &mut PathNotes {
        self.paths.entry(path).or_default()
    }
}

impl Observer for Qlog {
    fn on_fact(&mut self, now: Instant, fact: &Fact) {
        self.log_fact(now, fact);
    }

    fn on_packet(&mut self, now: Instant, packet: &ObservedPacket<'_>) {
        self.log_packet(now, packet);
    }

    fn on_closed(&mut self, now: Instant, error: &ConnectionError) {
        self.log_closed(now, error);
    }
}

/// The first record of a file. Tools of older drafts look for `qlog_version` and `qlog_format`.
fn head(o: &mut Object<'_>, beginning: &Beginning, wall_clock: Option<&str>) {
    let side = match beginning.side {
        Side::Client => "client",
        Side::Server => "server",
    };
    o.text("file_schema", "urn:ietf:params:qlog:file:sequential");
    o.text("serialization_format", "application/qlog+json-seq");
    o.text("qlog_version", "0.3");
    o.text("qlog_format", "JSON-SEQ");
    o.text("title", "manyway");
    o.object("trace", |o| {
        o.object("vantage_point", |o| {
            o.text("name", "manyway");
            o.text("type", side);
        });
        o.array("event_schemas", |a| SCHEMAS.iter().for_each(|schema| a.text(schema)));
        o.object("common_fields", |o| {
            o.text("group_id", beginning.original_destination.to_string());
            o.text("time_format", "relative_to_epoch");
            o.object("reference_time", |o| {
                o.text("clock_type", "monotonic");
                o.text("epoch", "unknown");
                if let Some(time) = wall_clock {
                    o.text("wall_clock_time", time);
                }
            });
        });
    });
}
