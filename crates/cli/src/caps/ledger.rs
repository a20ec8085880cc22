//! Counts traffic against the caps of the user.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::civil::Date;
use manyway::{Allowance, ByteCount, Ledger};
use serde_json::{Value, json};

use super::period::{Period, today};
use super::rule::{Cap, CapRules};
use crate::home::{Count, Home, Patience};
use crate::output::desk::Desk;
use crate::output::units::{percent, volume};

/// The user is warned once this part of a cap is used, in percent.
const WARN: u128 = 80;

/// Keeps the counts of all interfaces with a cap in the user's directory.
#[derive(Debug)]
pub struct CapLedger {
    home: Home,
    rules: CapRules,
    clock: fn() -> Date,
    /// Interfaces for which the user was warned.
    warned: Mutex<BTreeSet<String>>,
    /// Where the user is warned.
    desk: Desk,
}

/// The state of an interface with a cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapState {
    /// The cap for the time from `since` until `renewal`.
    pub cap: ByteCount,
    /// Bytes used.
    pub used: u64,
    /// First day of the period.
    pub since: Date,
    /// The day on which the count is reset.
    pub renewal: Date,
}

impl CapState {
    fn new(cap: Cap, today: Date, count: Option<Count>) -> Self {
        let Count { since, until, bytes } = current(count, today).unwrap_or_else(|| fresh(cap, today));
        Self { cap: cap.bytes, used: bytes, since, renewal: until }
    }

    /// Bytes left.
    pub fn left(&self) -> ByteCount {
        self.cap - ByteCount(self.used)
    }

    /// Whether the cap is reached.
    pub fn is_reached(&self) -> bool {
        self.left() == ByteCount::ZERO
    }

    /// The figures in a few words: `3.2 GB of 5 GB`.
    pub fn text(&self) -> String {
        format!("{} of {}", volume(self.used), volume(self.cap.get()))
    }

    /// The figures for programs.
    pub fn json(&self) -> Value {
        json!({
            "used": self.used, "cap": self.cap.get(), "left": self.left().get(), "reached": self.is_reached(),
            "since": self.since.to_string(), "renewal": self.renewal.to_string(),
        })
    }

    /// The same with the name of the interface.
    pub fn json_of(&self, interface: &str) -> Value {
        let mut value = self.json();
        if let Some(value) = value.as_object_mut() {
            value.insert("interface".to_owned(), interface.into());
        }
        value
    }

    fn allowance(&self) -> Allowance {
        Allowance { cap: self.cap, left: self.left(), renewal: Some(for_people(self.renewal)) }
    }
}

/// A count whose period is over no longer counts. Otherwise counted bytes stay counted: a clock that was set back, a
/// machine without a real-time clock that was just started, and another reset day change nothing before.
fn current(count: Option<Count>, today: Date) -> Option<Count> {
    count.filter(|count| today < count.until)
}

fn fresh(cap: Cap, today: Date) -> Count {
    let Period { start, end } = Period::of(today, cap.reset_day);
    Count { since: start, until: end, bytes: 0 }
}

fn for_people(date: Date) -> manyway::Date {
    let part = |number: i8| u8::try_from(number).unwrap_or_default();
    manyway::Date { year: date.year(), month: part(date.month()), day: part(date.day()) }
}

impl CapLedger {
    /// Opens the counts; `None` if no interface has a cap.
    ///
    /// # Errors
    /// If they cannot be read and written: traffic that cannot be counted must not be sent.
    pub fn open(home: Home, rules: CapRules, desk: Desk) -> io::Result<Option<Arc<Self>>> {
        if rules.is_empty() {
            return Ok(None);
        }
        let ledger = Self { desk, ..Self::at(home, rules, today) };
        for interface in ledger.named() {
            ledger.record(&interface, ByteCount::ZERO, Patience::Wait)?;
        }
        Ok(Some(Arc::new(ledger)))
    }

    fn at(home: Home, rules: CapRules, clock: fn() -> Date) -> Self {
        Self { home, rules, clock, warned: Mutex::default(), desk: Desk::default() }
    }

    /// The interfaces named by caps, and those with a count.
    pub fn named(&self) -> Vec<String> {
        self.home.counted_interfaces().into_iter().chain(self.rules.names()).collect()
    }

    /// The state of an interface; `None` if it has no cap.
    ///
    /// # Errors
    /// If the count can not be read.
    pub fn state(&self, interface: &str) -> io::Result<Option<CapState>> {
        let Some(cap) = self.rules.of(interface) else { return Ok(None) };
        Ok(Some(CapState::new(cap, (self.clock)(), self.home.count(interface)?)))
    }

    /// Those of these interfaces whose cap is reached.
    pub fn exhausted<'a>(&self, interfaces: impl Iterator<Item = &'a str>) -> BTreeMap<String, Allowance> {
        let states = interfaces.filter_map(|name| Some((name, self.state(name).ok()??)));
        let exhausted = states.filter(|(_, state)| state.is_reached());
        exhausted.map(|(name, state)| (name.to_owned(), state.allowance())).collect()
    }

    fn record(&self, interface: &str, bytes: ByteCount, patience: Patience) -> io::Result<Option<CapState>> {
        let Some(cap) = self.rules.of(interface) else { return Ok(None) };
        let today = (self.clock)();
        let count = self.home.change_count(interface, patience, |count| {
            let count = current(count, today).unwrap_or_else(|| fresh(cap, today));
            Count { bytes: count.bytes.saturating_add(bytes.get()), ..count }
        })?;
        Ok(Some(CapState::new(cap, today, Some(count))))
    }

    fn warn(&self, interface: &str, state: &CapState) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        let is_near = u128::from(state.used) * 100 >= u128::from(state.cap.get()) * WARN;
        if !is_near {
            warned.remove(interface);
        } else if !state.is_reached() && warned.insert(interface.to_owned()) {
            let share = percent(state.used, state.cap.get());
            self.desk.tell(&format!("{interface}: {} used ({share}), until {}", state.text(), state.renewal));
        }
    }
}

impl Ledger for CapLedger {
    fn spend(&self, interface: &str, bytes: ByteCount) -> io::Result<Option<Allowance>> {
        // A query creates no file for an interface that a pattern matches but that was never used.
        let is_new =
            bytes == ByteCount::ZERO && self.home.count(interface).is_ok_and(|count| count.is_none());
        let state =
            if is_new { self.state(interface)? } else { self.record(interface, bytes, Patience::Leave)? };
        if let Some(state) = &state {
            self.warn(interface, state);
        }
        Ok(state.map(|state| state.allowance()))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static TODAY: Cell<Date> = const { Cell::new(Date::constant(2026, 11, 22)) };
    }

    fn set(day: &str) {
        TODAY.set(day.parse().unwrap());
    }

    fn ledger(rule: &str) -> (tempfile::TempDir, CapLedger) {
        let directory = tempfile::tempdir().unwrap();
        let rules = CapRules::new([rule.parse().unwrap()]);
        let ledger = CapLedger::at(Home::at(directory.path()), rules, || TODAY.get());
        (directory, ledger)
    }

    fn spend(ledger: &CapLedger, bytes: u64) -> (u64, String) {
        let allowance = ledger.spend("wwan0", ByteCount(bytes)).unwrap().unwrap();
        (allowance.left.get(), allowance.renewal.unwrap().to_string())
    }

    #[test]
    fn the_remaining_bytes_shrink_until_the_reset_day() {
        let (_directory, ledger) = ledger("wwan0=1000@15");
        let until = |date: &str| date.to_owned();
        assert_eq!(spend(&ledger, 0), (1000, until("2026-12-15")));
        assert_eq!(spend(&ledger, 600), (400, until("2026-12-15")));
        set("2026-12-14");
        assert_eq!(spend(&ledger, 600), (0, until("2026-12-15")));
        let state = ledger.state("wwan0").unwrap().unwrap();
        assert!(state.is_reached() && state.used == 1200);
        assert_eq!(state.text(), "1.2 kB of 1 kB");
        let exhausted = ledger.exhausted(["eth0", "wwan0"].into_iter());
        assert_eq!(exhausted.into_keys().collect::<Vec<_>>(), ["wwan0"]);
        set("2026-12-15");
        assert!(!ledger.state("wwan0").unwrap().unwrap().is_reached());
        assert_eq!(spend(&ledger, 1), (999, until("2027-01-15")));
        assert_eq!(ledger.spend("eth0", ByteCount(5)).unwrap(), None);
    }

    #[test]
    fn a_clock_that_is_set_back_lifts_no_cap() {
        let (_directory, ledger) = ledger("wwan0=1000");
        spend(&ledger, 900);
        // As on a machine without a real-time clock, before it has synchronised.
        set("1970-01-01");
        assert_eq!(spend(&ledger, 50), (50, "2026-12-01".to_owned()));
        set("2026-11-23");
        assert_eq!(spend(&ledger, 0), (50, "2026-12-01".to_owned()));
        // Years ahead and back again.
        set("2030-06-05");
        assert_eq!(spend(&ledger, 10).0, 990);
        set("2026-11-23");
        assert_eq!(spend(&ledger, 10), (980, "2030-07-01".to_owned()));
    }

    #[test]
    fn another_reset_day_applies_from_the_next_reset_on() {
        let (directory, ledger) = ledger("wwan0=1000@31");
        assert_eq!(spend(&ledger, 900), (100, "2026-11-30".to_owned()));
        let other = |day: &str| {
            let rules = CapRules::new([format!("wwan0=1000@{day}").parse().unwrap()]);
            CapLedger::at(Home::at(directory.path()), rules, || TODAY.get())
        };
        assert_eq!(spend(&other("1"), 0), (100, "2026-11-30".to_owned()));
        assert_eq!(spend(&other("15"), 0), (100, "2026-11-30".to_owned()));
        set("2026-11-30");
        assert_eq!(spend(&other("15"), 0), (1000, "2026-12-15".to_owned()));
    }

    #[test]
    fn another_process_continues_the_count() {
        let (directory, ledger) = ledger("wwan*=1000");
        spend(&ledger, 300);
        let rules = CapRules::new(["wwan0=500".parse().unwrap()]);
        let other = CapLedger::open(Home::at(directory.path()), rules, Desk::default()).unwrap().unwrap();
        let state = other.state("wwan0").unwrap();
        // The real clock may be in another month, or in the same.
        assert!(state.is_some_and(|state| state.cap == ByteCount(500)));
        assert_eq!(spend(&ledger, 100).0, 600);
        assert!(
            CapLedger::open(Home::at(directory.path()), CapRules::default(), Desk::default())
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn a_query_creates_no_count() {
        let (_directory, ledger) = ledger("wwan*=1000");
        assert_eq!(spend(&ledger, 0).0, 1000);
        assert!(!ledger.home.usage_directory().exists());
        assert_eq!(ledger.spend("eth0", ByteCount::ZERO).unwrap(), None);
        assert_eq!((spend(&ledger, 300).0, spend(&ledger, 0).0), (700, 700));
        assert_eq!(ledger.named(), ["wwan0"]);
    }

    #[test]
    fn counts_that_cannot_be_stored_are_an_error_at_the_start() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("usage"), "a file where a directory should be").unwrap();
        let rules = CapRules::new(["wwan0=500".parse().unwrap()]);
        CapLedger::open(Home::at(directory.path()), rules, Desk::default()).unwrap_err();
    }
}
