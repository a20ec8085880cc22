//! Decides by load which sockets have a lane.
//!
//! A lane costs wake-ups, and pays where the driver is limited by its processor core while another one is idle. So a socket
//! gets one when both have been so for a while and the socket has sent at a high rate, and loses it when the rate has been
//! much lower.

use std::time::Duration;

use manyway_proto::{ByteCount, Instant, Rate};

/// The load is judged once in this time.
const WINDOW: Duration = Duration::from_millis(50);
/// A socket that sends less needs no lane, and one that has a lane and sends less than the second rate loses it.
const BUSY: Rate = Rate::from_bits_per_second(2_500_000_000);
const QUIET: Rate = Rate::from_bits_per_second(600_000_000);
/// How long it has to be so.
const START_AFTER: Duration = Duration::from_millis(200);
const END_AFTER: Duration = Duration::from_secs(1);

/// Measures how busy a driver and its host are.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// When the window began, and the processor time of the driver until then.
    begun: Option<(Instant, Duration)>,
    /// Idle time of the host until then, if the driver was busy before.
    idle: Option<Duration>,
}

/// A window that has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    begun: Instant,
    ended: Instant,
    /// The driver was on its core nearly all of the time, and half of another core or more was idle.
    asks_for_lane: bool,
}

impl Load {
    /// Ends the window if it has lasted long enough, and begins the next.
    pub(super) fn end_window(&mut self, now: Instant) -> Option<Window> {
        if self.begun.is_some_and(|(begun, _)| now - begun < WINDOW) {
            return None;
        }
        let used = system::used()?;
        let (begun, used_before) = self.begun.replace((now, used))?;
        let length = now - begun;
        let is_busy = used.saturating_sub(used_before) * 8 >= length * 7;
        let before = self.idle.take();
        self.idle = if is_busy { system::idle() } else { None };
        let idle = before.zip(self.idle).map(|(before, now)| now.saturating_sub(before));
        Some(Window { begun, ended: now, asks_for_lane: idle.is_some_and(|idle| idle * 2 >= length) })
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::time::Duration;

    use nix::time::{ClockId, clock_gettime};

    /// Processor time of this thread.
    pub(super) fn used() -> Option<Duration> {
        clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).ok().map(Duration::from)
    }

    /// Time that processor cores were idle, the sum of all, to 10 ms (`proc_uptime(5)`).
    pub(super) fn idle() -> Option<Duration> {
        let text = std::fs::read_to_string("/proc/uptime").ok()?;
        Duration::try_from_secs_f64(text.split_ascii_whitespace().nth(1)?.parse().ok()?).ok()
    }
}

/// Other systems are not asked.
#[cfg(not(target_os = "linux"))]
mod system {
    use std::time::Duration;

    pub(super) fn used() -> Option<Duration> {
        None
    }

    pub(super) fn idle() -> Option<Duration> {
        None
    }
}

/// What one socket sends.
#[derive(Debug, Default)]
pub(super) struct Demand {
    /// Bytes of this window.
    bytes: usize,
    /// Since when the load has been one for a change.
    since: Option<Instant>,
}

impl Demand {
    pub(super) fn on_sent(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Whether the socket is to have a lane from now on.
    pub(super) fn end_window(&mut self, window: Window, has_lane: bool) -> bool {
        let Window { begun, ended, asks_for_lane } = window;
        let rate = ByteCount::of(std::mem::take(&mut self.bytes)).per(ended - begun);
        let (is_for_change, long_enough) =
            if has_lane { (rate < QUIET, END_AFTER) } else { (asks_for_lane && rate >= BUSY, START_AFTER) };
        if !is_for_change {
            self.since = None;
            return has_lane;
        }
        let changes = ended - *self.since.get_or_insert(begun) >= long_enough;
        if changes {
            self.since = None;
        }
        has_lane != changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Socket {
        demand: Demand,
        has_lane: bool,
    }

    impl Socket {
        fn new(has_lane: bool) -> Self {
            Self { demand: Demand::default(), has_lane }
        }

        /// Ends this many windows, in each of which so many megabytes were sent; returns whether it has a lane then.
        fn pass(&mut self, windows: u32, megabytes: usize, asks_for_lane: bool) -> bool {
            let start = Instant::from_nanos(0);
            for window in 0..windows {
                self.demand.on_sent(megabytes * 1_000_000);
                let (begun, ended) = (start + WINDOW * window, start + WINDOW * (window + 1));
                self.has_lane = self.demand.end_window(Window { begun, ended, asks_for_lane }, self.has_lane);
            }
            self.has_lane
        }
    }

    #[test]
    fn a_driver_that_sleeps_asks_for_no_lane() {
        let (clock, mut load) = (crate::Clock::new(), Load::default());
        assert!(load.end_window(clock.now()).is_none());
        for _ in 0..2 {
            std::thread::sleep(WINDOW);
            let window = load.end_window(clock.now());
            assert!(window.is_none_or(|window| !window.asks_for_lane));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_tells_processor_time_and_idle_time() {
        let before = system::used().unwrap();
        assert!(system::used().unwrap() >= before);
        assert!(system::idle().unwrap() > Duration::ZERO);
    }

    #[test]
    fn a_lane_begins_after_a_high_rate_at_full_load_and_ends_after_a_low_one() {
        for (windows, megabytes, is_busy, begins) in
            [(3, 50, true, false), (4, 50, true, true), (4, 50, false, false), (40, 15, true, false)]
        {
            let began = Socket::new(false).pass(windows, megabytes, is_busy);
            assert_eq!(began, begins, "{windows} {megabytes} {is_busy}");
        }
        for (windows, megabytes, stays) in [(19, 0, true), (20, 0, false), (40, 4, true), (40, 3, false)] {
            assert_eq!(Socket::new(true).pass(windows, megabytes, false), stays, "{windows} {megabytes}");
        }
    }

    #[test]
    fn a_pause_begins_the_wait_anew() {
        let mut socket = Socket::new(false);
        for _ in 0..10 {
            assert!(!socket.pass(3, 50, true));
            assert!(!socket.pass(1, 5, true));
        }
    }
}
