//! What a command publishes: its connections and their figures.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use manyway::{Connection, ConnectionInfo, PathId, PathInfo, PathReport, Why};

use super::document::{Document, PathDocument, PeerDocument};
use super::files::FileCounts;
use crate::output::address;
use crate::output::book::rtt_of;
use crate::output::path::{why_of, why_words};
use crate::output::rate::RateWindow;

/// The state of a command; clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedState(Arc<Mutex<State>>);

#[derive(Debug, Default)]
pub(super) struct State {
    verb: &'static str,
    started: Option<Instant>,
    next: u64,
    pub(super) peers: BTreeMap<u64, Peer>,
    pub(super) files: FileCounts,
}

#[derive(Debug, Clone)]
pub(super) struct Peer {
    name: Option<String>,
    pub(super) connection: Connection,
    since: Instant,
    files: FileCounts,
}

/// The state without keeping it alive: a reader ends with the command.
#[cfg(unix)]
#[derive(Debug, Clone)]
pub(super) struct WeakState(std::sync::Weak<Mutex<State>>);

#[cfg(unix)]
impl WeakState {
    pub(super) fn upgrade(&self) -> Option<SharedState> {
        self.0.upgrade().map(SharedState)
    }
}

impl SharedState {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(unix)]
    pub(super) fn downgrade(&self) -> WeakState {
        WeakState(Arc::downgrade(&self.0))
    }

    /// The verb, and the open connections with the names of their peers.
    #[cfg(unix)]
    pub(super) fn connections(&self) -> (&'static str, Vec<(Option<String>, Connection)>) {
        let state = self.lock();
        let open = state.peers.values().filter(|peer| peer.connection.close_reason().is_none());
        (state.verb, open.map(|peer| (peer.name.clone(), peer.connection.clone())).collect())
    }

    /// Reads all figures; `rates` holds the earlier ones.
    pub(super) async fn document(&self, rates: &mut Rates) -> Document {
        let (verb, started, files, peers) = {
            let state = self.lock();
            let open = state.peers.iter().filter(|(_, peer)| peer.connection.close_reason().is_none());
            let peers: Vec<_> = open.map(|(number, peer)| (*number, peer.clone())).collect();
            (state.verb, state.started, state.files.so_far(), peers)
        };
        let (mut documents, mut files, mut waiting) = (Vec::new(), files, 0);
        for (number, peer) in peers {
            // A closing connection may be left out.
            let figures = async { tokio::try_join!(peer.connection.info(), peer.connection.report()) };
            if let Ok(Ok((info, report))) = tokio::time::timeout(PATIENCE, figures).await {
                waiting += info.unacknowledged.get();
                documents.push(peer.document(number, (&info, &report), rates));
            }
        }
        if let Some(files) = &mut files {
            files.take_back(waiting);
        }
        Document {
            pid: std::process::id(),
            verb: verb.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            seconds: started.map_or(0.0, |started| started.elapsed().as_secs_f64()),
            files,
            peers: documents,
        }
    }
}

impl State {
    /// Names the command, which begins now.
    pub(super) fn begin(&mut self, verb: &'static str) {
        (self.verb, self.started) = (verb, Some(Instant::now()));
    }

    pub(super) fn add(&mut self, name: Option<String>, connection: &Connection, files: FileCounts) -> u64 {
        let number = self.next;
        self.next += 1;
        let peer = Peer { name, connection: connection.clone(), since: Instant::now(), files };
        self.peers.insert(number, peer);
        number
    }
}

/// Time limit for a connection to report its figures.
const PATIENCE: Duration = Duration::from_secs(1);

/// The rates of every path in both directions, for one reader.
#[derive(Debug, Default)]
pub(super) struct Rates(BTreeMap<(u64, PathId), [RateWindow; 2]>);

impl Rates {
    fn take(&mut self, key: (u64, PathId), bytes: [u64; 2]) -> [Option<u64>; 2] {
        let now = Instant::now();
        let windows = self.0.entry(key).or_default();
        let [sent, received] = windows;
        let [bytes_sent, bytes_received] = bytes;
        let rate = |window: &mut RateWindow, bytes| {
            window.record(now, bytes);
            window.rate(now).map(|rate| rate.bits_per_second())
        };
        [rate(sent, bytes_sent), rate(received, bytes_received)]
    }

    fn keep(&mut self, peer: u64, paths: &[PathInfo]) {
        let is_there = |id| paths.iter().any(|path| path.statistics.id == id);
        self.0.retain(|(other, id), _| *other != peer || is_there(*id));
    }
}

impl Peer {
    fn document(
        &self,
        number: u64,
        (info, report): (&ConnectionInfo, &[PathReport]),
        rates: &mut Rates,
    ) -> PeerDocument {
        rates.keep(number, &info.paths);
        let mut files = self.files.so_far();
        if let Some(files) = &mut files {
            files.take_back(info.unacknowledged.get());
        }
        let paths: Vec<_> =
            info.paths.iter().map(|path| path_document(number, path, report, rates)).collect();
        let sum = |pick: fn(&PathDocument) -> Option<u64>| {
            paths.iter().filter_map(pick).fold(None, |sum: Option<u64>, rate| Some(sum.unwrap_or(0) + rate))
        };
        PeerDocument {
            name: self.name.clone(),
            wire: self.connection.wire().to_string(),
            seconds: self.since.elapsed().as_secs_f64(),
            sent_bits_per_second: sum(|path| path.sent_bits_per_second),
            received_bits_per_second: sum(|path| path.received_bits_per_second),
            files,
            paths,
        }
    }
}

fn path_document(peer: u64, path: &PathInfo, report: &[PathReport], rates: &mut Rates) -> PathDocument {
    let figures = &path.statistics;
    let why = why_of(report, figures.id);
    let (sent, received) = (figures.bytes_sent.get(), figures.bytes_received.get());
    let [sent_rate, received_rate] = rates.take((peer, figures.id), [sent, received]);
    #[expect(clippy::cast_precision_loss, reason = "a share; the counts stand beside it")]
    let loss = (figures.packets_sent > 0).then(|| figures.packets_lost as f64 / figures.packets_sent as f64);
    PathDocument {
        path: figures.id.0,
        interface: path.interface.clone(),
        local: figures.tuple.local.address.ip().to_canonical().to_string(),
        remote: address(figures.tuple.remote),
        carrier: figures.tuple.carrier.to_string(),
        state: figures.state.word().to_owned(),
        rtt: rtt_of(figures).map(|rtt| rtt.as_secs_f64()),
        loss,
        bytes_sent: sent,
        bytes_received: received,
        packets_sent: figures.packets_sent,
        packets_lost: figures.packets_lost,
        sent_bits_per_second: sent_rate,
        received_bits_per_second: received_rate,
        used: why.is_some_and(Why::is_used),
        why: why.map(why_words),
    }
}
