//! Progress on stderr: one line for everything and one for each path, redrawn on a terminal, plain elsewhere.

use std::io::IsTerminal as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use manyway_proto::Rate;

use super::stderr::line;
use super::units;
use crate::logging::no_colour;

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressMode {
    /// Lines that are redrawn in place.
    Terminal,
    /// A line now and then.
    Plain,
    /// Nothing.
    Silent,
}

impl ProgressMode {
    /// What suits standard error, unless the user wants silence.
    pub fn detect(quiet: bool) -> Self {
        if quiet {
            Self::Silent
        } else if std::io::stderr().is_terminal() {
            Self::Terminal
        } else {
            Self::Plain
        }
    }
}

/// What is shown of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathLine {
    /// Its name: interface or link.
    pub name: String,
    /// Its state in one word, such as `active`.
    pub state: String,
    /// Its smoothed round-trip time, once known.
    pub rtt: Option<Duration>,
    /// What it carries now.
    pub rate: Rate,
    /// Its share of all bytes so far, in percent.
    pub share: u8,
}

impl PathLine {
    fn text(&self) -> String {
        let rtt = self.rtt.map_or_else(|| "-".to_owned(), units::duration);
        format!(
            "{:<24} {:<10} {:>9} {:>14} {:>4} %",
            self.name,
            self.state,
            rtt,
            self.rate.to_string(),
            self.share
        )
    }
}

/// The progress of one transfer. Dropping it leaves the terminal as [`ProgressView::finish`] does.
#[derive(Debug)]
pub struct ProgressView {
    mode: ProgressMode,
    bars: MultiProgress,
    overall: ProgressBar,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    paths: Vec<ProgressBar>,
    printed: Option<Instant>,
    /// Since when bytes move, and how many were done without moving.
    started: Option<Instant>,
    unmoved: u64,
}

impl ProgressView {
    /// Starts with a title; the total of bytes may follow.
    pub fn new(mode: ProgressMode, title: &str) -> Self {
        let target = match mode {
            ProgressMode::Terminal => ProgressDrawTarget::stderr_with_hz(REDRAWS),
            ProgressMode::Plain | ProgressMode::Silent => ProgressDrawTarget::hidden(),
        };
        let bars = MultiProgress::with_draw_target(target);
        let overall = bars.add(ProgressBar::new(0));
        let template = if no_colour() { PLAIN_TEMPLATE } else { COLOUR_TEMPLATE };
        overall.set_style(
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        overall.set_message(title.to_owned());
        // There is nothing to tell before something has begun.
        let state = State { printed: Some(Instant::now()), ..State::default() };
        Self { mode, bars, overall, state: Mutex::new(state) }
    }

    /// Sets how many bytes there are in all.
    pub fn set_total(&self, bytes: u64) {
        self.overall.set_length(bytes);
    }

    /// Begins, perhaps once more: says what there is to do.
    pub fn begin(&self, files: u64, bytes: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.started, state.unmoved) = (Some(Instant::now()), 0);
        // The first line of progress comes once there is some.
        state.printed = Some(Instant::now());
        drop(state);
        self.overall.set_position(0);
        self.overall.set_length(bytes);
        self.overall.reset_eta();
        if self.mode == ProgressMode::Plain {
            let title = self.overall.message();
            line(&format!("{title} {}, {}", units::entries(files), units::size(bytes)));
        }
    }

    /// Adds bytes that are done without having moved: they say nothing about the time that is left.
    pub fn skip(&self, bytes: u64) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).unmoved += bytes;
        self.overall.inc(bytes);
        self.overall.reset_eta();
    }

    /// Adds bytes that are done.
    pub fn advance(&self, bytes: u64) {
        self.overall.inc(bytes);
    }

    /// Bytes done so far.
    pub fn done(&self) -> u64 {
        self.overall.position()
    }

    /// Shows the paths as they are now. On a terminal a few times a second is right; elsewhere most calls print
    /// nothing.
    pub fn set_paths(&self, lines: &[PathLine]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match self.mode {
            ProgressMode::Silent => {}
            ProgressMode::Terminal => {
                while state.paths.len() < lines.len() {
                    let bar = self.bars.add(ProgressBar::new_spinner());
                    let style = ProgressStyle::with_template("  {msg}");
                    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
                    state.paths.push(bar);
                }
                for (bar, line) in state.paths.iter().zip(lines) {
                    bar.set_message(line.text());
                }
                for bar in state.paths.drain(lines.len()..) {
                    bar.finish_and_clear();
                }
            }
            ProgressMode::Plain => {
                if state.printed.is_some_and(|at| at.elapsed() < PLAIN_INTERVAL) {
                    return;
                }
                state.printed = Some(Instant::now());
                let total = self.overall.length().unwrap_or(0);
                let done = self.overall.position();
                let left = state.time_left(done, total).filter(|left| !left.is_zero());
                line(&format!(
                    "{} of {} ({}){}",
                    units::size(done),
                    units::size(total),
                    units::percent(done, total),
                    left.map(|left| format!(", {} left", units::duration(left))).unwrap_or_default()
                ));
                for path in lines {
                    line(&format!("  {}", path.text()));
                }
            }
        }
    }

    /// Prints a message above the progress.
    pub fn message(&self, text: &str) {
        match self.mode {
            ProgressMode::Silent => {}
            ProgressMode::Plain => line(text),
            // Without a terminal behind it indicatif would swallow the line.
            ProgressMode::Terminal => drop(self.bars.println(text)),
        }
    }

    /// Takes the lines away while something else is on the terminal.
    pub fn pause(&self) {
        if self.mode == ProgressMode::Terminal {
            let _ = self.bars.clear();
            self.bars.set_draw_target(ProgressDrawTarget::hidden());
        }
    }

    /// Shows them again.
    pub fn resume(&self) {
        if self.mode == ProgressMode::Terminal {
            self.bars.set_draw_target(ProgressDrawTarget::stderr_with_hz(REDRAWS));
        }
    }

    /// Ends the display; the last state of the terminal's lines goes away.
    pub fn finish(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for bar in state.paths.drain(..) {
            bar.finish_and_clear();
        }
        self.overall.finish_and_clear();
    }
}

impl State {
    /// How long the rest takes at the rate at which bytes moved so far.
    fn time_left(&self, done: u64, total: u64) -> Option<Duration> {
        let elapsed = self.started?.elapsed();
        let moved = done.checked_sub(self.unmoved).filter(|moved| *moved > 0)?;
        let nanos = elapsed.as_nanos() * u128::from(total.saturating_sub(done)) / u128::from(moved);
        Some(Duration::from_secs(u64::try_from(nanos / 1_000_000_000).ok()?))
    }
}

impl Drop for ProgressView {
    fn drop(&mut self) {
        self.finish();
    }
}

impl manyway_transfer::Progress for ProgressView {
    fn on_progress(&self, event: manyway_transfer::ProgressEvent<'_>) {
        use manyway_transfer::ProgressEvent as Event;
        match event {
            Event::Totals(totals) => self.begin(totals.files, totals.bytes),
            Event::Advanced { bytes } => self.advance(bytes),
            Event::Hole { bytes } => self.skip(bytes),
            Event::Resumed { bytes } => {
                self.skip(bytes);
                if bytes >= WORTH_SAYING {
                    self.message(&format!("resuming at {}", units::size(bytes)));
                }
            }
            Event::Failed { name, failure } => self.message(&format!("{name}: {failure}")),
            Event::Started { .. } | Event::Verified { .. } | _ => {}
        }
    }
}

/// A beginning of a file that is worth a line.
const WORTH_SAYING: u64 = 16 << 20;
/// A second.
const REDRAWS: u8 = 8;
const PLAIN_INTERVAL: Duration = Duration::from_secs(5);
const PLAIN_TEMPLATE: &str =
    "{msg} [{bar:28}] {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}";
const COLOUR_TEMPLATE: &str =
    "{msg:.bold} [{bar:28.cyan}] {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_templates_are_valid() {
        assert!(ProgressStyle::with_template(PLAIN_TEMPLATE).is_ok());
        assert!(ProgressStyle::with_template(COLOUR_TEMPLATE).is_ok());
    }

    #[test]
    fn what_was_there_already_says_nothing_about_the_time_left() {
        let view = ProgressView::new(ProgressMode::Silent, "sending");
        view.begin(1, 1000);
        view.skip(900);
        let state = view.state.lock().unwrap();
        assert_eq!((view.done(), state.time_left(900, 1000)), (900, None));
        let started = Instant::now().checked_sub(Duration::from_secs(10)).unwrap();
        let state = State { started: Some(started), unmoved: 900, ..State::default() };
        let left = state.time_left(920, 1000).unwrap();
        assert!(left >= Duration::from_secs(40) && left < Duration::from_secs(50), "{left:?}");
    }

    #[test]
    fn paths_come_and_go() {
        let path = |name: &str| PathLine {
            name: name.to_owned(),
            state: "active".to_owned(),
            rtt: Some(Duration::from_millis(31)),
            rate: Rate::from_bits_per_second(38_200_000),
            share: 58,
        };
        assert_eq!(
            path("eth0").text(),
            "eth0                     active       31.0 ms    38.2 Mbit/s   58 %"
        );
        let view = ProgressView::new(ProgressMode::Terminal, "sending");
        view.set_paths(&[path("a"), path("b")]);
        view.set_paths(&[path("a")]);
        view.set_total(10);
        view.advance(4);
        assert_eq!(view.done(), 4);
        view.finish();
    }
}
