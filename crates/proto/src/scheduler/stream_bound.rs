//! Each stream on a path of its own (Goff-Phatak IV).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use manyway_wire::{PathId, StreamId};

use super::choice::{capacity, has_room, preferred, turn};
use super::{Binding, Decision, Event, PathView, Purpose, Scheduler, Source, View};
use crate::ByteCount;

/// Binds each stream to a path when it first has data to send. While that path carries no data the stream uses
/// another one, and returns to its own when that works again.
///
/// The application may choose the path or the interface of a stream ([`Event::StreamBound`]). Otherwise a new stream
/// gets the path with the highest rate for each of its streams. While the rate of any path is unknown,
/// it gets the path with the fewest streams, of these the oldest. Streams of one path with the same priority take
/// turns, those with retransmissions first.
///
/// The last 1024 streams are remembered.
#[derive(Debug, Clone, Default)]
pub struct StreamBound {
    bonds: BTreeMap<StreamId, Bond>,
    /// Counts decisions, to order the streams by their last turn.
    turn: u64,
}

#[derive(Debug, Clone, Copy)]
struct Bond {
    /// The choice of the application.
    wished: Option<Binding>,
    /// `None` before the first decision.
    home: Option<PathId>,
    /// The path of the stream while its home does not work.
    refuge: Option<PathId>,
    /// The decision at which it had its last turn.
    served: u64,
}

const MOST_STREAMS: usize = 1024;

impl Bond {
    /// Of a new stream, which waits behind all that had no turn before.
    fn new(turn: u64) -> Self {
        Self { wished: None, home: None, refuge: None, served: turn.saturating_sub(1) }
    }
}

impl StreamBound {
    /// The present path of a stream.
    fn path_of<'a>(&mut self, stream: StreamId, view: &View<'a>) -> Option<&'a PathView> {
        let works = |id: PathId| view.in_use().find(|path| path.id == id);
        let mut bond = self.bonds.get(&stream).copied().unwrap_or_else(|| Bond::new(self.turn));
        let wished = bond.wished.and_then(|binding| binding.path(view));
        let open = |home: &PathId| view.path(*home).is_some();
        // A stream without a home, or whose home is closed, gets a new one.
        let home = match wished.or_else(|| bond.home.filter(open)) {
            Some(home) => home,
            None => self.freest(view)?.id,
        };
        if bond.home != Some(home) {
            (bond.home, bond.refuge) = (Some(home), None);
        }
        let path = match works(home) {
            Some(home) => {
                bond.refuge = None;
                Some(home)
            }
            None => bond.refuge.and_then(works).or_else(|| self.freest(view)),
        };
        if let Some(path) = path.filter(|path| path.id != home) {
            bond.refuge = Some(path.id);
        }
        self.keep(stream, bond);
        path
    }

    fn keep(&mut self, stream: StreamId, bond: Bond) {
        self.bonds.insert(stream, bond);
        if self.bonds.len() > MOST_STREAMS {
            self.forget_oldest();
        }
    }

    /// The preferred path with the highest rate for each stream, the new one included. Before slow start has ended
    /// everywhere, windows and first RTTs say little about rates: then the path with the fewest streams.
    fn freest<'a>(&self, view: &View<'a>) -> Option<&'a PathView> {
        let streams = |path: &PathView| {
            let on_it = self.bonds.values().filter(|bond| bond.refuge.or(bond.home) == Some(path.id));
            on_it.count() as u64 + 1
        };
        if preferred(view).any(|path| path.in_slow_start) {
            return preferred(view).min_by_key(|path| (streams(path), path.id));
        }
        preferred(view)
            .max_by_key(|path| (capacity(path).bytes_per_second() / streams(path), Reverse(path.id)))
    }

    fn forget_oldest(&mut self) {
        let oldest = self.bonds.iter().min_by_key(|(_, bond)| bond.served).map(|(stream, _)| *stream);
        if let Some(stream) = oldest {
            self.bonds.remove(&stream);
        }
    }
}

impl Scheduler for StreamBound {
    fn name(&self) -> &'static str {
        "stream-bound"
    }

    fn chooses_streams(&self) -> bool {
        true
    }

    fn binds_streams(&self) -> bool {
        true
    }

    fn on_event(&mut self, event: &Event) {
        let Event::StreamBound { stream, to } = *event else { return };
        match to {
            Some(place) => {
                let bond = self.bonds.get(&stream).copied().unwrap_or_else(|| Bond::new(self.turn));
                self.keep(stream, Bond { wished: Some(place), ..bond });
            }
            None => drop(self.bonds.remove(&stream)),
        }
    }

    fn is_guarded(&self) -> bool {
        false
    }

    fn decide(&mut self, view: &View<'_>) -> Decision {
        self.turn += 1;
        let mut best = None;
        for ready in view.ready {
            // Without credit only retransmissions, or a FIN without data, can be sent.
            let needs_credit = ready.unsent > ByteCount::ZERO && ready.retransmissions == ByteCount::ZERO;
            if needs_credit && view.sendable_unsent() == ByteCount::ZERO {
                continue;
            }
            let Some(path) = self.path_of(ready.stream, view).filter(|path| has_room(path)) else { continue };
            let served = self.bonds.get(&ready.stream).map_or(0, |bond| bond.served);
            let key = (Reverse(ready.priority), needs_credit, served, ready.stream);
            if best.is_none_or(|(best, _)| key < best) {
                best = Some((key, path));
            }
        }
        let Some(((.., stream), path)) = best else { return Decision::WAIT };
        if let Some(bond) = self.bonds.get_mut(&stream) {
            bond.served = self.turn;
        }
        Decision::send(path.id, turn(path).min(path.sendable), Source::Stream(stream))
    }

    fn purpose(&self, path: &PathView, view: &View<'_>) -> Purpose {
        let works = |id: PathId| view.in_use().any(|path| path.id == id);
        let is_guest = |bond: &Bond| bond.refuge == Some(path.id) && !bond.home.is_some_and(works);
        if self.bonds.values().any(is_guest) {
            Purpose::OrphanedStreams
        } else if self.bonds.values().any(|bond| bond.home == Some(path.id)) {
            Purpose::Streams
        } else {
            Purpose::Unbound
        }
    }
}
