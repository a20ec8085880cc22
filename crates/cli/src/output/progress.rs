//! Progress on standard error: one line for the total and one for each path, redrawn on a terminal, plain elsewhere.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use manyway_terminal::screen::{message_width, width_of_messages};
use manyway_terminal::{Colour, ProgressMode, note, wrapped};

use super::book::{PathRow, live_table};
#[cfg(unix)]
use super::canvas::Canvas;
use super::course::Course;
use super::{entries, units};
use crate::status::FileCounts;

/// The progress of one transfer. Dropping it leaves the terminal as [`ProgressView::finish`] does.
#[derive(Debug)]
pub struct ProgressView {
    mode: ProgressMode,
    bars: MultiProgress,
    overall: ProgressBar,
    #[cfg(unix)]
    canvas: Canvas,
    course: Arc<Mutex<Course>>,
    lines: Mutex<Lines>,
    /// The files as `manyway status` shows them.
    files: FileCounts,
}

#[derive(Debug)]
struct Lines {
    paths: Vec<ProgressBar>,
    printed: Instant,
    /// Nothing is drawn any more: it would stand before the output that follows.
    is_finished: bool,
}

impl ProgressView {
    /// Starts with a title; the total of bytes may follow.
    pub fn new(mode: ProgressMode, title: &str) -> Self {
        #[cfg(unix)]
        let canvas = Canvas::default();
        let target = match mode {
            #[cfg(unix)]
            ProgressMode::Terminal => target_on(&canvas),
            #[cfg(not(unix))]
            ProgressMode::Terminal => ProgressDrawTarget::stderr_with_hz(REDRAWS),
            ProgressMode::Plain | ProgressMode::Silent => ProgressDrawTarget::hidden(),
        };
        let bars = MultiProgress::with_draw_target(target);
        let overall = bars.add(ProgressBar::new_spinner());
        let course = Arc::new(Mutex::new(Course::new(title)));
        overall.set_style(line_of(&course));
        if mode == ProgressMode::Terminal {
            // Time alone changes the line: a rate falls, a connection is given up.
            overall.enable_steady_tick(TICK);
            // A message stands above a line.
            overall.tick();
        }
        // There is nothing to show before the transfer has begun.
        let lines = Mutex::new(Lines { paths: Vec::new(), printed: Instant::now(), is_finished: false });
        Self {
            mode,
            bars,
            overall,
            #[cfg(unix)]
            canvas,
            course,
            lines,
            files: FileCounts::default(),
        }
    }

    /// The same view, which also counts files for `manyway status`.
    #[must_use]
    pub fn counting(mut self, files: FileCounts) -> Self {
        self.files = files;
        self
    }

    /// Sets the total of bytes.
    pub fn set_total(&self, bytes: u64) {
        self.course().begin(Instant::now(), bytes);
    }

    /// Begins, perhaps again: prints the total.
    pub fn begin(&self, files: u64, bytes: u64) {
        self.lines().printed = Instant::now();
        let mut course = self.course();
        course.begin(Instant::now(), bytes);
        let title = course.title().to_owned();
        drop(course);
        if self.mode == ProgressMode::Plain && files > 0 {
            note(&beginning(&title, files, bytes));
        }
    }

    /// Adds bytes that are done without a transfer: they are no part of the rate.
    pub fn skip(&self, bytes: u64) {
        self.course().skip(bytes);
    }

    /// Adds bytes that are done.
    pub fn advance(&self, bytes: u64) {
        self.course().advance(bytes);
    }

    /// Bytes done so far.
    pub fn done(&self) -> u64 {
        self.course().done()
    }

    /// Bytes that arrived over all attempts, as far as the last call of [`Self::set_waiting`] knows.
    pub fn travelled(&self) -> u64 {
        self.course().travelled()
    }

    /// Sets how many of the bytes given to the connection are queued at this end or in flight.
    pub fn set_waiting(&self, bytes: u64) {
        self.course().set_waiting(bytes);
    }

    /// Sets when the connection is given up because no path works; `None`: one works.
    pub fn set_pathless(&self, gives_up_at: Option<Instant>) {
        self.course().set_pathless(gives_up_at);
    }

    /// The connection is lost; `attempt` is shown until the next one begins.
    pub fn set_reconnecting(&self, attempt: String) {
        self.course().set_reconnecting(attempt);
    }

    /// Sets what the line, of that width, says instead of the progress.
    pub fn set_text(&self, text: impl FnOnce(usize) -> String) {
        let text = text(width_of_lines());
        self.course().set_text(text);
    }

    /// Shows the current paths. On a terminal call it a few times a second; elsewhere most calls print nothing.
    pub fn set_paths(&self, rows: &[PathRow]) {
        let now = Instant::now();
        self.course().sample(now);
        match self.mode {
            ProgressMode::Silent => {}
            ProgressMode::Terminal => self.redraw(rows),
            ProgressMode::Plain => self.print_now_and_then(now, rows),
        }
    }

    fn redraw(&self, rows: &[PathRow]) {
        let width = width_of_lines().saturating_sub(INDENT.len());
        let colour = Colour::of_messages();
        let texts = table(rows, width, colour);
        let mut lines = self.lines();
        if lines.is_finished {
            return;
        }
        while lines.paths.len() < texts.len() {
            let bar = self.bars.add(ProgressBar::new_spinner());
            let style = ProgressStyle::with_template("{msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            lines.paths.push(bar);
        }
        for (bar, text) in lines.paths.iter().zip(&texts) {
            bar.set_message(text.clone());
        }
        for bar in lines.paths.drain(texts.len()..) {
            bar.finish_and_clear();
        }
    }

    fn print_now_and_then(&self, now: Instant, rows: &[PathRow]) {
        let mut lines = self.lines();
        if lines.is_finished || now.saturating_duration_since(lines.printed) < PLAIN_INTERVAL {
            return;
        }
        lines.printed = now;
        drop(lines);
        let text = self.course().sentence(now);
        note(&text);
        for text in table(rows, message_width(), Colour::Without) {
            note(&text);
        }
    }

    /// Prints a message above the progress.
    pub fn message(&self, text: &str) {
        let lines = self.lines();
        match self.mode {
            ProgressMode::Silent => {}
            _ if lines.is_finished => note(text),
            ProgressMode::Plain => note(text),
            // Without a terminal indicatif would drop the line.
            ProgressMode::Terminal => drop(self.bars.println(wrapped(text))),
        }
    }

    /// Removes the lines while something else is on the terminal.
    pub fn pause(&self) {
        if self.mode == ProgressMode::Terminal {
            let _ = self.bars.clear();
            self.bars.set_draw_target(ProgressDrawTarget::hidden());
        }
    }

    /// Shows them again.
    pub fn resume(&self) {
        if self.mode == ProgressMode::Terminal {
            #[cfg(unix)]
            let target = target_on(&self.canvas);
            #[cfg(not(unix))]
            let target = ProgressDrawTarget::stderr_with_hz(REDRAWS);
            self.bars.set_draw_target(target);
        }
    }

    /// Ends the display; the terminal's lines are removed.
    pub fn finish(&self) {
        let mut lines = self.lines();
        for bar in lines.paths.drain(..) {
            bar.finish_and_clear();
        }
        self.overall.finish_and_clear();
        #[cfg(unix)]
        if self.mode == ProgressMode::Terminal && !lines.is_finished {
            // The terminal may be closed.
            let _ = self.canvas.end();
        }
        lines.is_finished = true;
    }

    fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(unix)]
fn target_on(canvas: &Canvas) -> ProgressDrawTarget {
    ProgressDrawTarget::term_like_with_hz(Box::new(canvas.clone()), REDRAWS)
}

/// After a line there is room for the characters that the terminal shows for a key, such as `^C`.
fn width_of_lines() -> usize {
    width_of_messages().unwrap_or(LEAST_WIDTH).saturating_sub(KEY)
}

/// The style of a line that is composed whenever it is drawn.
fn line_of(course: &Arc<Mutex<Course>>) -> ProgressStyle {
    let course = Arc::clone(course);
    let draw = move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
        let now = Instant::now();
        let course = course.lock().unwrap_or_else(PoisonError::into_inner);
        let line = course.line(now, width_of_lines());
        // An error of the terminal cannot be reported anywhere else.
        let _ = out.write_str(&line.text(Colour::of_messages()));
    };
    let style = ProgressStyle::with_template("{line}").unwrap_or_else(|_| ProgressStyle::default_spinner());
    style.with_key("line", draw)
}

/// What begins, without a terminal.
fn beginning(title: &str, files: u64, bytes: u64) -> String {
    // The size of pipes and growing files is unknown.
    let size = if bytes > 0 { format!(", {}", units::size(bytes)) } else { String::new() };
    format!("{title} {}{size}", entries(files))
}

fn table(rows: &[PathRow], width: usize, colour: Colour) -> Vec<String> {
    if rows.is_empty() {
        return Vec::new();
    }
    let lines = live_table(rows).lines(width).into_iter();
    lines.map(|line| format!("{INDENT}{}", line.text(colour))).collect()
}

impl Drop for ProgressView {
    fn drop(&mut self) {
        self.finish();
    }
}

impl manyway_transfer::Progress for ProgressView {
    fn on_progress(&self, event: manyway_transfer::ProgressEvent<'_>) {
        use manyway_transfer::ProgressEvent as Event;
        self.files.on_progress(event);
        match event {
            Event::Totals(totals) => self.begin(totals.files, totals.bytes),
            Event::Advanced { bytes } => self.advance(bytes),
            Event::Hole { bytes } => self.course().skip_hole(bytes),
            Event::Started { size, .. } => self.course().start_file(size.unwrap_or(0)),
            Event::Resumed { bytes } => {
                self.skip(bytes);
                if bytes >= WORTH_SAYING {
                    self.message(&format!("resuming at {}", units::size(bytes)));
                }
            }
            Event::Failed { name, failure, .. } => self.message(&format!("{name}: {failure}")),
            Event::Verified { .. }
            | Event::LeftOut { .. }
            | Event::Grew { .. }
            | Event::Refused { .. }
            | _ => {}
        }
    }
}

/// A part of this size that exists already is worth a line.
const WORTH_SAYING: u64 = 16 << 20;
/// Redraws per second.
const REDRAWS: u8 = 8;
const TICK: Duration = Duration::from_millis(125);
const PLAIN_INTERVAL: Duration = Duration::from_secs(5);
/// The width of a terminal that does not say how wide it is.
const LEAST_WIDTH: usize = 80;
/// Characters that a terminal shows for a signal key, and its cursor.
const KEY: usize = 3;
/// Before the lines of paths.
const INDENT: &str = "  ";

#[cfg(test)]
mod tests {
    use manyway::PathState;

    use super::*;
    use crate::output::book::Observed;
    use crate::output::fits::{LONG_PATH, assert_fits};
    use crate::output::opening::tests::message;

    #[test]
    fn after_its_end_a_view_draws_no_paths() {
        let rows = [PathRow { path: Observed::example(0, "wlan0", PathState::Active, 1000), rate: None }];
        let view = ProgressView::new(ProgressMode::Terminal, "sending");
        view.set_paths(&rows);
        assert!(!view.lines().paths.is_empty());
        view.finish();
        view.set_paths(&rows);
        assert!(view.lines().paths.is_empty());
    }

    #[test]
    fn the_first_lines_of_a_transfer_fit_every_terminal() {
        let row = |id, name: &str, state, why: &str| PathRow {
            path: Observed { why: Some(why.to_owned()), ..Observed::example(id, name, state, 1000) },
            rate: None,
        };
        let mut rows = [
            row(0, "wifi0", PathState::Active, "in use"),
            row(1, "lte0", PathState::Validating, "no answer on UDP for 1 s"),
        ];
        rows[1].path.rtt = None;
        rows[1].path.counts.received = 0;
        for width in [80, 120] {
            let (mut course, now) = (Course::new("sending"), Instant::now());
            let mut lines = vec![course.line(now, width - KEY).plain()];
            course.begin(now, 204 << 20);
            lines.push(course.line(now, width - KEY).plain());
            lines.extend(table(&rows, width - KEY - INDENT.len(), Colour::Without));
            lines.push(String::new());
            lines.push(message(&beginning("sending", 35, 204 << 20), width));
            lines.push(message(&beginning("fetching", 1, 0), width));
            assert_fits(&lines.join("\n"), width);
            insta::assert_snapshot!(format!("first_lines_{width}"), lines.join("\n"));
        }
    }

    #[test]
    fn long_names_of_paths_fit_every_terminal() {
        let row = |id, rtt| PathRow {
            path: Observed {
                rtt,
                why: Some("no answer on UDP for 12 s".to_owned()),
                ..Observed::example(id, LONG_PATH, PathState::Validating, 1 << 40)
            },
            rate: None,
        };
        let rows = [row(0, None), row(1, Some(Duration::from_secs(2)))];
        for width in [80, 120] {
            let room = width - KEY - INDENT.len();
            assert_fits(&table(&rows, room, Colour::Without).join("\n"), width - KEY);
        }
    }

    #[test]
    fn existing_bytes_count_as_done_and_not_as_transferred() {
        let view = ProgressView::new(ProgressMode::Silent, "sending");
        view.begin(1, 1000);
        view.skip(900);
        view.advance(4);
        view.set_paths(&[]);
        assert_eq!(view.done(), 904);
        view.advance(90);
        view.set_waiting(70);
        view.set_paths(&[]);
        assert_eq!(view.done(), 924, "what waits has not arrived");
        view.begin(1, 1000);
        assert_eq!(view.done(), 0, "the next attempt counts anew");
        view.finish();
    }
}
