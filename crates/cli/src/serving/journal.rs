//! The log of a server: a line for each client that connects and leaves, each file, failure and refusal. A failure
//! names the end at which it happened.
//!
//! It holds no secret: a client is named by its ticket or key, and by its address. Text from a peer is printed without
//! control characters.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use manyway::{ClosedBy, ConnectionError};
use manyway_egress::{EgressError, RequestError, SiteLog, Tally};
use manyway_terminal::{note, stderr};
use manyway_transfer::{Party, Progress, ProgressEvent, TransferError};
use serde_json::{Map, Value, json};

use crate::args::LogFormat;
use crate::home::Timestamp;
use crate::output::units;
use crate::status::FileCounts;

/// The output of lines; `None` for no log.
type Sink = Option<Arc<dyn Fn(&str) + Send + Sync>>;

/// The log; clones write to the same place.
#[derive(Clone)]
pub struct Journal {
    format: LogFormat,
    sink: Sink,
    clients: Arc<AtomicU64>,
    /// When an unknown client was last logged, and how many were not logged since.
    strangers: Arc<Mutex<(Option<Instant>, u64)>>,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("format", &self.format).finish_non_exhaustive()
    }
}

/// Direction of a file, as seen from the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the client.
    In,
    /// To the client.
    Out,
}

impl Way {
    fn done(self) -> &'static str {
        match self {
            Self::In => "received",
            Self::Out => "sent",
        }
    }
}

impl Journal {
    /// A log on standard error, or none.
    pub fn new(format: LogFormat, quiet: bool) -> Self {
        let sink: Sink = match (quiet, format) {
            (true, _) => None,
            (false, LogFormat::Text) => Some(Arc::new(note)),
            // A document is one line at any width.
            (false, LogFormat::Json) => Some(Arc::new(stderr::line)),
        };
        Self::to(format, sink)
    }

    fn to(format: LogFormat, sink: Sink) -> Self {
        Self { format, sink, clients: Arc::default(), strangers: Arc::default() }
    }

    /// A client was admitted.
    pub fn client(&self, noun: &str, name: &str, from: &str) -> Client {
        let number = self.clients.fetch_add(1, Ordering::Relaxed) + 1;
        let client = Client { journal: self.clone(), number, since: Instant::now() };
        client.write(
            "connected",
            &format!("{noun} {name}, from {from}"),
            json!({ "kind": noun, "name": name, "from": from }),
        );
        client
    }

    /// A known client was refused, because of a limit or because it has lost its rights.
    pub fn refused(&self, from: &str, reason: &str) {
        self.write("refused", None, &format!("{from}: {reason}"), json!({ "from": from, "reason": reason }));
    }

    /// A client without a valid key was refused. Anyone can cause that at any rate: at most one line a second is
    /// logged.
    pub fn unknown_client(&self, from: &str) {
        let mut strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, untold) = &mut *strangers;
        if last.is_some_and(|at| at.elapsed() < STRANGERS) {
            *untold += 1;
            return;
        }
        *last = Some(Instant::now());
        let others = std::mem::take(untold);
        drop(strangers);
        let more = if others > 0 { format!(", and {others} before") } else { String::new() };
        let text = format!("{from}: a client with an unknown, revoked or expired ticket or key{more}");
        let facts = json!({ "from": from, "reason": "unknown key", "others": others });
        self.write("refused", None, &text, facts);
    }

    /// A message about the server itself: `lines` for people, or the facts for programs.
    pub fn server(&self, event: &str, lines: &[String], facts: Value) {
        let Some(sink) = &self.sink else { return };
        match self.format {
            LogFormat::Text => lines.iter().for_each(|line| sink(line)),
            LogFormat::Json => sink(&json_line(event, None, facts)),
        }
    }

    /// A remark about the server.
    pub fn remark(&self, text: String) {
        let facts = json!({ "text": text });
        self.server("note", &[text], facts);
    }

    fn write(&self, event: &str, client: Option<u64>, text: &str, facts: Value) {
        let Some(sink) = &self.sink else { return };
        let line = match self.format {
            LogFormat::Text => {
                let time = Timestamp::now();
                let who = client.map_or_else(String::new, |number| format!("client {number} "));
                format!("{time} {who}{event} {}", printable(text)).trim_end().to_owned()
            }
            LogFormat::Json => json_line(event, client, facts),
        };
        sink(&line);
    }
}

/// A line of the log for programs.
pub fn json_line(event: &str, client: Option<u64>, facts: Value) -> String {
    let mut document = Map::new();
    document.insert("time".to_owned(), Timestamp::now().to_string().into());
    document.insert("event".to_owned(), event.into());
    document.extend(client.map(|number| ("client".to_owned(), number.into())));
    if let Value::Object(facts) = facts {
        document.extend(facts);
    }
    Value::from(document).to_string()
}

/// An admitted client.
#[derive(Debug, Clone)]
pub struct Client {
    journal: Journal,
    number: u64,
    since: Instant,
}

impl Client {
    /// It has left, after this many bytes in each direction.
    pub fn left(&self, end: &ConnectionError, (received, sent): (u64, u64)) {
        let (lasted, reason) = (self.since.elapsed(), told(end));
        let (bytes_in, bytes_out) = (units::size(received), units::size(sent));
        let text =
            format!("after {}: {bytes_in} received, {bytes_out} sent; {reason}", units::duration(lasted));
        let facts = json!({
            "seconds": lasted.as_secs_f64(), "bytes_received": received, "bytes_sent": sent, "reason": reason,
        });
        self.write("left", &text, facts);
    }

    /// Logs the files of one direction, and counts them for `manyway status`. `end` returns how the connection ended,
    /// if it has.
    pub fn files<E>(&self, way: Way, counts: FileCounts, end: E) -> Arc<dyn Progress>
    where
        E: Fn() -> Option<ConnectionError> + Send + Sync + 'static,
    {
        Arc::new(Files { client: self.clone(), way, counts, end, sizes: Mutex::default() })
    }

    /// The server refused it a connection to another host. Connections that broke later are not logged.
    pub fn egress_refused(&self, error: &RequestError) {
        if matches!(error.error, EgressError::Stream(_)) {
            return;
        }
        let destination = error.destination.as_ref().map(ToString::to_string);
        let facts = json!({ "destination": destination, "reason": error.error.to_string() });
        self.write("refused", &error.to_string(), facts);
    }

    fn write(&self, event: &str, text: &str, facts: Value) {
        self.journal.write(event, Some(self.number), text, facts);
    }
}

impl SiteLog for Client {
    fn joined(&self, addresses: &[IpNet], networks: &[IpNet]) {
        let shown = |networks: &[IpNet]| networks.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (addresses, networks) = (shown(addresses), shown(networks));
        let mut text = addresses.join(", ");
        if !networks.is_empty() {
            text += &format!(" with {} behind it", networks.join(", "));
        }
        let facts = json!({ "addresses": addresses, "networks": networks });
        self.write("joined", &format!("the network of sites: {text}"), facts);
    }

    fn spoofed(&self, source: IpAddr) {
        let text = format!("packets from {source}, which is no address of this client");
        self.write("drops", &text, json!({ "source": source.to_string() }));
    }

    fn left(&self, from: Tally, to: Tally) {
        let counts = |tally: Tally| {
            json!({
                "passed": tally.passed, "queue_full": tally.queue_full, "malformed": tally.malformed,
                "source": tally.source, "destination": tally.destination,
            })
        };
        let facts = json!({ "from": counts(from), "to": counts(to) });
        self.write("parted", &format!("from the network of sites: from it {from}; to it {to}"), facts);
    }
}

/// The files of a client in one direction.
struct Files<E> {
    client: Client,
    way: Way,
    counts: FileCounts,
    end: E,
    /// Of those that have begun and whose size is known.
    sizes: Mutex<BTreeMap<String, u64>>,
}

impl<E> Files<E> {
    fn sizes(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs that a file did not arrive, and its progress where that is known.
    fn failed(&self, name: &str, failed: &Failed, (bytes, size): (Option<u64>, Option<u64>)) {
        let (way, Failed { side, what, why }) = (self.way.done(), failed);
        let after = bytes.map_or_else(String::new, |bytes| {
            let of = size.map(|size| format!(" of {}", units::size(size)));
            format!(" after {}{}", units::size(bytes), of.unwrap_or_default())
        });
        let why = why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        let mut facts = json!({ "file": name, "way": way, "side": side, "reason": format!("{what}{why}") });
        if let (Value::Object(facts), Some(bytes)) = (&mut facts, bytes) {
            facts.insert("bytes".to_owned(), bytes.into());
            facts.insert("size".to_owned(), size.into());
        }
        self.client.write("failed", &format!("{name}, not {way}: {what}{after}{why}"), facts);
    }
}

impl<E> Progress for Files<E>
where
    E: Fn() -> Option<ConnectionError> + Send + Sync,
{
    fn on_progress(&self, event: ProgressEvent<'_>) {
        self.counts.on_progress(event);
        match event {
            ProgressEvent::Started { name, size } => {
                let mut sizes = self.sizes();
                if let Some(size) = size
                    && sizes.len() < MOST_FILES
                {
                    sizes.insert(name.to_owned(), size);
                }
            }
            ProgressEvent::Verified { name } => {
                let size = self.sizes().remove(name);
                let mut text = name.to_owned();
                if let Some(size) = size {
                    // Writing to a string does not fail.
                    let _ = write!(text, ", {}", units::size(size));
                }
                self.client.write(self.way.done(), &text, json!({ "file": name, "bytes": size }));
            }
            ProgressEvent::Failed { name, failure, at } => {
                self.sizes().remove(name);
                let side = match at {
                    Party::Local => SERVER,
                    Party::Peer => CLIENT,
                };
                let (what, why) = (format!("at the {side}"), Some(failure.to_string()));
                self.failed(name, &Failed { side: Some(side), what, why }, (None, None));
            }
            ProgressEvent::BrokenOff { name, bytes, error } => {
                let size = self.sizes().remove(name);
                self.failed(name, &broken_off(error, (self.end)()), (Some(bytes), size));
            }
            ProgressEvent::LeftOut { name, .. } => {
                self.sizes().remove(name);
            }
            ProgressEvent::Refused { failure } => {
                let reason = failure.refusal();
                self.client.write("refused", &reason, json!({ "reason": reason }));
            }
            ProgressEvent::Totals(_)
            | ProgressEvent::Advanced { .. }
            | ProgressEvent::Resumed { .. }
            | ProgressEvent::Hole { .. }
            | ProgressEvent::Grew { .. }
            | _ => {}
        }
    }
}

/// Why a file failed, and at which end; at neither if the network is the cause.
struct Failed {
    side: Option<&'static str>,
    what: String,
    why: Option<String>,
}

/// The end that broke a transfer off. A stream that ended while its connection goes on was abandoned by the client: the
/// server abandons none.
fn broken_off(error: &TransferError, end: Option<ConnectionError>) -> Failed {
    let by = |side, why| Failed { side: Some(side), what: format!("broken off by the {side}"), why };
    match end {
        Some(ConnectionError::Closed { by: ClosedBy::Us, .. } | ConnectionError::Authentication { .. }) => {
            by(SERVER, None)
        }
        Some(ConnectionError::Closed { by: ClosedBy::Peer, .. } | ConnectionError::AbortedByPeer { .. }) => {
            by(CLIENT, None)
        }
        Some(reason) => {
            Failed { side: None, what: "connection lost".to_owned(), why: Some(reason.to_string()) }
        }
        None if error.is_resumable() => by(CLIENT, None),
        None => by(SERVER, Some(error.to_string())),
    }
}

/// How a connection ended, including reasons of this server.
fn told(end: &ConnectionError) -> String {
    if let ConnectionError::Closed { by: ClosedBy::Us, reason, .. } = end
        && !reason.is_empty()
    {
        return format!("{end}: {reason}");
    }
    end.to_string()
}

/// A text on one line, whatever a peer has put into it.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

const SERVER: &str = "server";
const CLIENT: &str = "client";
/// Interval of lines about unknown clients.
const STRANGERS: Duration = Duration::from_secs(1);
/// Most files of one client whose sizes are remembered.
const MOST_FILES: usize = 4096;

#[cfg(test)]
mod tests {
    use manyway_egress::{Destination, Refusal};
    use manyway_transfer::{Failure, Reason, Totals};

    use super::*;
    use crate::output::opening::tests::message;

    fn lines(format: LogFormat) -> Vec<String> {
        let written = Arc::new(Mutex::new(Vec::new()));
        let place = Arc::clone(&written);
        let sink: Sink = Some(Arc::new(move |line: &str| place.lock().unwrap().push(line.to_owned())));
        let journal = Journal::to(format, sink);
        let client = journal.client("ticket", "alice", "203.0.113.7:50123");
        let closed = || Some(ConnectionError::Closed { by: ClosedBy::Peer, code: 0, reason: String::new() });
        let files = client.files(Way::In, FileCounts::default(), closed);
        files.on_progress(ProgressEvent::Totals(Totals { files: 2, bytes: 9 }));
        files.on_progress(ProgressEvent::Started { name: "film.mp4", size: Some(214_000_000) });
        files.on_progress(ProgressEvent::Verified { name: "film.mp4" });
        files.on_progress(ProgressEvent::Started { name: "stdin", size: None });
        files.on_progress(ProgressEvent::Verified { name: "stdin" });
        files.on_progress(ProgressEvent::Started { name: "empty", size: Some(0) });
        files.on_progress(ProgressEvent::Verified { name: "empty" });
        let full = Failure::new(Reason::DiskFull);
        let failed = |name, at| ProgressEvent::Failed { name, failure: &full, at };
        files.on_progress(failed("b\nclient 9 connected", Party::Local));
        files.on_progress(failed("c", Party::Peer));
        files.on_progress(ProgressEvent::Started { name: "half", size: Some(100 << 20) });
        let error = TransferError::Incomplete { verified: 1 };
        files.on_progress(ProgressEvent::BrokenOff { name: "half", bytes: 25 << 19, error: &error });
        let lost = client.files(Way::Out, FileCounts::default(), || Some(ConnectionError::NoPath));
        lost.on_progress(ProgressEvent::BrokenOff { name: "late", bytes: 1 << 20, error: &error });
        let refusal = Failure::with_text(Reason::ReadOnly, "for reading only");
        files.on_progress(ProgressEvent::Refused { failure: &refusal });
        let destination = Destination::parse("10.0.0.1", 22).ok();
        let refusal = Refusal::new(manyway_egress::Reason::Forbidden);
        client.egress_refused(&RequestError { destination, error: refusal.into() });
        let broken = EgressError::Stream(std::io::ErrorKind::ConnectionReset.into());
        client.egress_refused(&RequestError { destination: None, error: broken });
        let end = ConnectionError::Closed { by: ClosedBy::Us, code: 0, reason: "stopping".to_owned() };
        client.left(&end, (214_000_000, 40_000));
        for _ in 0..3 {
            journal.unknown_client("203.0.113.9:4321");
        }
        journal.server("listening", &["serving".to_owned()], json!({ "directory": "films" }));
        let lines = written.lock().unwrap();
        lines.clone()
    }

    #[test]
    fn each_client_file_failure_and_refusal_is_one_line() {
        let without_time = |line: &String| line.split_once("Z ").unwrap().1.to_owned();
        let mut lines = lines(LogFormat::Text);
        assert_eq!(lines.pop().as_deref(), Some("serving"), "the server's own lines have no time");
        let lines: Vec<_> = lines.iter().map(without_time).collect();
        assert_eq!(lines.len(), 12, "unknown clients are told of once a second: {lines:#?}");
        assert_eq!(lines[0], "client 1 connected ticket alice, from 203.0.113.7:50123");
        assert_eq!(lines[1], "client 1 received film.mp4, 204.0 MiB");
        assert_eq!(lines[2], "client 1 received stdin");
        assert_eq!(lines[3], "client 1 received empty, 0 B");
        assert_eq!(
            lines[4],
            "client 1 failed b\u{fffd}client 9 connected, not received: at the server: the disk is full"
        );
        assert_eq!(lines[5], "client 1 failed c, not received: at the client: the disk is full");
        assert_eq!(
            lines[6],
            "client 1 failed half, not received: broken off by the client after 12.5 MiB of 100.0 MiB"
        );
        let lost = "client 1 failed late, not sent: connection lost after 1.0 MiB: no working path ";
        assert!(lines[7].starts_with(lost), "{}", lines[7]);
        assert_eq!(lines[8], "client 1 refused for reading only");
        assert_eq!(lines[9], "client 1 refused 10.0.0.1:22: forbidden by the rules of the server");
        assert!(lines[10].starts_with("client 1 left after "), "{}", lines[10]);
        assert!(lines[10].ends_with("; closed by this end: stopping"), "{}", lines[10]);
        let stranger = "refused 203.0.113.9:4321: a client with an unknown, revoked or expired ticket or key";
        assert_eq!(lines[11], stranger);
    }

    #[test]
    fn the_log_fits_every_terminal() {
        let timeless = |line: &String| {
            let line = line.split_once("Z ").map_or(line.as_str(), |(_, rest)| rest).to_owned();
            match line.split_once(" left after ") {
                Some((client, rest)) => {
                    let (_, rest) = rest.split_once(": ").unwrap();
                    format!("{client} left after 12.30 s: {rest}")
                }
                None => line,
            }
        };
        let lines = lines(LogFormat::Text);
        let (last, timed) = lines.split_last().unwrap();
        for width in [80, 120] {
            let timed = timed.iter().map(|line| format!("2026-11-25T06:19:52Z {}", timeless(line)));
            let shown: Vec<_> = timed.chain([last.clone()]).map(|line| message(&line, width)).collect();
            insta::assert_snapshot!(format!("log_{width}"), shown.join("\n"));
        }
    }

    #[test]
    fn programs_get_a_document_a_line() {
        let documents: Vec<Value> =
            lines(LogFormat::Json).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let events: Vec<_> = documents.iter().map(|line| line["event"].as_str().unwrap()).collect();
        let events = events.join(" ");
        assert_eq!(
            events,
            "connected received received received failed failed failed failed refused refused left refused listening"
        );
        assert_eq!(
            (&documents[11]["from"], &documents[12]["directory"]),
            (&"203.0.113.9:4321".into(), &"films".into())
        );
        assert_eq!((&documents[4]["side"], &documents[5]["side"]), (&"server".into(), &"client".into()));
        assert_eq!(
            (&documents[6]["bytes"], &documents[6]["size"]),
            (&(25 << 19).into(), &(100 << 20).into())
        );
        assert_eq!(documents[6]["reason"], "broken off by the client");
        assert_eq!((&documents[7]["side"], &documents[7]["way"]), (&Value::Null, &"sent".into()));
        assert_eq!(documents[9]["destination"], "10.0.0.1:22");
        assert_eq!((&documents[2]["bytes"], &documents[3]["bytes"]), (&Value::Null, &0.into()));
        assert_eq!(documents[0]["name"], "alice");
        assert!(documents.iter().all(|line| line["time"].as_str().unwrap().ends_with('Z')));
    }

    #[test]
    fn a_quiet_server_logs_nothing() {
        let journal = Journal::new(LogFormat::Text, true);
        assert!(journal.sink.is_none());
        journal.client("ticket", "alice", "x").left(&ConnectionError::IdleTimeout, (0, 0));
    }
}
