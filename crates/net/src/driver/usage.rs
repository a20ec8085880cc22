//! Traffic of each interface as reported to the ledger, and the remaining quota.
//!
//! Traffic is reported after a 64th of the quota that was left at the last report, 64 KiB at least, or after a second,
//! and at once when all of it is used. So each of several processes may exceed a cap by what it has not reported: the
//! traffic of a second, but no more than that 64th and one turn of the driver. A single process exceeds it by that
//! turn, and by the turns in which peers are told. Each thread of a server counts as a process here. Packets that are on their way to this host when the peers are told
//! to stop come on top.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use manyway_proto::ByteCount;
use tokio::time::Instant;

use crate::ledger::{Allowance, Ledger};

/// Traffic is reported within this time.
const TOLD_AFTER: Duration = Duration::from_secs(1);
/// Interval of reports for an interface whose quota is used up: the user may have raised the cap.
const EXHAUSTED_AGAIN: Duration = Duration::from_secs(5);
/// Interval of reports for an idle interface: other processes may have used its quota.
const QUIET_AGAIN: Duration = Duration::from_secs(30);
/// Interval of reports after a failure.
const FAILED_AGAIN: Duration = Duration::from_millis(50);
/// Traffic that need not be reported at once, and the divisor of the remaining quota that need not be.
const LITTLE: u64 = 64 * 1024;
const PART: u64 = 64;
/// Turns within which peers are told before an interface without quota falls silent.
const LAST_TURNS: u32 = 3;
/// Most attempts of the last report if the ledger cannot take it.
const LAST_TRIES: u32 = 10;

/// The accounts of the interfaces of this host.
#[derive(Debug)]
pub(super) struct Usage {
    ledger: Option<Arc<dyn Ledger>>,
    accounts: BTreeMap<String, Account>,
    /// Interfaces without a limit, which need no account.
    unlimited: BTreeSet<String>,
    /// Turns until interfaces without quota fall silent; 0 if they are silent.
    last_turns: u32,
}

/// One interface.
#[derive(Debug)]
struct Account {
    /// `None` if the interface has no limit, or while the ledger has only been busy so far.
    allowance: Option<Allowance>,
    /// Bytes not reported yet.
    untold: u64,
    /// When the ledger was last called.
    called_at: Instant,
    /// The last call failed.
    has_failed: bool,
    /// The user was warned of the failure, unless the ledger was merely busy.
    is_warned: bool,
}

/// The allowance of an interface for which the ledger has failed so far: traffic that cannot be counted must not be
/// sent.
const UNKNOWN: Allowance = Allowance { cap: ByteCount::ZERO, left: ByteCount::ZERO, renewal: None };

/// The result of settling the accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum News {
    /// No change.
    None,
    /// The remaining quota changed.
    Left,
    /// The quota of an interface is used up, or available again.
    ExhaustedChanged,
}

impl Usage {
    pub(super) fn new(ledger: Option<Arc<dyn Ledger>>) -> Self {
        Self { ledger, accounts: BTreeMap::new(), unlimited: BTreeSet::new(), last_turns: 0 }
    }

    /// Whether there is a ledger.
    pub(super) fn counts(&self) -> bool {
        self.ledger.is_some()
    }

    /// Counts traffic of an interface.
    pub(super) fn add(&mut self, interface: &str, bytes: u64) {
        if let Some(account) = self.accounts.get_mut(interface) {
            account.untold = account.untold.saturating_add(bytes);
        }
    }

    /// Opens accounts for these interfaces, and closes those of removed interfaces once everything is reported.
    pub(super) fn follow<'a>(&mut self, now: Instant, interfaces: impl Iterator<Item = &'a str>) {
        let Self { ledger, accounts, unlimited, .. } = self;
        let Some(ledger) = ledger.as_deref() else { return };
        let present: BTreeSet<&str> = interfaces.collect();
        unlimited.retain(|name| present.contains(name.as_str()));
        accounts.retain(|name, account| {
            let is_there = present.contains(name.as_str());
            if !is_there && account.untold > 0 {
                account.settle(now, name, ledger);
            }
            is_there || account.untold > 0
        });
        for interface in present {
            if accounts.contains_key(interface) || unlimited.contains(interface) {
                continue;
            }
            let mut account =
                Account { allowance: None, untold: 0, called_at: now, has_failed: false, is_warned: false };
            account.settle(now, interface, ledger);
            if account.allowance.is_some() || account.has_failed {
                accounts.insert(interface.to_owned(), account);
            } else {
                unlimited.insert(interface.to_owned());
            }
        }
    }

    /// Makes the reports that are due.
    pub(super) fn settle(&mut self, now: Instant) -> News {
        let mut news = News::None;
        let Some(ledger) = self.ledger.as_deref() else { return news };
        for (interface, account) in &mut self.accounts {
            if !account.is_due(now) {
                continue;
            }
            let before = account.allowance;
            account.settle(now, interface, ledger);
            let ends = |allowance: Option<Allowance>| allowance.is_some_and(|it| is_exhausted(&it));
            news = news.max(if ends(before) != ends(account.allowance) {
                News::ExhaustedChanged
            } else if before != account.allowance {
                News::Left
            } else {
                News::None
            });
        }
        news
    }

    /// The remaining quota of an interface; `None` without a limit.
    pub(super) fn allowance(&self, interface: &str) -> Option<Allowance> {
        self.accounts.get(interface).and_then(|account| account.allowance)
    }

    /// The interfaces whose quota is used up.
    pub(super) fn exhausted(&self) -> BTreeMap<String, Allowance> {
        let limited = self.accounts.iter().filter_map(|(name, account)| Some((name, account.allowance?)));
        let exhausted = limited.filter(|(_, allowance)| is_exhausted(allowance));
        exhausted.map(|(name, allowance)| (name.clone(), allowance)).collect()
    }

    /// Starts the turns in which peers are told that an interface has no quota left.
    pub(super) fn await_closes(&mut self) {
        self.last_turns = LAST_TURNS;
    }

    pub(super) fn awaits_closes(&self) -> bool {
        self.last_turns > 0
    }

    /// Ends a turn that sent everything, unless something is `unsent`; returns true if the interfaces are to fall
    /// silent now.
    pub(super) fn are_closes_sent(&mut self, unsent: bool) -> bool {
        if self.last_turns == 0 {
            return false;
        }
        self.last_turns = if unsent { self.last_turns - 1 } else { 0 };
        self.last_turns == 0
    }

    /// When the next report is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.accounts.values().filter_map(Account::deadline).min()
    }

    /// Makes the last report; retries for a short time, since nothing else is left to do.
    pub(super) fn finish(&mut self) {
        let Some(ledger) = self.ledger.as_deref() else { return };
        for _ in 0..LAST_TRIES {
            let now = Instant::now();
            for (interface, account) in &mut self.accounts {
                if account.untold > 0 {
                    account.settle(now, interface, ledger);
                }
            }
            if self.accounts.values().all(|account| account.untold == 0) {
                return;
            }
            std::thread::sleep(FAILED_AGAIN);
        }
        tracing::warn!("not all that went over interfaces with a cap could be counted");
    }
}

impl Account {
    fn settle(&mut self, now: Instant, interface: &str, ledger: &dyn Ledger) {
        self.called_at = now;
        match ledger.spend(interface, ByteCount(self.untold)) {
            Ok(allowance) => {
                (self.allowance, self.untold) = (allowance, 0);
                (self.has_failed, self.is_warned) = (false, false);
            }
            Err(error) => {
                if error.kind() != io::ErrorKind::WouldBlock {
                    if !std::mem::replace(&mut self.is_warned, true) {
                        tracing::warn!(interface, %error, "what goes over it can not be counted now");
                    }
                    self.allowance.get_or_insert(UNKNOWN);
                }
                self.has_failed = true;
                // The reported bytes count here all the same, so that a full disk lifts no cap.
                if let Some(allowance) = self.allowance.as_mut().filter(|it| it.left.get() <= self.untold) {
                    allowance.left = ByteCount::ZERO;
                }
            }
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        let left = self.allowance.map_or(0, |allowance| allowance.left.get());
        let is_much = left > 0 && self.untold >= (left / PART).max(LITTLE).min(left);
        is_much && !self.has_failed || self.deadline().is_some_and(|at| at <= now)
    }

    fn deadline(&self) -> Option<Instant> {
        let pause = match self.allowance {
            _ if self.has_failed => FAILED_AGAIN,
            None => return None,
            Some(allowance) if is_exhausted(&allowance) => EXHAUSTED_AGAIN,
            Some(_) if self.untold > 0 => TOLD_AFTER,
            Some(_) => QUIET_AGAIN,
        };
        Some(self.called_at + pause)
    }
}

fn is_exhausted(allowance: &Allowance) -> bool {
    allowance.left == ByteCount::ZERO
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard};

    use super::*;

    /// A ledger with the cap of one interface that records its reports; busy on demand.
    #[derive(Debug, Default)]
    struct Book(Mutex<Page>);

    #[derive(Debug, Default)]
    struct Page {
        cap: u64,
        told: Vec<u64>,
        error: Option<io::ErrorKind>,
    }

    impl Book {
        fn new(cap: u64) -> Arc<Self> {
            Arc::new(Self(Mutex::new(Page { cap, ..Page::default() })))
        }

        fn page(&self) -> MutexGuard<'_, Page> {
            self.0.lock().unwrap()
        }

        fn told(&self) -> Vec<u64> {
            std::mem::take(&mut self.page().told)
        }

        fn set(&self, change: impl FnOnce(&mut Page)) {
            change(&mut self.page());
        }
    }

    impl Ledger for Book {
        fn spend(&self, interface: &str, bytes: ByteCount) -> io::Result<Option<Allowance>> {
            let mut page = self.page();
            if let Some(error) = page.error {
                return Err(error.into());
            }
            if interface != "wwan0" {
                return Ok(None);
            }
            page.told.push(bytes.get());
            let cap = ByteCount(page.cap);
            page.cap = page.cap.saturating_sub(bytes.get());
            Ok(Some(Allowance { cap, left: ByteCount(page.cap), renewal: None }))
        }
    }

    fn usage(book: &Arc<Book>) -> (Usage, Instant) {
        let now = Instant::now();
        let mut usage = Usage::new(Some(Arc::clone(book) as Arc<dyn Ledger>));
        usage.follow(now, ["wwan0", "eth0"].into_iter());
        assert_eq!(book.told(), [0]);
        (usage, now)
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn reports_are_more_frequent_the_less_quota_is_left() {
        let book = Book::new(64 << 20);
        let (mut usage, now) = usage(&book);
        usage.add("wwan0", 1 << 19);
        usage.add("eth0", 1 << 30);
        assert_eq!((usage.settle(now), book.told()), (News::None, vec![]));
        usage.add("wwan0", 1 << 19);
        assert_eq!((usage.settle(now), book.told()), (News::Left, vec![1 << 20]));
        book.set(|page| page.cap = 200_000);
        usage.add("wwan0", 1);
        assert_eq!(usage.deadline(), Some(now + SECOND));
        assert_eq!((usage.settle(now + SECOND), book.told()), (News::Left, vec![1]));
        usage.add("wwan0", 65_536);
        assert_eq!((usage.settle(now + SECOND), book.told()), (News::Left, vec![65_536]));
        usage.add("wwan0", 140_000);
        assert_eq!((usage.settle(now + SECOND), book.told()), (News::ExhaustedChanged, vec![140_000]));
        assert_eq!(usage.exhausted().into_keys().collect::<Vec<_>>(), ["wwan0"]);
    }

    #[test]
    fn an_interface_without_quota_is_polled_until_it_has_some_again() {
        let book = Book::new(0);
        let (mut usage, now) = usage(&book);
        assert_eq!(usage.exhausted().len(), 1);
        assert_eq!((usage.settle(now + SECOND), book.told()), (News::None, vec![]));
        assert_eq!((usage.settle(now + 5 * SECOND), book.told()), (News::None, vec![0]));
        book.set(|page| page.cap = 1000);
        assert_eq!(usage.settle(now + 10 * SECOND), News::ExhaustedChanged);
        assert!(usage.exhausted().is_empty());
        assert_eq!(usage.allowance("wwan0").map(|it| it.left), Some(ByteCount(1000)));
    }

    #[test]
    fn the_account_of_a_removed_interface_is_closed_once_everything_is_reported() {
        let book = Book::new(100_000);
        let (mut usage, now) = usage(&book);
        usage.add("wwan0", 500);
        book.set(|page| page.error = Some(io::ErrorKind::WouldBlock));
        usage.follow(now, std::iter::empty());
        assert_eq!((usage.accounts.len(), usage.unlimited.len()), (1, 0));
        book.set(|page| page.error = None);
        usage.follow(now, std::iter::empty());
        assert_eq!((book.told(), usage.accounts.len(), usage.deadline()), (vec![500], 0, None));
        usage.follow(now, ["wwan0"].into_iter());
        assert_eq!(usage.allowance("wwan0").map(|it| it.left), Some(ByteCount(99_500)));
    }

    #[test]
    fn an_interface_without_a_limit_is_reported_once() {
        let (mut usage, now) = usage(&Book::new(100_000));
        usage.add("eth0", 1 << 30);
        assert!(usage.accounts.keys().eq(["wwan0"]) && usage.unlimited.iter().eq(["eth0"]));
        usage.follow(now, ["wwan0", "eth0"].into_iter());
        assert_eq!((usage.accounts.len(), usage.allowance("eth0")), (1, None));
    }

    #[test]
    fn an_interface_whose_count_cannot_be_read_has_no_quota_until_it_can() {
        for (error, exhausted) in [(io::ErrorKind::WouldBlock, 0), (io::ErrorKind::InvalidData, 1)] {
            let book = Book::new(100_000);
            book.set(|page| page.error = Some(error));
            let now = Instant::now();
            let mut usage = Usage::new(Some(Arc::clone(&book) as Arc<dyn Ledger>));
            usage.follow(now, ["wwan0"].into_iter());
            assert_eq!((usage.exhausted().len(), usage.deadline()), (exhausted, Some(now + FAILED_AGAIN)));
            book.set(|page| page.error = None);
            usage.settle(now + FAILED_AGAIN);
            assert_eq!(usage.allowance("wwan0").map(|it| it.left), Some(ByteCount(100_000)));
            assert!(usage.exhausted().is_empty());
        }
    }

    #[test]
    fn the_closes_have_three_turns_or_until_everything_is_sent() {
        let (mut usage, _) = usage(&Book::new(0));
        assert!(!usage.are_closes_sent(true) && !usage.awaits_closes());
        usage.await_closes();
        assert_eq!([true, true, true, true].map(|it| usage.are_closes_sent(it)), [false, false, true, false]);
        usage.await_closes();
        assert_eq!([true, false, false].map(|it| usage.are_closes_sent(it)), [false, true, false]);
    }

    #[test]
    fn reports_to_a_busy_ledger_are_repeated_and_count_all_the_same() {
        let book = Book::new(100_000);
        let (mut usage, now) = usage(&book);
        book.set(|page| page.error = Some(io::ErrorKind::WouldBlock));
        usage.add("wwan0", 70_000);
        assert_eq!(usage.settle(now), News::None);
        usage.add("wwan0", 40_000);
        assert_eq!(usage.settle(now), News::None);
        assert_eq!(usage.deadline(), Some(now + FAILED_AGAIN));
        assert_eq!(usage.settle(now + FAILED_AGAIN), News::ExhaustedChanged);
        book.set(|page| page.error = None);
        usage.finish();
        assert_eq!(book.told(), [110_000]);
    }
}
