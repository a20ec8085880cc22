//! The log of a server: a line for each client that comes and goes, each file, failure and refusal.
//!
//! Nothing secret is in it: a client is known by the name of its ticket or key, and by its address. What a peer sent is
//! printed without control characters.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use manyway_transfer::{Progress, ProgressEvent};
use serde_json::{Map, Value, json};

use crate::args::LogFormat;
use crate::home::Timestamp;
use crate::output::{note, units};
use crate::status::FileCounts;

/// Where lines go; `None` for nowhere.
type Sink = Option<Arc<dyn Fn(&str) + Send + Sync>>;

/// The log; clones write to the same place.
#[derive(Clone)]
pub struct Journal {
    format: LogFormat,
    sink: Sink,
    clients: Arc<AtomicU64>,
    /// When an unknown client was told of last, and how many were not told of since.
    strangers: Arc<Mutex<(Option<Instant>, u64)>>,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("format", &self.format).finish_non_exhaustive()
    }
}

/// Which way a file goes, as seen from the server.
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
        let sink: Sink = if quiet { None } else { Some(Arc::new(note)) };
        Self::to(format, sink)
    }

    fn to(format: LogFormat, sink: Sink) -> Self {
        Self { format, sink, clients: Arc::default(), strangers: Arc::default() }
    }

    /// A client was let in.
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

    /// Somebody was not let in: one who is known, but is one too many or has lost its rights.
    pub fn refused(&self, from: &str, reason: &str) {
        self.write("refused", None, &format!("{from}: {reason}"), json!({ "from": from, "reason": reason }));
    }

    /// Somebody showed a key that opens nothing. Anybody can do that at any rate: at most one line a second tells it.
    pub fn stranger(&self) {
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
        let text = format!("a client with an unknown, revoked or expired ticket or key{more}");
        self.write("refused", None, &text, json!({ "reason": "unknown key", "others": others }));
    }

    fn write(&self, event: &str, client: Option<u64>, text: &str, facts: Value) {
        let Some(sink) = &self.sink else { return };
        let time = Timestamp::now();
        let line = match self.format {
            LogFormat::Text => {
                let who = client.map_or_else(String::new, |number| format!("client {number} "));
                format!("{time} {who}{event} {}", printable(text)).trim_end().to_owned()
            }
            LogFormat::Json => {
                let mut document = Map::new();
                document.insert("time".to_owned(), time.to_string().into());
                document.insert("event".to_owned(), event.into());
                document.extend(client.map(|number| ("client".to_owned(), number.into())));
                if let Value::Object(facts) = facts {
                    document.extend(facts);
                }
                Value::from(document).to_string()
            }
        };
        sink(&line);
    }
}

/// A client that was let in.
#[derive(Debug, Clone)]
pub struct Client {
    journal: Journal,
    number: u64,
    since: Instant,
}

impl Client {
    /// It is gone, after so many bytes in each direction.
    pub fn left(&self, reason: &str, received: u64, sent: u64) {
        let lasted = self.since.elapsed();
        let (bytes_in, bytes_out) = (units::size(received), units::size(sent));
        let text =
            format!("after {}: {bytes_in} received, {bytes_out} sent; {reason}", units::duration(lasted));
        let facts = json!({
            "seconds": lasted.as_secs_f64(), "bytes_received": received, "bytes_sent": sent, "reason": reason,
        });
        self.write("left", &text, facts);
    }

    /// Writes of the files that go one way, and counts them for `manyway status`.
    pub fn files(&self, way: Way, counts: FileCounts) -> Arc<dyn Progress> {
        Arc::new(Files { client: self.clone(), way, counts, sizes: Mutex::default() })
    }

    fn write(&self, event: &str, text: &str, facts: Value) {
        self.journal.write(event, Some(self.number), text, facts);
    }
}

/// The files of a client that go one way.
struct Files {
    client: Client,
    way: Way,
    counts: FileCounts,
    /// Those that have begun.
    sizes: Mutex<BTreeMap<String, u64>>,
}

impl Progress for Files {
    fn on_progress(&self, event: ProgressEvent<'_>) {
        self.counts.on_progress(event);
        let mut sizes = self.sizes.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            ProgressEvent::Started { name, size } if sizes.len() < MOST_FILES => {
                sizes.insert(name.to_owned(), size);
            }
            ProgressEvent::Verified { name } => {
                let size = sizes.remove(name);
                drop(sizes);
                let mut text = name.to_owned();
                if let Some(size) = size {
                    // Writing to a string does not fail.
                    let _ = write!(text, ", {}", units::size(size));
                }
                self.client.write(self.way.done(), &text, json!({ "file": name, "bytes": size }));
            }
            ProgressEvent::Failed { name, failure } => {
                sizes.remove(name);
                drop(sizes);
                let (way, reason) = (self.way.done(), failure.to_string());
                let facts = json!({ "file": name, "way": way, "reason": reason });
                self.client.write("failed", &format!("{name}, not {way}: {reason}"), facts);
            }
            ProgressEvent::Refused { failure } => {
                drop(sizes);
                let reason = failure.to_string();
                self.client.write("refused", &reason, json!({ "reason": reason }));
            }
            ProgressEvent::Started { .. }
            | ProgressEvent::Totals(_)
            | ProgressEvent::Advanced { .. }
            | ProgressEvent::Resumed { .. }
            | ProgressEvent::Hole { .. }
            | ProgressEvent::LeftOut { .. }
            | ProgressEvent::Grew { .. }
            | _ => {}
        }
    }
}

/// A text of one line, whatever a peer has put into it.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// A line tells of unknown clients so often at most.
const STRANGERS: Duration = Duration::from_secs(1);
/// Files of one client whose sizes are remembered at the same time.
const MOST_FILES: usize = 4096;

#[cfg(test)]
mod tests {
    use manyway_transfer::{Failure, Reason, Totals};

    use super::*;

    fn lines(format: LogFormat) -> Vec<String> {
        let written = Arc::new(Mutex::new(Vec::new()));
        let place = Arc::clone(&written);
        let sink: Sink = Some(Arc::new(move |line: &str| place.lock().unwrap().push(line.to_owned())));
        let journal = Journal::to(format, sink);
        let client = journal.client("ticket", "alice", "203.0.113.7:50123");
        let files = client.files(Way::In, FileCounts::default());
        files.on_progress(ProgressEvent::Totals(Totals { files: 2, bytes: 9 }));
        files.on_progress(ProgressEvent::Started { name: "film.mp4", size: 214_000_000 });
        files.on_progress(ProgressEvent::Verified { name: "film.mp4" });
        let full = Failure::new(Reason::DiskFull);
        files.on_progress(ProgressEvent::Failed { name: "b\nclient 9 connected", failure: &full });
        let refusal = Failure::with_text(Reason::ReadOnly, "for reading only");
        files.on_progress(ProgressEvent::Refused { failure: &refusal });
        client.left("the peer closed the connection", 214_000_000, 40_000);
        for _ in 0..3 {
            journal.stranger();
        }
        let lines = written.lock().unwrap();
        lines.clone()
    }

    #[test]
    fn each_client_file_failure_and_refusal_is_one_line() {
        let without_time = |line: &String| line.split_once("Z ").unwrap().1.to_owned();
        let lines: Vec<_> = lines(LogFormat::Text).iter().map(without_time).collect();
        assert_eq!(lines.len(), 6, "unknown clients are told of once a second: {lines:#?}");
        assert_eq!(lines[0], "client 1 connected ticket alice, from 203.0.113.7:50123");
        assert_eq!(lines[1], "client 1 received film.mp4, 204.0 MiB");
        assert!(lines[2].starts_with("client 1 failed b\u{fffd}client 9 connected, not received: "));
        assert!(lines[3].starts_with("client 1 refused ") && lines[3].contains("for reading only"));
        assert!(lines[4].starts_with("client 1 left after "), "{}", lines[4]);
        assert_eq!(lines[5], "refused a client with an unknown, revoked or expired ticket or key");
    }

    #[test]
    fn programs_read_a_document_a_line() {
        let documents: Vec<Value> =
            lines(LogFormat::Json).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let events: Vec<_> = documents.iter().map(|line| line["event"].as_str().unwrap()).collect();
        assert_eq!(events, ["connected", "received", "failed", "refused", "left", "refused"]);
        assert_eq!(documents[1]["bytes"], 214_000_000);
        assert_eq!(documents[0]["name"], "alice");
        assert!(documents.iter().all(|line| line["time"].as_str().unwrap().ends_with('Z')));
    }

    #[test]
    fn a_quiet_server_logs_nothing() {
        let journal = Journal::new(LogFormat::Text, true);
        assert!(journal.sink.is_none());
        journal.client("ticket", "alice", "x").left("y", 0, 0);
    }
}
