//! How films were played: live, at the end, and as documents.

use std::time::{Duration, Instant};

use manyway_play::Figures;
use manyway_terminal::{CommandError, json, print_line};
use manyway_transfer::Failure;
use serde_json::{Value, json};

use crate::args::GlobalArgs;
use crate::output::count;
use crate::output::rate::RateWindow;
use crate::output::units;

/// Samples in the small curves of the live line.
const CURVE: usize = 24;
/// Most samples of a film that are kept; then every second one is dropped.
const MOST: usize = 2000;
/// Time between two documents.
const DOCUMENT: Duration = Duration::from_secs(1);

/// The films of a run.
#[derive(Debug)]
pub(super) struct Course {
    /// Whether each second is told as a document.
    documents: bool,
    printed: Option<Instant>,
    films: Vec<Film>,
}

/// One film.
#[derive(Debug)]
pub(super) struct Film {
    pub(super) figures: Figures,
    pub(super) samples: Vec<Sample>,
    window: RateWindow,
    /// Samples that were left out since the last one that was kept, of so many.
    skipped: (u32, u32),
    changed: Instant,
}

/// A film at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// Seconds since the film was first asked for.
    pub(super) at: f64,
    /// Bits a second that the player took.
    pub(super) rate: u64,
    /// Seconds of media that it had not played; 0 where that is unknown.
    pub(super) buffered: f64,
}

impl Course {
    pub(super) fn new(documents: bool) -> Self {
        Self { documents, printed: None, films: Vec::new() }
    }

    pub(super) fn films(&self) -> &[Film] {
        &self.films
    }

    /// Takes new figures, and tells them if documents are wanted.
    ///
    /// # Errors
    /// Standard output is gone.
    pub(super) fn sample(&mut self, figures: Vec<Figures>, now: Instant) -> Result<(), CommandError> {
        for figures in figures {
            let same =
                |film: &&mut Film| film.figures.began == figures.began && film.figures.name == figures.name;
            match self.films.iter_mut().find(same) {
                Some(film) => film.sample(figures, now),
                None => self.films.push(Film::new(figures, now)),
            }
        }
        let is_due = self.printed.is_none_or(|printed| now.saturating_duration_since(printed) >= DOCUMENT);
        if self.documents && is_due {
            self.printed = Some(now);
            let playing = self.films.iter().filter(|film| film.is_playing(now));
            for film in playing {
                json::print(&film.document("playing"))?;
            }
        }
        Ok(())
    }

    /// The line for a terminal.
    pub(super) fn line(&self) -> String {
        let newest = self.films.iter().max_by_key(|film| film.changed);
        newest.map_or_else(|| "no film was asked for yet".to_owned(), Film::line)
    }

    /// Tells what was played.
    ///
    /// # Errors
    /// Standard output is gone.
    pub(super) fn conclude(&self, global: &GlobalArgs) -> Result<(), CommandError> {
        for film in &self.films {
            if global.json {
                json::print(&film.document("played"))?;
            } else {
                print_line(&film.sentence())?;
            }
        }
        Ok(())
    }
}

impl Film {
    fn new(figures: Figures, now: Instant) -> Self {
        let mut film = Self {
            figures,
            samples: Vec::new(),
            window: RateWindow::default(),
            skipped: (0, 1),
            changed: now,
        };
        film.window.record(now, 0);
        film
    }

    fn sample(&mut self, figures: Figures, now: Instant) {
        if figures.bytes != self.figures.bytes {
            self.changed = now;
        }
        self.figures = figures;
        self.window.record(now, self.figures.bytes);
        let (skipped, every) = self.skipped;
        self.skipped.0 = (skipped + 1) % every;
        if skipped > 0 || !self.is_playing(now) {
            return;
        }
        self.samples.push(Sample {
            at: self.figures.time.as_secs_f64(),
            rate: self.rate(now),
            buffered: self.figures.buffered.unwrap_or_default().as_secs_f64(),
        });
        if self.samples.len() >= MOST {
            let mut number = 0_u32;
            self.samples.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.skipped.1 = every.saturating_mul(2);
        }
    }

    /// Whether the player took something lately.
    fn is_playing(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.changed) < 4 * DOCUMENT
            || self.figures.buffered.is_some_and(|buffered| !buffered.is_zero())
    }

    fn rate(&self, now: Instant) -> u64 {
        self.window.rate(now).map_or(0, manyway::Rate::bits_per_second)
    }

    fn line(&self) -> String {
        let last = self.samples.last();
        let recent = |value: fn(&Sample) -> f64| {
            let older = self.samples.len().saturating_sub(CURVE);
            curve(self.samples.iter().skip(older).map(value))
        };
        #[expect(clippy::cast_precision_loss, reason = "a curve of eight heights")]
        let rates = recent(|sample| sample.rate as f64);
        let rate = manyway::Rate::from_bits_per_second(last.map_or(0, |sample| sample.rate));
        let mut line = format!("{}  {} Mbit/s {rates}", self.figures.name, units::megabits(rate));
        if let Some(buffered) = self.figures.buffered {
            let curve = recent(|sample| sample.buffered);
            line += &format!("  buffer {:.1} s {curve}  {}", buffered.as_secs_f64(), self.stops());
        }
        line
    }

    fn stops(&self) -> String {
        match self.figures.stops {
            0 => "no stop".to_owned(),
            stops => format!(
                "{} of {:.0} s in all ({:.1} % of the time)",
                count(stops, "stop"),
                self.figures.stopped.as_secs_f64(),
                self.figures.stalled() * 100.0
            ),
        }
    }

    fn sentence(&self) -> String {
        let figures = &self.figures;
        let mut text = format!("{}: {}", figures.name, units::size(figures.bytes));
        if let Some(rate) = figures.bit_rate {
            text += &format!(" of {} Mbit/s", units::megabits(manyway::Rate::from_bits_per_second(rate)));
        }
        match figures.startup {
            Some(startup) => text += &format!(", start-up {:.2} s", startup.as_secs_f64()),
            None => text += ", never began",
        }
        if figures.buffered.is_some() {
            text += &format!(", {}", self.stops());
        } else {
            text += ", its length is unknown, so stops are, too";
        }
        if figures.jumps > 0 {
            text += &format!(", {}", count(figures.jumps, "jump"));
        }
        if figures.switches > 0 {
            text += &format!(", {} of quality", count(figures.switches, "change"));
        }
        text
    }

    fn document(&self, event: &str) -> Value {
        let figures = &self.figures;
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        let is_known = figures.buffered.is_some();
        json!({
            "event": event, "name": figures.name, "time": figures.time.as_secs_f64(), "bytes": figures.bytes,
            "media_bits_per_second": figures.bit_rate, "bits_per_second": self.samples.last().map(|sample| sample.rate),
            "startup": seconds(figures.startup), "buffered": seconds(figures.buffered),
            "stops": is_known.then_some(figures.stops), "stopped": is_known.then_some(figures.stopped.as_secs_f64()),
            "stalled": is_known.then_some(figures.stalled()), "jumps": figures.jumps, "switches": figures.switches,
        })
    }
}

/// Values as a small curve of eight heights.
fn curve(values: impl Iterator<Item = f64> + Clone) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.clone().fold(0.0, f64::max);
    let height = |value: f64| {
        let place = HEIGHTS.iter().enumerate().rev().find(|(place, _)| {
            let least = f64::from(u32::try_from(*place).unwrap_or(0)) / 8.0;
            most > 0.0 && value / most > least
        });
        place.map_or('▁', |(_, height)| *height)
    };
    values.map(height).collect()
}

/// The error of a file that cannot be written.
pub(super) fn of_report(error: &std::io::Error, place: &std::path::Path) -> CommandError {
    CommandError::failed(Failure::from_io(error).at(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(bytes: u64) -> Figures {
        Figures {
            name: "film.mp4".to_owned(),
            began: Instant::now(),
            time: Duration::from_secs(60),
            bytes,
            bit_rate: Some(2_000_000),
            startup: Some(Duration::from_millis(420)),
            stops: 0,
            stopped: Duration::ZERO,
            played: Duration::from_secs(50),
            buffered: Some(Duration::from_secs(12)),
            jumps: 0,
            switches: 0,
        }
    }

    #[test]
    fn a_film_is_summed_up_in_a_sentence() {
        let film = |figures| Film::new(figures, Instant::now()).sentence();
        assert_eq!(film(figures(5 << 20)), "film.mp4: 5.0 MiB of 2.00 Mbit/s, start-up 0.42 s, no stop");
        let stopped = Figures { stops: 2, stopped: Duration::from_secs(10), jumps: 1, ..figures(0) };
        assert!(film(stopped).ends_with("2 stops of 10 s in all (16.7 % of the time), 1 jump"));
        let unknown = Figures { bit_rate: None, buffered: None, startup: None, ..figures(7) };
        assert_eq!(film(unknown), "film.mp4: 7 B, never began, its length is unknown, so stops are, too");
    }

    #[test]
    fn a_curve_has_eight_heights() {
        assert_eq!(curve([0.0, 1.0, 4.0, 8.0].into_iter()), "▁▁▄█");
        assert_eq!(curve([0.0, 0.0].into_iter()), "▁▁");
    }

    #[test]
    fn a_long_film_keeps_a_bounded_number_of_samples() {
        let (mut film, begin) = (Film::new(figures(0), Instant::now()), Instant::now());
        for number in 0..10_000_u32 {
            film.sample(figures(number.into()), begin + number * Duration::from_millis(250));
        }
        assert!((MOST / 2..MOST).contains(&film.samples.len()), "{}", film.samples.len());
    }
}
