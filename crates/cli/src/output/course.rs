//! The progress of a transfer, in one line.

use std::time::{Duration, Instant};

use super::rate::{Pace, RateWindow, WINDOW};
use super::tint::{Line, Tint};
use super::units;
use manyway_terminal::{clip, text_width};

/// The state of one transfer.
#[derive(Debug)]
pub struct Course {
    title: String,
    /// Total bytes; `None` before it began.
    total: Option<u64>,
    done: u64,
    /// Of these, those that this attempt gave to the connection or took from it.
    given: u64,
    /// Of these, those that have not arrived.
    waiting: u64,
    /// The most of them that has been known to have arrived.
    arrived: u64,
    /// Bytes that arrived in earlier attempts.
    earlier: u64,
    /// Total size of the files that have begun, and the bytes of them that are done. Between two files both are equal.
    begun: u64,
    passed: u64,
    holes: Holes,
    window: RateWindow,
    gives_up_at: Option<Instant>,
    /// The current attempt to reconnect, such as "reconnecting, attempt 1 of 3".
    reconnecting: Option<String>,
    /// What the line says instead of all this.
    text: Option<String>,
}

impl Course {
    /// A transfer that has not begun.
    pub fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            total: None,
            done: 0,
            given: 0,
            waiting: 0,
            arrived: 0,
            earlier: 0,
            begun: 0,
            passed: 0,
            holes: Holes::default(),
            window: RateWindow::default(),
            gives_up_at: None,
            reconnecting: None,
            text: None,
        }
    }

    /// The activity, such as "sending".
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Begins with this many bytes, perhaps again. Earlier bytes are no part of the rate from now on.
    pub fn begin(&mut self, now: Instant, total: u64) {
        (self.total, self.gives_up_at, self.reconnecting) = (Some(total), None, None);
        self.earlier = self.travelled();
        (self.done, self.given, self.waiting, self.arrived) = (0, 0, 0, 0);
        (self.begun, self.passed, self.holes) = (0, 0, Holes::default());
        self.window.clear();
        self.window.record(now, 0);
    }

    /// A file of that size begins; the size is 0 for content of unknown length.
    pub fn start_file(&mut self, size: u64) {
        self.begun = self.begun.saturating_add(size);
    }

    /// Adds transferred bytes.
    pub fn advance(&mut self, bytes: u64) {
        self.skip(bytes);
        self.given = self.given.saturating_add(bytes);
    }

    /// Adds bytes that need not be transferred.
    pub fn skip(&mut self, bytes: u64) {
        self.done = self.done.saturating_add(bytes);
        self.passed = self.passed.saturating_add(bytes);
    }

    /// Adds bytes of a hole, which are not transferred. Both ends hash the hole all the same.
    pub fn skip_hole(&mut self, bytes: u64) {
        self.skip(bytes);
        self.holes.note(self.given, bytes);
    }

    /// Bytes done so far.
    pub fn done(&self) -> u64 {
        self.done.saturating_sub(self.given.saturating_sub(self.arrived))
    }

    /// Bytes that arrived over all attempts, as far as the last call of [`Self::set_waiting`] knows.
    pub fn travelled(&self) -> u64 {
        self.earlier.saturating_add(self.arrived.max(self.given.saturating_sub(self.waiting)))
    }

    /// Sets how many of the bytes given to the connection have not arrived: they are queued here or in flight.
    pub fn set_waiting(&mut self, bytes: u64) {
        self.waiting = bytes;
    }

    /// Sets when the connection is given up because no path works; `None`: one works.
    pub fn set_pathless(&mut self, gives_up_at: Option<Instant>) {
        self.gives_up_at = gives_up_at;
    }

    /// The connection is lost, and `attempt` describes the reconnection, until [`Self::begin`].
    pub fn set_reconnecting(&mut self, attempt: String) {
        (self.gives_up_at, self.reconnecting) = (None, Some(attempt));
        self.window.clear();
    }

    /// Sets what the line says instead of the progress.
    pub fn set_text(&mut self, text: String) {
        self.text = Some(text);
    }

    /// Takes a sample for the rate; call it several times a second.
    pub fn sample(&mut self, now: Instant) {
        self.arrived = self.arrived.max(self.given.saturating_sub(self.waiting));
        self.holes.sample(now);
        if self.total.is_some() && self.reconnecting.is_none() {
            self.window.record(now, self.arrived);
        }
    }

    /// The line for a terminal of that width.
    pub fn line(&self, now: Instant, width: usize) -> Line {
        if let Some(text) = &self.text {
            return Line::new(clip(text, width), Tint::Plain);
        }
        let mut line = Line::new(self.title.clone(), Tint::Strong);
        let Some(total) = self.total else {
            let text = match (&self.reconnecting, Pace::of(&self.window, now, self.gives_up_at)) {
                (Some(attempt), _) => attempt.clone(),
                (None, Pace::NoPath { left }) => no_path(left),
                (None, Pace::Unknown | Pace::Moving(_) | Pace::Stalled) => {
                    "waiting for the other side".to_owned()
                }
            };
            line.push(format!(": {text}"), Tint::Plain);
            return line;
        };
        let amount = match self.done() {
            // The length of content such as standard input is unknown.
            done if total == 0 => units::size(done),
            done => format!("{} of {}", units::size(done.min(total)), units::size(total)),
        };
        let (pace, tint) = self.pace(now, total);
        let taken = [&self.title, &amount, &pace].iter().map(|text| text_width(text)).sum::<usize>();
        // Two brackets, and a space or two between the parts.
        let room = width.saturating_sub(taken + 8);
        if let Some(bar) = bar(self.done(), total, room.min(WIDEST_BAR)) {
            line.push(" [", Tint::Plain);
            line.push(bar, Tint::Good);
            line.push("]", Tint::Plain);
        }
        line.push(format!(" {amount}"), Tint::Plain);
        if !pace.is_empty() {
            line.push(format!("  {pace}"), tint);
        }
        line
    }

    /// The same without a terminal.
    pub fn sentence(&self, now: Instant) -> String {
        let Some(total) = self.total else { return self.line(now, 0).plain() };
        let (pace, _) = self.pace(now, total);
        let pace = if pace.is_empty() { pace } else { format!(", {}", pace.replace("  ", ", ")) };
        if total == 0 {
            return format!("{}{pace}", units::size(self.done()));
        }
        let done = self.done().min(total);
        let share = units::percent(done, total);
        format!("{} of {} ({share}){pace}", units::size(done), units::size(total))
    }

    /// Rate and time left, or why there are none.
    fn pace(&self, now: Instant, total: u64) -> (String, Tint) {
        if let Some(attempt) = &self.reconnecting {
            return (attempt.clone(), Tint::Warning);
        }
        let left = total.saturating_sub(self.done());
        let pace = Pace::of(&self.window, now, self.gives_up_at);
        let rest = |text: &str| (text.to_owned(), Tint::Plain);
        match pace {
            Pace::NoPath { left } => (no_path(left), Tint::Bad),
            Pace::Unknown | Pace::Moving(_) | Pace::Stalled if left == 0 && total > 0 => {
                rest("waiting for verification")
            }
            Pace::Stalled if total == 0 && self.given == self.arrived => rest("waiting for input"),
            Pace::Stalled if self.holes.are_passed(now, self.given) => rest("skipping holes"),
            // One end hashes its data, and then the other compares it, before the next file begins.
            Pace::Stalled if self.begun == self.passed => rest("checking what is there"),
            Pace::Stalled => ("stalled".to_owned(), Tint::Warning),
            Pace::Unknown => rest(""),
            Pace::Moving(rate) => {
                let rate = format!("{} Mbit/s", units::megabits(rate));
                let time = pace.time_for(left).filter(|_| total > 0);
                let time = time.map(|time| format!("  {} left", whole_seconds(time)));
                (rate + &time.unwrap_or_default(), Tint::Plain)
            }
        }
    }
}

/// The recent holes.
#[derive(Debug, Default)]
struct Holes {
    /// When the last hole was passed, and whether that was since the last sample.
    last: Option<Instant>,
    is_new: bool,
    /// Bytes of holes close to each other, and the bytes of content given to the connection before the last of them.
    bytes: u64,
    behind: u64,
}

impl Holes {
    fn note(&mut self, given: u64, bytes: u64) {
        if given.saturating_sub(self.behind) > MOST_BUFFERED {
            self.bytes = 0;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        (self.behind, self.is_new) = (given, true);
    }

    fn sample(&mut self, now: Instant) {
        if std::mem::take(&mut self.is_new) {
            self.last = Some(now);
        }
    }

    /// Whether one end still passes them: this one lately, or the receiver long ones, before it reads what follows.
    fn are_passed(&self, now: Instant, given: u64) -> bool {
        let is_here = self.last.is_some_and(|at| now.saturating_duration_since(at) <= WINDOW);
        is_here || self.bytes >= LONG_HOLES && given.saturating_sub(self.behind) <= MOST_BUFFERED
    }
}

/// The most that the connection takes while the receiver does not read.
const MOST_BUFFERED: u64 = 64 << 20;
/// Size from which a hole takes the receiver noticeable time.
const LONG_HOLES: u64 = 1 << 30;

fn no_path(left: Duration) -> String {
    format!("no working path; giving up in {}", whole_seconds(left))
}

/// A waiting time.
fn whole_seconds(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} m {:02} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {:02} m", seconds / 3600, seconds % 3600 / 60),
    }
}

/// A bar of that width; `None` if that is too narrow, or there is nothing to do.
fn bar(done: u64, total: u64, width: usize) -> Option<String> {
    if width < NARROWEST_BAR || total == 0 {
        return None;
    }
    let filled = u128::from(done.min(total)) * u128::try_from(width).ok()? / u128::from(total);
    let filled = usize::try_from(filled).ok()?.min(width);
    Some("█".repeat(filled) + &"░".repeat(width - filled))
}

const NARROWEST_BAR: usize = 6;
const WIDEST_BAR: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::fits::assert_fits;

    const MS: Duration = Duration::from_millis(1);
    const MIB: u64 = 1 << 20;

    /// A transfer of 200 MiB of which 64 MiB existed already, 3 s after its start, at 8 MiB/s.
    fn resumed() -> (Course, Instant) {
        let (mut course, mut now) = (Course::new("sending"), Instant::now());
        course.begin(now, 200 * MIB);
        course.skip(64 * MIB);
        for _ in 0..30 {
            now += 100 * MS;
            course.advance(MIB * 8 / 10);
            course.sample(now);
        }
        (course, now)
    }

    #[test]
    fn rate_and_time_left_are_current_and_ignore_existing_bytes() {
        let (course, now) = resumed();
        for width in [80, 120] {
            insta::assert_snapshot!(format!("course_{width}"), course.line(now, width).plain());
        }
        insta::assert_snapshot!(course.sentence(now), @"87.9 MiB of 200.0 MiB (44 %), 67.11 Mbit/s, 15 s left");
    }

    #[test]
    fn bytes_queued_at_this_end_have_not_arrived() {
        let (mut course, start) = (Course::new("sending"), Instant::now());
        course.begin(start, 100 * MIB);
        course.advance(40 * MIB);
        course.set_waiting(38 * MIB);
        course.sample(start + 1000 * MS);
        assert_eq!(course.sentence(start + 1000 * MS), "2.0 MiB of 100.0 MiB (2 %), 16.78 Mbit/s, 49 s left");
        course.set_waiting(39 * MIB);
        course.sample(start + 1100 * MS);
        assert_eq!(course.done(), 2 * MIB, "what has arrived does not go back");
        course.set_waiting(0);
        course.sample(start + 1200 * MS);
        assert_eq!(course.done(), 40 * MIB);
    }

    #[test]
    fn during_reconnection_the_attempt_is_shown_and_the_next_one_counts_earlier_arrivals() {
        let (mut course, now) = resumed();
        course.set_pathless(Some(now));
        course.set_reconnecting("reconnecting, attempt 1 of 3".to_owned());
        course.sample(now + 500 * MS);
        assert_eq!(
            course.sentence(now + 500 * MS),
            "87.9 MiB of 200.0 MiB (44 %), reconnecting, attempt 1 of 3"
        );
        course.begin(now + 900 * MS, 200 * MIB);
        course.skip(80 * MIB);
        course.advance(10 * MIB);
        course.set_waiting(9 * MIB);
        course.sample(now + 1000 * MS);
        assert_eq!((course.done(), course.travelled()), (81 * MIB, 25_165_800 + MIB));
    }

    #[test]
    fn a_line_fits_its_terminal() {
        let (mut course, now) = resumed();
        for gives_up_at in [None, Some(now + 100_000 * MS)] {
            course.set_pathless(gives_up_at);
            for width in 80..140 {
                let line = course.line(now, width).plain();
                assert_fits(&line, width);
            }
        }
    }

    #[test]
    fn a_stall_is_shown_without_a_time_left() {
        let (mut course, now) = resumed();
        let later = now + 2100 * MS;
        course.sample(later);
        course.sample(now + 4200 * MS);
        insta::assert_snapshot!(course.sentence(now + 4200 * MS), @"87.9 MiB of 200.0 MiB (44 %), stalled");
        course.set_pathless(Some(now + 45_900 * MS));
        insta::assert_snapshot!("course_without_path", course.line(now + 4200 * MS, 80).plain());
    }

    /// The text 5 s after the start of a transfer without progress.
    fn said(total: u64, prepare: impl FnOnce(&mut Course)) -> String {
        let (mut course, start) = (Course::new("sending"), Instant::now());
        course.begin(start, total);
        prepare(&mut course);
        for step in 1..=10 {
            course.sample(start + 500 * step * MS);
        }
        course.pace(start + 5000 * MS, total).0
    }

    #[test]
    fn comparing_files_and_waiting_for_input_are_not_shown_as_stalled() {
        assert_eq!(said(200 * MIB, |_| {}), "checking what is there");
        assert_eq!(said(200 * MIB, |course| course.start_file(100 * MIB)), "stalled");
        let next = |course: &mut Course| {
            course.start_file(100 * MIB);
            course.skip(100 * MIB);
        };
        assert_eq!(said(200 * MIB, next), "checking what is there");
        assert_eq!(said(0, |course| course.start_file(0)), "waiting for input");
        let cut = |course: &mut Course| {
            course.start_file(0);
            course.advance(MIB);
            course.set_waiting(MIB);
        };
        assert_eq!(said(0, cut), "stalled");
    }

    #[test]
    fn long_holes_are_not_shown_as_stalled() {
        let hole = |bytes| {
            move |course: &mut Course| {
                course.start_file(4 << 40);
                course.skip_hole(bytes);
            }
        };
        assert_eq!(said(4 << 40, hole(2 << 30)), "skipping holes");
        assert_eq!(said(4 << 40, hole(4096)), "stalled");
        let (mut course, start) = (Course::new("fetching"), Instant::now());
        course.begin(start, 4 << 40);
        course.start_file(4 << 40);
        for step in 1..=50 {
            course.skip_hole(MIB);
            course.sample(start + 100 * step * MS);
        }
        assert_eq!(course.pace(start + 5000 * MS, 4 << 40).0, "skipping holes");
    }

    #[test]
    fn before_it_begins_no_bar_is_shown() {
        let course = Course::new("sending");
        assert_eq!(course.line(Instant::now(), 80).plain(), "sending: waiting for the other side");
    }

    #[test]
    fn after_everything_was_sent_the_receiver_is_awaited() {
        let (mut course, now) = resumed();
        course.advance(200 * MIB);
        course.sample(now);
        assert!(course.line(now, 80).plain().ends_with("200.0 MiB of 200.0 MiB  waiting for verification"));
        let mut empty = Course::new("sending");
        empty.begin(now, 0);
        assert_eq!(empty.line(now, 80).plain(), "sending 0 B");
    }

    #[test]
    fn content_of_unknown_length_has_the_amount_so_far_and_no_total() {
        let (mut course, start) = (Course::new("sending"), Instant::now());
        course.begin(start, 0);
        for step in 1..=10 {
            course.advance(MIB);
            course.sample(start + 100 * step * MS);
        }
        let now = start + 1000 * MS;
        assert_eq!(course.line(now, 80).plain(), "sending 10.0 MiB  83.89 Mbit/s");
        assert_eq!(course.sentence(now), "10.0 MiB, 83.89 Mbit/s");
    }
}
