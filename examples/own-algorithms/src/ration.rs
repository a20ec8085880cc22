//! A scheduler that rations the use of paths with a cost.

use manyway::ByteCount;
use manyway::scheduler::{Decision, Event, PathView, Scheduler, Source, View};

/// Uses paths with a cost for a share of all bytes at most: `ration=20` allows 20 %. Data of the classes interactive
/// and deadline does not count: no scheduler decides about it.
///
/// Free paths are filled first, the nearest before the others. While there is no free path at all, the others carry
/// everything: a stalled connection saves nothing. Later they carry nothing until the share is right again.
#[derive(Debug)]
pub struct Ration {
    percent: u64,
    /// Bytes sent so far on all paths.
    all: u64,
    /// Those on paths with a cost.
    metered: u64,
    /// Whether the last decision was for a path with a cost.
    chose_metered: bool,
}

impl Ration {
    /// Allows this many percent, from 0 to 99.
    pub const fn new(percent: u64) -> Self {
        Self { percent, all: 0, metered: 0, chose_metered: false }
    }

    /// Parses the number of percent; the error says what is expected.
    pub(crate) fn parse(settings: &str) -> Result<Self, String> {
        match settings.parse() {
            Ok(percent @ 0..=99) => Ok(Self::new(percent)),
            _ => Err("takes the percentage that metered paths may carry, from 0 to 99: ration=20".to_owned()),
        }
    }

    /// What may be sent on metered paths now: the largest x with (metered + x) / (all + x) within the share.
    fn allowance(&self) -> ByteCount {
        let surplus = (self.all * self.percent).saturating_sub(self.metered * 100);
        ByteCount(surplus / (100 - self.percent))
    }

    fn send(&mut self, path: &PathView, most: ByteCount) -> Decision {
        self.chose_metered = !is_free(path);
        Decision::send(path.id, path.sendable.min(most), Source::Next)
    }
}

impl Scheduler for Ration {
    fn name(&self) -> &'static str {
        "ration"
    }

    fn decide(&mut self, view: &View<'_>) -> Decision {
        // Candidates have available cwnd; paths in use may be full.
        let near = |path: &&PathView| (path.rtt.smoothed, path.id);
        if let Some(path) = view.candidates().filter(|path| is_free(path)).min_by_key(near) {
            return self.send(path, ByteCount::MAX);
        }
        let Some(path) = view.candidates().min_by_key(near) else { return Decision::WAIT };
        if !view.in_use().any(is_free) {
            return self.send(path, ByteCount::MAX);
        }
        let allowance = self.allowance();
        // A burst is rounded up to a datagram, so less than one is nothing.
        if allowance < path.datagram { Decision::WAIT } else { self.send(path, allowance) }
    }

    fn on_event(&mut self, event: &Event) {
        if let Event::Sent { bytes, .. } = event {
            self.all += bytes.get();
            self.metered += if self.chose_metered { bytes.get() } else { 0 };
        }
    }

    // It leaves paths idle on purpose; the guard must not park others because that makes the connection slower.
    fn is_guarded(&self) -> bool {
        false
    }
}

fn is_free(path: &PathView) -> bool {
    path.terms.cost == 0
}

#[cfg(test)]
mod tests {
    use manyway::{Instant, PathId, PathState};

    use super::*;

    /// Path 0 is free, path 1 has a cost; both have room for ten datagrams.
    fn paths() -> [PathView; 2] {
        let mut paths = [PathView::new(PathId(0)), PathView::new(PathId(1))];
        paths[1].terms.cost = 1;
        paths
    }

    /// Makes the scheduler send one burst; returns its path, or nothing if it waits.
    fn burst(ration: &mut Ration, paths: &[PathView]) -> Option<PathId> {
        let mut view = View::new(Instant::default(), paths);
        view.backlog = ByteCount(1_000_000);
        view.credit_left = ByteCount(1_000_000);
        let Decision::Send { path, quantum, source } = ration.decide(&view) else { return None };
        assert!(quantum <= view.path(path)?.sendable);
        ration.on_event(&Event::Sent { path, bytes: quantum, source });
        Some(path)
    }

    #[test]
    fn metered_paths_never_exceed_their_share_and_come_within_a_datagram_of_it() {
        for percent in 0..100 {
            let mut ration = Ration::new(percent);
            for turn in 0..1000 {
                // The free path has room in every third turn only.
                let mut paths = paths();
                paths[0].sendable = ByteCount(if turn % 3 == 0 { 5000 } else { 0 });
                while burst(&mut ration, &paths) == Some(PathId(1)) {}
                assert!(ration.metered * 100 <= ration.all * percent, "{ration:?}");
            }
            let [mut free, metered] = paths();
            free.sendable = ByteCount::ZERO;
            while burst(&mut ration, &[free, metered]).is_some() {}
            assert!(ration.allowance() < metered.datagram, "{ration:?}");
        }
    }

    #[test]
    fn without_a_free_path_everything_is_sent_and_made_good_later() {
        let mut ration = Ration::new(50);
        let [mut free, metered] = paths();
        free.state = PathState::Dead;
        for _ in 0..10 {
            assert_eq!(burst(&mut ration, &[free, metered]), Some(PathId(1)));
        }
        free.state = PathState::Active;
        let mut full = free;
        full.sendable = ByteCount::ZERO;
        for _ in 0..10 {
            assert_eq!(burst(&mut ration, &[full, metered]), None);
            assert_eq!(burst(&mut ration, &[free, metered]), Some(PathId(0)));
        }
        assert_eq!(ration.allowance(), ByteCount::ZERO);
        assert_eq!(burst(&mut ration, &[free, metered]), Some(PathId(0)));
        assert_eq!(burst(&mut ration, &[full, metered]), Some(PathId(1)));
    }

    #[test]
    fn invalid_settings_are_answered_with_valid_ones() {
        for settings in ["", "100", "-1", "much"] {
            assert!(Ration::parse(settings).unwrap_err().contains("ration=20"), "{settings}");
        }
    }
}
