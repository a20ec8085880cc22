//! Liveness of paths by PROBE (spec 3.84, 3.85).

use std::collections::BTreeMap;
use std::time::Duration;

use manyway_wire::PathId;

use crate::Instant;

/// Silence of a path after which it is probed.
const SILENCE: Duration = Duration::from_secs(15);
/// Consecutive unanswered PROBEs that make a path unreachable.
const UNANSWERED: u8 = 3;
/// Shortest wait for an answer.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// Delay of a PROBE that could not be sent.
const POSTPONED: Duration = Duration::from_millis(100);

/// What is known of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watch {
    /// No PROBE is unanswered; the next one goes at this time if no packet comes.
    Quiet { probe_at: Instant },
    /// The last `sent` PROBEs are unanswered; the newest one counts as such from `until` on.
    Probed { sent: u8, until: Instant },
}

/// The next action on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MonitorAction {
    /// Send a PROBE, and then call [`Monitor::on_probe_sent`].
    Probe(PathId),
    /// The path does not answer. The monitor has forgotten it.
    DeclareUnreachable(PathId),
}

/// Watches the paths that are reachable.
#[derive(Debug, Default)]
pub(crate) struct Monitor {
    paths: BTreeMap<PathId, Watch>,
}

impl Monitor {
    /// The path became reachable.
    pub(crate) fn watch(&mut self, now: Instant, path: PathId) {
        self.paths.insert(path, Watch::Quiet { probe_at: now + SILENCE });
    }

    /// The path is not reachable any more, or closed.
    pub(crate) fn forget(&mut self, path: PathId) {
        self.paths.remove(&path);
    }

    /// A packet came on the path, so that it is not silent. This is no answer to a PROBE: the other direction of the path
    /// may be dead.
    pub(crate) fn on_heard(&mut self, now: Instant, path: PathId) {
        // A PROBE that is due for overdue data goes, whatever else comes.
        if let Some(Watch::Quiet { probe_at }) =
            self.paths.get_mut(&path).filter(|watch| watch.due_at() > now)
        {
            *probe_at = now + SILENCE;
        }
    }

    /// PROBE-ACK came for a PROBE on the path, or a SACK for a packet that went on it.
    pub(crate) fn on_answered(&mut self, now: Instant, path: PathId) {
        if let Some(watch) = self.paths.get_mut(&path) {
            *watch = Watch::Quiet { probe_at: now + SILENCE };
        }
    }

    /// Data on the path are overdue: a PROBE is due at once.
    pub(crate) fn probe_now(&mut self, now: Instant, path: PathId) {
        if let Some(Watch::Quiet { probe_at }) = self.paths.get_mut(&path) {
            *probe_at = now.min(*probe_at);
        }
    }

    /// A PROBE went on the path; `pto` is the probe timeout of the path.
    pub(crate) fn on_probe_sent(&mut self, now: Instant, path: PathId, pto: Duration) {
        let Some(watch) = self.paths.get_mut(&path) else { return };
        let sent = match *watch {
            Watch::Quiet { .. } => 1,
            Watch::Probed { sent, .. } => sent.saturating_add(1),
        };
        *watch = Watch::Probed { sent, until: now + pto.max(SHORTEST_WAIT) };
    }

    /// A PROBE cannot be sent now: it goes a little later.
    pub(crate) fn postpone(&mut self, now: Instant, path: PathId) {
        let later = now + POSTPONED;
        match self.paths.get_mut(&path) {
            Some(Watch::Quiet { probe_at }) => *probe_at = later,
            Some(Watch::Probed { until, .. }) => *until = later,
            None => {}
        }
    }

    /// The next action, if one is due.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<MonitorAction> {
        let (path, watch) = self.paths.iter().find(|(_, watch)| watch.due_at() <= now)?;
        let path = *path;
        if matches!(watch, Watch::Probed { sent: UNANSWERED.., .. }) {
            self.paths.remove(&path);
            return Some(MonitorAction::DeclareUnreachable(path));
        }
        Some(MonitorAction::Probe(path))
    }

    /// The time of the next action.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.paths.values().map(|watch| watch.due_at()).min()
    }

    /// The host slept until now: no PROBE of before counts as unanswered.
    pub(crate) fn on_wake(&mut self, now: Instant) {
        self.paths.values_mut().for_each(|watch| *watch = Watch::Quiet { probe_at: now });
    }
}

impl Watch {
    fn due_at(&self) -> Instant {
        match *self {
            Self::Quiet { probe_at } => probe_at,
            Self::Probed { until, .. } => until,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: Instant = Instant::from_nanos(1_000);
    const PATH: PathId = PathId(4);
    const PTO: Duration = Duration::from_millis(80);

    fn at(millis: u64) -> Instant {
        START + Duration::from_millis(millis)
    }

    fn watching() -> Monitor {
        let mut monitor = Monitor::default();
        monitor.watch(START, PATH);
        monitor
    }

    /// Does what the monitor wishes until `end`, without answers; returns the times of PROBEs in ms, and of the end.
    fn run(monitor: &mut Monitor, end: Instant, pto: Duration) -> (Vec<u128>, Option<u128>) {
        let mut asked = Vec::new();
        while let Some(now) = monitor.deadline().filter(|at| *at <= end) {
            match monitor.poll(now) {
                Some(MonitorAction::Probe(path)) => {
                    asked.push((now - START).as_millis());
                    monitor.on_probe_sent(now, path, pto);
                }
                Some(MonitorAction::DeclareUnreachable(_)) => {
                    return (asked, Some((now - START).as_millis()));
                }
                None => panic!("a deadline with nothing to do"),
            }
        }
        (asked, None)
    }

    #[test]
    fn three_unanswered_probes_make_a_path_unreachable() {
        let mut monitor = watching();
        assert_eq!(run(&mut monitor, at(100_000), PTO), (vec![15_000, 16_000, 17_000], Some(18_000)));
        assert_eq!((monitor.deadline(), monitor.poll(at(200_000))), (None, None));
    }

    #[test]
    fn an_unanswered_probe_is_repeated_at_its_timeout() {
        let mut monitor = watching();
        let slow = Duration::from_millis(1500);
        monitor.probe_now(at(10), PATH);
        assert_eq!(run(&mut monitor, at(100_000), slow), (vec![10, 1510, 3010], Some(4510)));
    }

    #[test]
    fn an_answer_begins_the_count_anew() {
        let mut monitor = watching();
        let (asked, dead) = run(&mut monitor, at(17_500), PTO);
        assert_eq!((asked.len(), dead), (3, None));
        monitor.on_answered(at(17_500), PATH);
        assert_eq!(run(&mut monitor, at(100_000), PTO), (vec![32_500, 33_500, 34_500], Some(35_500)));
    }

    #[test]
    fn a_path_that_is_heard_is_not_probed_but_its_probes_still_need_answers() {
        let mut monitor = watching();
        for second in 1..100 {
            monitor.on_heard(at(1000 * second), PATH);
            assert_eq!(monitor.poll(at(1000 * second)), None);
        }
        monitor.probe_now(at(99_000), PATH);
        let mut now = at(99_000);
        loop {
            monitor.on_heard(now, PATH);
            match monitor.poll(now) {
                Some(MonitorAction::Probe(path)) => monitor.on_probe_sent(now, path, PTO),
                Some(MonitorAction::DeclareUnreachable(_)) => break,
                None => {}
            }
            now += Duration::from_millis(100);
        }
        assert_eq!(now, at(102_000), "one direction of it is dead");
    }

    #[test]
    fn a_second_expedite_sends_no_extra_probe() {
        let mut monitor = watching();
        monitor.probe_now(at(0), PATH);
        assert_eq!(monitor.poll(at(0)), Some(MonitorAction::Probe(PATH)));
        monitor.on_probe_sent(at(0), PATH, PTO);
        monitor.probe_now(at(1), PATH);
        assert_eq!((monitor.poll(at(1)), monitor.deadline()), (None, Some(at(1000))));
    }

    #[test]
    fn a_path_that_is_forgotten_or_unknown_is_not_watched() {
        let mut monitor = watching();
        monitor.forget(PATH);
        monitor.on_heard(at(1), PATH);
        monitor.on_answered(at(1), PATH);
        monitor.probe_now(at(1), PATH);
        monitor.on_probe_sent(at(1), PATH, PTO);
        assert_eq!((monitor.deadline(), monitor.poll(at(90_000))), (None, None));
    }

    #[test]
    fn after_sleep_each_path_is_probed_anew() {
        let mut monitor = watching();
        let _ = run(&mut monitor, at(17_500), PTO);
        monitor.on_wake(at(500_000));
        assert_eq!(run(&mut monitor, at(900_000), PTO), (vec![500_000, 501_000, 502_000], Some(503_000)));
    }

    proptest! {
        #[test]
        fn no_path_is_given_up_without_three_probes(
            steps in prop::collection::vec((0_u8..5, 0_u32..3, 0_u64..4000), 1..100),
        ) {
            let mut monitor = Monitor::default();
            let mut asked = [0_u32; 3];
            let mut now = START;
            (0..3).for_each(|path| monitor.watch(now, PathId(path)));
            for (step, path, wait) in steps {
                now += Duration::from_millis(wait);
                match monitor.poll(now) {
                    Some(MonitorAction::Probe(path)) => {
                        asked[path.0 as usize] += 1;
                        monitor.on_probe_sent(now, path, PTO);
                    }
                    Some(MonitorAction::DeclareUnreachable(path)) => {
                        prop_assert_eq!(asked[path.0 as usize], 3);
                        asked[path.0 as usize] = 0;
                    }
                    None => prop_assert!(monitor.deadline().is_none_or(|at| at > now)),
                }
                match step {
                    0 => monitor.on_heard(now, PathId(path)),
                    1 => monitor.probe_now(now, PathId(path)),
                    2 => {
                        monitor.on_answered(now, PathId(path));
                        asked[path as usize] = 0;
                    }
                    _ => {}
                }
            }
        }
    }
}
