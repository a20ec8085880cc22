//! Link between streams and paths: the scheduler and its input.

use std::collections::VecDeque;
use std::time::Duration;

use manyway_wire::PathId;
use smallvec::SmallVec;

use crate::packet::content::SentContent;
use crate::path::{Path, PathSet, PathState};
use crate::recovery::Outcome;
use crate::scheduler::guard::{Candidate, Guard, Verdicts};
use crate::scheduler::{Event, PathList, PathView, ReadyStream, Scheduler};
use crate::{ByteCount, Instant};

/// Head-of-line copies per hundred bytes sent (engineering: bulk).
const HEAD_OF_LINE_SHARE: u64 = 2;
/// Copies of packets in flight on a suspect path, per hundred bytes sent.
const SUSPECT_SHARE: u64 = 5;
/// Copies that are always permitted: a connection that sends little has the end of its data in flight most often when
/// a path becomes suspect.
const ALWAYS: ByteCount = ByteCount(12_000);
/// Half of the time over which bytes are counted.
const HALF: Duration = Duration::from_secs(5);

/// Moves stream data onto paths.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) scheduler: Box<dyn Scheduler>,
    /// The views of the paths at the last decision; kept for its memory.
    pub(crate) views: Vec<PathView>,
    /// The ready streams, likewise.
    pub(crate) ready: Vec<ReadyStream>,
    pub(crate) copies: Copies,
    pub(crate) head_of_line_budget: CopyBudget,
    pub(crate) suspect_budget: CopyBudget,
    /// The path on which data was last lost or became suspect.
    pub(crate) retransmit_off: Option<PathId>,
    /// Exists from the first acknowledgement until the connection is idle.
    pub(crate) guard: Option<Box<Guard>>,
}

impl Sending {
    pub(crate) fn new(scheduler: Box<dyn Scheduler>) -> Self {
        Self {
            scheduler,
            views: Vec::new(),
            ready: Vec::new(),
            copies: Copies::default(),
            head_of_line_budget: CopyBudget::new(HEAD_OF_LINE_SHARE),
            suspect_budget: CopyBudget::new(SUSPECT_SHARE),
            retransmit_off: None,
            guard: None,
        }
    }

    /// Bytes left in 1-RTT datagrams.
    pub(crate) fn on_sent(&mut self, now: Instant, bytes: ByteCount) {
        self.head_of_line_budget.on_sent(now, bytes);
        self.suspect_budget.on_sent(now, bytes);
    }

    /// Frees unused memory.
    pub(crate) fn shrink_when_idle(&mut self) {
        self.views = Vec::new();
        self.ready = Vec::new();
        self.copies.queues = Vec::new();
        self.guard = self.guard.take().filter(|guard| !guard.is_at_rest());
    }

    /// Tells the scheduler what became of packets of a path.
    pub(super) fn on_outcome(&mut self, id: PathId, latest_rtt: Option<Duration>, outcome: &Outcome) {
        if outcome.lost.iter().flatten().any(SentContent::is_data) {
            self.retransmit_off = Some(id);
        }
        let Some(latest_rtt) = latest_rtt else { return };
        if outcome.newly_acked_bytes > ByteCount::ZERO {
            let bytes = outcome.newly_acked_bytes;
            self.scheduler.on_event(&Event::Acked { path: id, bytes, latest_rtt });
        }
        if outcome.lost_bytes > ByteCount::ZERO {
            self.scheduler.on_event(&Event::Lost { path: id, bytes: outcome.lost_bytes });
        }
    }

    /// What the guard says of the paths now that so many bytes have arrived.
    pub(super) fn consult_guard(&mut self, now: Instant, paths: &PathSet, arrived: ByteCount) -> Verdicts {
        let guard = self.guard.get_or_insert_with(|| Box::new(Guard::new()));
        if !guard.is_due(now) {
            return Verdicts::new();
        }
        guard.end_stretch(now, paths.iter().map(|path| (path.id, path.recovery.delivered())));
        let works =
            |path: &&Path| path.peer_ready() && matches!(path.state(), PathState::Active | PathState::Parked);
        let candidates = paths.iter().filter(works).map(|path| {
            let recovery = &path.recovery;
            let rtt = recovery.rtt();
            Candidate {
                path: path.id,
                rate: recovery.delivery_rate().min(guard.pace_of(path.id)),
                delay: rtt.smoothed() / 2,
                smoothed_rtt: rtt.smoothed(),
            }
        });
        let candidates: SmallVec<[Candidate; 8]> = candidates.collect();
        guard.on_arrived(now, arrived, candidates.iter().copied())
    }
}

/// Budget of bytes that may be sent twice: a share of the bytes sent in the last 5 to 10 s.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CopyBudget {
    /// In percent.
    share: u64,
    since: Instant,
    current: CopyBytes,
    previous: CopyBytes,
}

#[derive(Debug, Clone, Copy, Default)]
struct CopyBytes {
    sent: ByteCount,
    copied: ByteCount,
}

impl CopyBudget {
    fn new(share: u64) -> Self {
        Self {
            share,
            since: Instant::from_nanos(0),
            current: CopyBytes::default(),
            previous: CopyBytes::default(),
        }
    }

    fn on_sent(&mut self, now: Instant, bytes: ByteCount) {
        self.turn(now);
        self.current.sent += bytes;
    }

    pub(crate) fn on_copied(&mut self, now: Instant, bytes: ByteCount) {
        self.turn(now);
        self.current.copied += bytes;
    }

    /// Bytes that may be copied now.
    pub(crate) fn left(&mut self, now: Instant) -> ByteCount {
        self.turn(now);
        let sent = self.current.sent + self.previous.sent;
        ALWAYS + sent * self.share / 100 - self.current.copied - self.previous.copied
    }

    fn turn(&mut self, now: Instant) {
        if now - self.since < HALF {
            return;
        }
        self.previous = if now - self.since < HALF * 2 { self.current } else { CopyBytes::default() };
        self.current = CopyBytes::default();
        self.since = now;
    }
}

/// Content that waits to be sent again on further paths.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    queues: Vec<CopyQueue>,
}

#[derive(Debug)]
struct CopyQueue {
    path: PathId,
    contents: VecDeque<SentContent>,
    /// How much of the first content has been copied.
    offset: u64,
}

/// Most blocks that wait on a path; the oldest are dropped for newer ones.
const MOST_COPIES: usize = 1024;

impl Copies {
    /// Queues copies of the stream and message data among `contents` for `paths`, except the first.
    pub(crate) fn add<'a>(
        &mut self,
        paths: PathList,
        contents: impl Iterator<Item = &'a SentContent> + Clone,
    ) {
        for path in paths.as_slice().iter().skip(1) {
            let at = self.queues.iter().position(|queue| queue.path == *path).unwrap_or_else(|| {
                self.queues.push(CopyQueue { path: *path, contents: VecDeque::new(), offset: 0 });
                self.queues.len() - 1
            });
            let Some(queue) = self.queues.get_mut(at) else { continue };
            let bytes = contents.clone().filter(|content| content.units().is_some());
            for content in bytes {
                if queue.contents.len() >= MOST_COPIES {
                    queue.contents.pop_front();
                    queue.offset = 0;
                }
                queue.contents.push_back(*content);
            }
        }
    }

    /// The paths on which copies wait.
    pub(crate) fn paths(&self) -> PathList {
        self.queues.iter().filter(|queue| !queue.contents.is_empty()).map(|queue| queue.path).collect()
    }

    /// Drops the copies for a path.
    pub(crate) fn give_up(&mut self, path: PathId) {
        self.queues.retain(|queue| queue.path != path);
    }

    /// Drops copies of content that has arrived meanwhile; true if any are left.
    pub(crate) fn needs_copies(&mut self, path: PathId, has_arrived: impl Fn(&SentContent) -> bool) -> bool {
        let Some(queue) = self.queues.iter_mut().find(|queue| queue.path == path) else { return false };
        while let Some(copied) = queue.contents.front()
            && has_arrived(copied)
        {
            queue.contents.pop_front();
            queue.offset = 0;
        }
        !queue.contents.is_empty()
    }

    /// Lets `write` write the next copies on a path, as far as they fit; it returns the offset reached, or `None` if
    /// it wrote nothing.
    pub(crate) fn write(&mut self, path: PathId, mut write: impl FnMut(&SentContent, u64) -> Option<u64>) {
        let Some(queue) = self.queues.iter_mut().find(|queue| queue.path == path) else { return };
        while let Some(copied) = queue.contents.front() {
            let Some(units) = copied.units() else { break };
            let Some(reached) = write(copied, queue.offset) else { break };
            if reached >= units.end {
                queue.contents.pop_front();
                queue.offset = 0;
            } else {
                queue.offset = reached;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_a_share_of_recently_sent_bytes_and_a_few_are_always_permitted() {
        let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
        let mut budget = CopyBudget::new(2);
        assert_eq!(budget.left(at(20)), ALWAYS);
        budget.on_sent(at(20), ByteCount(1_000_000));
        assert_eq!(budget.left(at(20)), ALWAYS + ByteCount(20_000));
        budget.on_copied(at(21), ByteCount(30_000));
        assert_eq!(budget.left(at(26)), ByteCount(2_000));
        assert_eq!(budget.left(at(32)), ALWAYS);
    }
}
