//! How media were played: live, at the end, and as documents.

use std::time::{Duration, Instant};

use manyway_play::Figures;
use manyway_terminal::screen::output_width;
use manyway_terminal::{CommandError, json, print_line, shortened, text_width, wrap};
use serde_json::{Value, json};

use crate::args::GlobalArgs;
use crate::output::count;
use crate::output::rate::RateWindow;
use crate::output::units;

/// Most samples in the small curves of the live line, and the fewest that are worth a curve.
const CURVE: usize = 24;
const SHORTEST_CURVE: usize = 4;
/// Most samples of media that are kept; then every second one is dropped.
const MOST: usize = 2000;
/// Most media that are told at the end: the newest.
const MOST_MEDIA: usize = 256;
/// Time between two documents.
const DOCUMENT: Duration = Duration::from_secs(1);

/// All media of a run.
#[derive(Debug)]
pub(super) struct MediaFigures {
    /// Whether a JSON document is printed each second.
    documents: bool,
    printed: Option<Instant>,
    media: Vec<Media>,
}

/// Media, such as a film.
#[derive(Debug, Clone)]
pub(super) struct Media {
    pub(super) figures: Figures,
    pub(super) samples: Vec<Sample>,
    window: RateWindow,
    /// Samples that were left out since the last one that was kept, of so many.
    skipped: (u32, u32),
    changed: Instant,
    /// Whether the server still knows it.
    is_known: bool,
}

/// They at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// Seconds since the media were first asked for.
    pub(super) at: f64,
    /// Bits a second that the player took.
    pub(super) rate: u64,
    /// Seconds of media that it had not played; 0 where that is unknown.
    pub(super) buffered: f64,
}

impl MediaFigures {
    pub(super) fn new(documents: bool) -> Self {
        Self { documents, printed: None, media: Vec::new() }
    }

    pub(super) fn media(&self) -> &[Media] {
        &self.media
    }

    /// Takes new figures, and tells them if documents are wanted.
    ///
    /// # Errors
    /// Standard output is gone.
    pub(super) fn sample(&mut self, figures: Vec<Figures>, now: Instant) -> Result<(), CommandError> {
        for media in &mut self.media {
            media.is_known = false;
        }
        for figures in figures {
            let same = |media: &&mut Media| {
                media.figures.began == figures.began && media.figures.name == figures.name
            };
            match self.media.iter_mut().find(same) {
                Some(media) => media.sample(figures, now),
                None => self.media.push(Media::new(figures, now)),
            }
        }
        self.media.drain(..self.media.len().saturating_sub(MOST_MEDIA));
        if self.documents && self.is_due(now) {
            let playing = self.media.iter().filter(|media| media.is_playing(now));
            for media in playing {
                json::print(&media.document("playing"))?;
            }
        }
        Ok(())
    }

    /// Whether a second has passed since the last documents; keeps their beat, which the caller's own is no part of.
    fn is_due(&mut self, now: Instant) -> bool {
        let due = self.printed.map_or(now, |printed| printed + DOCUMENT);
        if now < due {
            return false;
        }
        // After a gap the schedule starts again.
        self.printed = Some(if now < due + DOCUMENT { due } else { now });
        true
    }

    /// The line for a terminal of that width.
    pub(super) fn line(&self, width: usize) -> String {
        let newest = self.media.iter().max_by_key(|media| media.changed);
        newest.map_or_else(|| "no player has asked for media yet".to_owned(), |media| media.line(width))
    }

    /// Tells what was played.
    ///
    /// # Errors
    /// Standard output is gone.
    pub(super) fn finish(&self, global: &GlobalArgs) -> Result<(), CommandError> {
        for media in &self.media {
            if global.json {
                json::print(&media.document("played"))?;
            } else {
                print_line(&media.lines(output_width()))?;
            }
        }
        Ok(())
    }
}

impl Media {
    fn new(figures: Figures, now: Instant) -> Self {
        let mut media = Self {
            figures,
            samples: Vec::new(),
            window: RateWindow::default(),
            skipped: (0, 1),
            changed: now,
            is_known: true,
        };
        media.window.record(now, 0);
        media
    }

    fn sample(&mut self, figures: Figures, now: Instant) {
        if figures.bytes != self.figures.bytes {
            self.changed = now;
        }
        (self.figures, self.is_known) = (figures, true);
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

    /// Whether the player took something lately, or has a second to play.
    fn is_playing(&self, now: Instant) -> bool {
        let has_taken = now.saturating_duration_since(self.changed) < 4 * DOCUMENT;
        let has_media = self.figures.buffered.is_some_and(|buffered| buffered >= Duration::from_secs(1));
        self.is_known && (has_taken || has_media)
    }

    fn rate(&self, now: Instant) -> u64 {
        self.window.rate(now).map_or(0, manyway::Rate::bits_per_second)
    }

    /// Name, rate, buffer and stalls. Curves have the room that these leave; a long name is
    /// shortened.
    fn line(&self, width: usize) -> String {
        let rate = manyway::Rate::from_bits_per_second(self.samples.last().map_or(0, |sample| sample.rate));
        let mut parts = vec![format!("{} Mbit/s", units::megabits(rate))];
        if let Some(buffered) = self.figures.buffered {
            parts.push(format!("buffer {:.1} s", buffered.as_secs_f64()));
        }
        let stalls = self.figures.buffered.map(|_| self.stalls());
        // Two spaces before each part.
        let taken: usize = parts.iter().chain(&stalls).map(|part| text_width(part) + 2).sum();
        let name = shortened(self.figures.name.clone(), width.saturating_sub(taken));
        let room = width.saturating_sub(taken + text_width(&name)) / parts.len();
        // One space before each curve.
        let points = room.saturating_sub(1).min(CURVE);
        if points >= SHORTEST_CURVE {
            #[expect(clippy::cast_precision_loss, reason = "a curve of eight heights")]
            let values: [fn(&Sample) -> f64; 2] = [|sample| sample.rate as f64, |sample| sample.buffered];
            let newest = self.samples.iter().skip(self.samples.len().saturating_sub(points));
            for (part, value) in parts.iter_mut().zip(values) {
                *part += &format!(" {}", curve(newest.clone().map(value)));
            }
        }
        [name].into_iter().chain(parts).chain(stalls).collect::<Vec<_>>().join("  ")
    }

    fn stalls(&self) -> String {
        match self.figures.stalls {
            0 => "no stall".to_owned(),
            stalls => format!(
                "{} of {:.0} s in all ({:.1} % of the time)",
                count(stalls, "stall"),
                self.figures.stall_time.as_secs_f64(),
                self.figures.stall_ratio() * 100.0
            ),
        }
    }

    /// The sentence on lines of that width. A long title is shortened to half a line.
    fn lines(&self, width: usize) -> String {
        wrap(&self.sentence(width), width)
    }

    fn sentence(&self, width: usize) -> String {
        let figures = &self.figures;
        let title = shortened(figures.name.clone(), width / 2);
        let mut text = format!("{title}: {}", units::size(figures.bytes));
        if let Some(rate) = figures.bit_rate {
            text +=
                &format!(", media of {} Mbit/s", units::megabits(manyway::Rate::from_bits_per_second(rate)));
        }
        match figures.startup {
            Some(startup) => text += &format!(", start-up {:.2} s", startup.as_secs_f64()),
            None => text += ", never began",
        }
        if figures.buffered.is_some() {
            text += &format!(", {}", self.stalls());
        } else {
            text += ", length unknown: stalls cannot be counted";
        }
        if figures.seeks > 0 {
            text += &format!(", {}", count(figures.seeks, "seek"));
        }
        if figures.variant_switches > 0 {
            text += &format!(", {} of quality", count(figures.variant_switches, "change"));
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
            "stalls": is_known.then_some(figures.stalls),
            "stall_seconds": is_known.then_some(figures.stall_time.as_secs_f64()),
            "stall_ratio": is_known.then_some(figures.stall_ratio()),
            "seeks": figures.seeks, "variant_switches": figures.variant_switches,
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
#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::fits::{LONG_FILES, assert_fits};

    fn figures(bytes: u64) -> Figures {
        Figures {
            name: "film.mp4".to_owned(),
            began: Instant::now(),
            time: Duration::from_secs(60),
            bytes,
            bit_rate: Some(2_000_000),
            startup: Some(Duration::from_millis(420)),
            stalls: 0,
            stall_time: Duration::ZERO,
            played: Duration::from_secs(50),
            buffered: Some(Duration::from_secs(12)),
            seeks: 0,
            variant_switches: 0,
        }
    }

    #[test]
    fn a_film_is_summed_up_in_a_sentence() {
        let media = |figures| Media::new(figures, Instant::now()).sentence(80);
        assert_eq!(
            media(figures(5 << 20)),
            "film.mp4: 5.0 MiB, media of 2.00 Mbit/s, start-up 0.42 s, no stall"
        );
        let stopped = Figures { stalls: 2, stall_time: Duration::from_secs(10), seeks: 1, ..figures(0) };
        assert!(media(stopped).ends_with("2 stalls of 10 s in all (16.7 % of the time), 1 seek"));
        let unknown = Figures { bit_rate: None, buffered: None, startup: None, ..figures(7) };
        assert_eq!(media(unknown), "film.mp4: 7 B, never began, length unknown: stalls cannot be counted");
    }

    #[test]
    fn the_live_line_keeps_its_figures_on_every_terminal() {
        let begin = Instant::now();
        let film = |name: &str, stalls| {
            let figures =
                Figures { name: name.to_owned(), stalls, stall_time: Duration::from_secs(3), ..figures(0) };
            let mut media = Media::new(figures.clone(), begin);
            for step in 1..=20_u32 {
                let buffered = Some(Duration::from_millis(600 * u64::from(step)));
                let figures = Figures { bytes: u64::from(step * step) * 9_000, buffered, ..figures.clone() };
                media.sample(figures, begin + step * Duration::from_millis(250));
            }
            media
        };
        let long = "Concert in the open, recorded with four cameras, second part of three.mp4";
        let unknown = {
            let mut media = film("radio", 0);
            media.figures.buffered = None;
            media
        };
        for width in [80, 120] {
            let lines = [film("film.mp4", 0), film("film.mp4", 2), film(long, 2), unknown.clone()];
            let mut lines: Vec<_> = lines.iter().map(|media| media.line(width)).collect();
            lines.push(MediaFigures::new(false).line(width));
            let stopped = Figures { seeks: 1, variant_switches: 2, ..film("film.mp4", 2).figures };
            lines.push(Media::new(stopped, begin).lines(width));
            let long = LONG_FILES.map(|name| film(name, 2));
            lines.extend(long.iter().flat_map(|media| [media.line(width), media.lines(width)]));
            assert_fits(&lines.join("\n"), width);
            insta::assert_snapshot!(format!("playing_{width}"), lines.join("\n"));
        }
    }

    #[test]
    fn media_end_when_their_player_left_or_they_are_forgotten() {
        let begin = Instant::now();
        let later = begin + Duration::from_secs(60);
        let is_playing = |told: &MediaFigures| told.media[0].is_playing(later);
        let buffered =
            |millis| Figures { buffered: Some(Duration::from_millis(millis)), began: begin, ..figures(9) };
        let mut told = MediaFigures::new(false);
        told.sample(vec![buffered(1500)], begin).unwrap();
        told.sample(vec![buffered(1500)], later).unwrap();
        assert!(is_playing(&told), "it has a second to play");
        told.sample(vec![buffered(700)], later).unwrap();
        assert!(!is_playing(&told), "the rest of a second is never played");
        told.sample(vec![buffered(1500)], later).unwrap();
        told.sample(Vec::new(), later).unwrap();
        assert!(!is_playing(&told), "the server has forgotten it");
    }

    #[test]
    fn the_newest_media_are_kept_and_documents_keep_their_beat() {
        let mut told = MediaFigures::new(false);
        let now = Instant::now();
        for number in 0..300 {
            let figures = Figures { began: now + Duration::from_secs(number), ..figures(number) };
            told.sample(vec![figures], now).unwrap();
        }
        assert_eq!((told.media.len(), told.media[0].figures.bytes), (MOST_MEDIA, 300 - MOST_MEDIA as u64));
        let late = Duration::from_millis(260);
        let due = (0..40_u32).filter(|tick| told.is_due(now + *tick * late)).count();
        assert_eq!(due, 11, "in 10.14 s");
    }

    #[test]
    fn a_curve_has_eight_heights() {
        assert_eq!(curve([0.0, 1.0, 4.0, 8.0].into_iter()), "▁▁▄█");
        assert_eq!(curve([0.0, 0.0].into_iter()), "▁▁");
    }

    #[test]
    fn a_long_film_keeps_a_bounded_number_of_samples() {
        let (mut media, begin) = (Media::new(figures(0), Instant::now()), Instant::now());
        for number in 0..10_000_u32 {
            media.sample(figures(number.into()), begin + number * Duration::from_millis(250));
        }
        assert!((MOST / 2..MOST).contains(&media.samples.len()), "{}", media.samples.len());
    }
}
