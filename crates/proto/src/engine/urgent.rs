//! Urgent data: the path on which it arrives first, and the expiry of messages.

use std::time::Duration;

use manyway_wire::PathId;
use smallvec::SmallVec;

use super::Engine;
use super::carry::{Carry, Load};
use super::output::Transmitter;
use crate::path::Path;
use crate::scheduler::{PathList, PathView, View, in_use_for_urgent};
use crate::stream::priority::ClassFilter;
use crate::wire::Wire;
use crate::{ByteCount, Instant, Transmit};

impl Engine {
    /// Drops messages that cannot arrive in time any more.
    pub(crate) fn expire_messages(&self, wire: &mut Wire, now: Instant) {
        if wire.next_expiry().is_some() {
            wire.expire_messages(now + self.paths.fastest_way());
        }
    }
}

impl Transmitter<'_> {
    /// Sends urgent data first, on the path on which it arrives first, as far as its window permits. The pacer does
    /// not delay it: it is little, and later data pays for it. Some schedulers copy it to further paths as well (spec
    /// 8.36). If nothing is sent, returns the classes left for the scheduler: all, unless the urgent data waits for
    /// such a path.
    pub(crate) fn transmit_urgent(&mut self) -> Result<Transmit, ClassFilter> {
        let way = self.way_of_urgent().ok_or(ClassFilter::All)?;
        let carry = Carry { load: Load::Data, filter: ClassFilter::Urgent, ..Carry::default() };
        self.transmit_copied(way, carry).ok_or(ClassFilter::NotUrgent)
    }

    /// The path on which urgent data arrives first, those for its copies, and the available window of the first;
    /// `None` if nothing is urgent, or no path may carry it.
    fn way_of_urgent(&mut self) -> Option<(PathList, ByteCount)> {
        let backlog = ByteCount(self.wire.urgent_backlog()?);
        self.look_at_paths();
        let waiting = self.wire.backlog_of(ClassFilter::All);
        let scheduler = &mut *self.engine.sending.scheduler;
        let mut view = View::new(self.now, &self.engine.sending.views);
        (view.backlog, view.retransmissions, view.next) =
            (waiting.backlog, waiting.retransmissions, waiting.next);
        scheduler.on_urgent(&view);
        for view in &mut self.engine.sending.views {
            view.sendable = self.engine.paths.get(view.id).map_or(ByteCount::ZERO, window_room);
        }
        let mut view = View::new(self.now, &self.engine.sending.views);
        view.next = self.wire.next_up(ClassFilter::Urgent);
        let candidates = in_use_for_urgent(scheduler, &view);
        let first = fastest(candidates.clone(), backlog)?;
        let mut paths = PathList::from_iter([first.id]);
        // Usually no copies are wanted, so nothing has to be sorted.
        let copies = scheduler.urgent_copies(&view, first);
        if copies > 0 {
            let others = candidates.filter(|path| path.id != first.id);
            arrivals(others, backlog).iter().take(copies).for_each(|(_, other)| paths.push(*other));
        }
        Some((paths, first.sendable))
    }
}

/// The available window of a path, if it is a datagram at least.
fn window_room(path: &Path) -> ByteCount {
    let recovery = &path.recovery;
    let room = recovery.window() - recovery.bytes_in_flight();
    let room = room.min(ByteCount::of(path.room()));
    if room >= ByteCount(u64::from(path.mtu.current())) { room } else { ByteCount::ZERO }
}

/// The path on which the last of `backlog` bytes arrives first; bytes beyond its available window wait until there is
/// some.
fn fastest<'a>(paths: impl Iterator<Item = &'a PathView>, backlog: ByteCount) -> Option<&'a PathView> {
    paths.min_by_key(|path| arrival(path, backlog))
}

/// When the last of `backlog` bytes arrives on each of these paths, the earliest first.
fn arrivals<'a>(
    paths: impl Iterator<Item = &'a PathView>,
    backlog: ByteCount,
) -> SmallVec<[(Duration, PathId); 8]> {
    let mut arrivals: SmallVec<_> = paths.map(|path| arrival(path, backlog)).collect();
    arrivals.sort_unstable();
    arrivals
}

fn arrival(path: &PathView, backlog: ByteCount) -> (Duration, PathId) {
    let waits = backlog.max(path.datagram) - path.sendable;
    (path.delay.saturating_add(waits / path.expected_rate()), path.id)
}

#[cfg(test)]
mod tests {
    use manyway_wire::PathId;

    use super::*;

    const BACKLOG: ByteCount = ByteCount(100);

    fn path(id: u32, delay: u64, room: u64) -> PathView {
        let mut view = PathView::new(PathId(id));
        view.delay = Duration::from_millis(delay);
        view.delivery_rate = crate::Rate::from_bits_per_second(8_000_000);
        view.sendable = ByteCount(room);
        view
    }

    fn chosen(paths: &[PathView], backlog: ByteCount) -> u32 {
        fastest(View::new(Instant::from_nanos(0), paths).in_use(), backlog).unwrap().id.0
    }

    #[test]
    fn urgent_data_waits_for_a_full_fast_path_if_that_is_faster_than_the_slow_one() {
        // 1200 bytes need 1.2 ms.
        assert_eq!(chosen(&[path(0, 50, 10_000), path(1, 5, 0)], BACKLOG), 1);
        assert_eq!(chosen(&[path(0, 6, 10_000), path(1, 5, 0)], BACKLOG), 0);
    }

    #[test]
    fn a_large_backlog_goes_where_its_last_byte_arrives_first() {
        // 100 000 bytes need 100 ms beyond the available window.
        assert_eq!(chosen(&[path(0, 50, 200_000), path(1, 5, 10_000)], ByteCount(100_000)), 0);
        assert_eq!(chosen(&[path(0, 50, 200_000), path(1, 5, 10_000)], ByteCount(20_000)), 1);
    }
}
