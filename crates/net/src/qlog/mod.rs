//! Logs connections in qlog, a file for each; [`observe::qlog`](crate::observe::qlog) describes the content.
//!
//! ```no_run
//! use manyway::{Endpoint, EndpointOptions, qlog};
//!
//! let mut options = EndpointOptions::default();
//! options.connection.set_observers(qlog::directory("logs")?);
//! let endpoint = Endpoint::bind(options)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod time;
mod writer;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use manyway_proto::Side;
use manyway_proto::observe::qlog::{Qlog, Sink};
use manyway_proto::observe::{Beginning, Fact, ObservedPacket, Observer, Observers};
use manyway_proto::{ConnectionError, Instant};

use writer::{FileId, Writer};

/// Records are passed to the thread in blocks of this size.
const PIECE: usize = 16 * 1024;
/// Above this amount, records wait for a slow disk only in its queue; further ones are dropped and counted.
const MOST_WAITING: usize = 4 * PIECE;
/// Longest wait of a record for the next event of its connection.
const PATIENCE: Duration = Duration::from_millis(100);
/// Most incomplete handshakes at a server that are logged: anyone can begin one. Later ones are held back until they
/// complete.
const MOST_INCOMPLETE: usize = 1000;

/// Logs every connection into a file of its own in `directory`, which is created if it does not exist. Pass the result
/// to [`ConnectionConfig::set_observers`](crate::ConnectionConfig::set_observers).
///
/// The name of a file is the original destination connection ID, the same at both ends, and the side of the writer:
/// `0102030405060708_client.sqlog`. An existing file is never changed: a number is added to the name.
///
/// A separate thread writes. Its queue is bounded: when the disk does not keep up, records are dropped, and a record
/// states how many. When a file cannot be written, one warning goes to the log of the program, and everything else goes
/// on. When the last endpoint with these observers ends, it waits up to 2 s until everything is written. Of the
/// handshakes at a server that do not complete, the first 1000 are logged.
///
/// The files reveal addresses, IDs, sizes and times; no keys and no content.
///
/// # Errors
/// If the directory cannot be created, or the thread cannot be started.
pub fn directory(directory: impl AsRef<Path>) -> io::Result<Observers> {
    let writer = Arc::new(Writer::start(directory.as_ref())?);
    let incomplete = Arc::new(AtomicUsize::new(0));
    Ok(Observers::new(move |beginning| {
        let proof = Proof::begin(beginning, &incomplete);
        let side = match beginning.side {
            Side::Client => "client",
            Side::Server => "server",
        };
        let id = writer.open(format!("{}_{side}", beginning.original_destination));
        let is_held = Arc::clone(&proof.is_held);
        let sink = FileSink { writer: Arc::clone(&writer), id, waiting: String::new(), since: None, is_held };
        #[expect(
            clippy::disallowed_methods,
            reason = "the log tells people when it began; nothing is timed by it"
        )]
        let wall_clock = time::rfc_3339(SystemTime::now());
        let log = Qlog::new(beginning, wall_clock.as_deref(), Box::new(sink));
        Some(Box::new(Log { log, proof }))
    }))
}

/// Whether the handshake completed, and the count of those at a server that did not.
#[derive(Debug)]
struct Proof {
    /// The counter that includes this handshake.
    counted: Option<Arc<AtomicUsize>>,
    /// Nothing is written yet, and nothing at all if the handshake does not complete: there are too many others.
    is_held: Arc<AtomicBool>,
}

impl Proof {
    fn begin(beginning: &Beginning, incomplete: &Arc<AtomicUsize>) -> Self {
        let counts = beginning.side == Side::Server;
        let is_held = counts && incomplete.load(Ordering::Relaxed) >= MOST_INCOMPLETE;
        let counted = (counts && !is_held).then(|| Arc::clone(incomplete));
        if let Some(incomplete) = &counted {
            incomplete.fetch_add(1, Ordering::Relaxed);
        }
        Self { counted, is_held: Arc::new(is_held.into()) }
    }

    fn complete(&mut self) {
        self.is_held.store(false, Ordering::Relaxed);
        if let Some(incomplete) = self.counted.take() {
            incomplete.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The log of one connection.
#[derive(Debug)]
struct Log {
    log: Qlog,
    proof: Proof,
}

impl Observer for Log {
    fn on_fact(&mut self, now: Instant, fact: &Fact) {
        if matches!(fact, Fact::Established) {
            self.proof.complete();
        }
        self.log.on_fact(now, fact);
    }

    fn on_packet(&mut self, now: Instant, packet: &ObservedPacket<'_>) {
        self.log.on_packet(now, packet);
    }

    fn on_closed(&mut self, now: Instant, error: &ConnectionError) {
        self.log.on_closed(now, error);
    }
}

/// Collects the records of one file.
#[derive(Debug)]
struct FileSink {
    writer: Arc<Writer>,
    id: FileId,
    waiting: String,
    /// When the oldest of them was recorded.
    since: Option<Instant>,
    is_held: Arc<AtomicBool>,
}

impl FileSink {
    fn hand_over(&mut self) {
        if self.waiting.is_empty() || self.is_held.load(Ordering::Relaxed) {
            return;
        }
        // The queue has room again later, or the records are counted as dropped.
        if let Err(back) = self.writer.append(self.id, std::mem::take(&mut self.waiting)) {
            self.waiting = back;
        } else {
            self.since = None;
        }
    }
}

impl Sink for FileSink {
    fn take(&mut self, now: Instant, record: &str) -> bool {
        if self.waiting.len() + record.len() > MOST_WAITING {
            self.hand_over();
            if !self.waiting.is_empty() {
                return false;
            }
        }
        self.waiting.push_str(record);
        let since = *self.since.get_or_insert(now);
        if self.waiting.len() >= PIECE || now - since >= PATIENCE {
            self.hand_over();
        }
        true
    }

    fn flush(&mut self) {
        self.hand_over();
    }
}

impl Drop for FileSink {
    fn drop(&mut self) {
        self.hand_over();
        self.writer.close(self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use manyway_proto::{ConnectionId, FourTuple, LocalAddress};

    use super::*;

    #[test]
    fn an_existing_file_is_not_changed_and_everything_is_written_when_the_last_owner_goes() {
        let home = tempfile::tempdir().unwrap();
        let logs = home.path().join("a/b");
        for _ in 0..2 {
            let observers = directory(&logs).unwrap();
            drop(observers);
        }
        let writer = Writer::start(&logs).unwrap();
        let id = writer.open("x_client".to_owned());
        writer.append(id, "one\n".to_owned()).unwrap();
        writer.append(id, "two\n".to_owned()).unwrap();
        let other = writer.open("x_client".to_owned());
        writer.append(other, "three\n".to_owned()).unwrap();
        writer.close(id);
        drop(writer);
        assert_eq!(std::fs::read_to_string(logs.join("x_client.sqlog")).unwrap(), "one\ntwo\n");
        assert_eq!(std::fs::read_to_string(logs.join("x_client-2.sqlog")).unwrap(), "three\n");
    }

    #[test]
    fn a_removed_directory_stops_nothing() {
        let home = tempfile::tempdir().unwrap();
        let writer = Writer::start(home.path()).unwrap();
        drop(home);
        let id = writer.open("x".to_owned());
        for _ in 0..3 {
            writer.append(id, "lost".to_owned()).unwrap();
        }
    }

    #[test]
    fn incomplete_handshakes_are_logged_up_to_a_limit() {
        let incomplete = Arc::new(AtomicUsize::new(MOST_INCOMPLETE - 1));
        let address: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let tuple = FourTuple::udp(LocalAddress { interface: 0, address }, address);
        let id = ConnectionId::from_u64(1);
        let server = Beginning::new(Instant::from_nanos(0), Side::Server, [id, id], tuple);
        let is_held = |proof: &Proof| proof.is_held.load(Ordering::Relaxed);
        let mut last = Proof::begin(&server, &incomplete);
        let mut beyond = Proof::begin(&server, &incomplete);
        assert!(!is_held(&last) && is_held(&beyond));

        // Held records are written once the handshake completes, and never if it does not.
        let home = tempfile::tempdir().unwrap();
        let writer = Arc::new(Writer::start(home.path()).unwrap());
        for name in ["completes", "ends"] {
            let (id, is_held) = (writer.open(name.to_owned()), Arc::clone(&beyond.is_held));
            let writer = Arc::clone(&writer);
            let mut sink = FileSink { writer, id, waiting: String::new(), since: None, is_held };
            assert!(sink.take(Instant::from_nanos(0), "one\n"));
            sink.flush();
            if name == "completes" {
                beyond.complete();
            }
            sink.flush();
            drop(sink);
            beyond.is_held.store(true, Ordering::Relaxed);
        }
        drop(writer);
        assert_eq!(std::fs::read_to_string(home.path().join("completes.sqlog")).unwrap(), "one\n");
        assert!(!home.path().join("ends.sqlog").exists());

        last.complete();
        assert!(!is_held(&Proof::begin(&server, &incomplete)));
    }
}
