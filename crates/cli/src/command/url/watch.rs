//! Shows the interfaces of a download as the paths of a connection are shown.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use manyway::{Carrier, PathId, PathState};
use manyway_fetch::{Figures, InterfaceFigures, InterfaceState};
use tokio::task::JoinHandle;

use crate::output::book::{Counts, Observed, PathBook, PathRow};
use crate::output::path::PathLabel;
use crate::output::progress::ProgressView;
use crate::output::rate::Pathless;

/// How often the figures are read.
const EVERY: Duration = Duration::from_millis(250);
/// A download without a working interface is given up after this time.
const GIVE_UP: Duration = Duration::from_secs(30);

/// The interfaces of a download. They are shown until this is dropped.
#[derive(Debug)]
pub(super) struct InterfaceWatch {
    task: JoinHandle<()>,
    figures: Figures,
    book: Arc<Mutex<PathBook>>,
}

impl InterfaceWatch {
    /// Starts to show what `figures` has.
    pub(super) fn start(figures: Figures, view: Arc<ProgressView>) -> Self {
        let book: Arc<Mutex<PathBook>> = Arc::default();
        let (shown, source) = (Arc::clone(&book), figures.clone());
        let task = tokio::spawn(async move {
            let mut tick = tokio::time::interval(EVERY);
            let mut pathless = Pathless::default();
            loop {
                tick.tick().await;
                let now = Instant::now();
                let works = source.read().iter().any(|own| own.state == InterfaceState::Connected);
                view.set_pathless(pathless.note(now, works, GIVE_UP));
                note(&shown, &source, now);
                view.set_paths(&lock(&shown).rows(now));
            }
        });
        Self { task, figures, book }
    }

    /// The rows with the present figures.
    pub(super) fn rows(&self) -> Vec<PathRow> {
        let now = Instant::now();
        note(&self.book, &self.figures, now);
        lock(&self.book).rows(now)
    }
}

impl Drop for InterfaceWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(book: &Mutex<PathBook>) -> MutexGuard<'_, PathBook> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

fn note(book: &Mutex<PathBook>, figures: &Figures, now: Instant) {
    let figures = figures.read();
    let observed = (0..).zip(&figures).filter_map(|(id, own)| observed(PathId(id), own));
    lock(book).note(0, now, observed);
}

/// An interface as a path; `None` before its first connection attempt.
fn observed(id: PathId, figures: &InterfaceFigures) -> Option<Observed> {
    let (local, remote) = figures.addresses?;
    let state = match figures.state {
        InterfaceState::Connecting => PathState::Validating,
        InterfaceState::Connected => PathState::Active,
        InterfaceState::Silent => PathState::Suspect,
        InterfaceState::Failed => PathState::Dead,
        InterfaceState::Gone => PathState::Closed,
    };
    Some(Observed {
        name: figures.name.clone(),
        label: PathLabel { id, interface: Some(figures.name.clone()), local, remote, carrier: Carrier::Tcp },
        state,
        rtt: figures.rtt.filter(|_| state == PathState::Active),
        why: None,
        counts: Counts { sent: figures.sent, received: figures.received, packets: None },
    })
}

#[cfg(test)]
mod tests {
    use manyway_terminal::Colour;

    use super::*;
    use crate::command::summary::{ForeignFile, Summary};
    use crate::command::tally::Counts as Done;
    use crate::output::book::live_table;
    use crate::output::course::Course;
    use crate::output::fits::{LONG_FILES, assert_fits};

    /// A server on the same link.
    const ZONED: &str = "[fe80::fedc:ba98:7654:3210%1234567]:36173";

    fn figures(name: &str, state: InterfaceState, received: u64) -> InterfaceFigures {
        InterfaceFigures {
            name: name.to_owned(),
            addresses: Some(("192.0.2.7".parse().unwrap(), "203.0.113.80:443".parse().unwrap())),
            state,
            rtt: Some(Duration::from_micros(31_250)),
            sent: received / 500,
            received,
            connections: 2,
        }
    }

    #[test]
    fn long_names_of_files_and_interfaces_fit_every_terminal() {
        let (mut book, now) = (PathBook::default(), Instant::now());
        let interfaces = ["enx00e04c680001", "wwp0s20f0u3i12-mobile-broadband"].map(|name| {
            let addresses = ("fe80::1234:5678:9abc:def0".parse().unwrap(), ZONED.parse().unwrap());
            InterfaceFigures { addresses: Some(addresses), ..figures(name, InterfaceState::Silent, 9 << 30) }
        });
        book.note(0, now, (0..).zip(&interfaces).filter_map(|(id, own)| observed(PathId(id), own)));
        for (width, name) in [80, 120].into_iter().flat_map(|width| LONG_FILES.map(|name| (width, name))) {
            assert_fits(&live_table(&book.rows(now)).text(width, Colour::Without), width);
            let mut report = manyway_transfer::Report::default();
            (report.verified, report.bytes) = (1, 200 << 20);
            let done = Done { moved: 150 << 20, resumed: 50 << 20, report, attempts: 2, ..Done::default() };
            let file = ForeignFile { path: name.to_owned(), is_verified: true };
            let summary = Summary::new("fetched", done, Duration::from_secs(35), book.rows(now));
            assert_fits(&summary.of_foreign(file).text(width, Colour::Without), width);
        }
    }

    #[test]
    fn progress_and_summary_of_a_download_fit_every_terminal() {
        let (mut book, mut course, start) = (PathBook::default(), Course::new("fetching"), Instant::now());
        let second = Duration::from_secs(1);
        course.begin(start, 200 << 20);
        for step in 1..=3_u32 {
            let received = u64::from(step) * 4_000_000;
            let interfaces = [
                figures("wifi0", InterfaceState::Connected, received),
                figures("lte0", InterfaceState::Connected, received / 2),
                figures("sat0", InterfaceState::Failed, 0),
            ];
            course.advance(6_000_000);
            course.sample(start + step * second);
            let observed = (0..).zip(&interfaces).filter_map(|(id, own)| observed(PathId(id), own));
            book.note(0, start + step * second, observed);
        }
        let now = start + 3 * second;
        let mut report = manyway_transfer::Report::default();
        (report.verified, report.bytes) = (1, 200 << 20);
        let done = Done { moved: 200 << 20, report, attempts: 1, ..Done::default() };
        let file = ForeignFile { path: "film.mp4".to_owned(), is_verified: false };
        let summary = Summary::new("fetched", done, 35 * second, book.rows(now)).of_foreign(file);
        for width in [80, 120] {
            let progress = course.line(now, width).plain();
            let rows = live_table(&book.rows(now)).text(width, Colour::Without);
            let summary = summary.text(width, Colour::Without);
            let screen = format!("{progress}\n{rows}\n{summary}");
            assert_fits(&screen, width);
            insta::assert_snapshot!(format!("url_{width}"), screen);
        }
    }
}
