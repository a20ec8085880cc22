//! Which interface fetches which bytes next.
//!
//! Each interface takes the next missing piece, of a size that lasts about [`PIECE`]. Once no piece is left, an interface without work takes over the end of the piece that would be done last,
//! so that both are done at the same time; of a silent interface it takes all.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use tokio::time::Instant;

use crate::meter::Meter;
use crate::ranges::Ranges;

/// How long a piece lasts. Between two pieces an interface is idle for a round-trip time.
const PIECE: Duration = Duration::from_secs(8);
/// The same of a backup: it is to stop soon once another interface works again.
const PIECE_OF_BACKUP: Duration = Duration::from_secs(1);
/// The first piece of an interface; until its rate is known, each is twice as large as the one before.
const FIRST: u64 = 1 << 20;
const MOST_DOUBLINGS: u32 = 6;
/// The bounds of later pieces, in bytes.
const SMALLEST: u64 = 256 << 10;
const LARGEST: u64 = 128 << 20;
/// With a window, at least so many pieces fit into it.
const PIECES_OF_WINDOW: u64 = 8;
/// Less than this is not taken over, unless it is all that is left.
const LEAST_PART: u64 = 32 << 10;
/// The time before a request over another interface delivers.
const START_UP: Duration = Duration::from_millis(200);
/// A backup begins if the others delivered nothing for so long.
const BACKUP_AFTER: Duration = Duration::from_secs(2);

/// The work of all interfaces, each known by its name.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// Bytes that no request fetches.
    missing: Ranges,
    leases: BTreeMap<String, Lease>,
    meters: BTreeMap<String, Meter>,
    /// When an interface that is no backup last delivered.
    delivered_at: Instant,
    next_lease: u64,
    /// How far ahead of the first byte that has not arrived pieces may begin; `None` without a limit.
    window: Option<u64>,
}

/// What one interface fetches.
#[derive(Debug)]
struct Lease {
    number: u64,
    bytes: Range<u64>,
}

/// A piece for an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Tells it from earlier ones.
    pub(crate) number: u64,
    /// Its bytes; later others may take over some of the last.
    pub(crate) bytes: Range<u64>,
}

/// What becomes of bytes that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    /// Where they belong.
    pub(crate) offset: u64,
    /// How many of them are wanted, from the first on.
    pub(crate) wanted: usize,
    /// Whether the piece ends with them.
    pub(crate) is_last: bool,
}

impl Schedule {
    /// A schedule without workers so far.
    pub(crate) fn new(missing: Ranges, now: Instant) -> Self {
        Self {
            missing,
            leases: BTreeMap::new(),
            meters: BTreeMap::new(),
            delivered_at: now,
            next_lease: 0,
            window: None,
        }
    }

    /// The same for an output in order: no piece begins further than `window` bytes ahead of the first missing one.
    pub(crate) fn within(self, window: u64) -> Self {
        Self { window: Some(window), ..self }
    }

    /// Whether everything has arrived.
    pub(crate) fn is_complete(&self) -> bool {
        self.missing.is_empty() && self.leases.is_empty()
    }

    /// Whether any interface has a piece.
    pub(crate) fn is_busy(&self) -> bool {
        !self.leases.is_empty()
    }

    /// Takes the next piece; `None` if there is nothing to do now.
    pub(crate) fn take(&mut self, name: &str, is_backup: bool, now: Instant) -> Option<Piece> {
        if is_backup && now.saturating_duration_since(self.delivered_at) < BACKUP_AFTER {
            return None;
        }
        let size = self.size_for(name, is_backup);
        let bytes = if self.is_next_in_window() { self.missing.take_first(size) } else { None };
        let bytes = match bytes {
            Some(bytes) => bytes,
            None => self.take_over(name, now)?,
        };
        self.next_lease += 1;
        let number = self.next_lease;
        self.meter(name).begin(now);
        self.leases.insert(name.to_owned(), Lease { number, bytes: bytes.clone() });
        Some(Piece { number, bytes })
    }

    /// Whether the next missing piece begins within the window.
    fn is_next_in_window(&self) -> bool {
        let (Some(window), Some(next)) = (self.window, self.missing.start()) else { return true };
        let first = self.leases.values().map(|lease| lease.bytes.start).min();
        next - first.map_or(next, |first| first.min(next)) < window
    }

    /// Whether the interface still has the piece of that number.
    pub(crate) fn holds(&self, name: &str, number: u64) -> bool {
        self.leases.get(name).is_some_and(|lease| lease.number == number)
    }

    /// So many bytes of the piece arrived.
    pub(crate) fn advance(
        &mut self,
        (name, is_backup): (&str, bool),
        number: u64,
        arrived: usize,
        now: Instant,
    ) -> Grant {
        let lost = Grant { offset: 0, wanted: 0, is_last: true };
        let Some(lease) = self.leases.get_mut(name).filter(|lease| lease.number == number) else {
            return lost;
        };
        let left = usize::try_from(lease.bytes.end - lease.bytes.start).unwrap_or(usize::MAX);
        let (offset, wanted) = (lease.bytes.start, arrived.min(left));
        let taken = u64::try_from(wanted).unwrap_or(u64::MAX);
        lease.bytes.start += taken;
        let is_last = lease.bytes.is_empty();
        if is_last {
            self.leases.remove(name);
        }
        let meter = self.meter(name);
        meter.add(now, taken);
        if is_last {
            meter.pause(now);
        }
        if !is_backup {
            self.delivered_at = now;
        }
        Grant { offset, wanted, is_last }
    }

    /// The interface fetches no more of its piece: what is left of it is missing again.
    pub(crate) fn give_back(&mut self, name: &str, now: Instant) {
        if let Some(lease) = self.leases.remove(name) {
            self.missing.insert(lease.bytes);
            self.meter(name).pause(now);
        }
    }

    /// The piece that lasts about as long as pieces do, and at most a fair share of what is left: then the last pieces of
    /// all interfaces end at about the same time.
    fn size_for(&self, name: &str, is_backup: bool) -> u64 {
        let of = |name: &str| self.meters.get(name).and_then(Meter::measured);
        let Some(own) = of(name) else {
            let before = self.meters.get(name).map_or(0, Meter::pieces);
            return FIRST << before.min(if self.window.is_some() { 0 } else { MOST_DOUBLINGS });
        };
        let time = if is_backup { PIECE_OF_BACKUP } else { PIECE };
        let all: u64 = self.meters.keys().filter_map(|name| of(name)).sum();
        let fair = scaled(self.missing.count(), own, all);
        let largest = self.window.map_or(LARGEST, |window| (window / PIECES_OF_WINDOW).max(SMALLEST));
        own.saturating_mul(time.as_secs()).min(fair).clamp(SMALLEST, largest)
    }

    /// Takes the end of the piece that would be done last.
    fn take_over(&mut self, name: &str, now: Instant) -> Option<Range<u64>> {
        let own = self.meters.get(name).and_then(Meter::measured);
        let others = self.leases.iter().filter(|(other, _)| other.as_str() != name);
        let (other, part) = others
            .filter_map(|(other, lease)| {
                let rate = self.meters.get(other)?.rate(now)?;
                let left = lease.bytes.end - lease.bytes.start;
                let part = part_for(left, rate, own.unwrap_or(rate))?;
                Some((other.clone(), part, left.checked_div(rate).unwrap_or(u64::MAX)))
            })
            .max_by_key(|(_, part, seconds)| (*seconds, *part))
            .map(|(other, part, _)| (other, part))?;
        let lease = self.leases.get_mut(&other)?;
        let end = lease.bytes.end;
        lease.bytes.end -= part;
        let taken = lease.bytes.end..end;
        if lease.bytes.is_empty() {
            self.leases.remove(&other);
            self.meter(&other).pause(now);
        }
        Some(taken)
    }

    fn meter(&mut self, name: &str) -> &mut Meter {
        self.meters.entry(name.to_owned()).or_default()
    }
}

/// How much of the last `left` bytes another interface is to take, so that both are done at the same time; `None` if
/// the holder is done sooner than another one could begin.
fn part_for(left: u64, rate: u64, own: u64) -> Option<u64> {
    if rate == 0 {
        return Some(left);
    }
    let in_start_up = rate.saturating_mul(u64::try_from(START_UP.as_millis()).unwrap_or(u64::MAX)) / 1000;
    let rest = left.checked_sub(in_start_up)?;
    let part = scaled(rest, own, rate.saturating_add(own));
    match part {
        0..LEAST_PART => None,
        part if left - part < LEAST_PART => Some(left),
        part => Some(part),
    }
}

/// `value * part / whole`, at most `value`.
fn scaled(value: u64, part: u64, whole: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX).min(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const TICK: Duration = Duration::from_millis(10);

    fn all(length: u64) -> Ranges {
        Ranges::of(0..length)
    }

    /// Interfaces with constant rates in bytes a second, each with a round-trip time in ticks before a piece starts.
    struct World {
        schedule: Schedule,
        links: Vec<Link>,
        now: Instant,
        got: Ranges,
        bytes: u64,
    }

    struct Link {
        name: &'static str,
        rate: u64,
        is_backup: bool,
        pause: u32,
        piece: Option<Piece>,
        fetched: u64,
    }

    impl World {
        fn new(length: u64, rates: &[(&'static str, u64)]) -> Self {
            let now = Instant::now();
            let link = |(name, rate): &(&'static str, u64)| Link {
                name,
                rate: *rate,
                is_backup: name.starts_with("backup"),
                pause: 0,
                piece: None,
                fetched: 0,
            };
            let schedule = Schedule::new(all(length), now);
            Self { schedule, links: rates.iter().map(link).collect(), now, got: Ranges::default(), bytes: 0 }
        }

        fn step(&mut self) {
            self.now += TICK;
            for link in &mut self.links {
                if !link.piece.as_ref().is_some_and(|piece| self.schedule.holds(link.name, piece.number)) {
                    link.piece = self.schedule.take(link.name, link.is_backup, self.now);
                    link.pause = 5;
                }
                let Some(piece) = &link.piece else { continue };
                if link.pause > 0 {
                    link.pause -= 1;
                    continue;
                }
                let arrived = usize::try_from(link.rate / 100).unwrap();
                if arrived == 0 {
                    continue;
                }
                let name = (link.name, link.is_backup);
                let grant = self.schedule.advance(name, piece.number, arrived, self.now);
                let wanted = u64::try_from(grant.wanted).unwrap();
                self.got.insert(grant.offset..grant.offset + wanted);
                self.bytes += wanted;
                link.fetched += wanted;
            }
        }

        fn run(&mut self) -> Duration {
            let start = self.now;
            while !self.schedule.is_complete() {
                self.step();
                assert!(self.now - start < Duration::from_secs(600), "no end: {:?}", self.schedule);
            }
            self.now - start
        }

        fn set_rate(&mut self, name: &str, rate: u64) {
            self.links.iter_mut().filter(|link| link.name == name).for_each(|link| link.rate = rate);
        }
    }

    #[test]
    fn two_interfaces_reach_nearly_the_sum_of_their_rates() {
        for (rates, least) in
            [([6_250_000, 6_250_000], 97), ([10_000_000, 1_000_000], 96), ([50_000, 5_000_000], 95)]
        {
            let length = 20 * (rates[0] + rates[1]);
            let mut world = World::new(length, &[("a", rates[0]), ("b", rates[1])]);
            let took = world.run();
            assert_eq!(world.got, all(length));
            assert_eq!(world.bytes, length, "no byte is counted twice");
            assert!(20_000 * 100 / took.as_millis() >= least, "{rates:?}: {took:?} instead of 20 s");
        }
    }

    #[test]
    fn an_interface_that_falls_silent_near_the_end_costs_about_a_second() {
        let mut world = World::new(10 * MIB, &[("a", MIB), ("b", MIB)]);
        while world.bytes < 9 * MIB {
            world.step();
        }
        world.set_rate("b", 0);
        let took = world.run();
        assert_eq!(world.got, all(10 * MIB));
        assert!(took < Duration::from_millis(2600), "1 s for what is left, 1 s for the silence: {took:?}");
    }

    #[test]
    fn a_slow_interface_does_not_hold_up_the_end() {
        let mut world = World::new(5 * MIB, &[("fast", 5 * MIB), ("slow", 20_000)]);
        let took = world.run();
        assert!(took < Duration::from_millis(2200), "{took:?}");
    }

    #[test]
    fn a_backup_works_only_while_the_others_deliver_nothing() {
        let mut world = World::new(20 * MIB, &[("a", 2 * MIB), ("backup", 2 * MIB)]);
        while world.bytes < 5 * MIB {
            world.step();
        }
        assert_eq!(world.links[1].fetched, 0);
        world.set_rate("a", 0);
        while world.links[1].fetched < MIB {
            world.step();
        }
        world.set_rate("a", 2 * MIB);
        world.schedule.give_back("a", world.now);
        while world.links[0].fetched < 8 * MIB {
            world.step();
        }
        let before = world.links[1].fetched;
        world.run();
        assert_eq!(world.links[1].fetched, before, "it is left alone again");
        assert_eq!(world.got, all(20 * MIB));
    }

    #[test]
    fn what_is_given_back_is_fetched_again_from_where_it_stopped() {
        let now = Instant::now();
        let mut schedule = Schedule::new(all(3 * MIB), now);
        let first = schedule.take("a", false, now).unwrap();
        assert_eq!(first.bytes, 0..MIB);
        let grant = schedule.advance(("a", false), first.number, 1000, now);
        assert_eq!(grant, Grant { offset: 0, wanted: 1000, is_last: false });
        schedule.give_back("a", now);
        let late = schedule.advance(("a", false), first.number, 1000, now);
        assert_eq!((late.wanted, late.is_last), (0, true), "it has nothing any more");
        assert_eq!(schedule.take("b", false, now).unwrap().bytes, 1000..1000 + MIB);
    }

    #[test]
    fn within_a_window_no_piece_is_far_ahead_and_none_waits_for_a_slow_interface() {
        const WINDOW: u64 = 16 * MIB;
        let mut world = World::new(80 * MIB, &[("fast", 4 * MIB), ("slow", 20_000)]);
        world.schedule = Schedule::new(all(80 * MIB), world.now).within(WINDOW);
        let start = world.now;
        while !world.schedule.is_complete() {
            world.step();
            let first = world.got.missing(80 * MIB).start().unwrap_or(80 * MIB);
            assert!(world.got.end() <= first + WINDOW + WINDOW / PIECES_OF_WINDOW, "{first}");
        }
        assert_eq!(world.got, all(80 * MIB));
        let took = world.now - start;
        assert!(
            took < Duration::from_millis(23_500),
            "the fast one alone needs 20 s and a pause a piece: {took:?}"
        );
    }

    #[test]
    fn bytes_beyond_the_piece_are_not_wanted() {
        let now = Instant::now();
        let mut schedule = Schedule::new(all(10), now);
        let piece = schedule.take("a", false, now).unwrap();
        let grant = schedule.advance(("a", false), piece.number, 15, now);
        assert_eq!(grant, Grant { offset: 0, wanted: 10, is_last: true });
        assert!(schedule.is_complete());
    }
}
