//! Each stream on a path of its own (Goff-Phatak IV).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use manyway_wire::{PathId, StreamId};
use smallvec::SmallVec;

use super::choice::{capacity, has_room, preferred, turn};
use super::{Decision, PathView, Purpose, ReadyStream, Scheduler, Source, View};
use crate::{ByteCount, Rate};

/// Binds each stream to a path when it first has something to send. While that path carries no data the stream uses
/// another one, and is back on its own when that works again.
///
/// A new stream gets the path with the highest rate for each of its streams. While that of a path is not measured (it did
/// not leave slow start yet) this is a guess, and the stream may move: once its own path is measured, it tries each other
/// one that is as near, is not measured, and that no stream uses; when all are measured, it goes where it gets at least
/// twice as much, and stays.
///
/// Streams of one path with the same priority take turns, those with something to send again first.
///
/// It remembers the 1024 streams that were served last.
#[derive(Debug, Clone, Default)]
pub struct StreamBound {
    bonds: BTreeMap<StreamId, Bond>,
    /// Counts decisions, to know who was served when.
    turn: u64,
}

#[derive(Debug, Clone, Copy)]
struct Bond {
    home: PathId,
    /// Where it is while its home does not work.
    refuge: Option<PathId>,
    /// The decision at which it had its last turn.
    served: u64,
    choice: Choice,
}

/// How a stream came to its home. Each path is tried once at most, in the order of their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// Before all paths were measured; those from `next` on may be tried.
    Guess { next: PathId },
    /// To see what it carries: the path before brought `rate`.
    Trial { next: PathId, before: PathId, rate: Rate },
    /// For good.
    Settled,
}

const MOST_STREAMS: usize = 1024;
/// A stream moves for so many times what it has.
const CLEARLY_MORE: u64 = 2;

impl StreamBound {
    /// The path of a stream now.
    fn path_of<'a>(&mut self, stream: StreamId, view: &View<'a>) -> Option<&'a PathView> {
        let works = |id: PathId| view.in_use().find(|path| path.id == id);
        // Who has no home, or whose home is gone for good, gets one.
        let known = self.bonds.get(&stream).copied().filter(|bond| view.path(bond.home).is_some());
        let mut bond = match known {
            Some(bond) => bond,
            None => Bond {
                home: self.freest(view)?.id,
                refuge: None,
                served: self.turn.saturating_sub(1),
                choice: if preferred(view).all(is_measured) {
                    Choice::Settled
                } else {
                    Choice::Guess { next: PathId(0) }
                },
            },
        };
        let path = match works(bond.home) {
            Some(home) => {
                bond.refuge = None;
                Some(home)
            }
            None => bond.refuge.and_then(works).or_else(|| self.freest(view)),
        };
        if let Some(path) = path.filter(|path| path.id != bond.home) {
            bond.refuge = Some(path.id);
        }
        self.bonds.insert(stream, bond);
        if self.bonds.len() > MOST_STREAMS {
            self.forget_oldest();
        }
        path
    }

    /// Looks whether a stream that came to its home by a guess moves, now that more is known.
    fn reconsider(&mut self, stream: StreamId, view: &View<'_>) {
        let Some(bond) = self.bonds.get(&stream).copied() else { return };
        let home = preferred(view).find(|path| path.id == bond.home && is_measured(path));
        let Some(home) = home.filter(|_| bond.choice != Choice::Settled) else { return };
        let here = || share(home, self.users(home.id, view).max(1));
        let moved = match bond.choice {
            Choice::Settled => return,
            Choice::Trial { next, before, rate } => {
                let works = preferred(view).any(|path| path.id == before);
                let home = if works && here() < rate { before } else { bond.home };
                Bond { home, choice: Choice::Guess { next }, ..bond }
            }
            Choice::Guess { next } => match preferred(view).find(|path| !is_measured(path)) {
                None => {
                    let there = |path: &PathView| share(path, self.users(path.id, view) + 1);
                    let others = preferred(view).filter(|path| path.id != home.id);
                    let best = others.max_by_key(|path| (there(path), Reverse(path.id)));
                    let best = best.filter(|path| there(path) >= here().scaled(CLEARLY_MORE, 1));
                    Bond { home: best.map_or(home.id, |path| path.id), choice: Choice::Settled, ..bond }
                }
                Some(_) => {
                    let may_try = |path: &&PathView| {
                        path.id >= next
                            && !is_measured(path)
                            && is_as_near(path, home)
                            && self.users(path.id, view) == 0
                    };
                    let Some(path) = preferred(view).filter(may_try).min_by_key(|path| path.id) else {
                        return;
                    };
                    let next = PathId(path.id.0.saturating_add(1));
                    let choice = Choice::Trial { next, before: home.id, rate: here() };
                    Bond { home: path.id, choice, ..bond }
                }
            },
        };
        self.bonds.insert(stream, moved);
    }

    /// The streams on a path that have something to send now.
    fn users(&self, id: PathId, view: &View<'_>) -> u64 {
        let bonds = view.ready.iter().filter_map(|ready| self.bonds.get(&ready.stream));
        bonds.filter(|bond| bond.refuge.unwrap_or(bond.home) == id).count() as u64
    }

    /// The preferred path with the highest rate for each stream, one more counted.
    fn freest<'a>(&self, view: &View<'a>) -> Option<&'a PathView> {
        let streams = |path: &PathView| {
            let on_it = self.bonds.values().filter(|bond| bond.refuge.unwrap_or(bond.home) == path.id);
            on_it.count() as u64 + 1
        };
        preferred(view).max_by_key(|path| (share(path, streams(path)), Reverse(path.id)))
    }

    fn forget_oldest(&mut self) {
        let oldest = self.bonds.iter().min_by_key(|(_, bond)| bond.served).map(|(stream, _)| *stream);
        if let Some(stream) = oldest {
            self.bonds.remove(&stream);
        }
    }
}

/// What a path brings each of so many streams.
fn share(path: &PathView, streams: u64) -> Rate {
    Rate::from_bytes_per_second(capacity(path).bytes_per_second() / streams)
}

/// Whether round trips tell nothing of which of two paths is better, so that the guess was no better than chance. A
/// farther one would cost a long slow start.
fn is_as_near(path: &PathView, home: &PathView) -> bool {
    path.rtt.minimum * 4 <= home.rtt.minimum * 5
}

/// Whether it is known what a path carries.
fn is_measured(path: &PathView) -> bool {
    path.delivery_rate > Rate::ZERO && !path.in_slow_start
}

impl Scheduler for StreamBound {
    fn name(&self) -> &'static str {
        "stream-bound"
    }

    fn chooses_streams(&self) -> bool {
        true
    }

    fn is_guarded(&self) -> bool {
        false
    }

    fn decide(&mut self, view: &View<'_>) -> Decision {
        self.turn += 1;
        let mut best = None;
        let unsettled = |ready: &&ReadyStream| {
            self.bonds.get(&ready.stream).is_some_and(|bond| bond.choice != Choice::Settled)
        };
        let unsettled: SmallVec<[StreamId; 8]> =
            view.ready.iter().filter(unsettled).map(|ready| ready.stream).collect();
        unsettled.into_iter().for_each(|stream| self.reconsider(stream, view));
        for ready in view.ready {
            // Without credit only what goes again, or a bare end, can be sent.
            let needs_credit = ready.fresh > ByteCount::ZERO && ready.repeats == ByteCount::ZERO;
            if needs_credit && view.fresh() == ByteCount::ZERO {
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
        let is_guest = |bond: &Bond| bond.refuge == Some(path.id) && !works(bond.home);
        if self.bonds.values().any(is_guest) {
            Purpose::Guests
        } else if self.bonds.values().any(|bond| bond.home == path.id) {
            Purpose::Streams
        } else {
            Purpose::Unbound
        }
    }
}
