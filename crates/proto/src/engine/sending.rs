//! What stands between streams and paths: the scheduler, and what it is asked with.

use std::collections::VecDeque;
use std::time::Duration;

use manyway_wire::PathId;

use crate::packet::content::SentContent;
use crate::scheduler::guard::Guard;
use crate::scheduler::{PathList, PathView, ReadyStream, Scheduler};
use crate::{ByteCount, Instant};

/// Copies of what holds up delivery, of a hundred bytes sent (engineering: bulk).
const STUCK_SHARE: u64 = 2;
/// Copies of what is in flight on a suspect path, of a hundred bytes sent.
const SUSPECT_SHARE: u64 = 5;
/// Copies that are always allowed: a connection that sends little has the end of what it sends in doubt most often.
const ALWAYS: ByteCount = ByteCount(12_000);
/// Half of the time over which bytes are counted.
const HALF: Duration = Duration::from_secs(5);

/// Brings bytes of streams onto paths.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) scheduler: Box<dyn Scheduler>,
    /// The figures of the paths as of the last question; kept for its memory.
    pub(crate) views: Vec<PathView>,
    /// The same of the streams.
    pub(crate) ready: Vec<ReadyStream>,
    pub(crate) copies: Copies,
    pub(crate) stuck_budget: CopyBudget,
    pub(crate) suspect_budget: CopyBudget,
    /// The path on which bytes got lost or in doubt last.
    pub(crate) repeats_from: Option<PathId>,
    /// From the first acknowledgement on until the connection rests.
    pub(crate) guard: Option<Box<Guard>>,
}

impl Sending {
    pub(crate) fn new(scheduler: Box<dyn Scheduler>) -> Self {
        Self {
            scheduler,
            views: Vec::new(),
            ready: Vec::new(),
            copies: Copies::default(),
            stuck_budget: CopyBudget::new(STUCK_SHARE),
            suspect_budget: CopyBudget::new(SUSPECT_SHARE),
            repeats_from: None,
            guard: None,
        }
    }

    /// Bytes left in datagrams of the data level.
    pub(crate) fn on_sent(&mut self, now: Instant, bytes: ByteCount) {
        self.stuck_budget.on_sent(now, bytes);
        self.suspect_budget.on_sent(now, bytes);
    }

    /// Gives back memory that is not used.
    pub(crate) fn shrink_when_idle(&mut self) {
        self.views = Vec::new();
        self.ready = Vec::new();
        self.copies.queues = Vec::new();
        self.guard = self.guard.take().filter(|guard| !guard.is_at_rest());
    }
}

/// How much may be sent twice: a share of what was sent in the last 5 to 10 s.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CopyBudget {
    /// Of a hundred.
    share: u64,
    since: Instant,
    current: Spent,
    previous: Spent,
}

#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    sent: ByteCount,
    copied: ByteCount,
}

impl CopyBudget {
    fn new(share: u64) -> Self {
        Self { share, since: Instant::from_nanos(0), current: Spent::default(), previous: Spent::default() }
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
        self.previous = if now - self.since < HALF * 2 { self.current } else { Spent::default() };
        self.current = Spent::default();
        self.since = now;
    }
}

/// What waits to be sent once more on further paths.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    queues: Vec<CopyQueue>,
}

#[derive(Debug)]
struct CopyQueue {
    path: PathId,
    contents: VecDeque<SentContent>,
    /// Where the copy of the first has come.
    offset: u64,
}

/// Blocks that wait on a path at most; the oldest are given up for newer ones.
const MOST_COPIES: usize = 1024;

impl Copies {
    /// Copies the bytes of streams and messages among `contents` onto `paths` without the first.
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

    /// Nothing more is copied on a path.
    pub(crate) fn give_up(&mut self, path: PathId) {
        self.queues.retain(|queue| queue.path != path);
    }

    /// Drops what has arrived meanwhile; true if something is left.
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

    /// Has `write` write what comes next on a path, as far as there is room; it tells where it came, and `None` when it
    /// wrote nothing.
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
    fn copies_are_a_share_of_what_was_sent_lately_and_a_little_always() {
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
