//! The result of a transfer, as a line and a table, or as JSON.

use std::time::Duration;

use manyway::{ByteCount, PathState, Rate};
use manyway_terminal::screen::{message_width, output_width};
use manyway_terminal::{Colour, CommandError, ExitCode, json, note, wrap_strictly};
use manyway_transfer::Reason;
use serde_json::{Map, Value, json};

use super::error::code_of_report;
use super::tally::{Counts, failure_of};
use crate::args::GlobalArgs;
use crate::output::book::{PathRow, final_table};
use crate::output::{entries, units};

/// The output for a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// To standard output.
    Output,
    /// Standard error, since standard output carries the file.
    Messages,
}

/// The result of `send` or `get`.
#[derive(Debug)]
pub struct Summary {
    verb: &'static str,
    counts: Counts,
    elapsed: Duration,
    /// Every path of the transfer, including closed ones.
    paths: Vec<PathRow>,
    /// The only file, if it did not come from a Manyway server.
    foreign: Option<ForeignFile>,
}

/// A file from a server of another protocol.
#[derive(Debug)]
pub struct ForeignFile {
    /// Its path here.
    pub path: String,
    /// Whether its content was compared with a sum that the user gave.
    pub is_verified: bool,
}

impl Summary {
    /// Collects the figures.
    pub fn new(verb: &'static str, counts: Counts, elapsed: Duration, paths: Vec<PathRow>) -> Self {
        // A closed path that only ever carried probes is not worth a row.
        let has_carried = |row: &PathRow| {
            row.path.state != PathState::Closed || row.path.counts.bytes() > MORE_THAN_QUESTIONS
        };
        let paths = paths.into_iter().filter(has_carried).collect();
        Self { verb, counts, elapsed, paths, foreign: None }
    }

    /// The same of one file that only a sum of the user verifies.
    #[must_use]
    pub fn of_foreign(self, file: ForeignFile) -> Self {
        Self { foreign: Some(file), ..self }
    }

    /// Prints the result of a transfer that completed, to `end`.
    ///
    /// # Errors
    /// If files failed: for programs the error is the document, with all figures. Or if standard output is full.
    pub fn finish(&self, global: &GlobalArgs, end: End) -> Result<ExitCode, CommandError> {
        let code = code_of_report(&self.counts.report);
        let printed = match (global.json, global.quiet) {
            (true, _) if code != ExitCode::Ok => Ok(()),
            (true, _) => json::print(&Value::from(self.to_json())).map_err(CommandError::from),
            (false, true) => Ok(()),
            // The error is complete by itself.
            (false, false) if self.has_only_failures() => Ok(()),
            (false, false) => match end {
                End::Output => self.print(std::io::stdout().lock(), output_width(), Colour::of_output()),
                End::Messages => self.print(std::io::stderr().lock(), message_width(), Colour::of_messages()),
            },
        };
        let code = code.after_printing(printed)?;
        if code == ExitCode::Ok {
            return Ok(code);
        }
        Err(CommandError::new(code, self.failures()).with_facts(self.to_json()))
    }

    fn has_only_failures(&self) -> bool {
        self.counts.report.failures > 0 && self.counts.report.verified == 0
    }

    /// How many files failed, and why the first one did.
    fn failures(&self) -> String {
        let report = &self.counts.report;
        let count = report.failures;
        let all = count + report.verified;
        let first = report
            .failed
            .first()
            .map(|failed| failure_of(&failed.name, &failed.failure) + next_step(failed.failure.reason));
        match first {
            Some(first) if count == 1 => first,
            Some(first) => format!("{count} of {} failed; the first: {first}", entries(all)),
            None => format!("{count} of {} failed", entries(all)),
        }
    }

    /// The rate of the content, if time and size are large enough to measure one.
    fn rate(&self) -> Option<Rate> {
        let moved = ByteCount(self.counts.moved);
        // Content that was not verified says nothing about the files of this line.
        let is_measure = self.elapsed >= SHORTEST && moved.get() >= LEAST && self.counts.report.verified > 0;
        is_measure.then(|| moved.per(self.elapsed))
    }

    fn print(&self, mut out: impl std::io::Write, width: usize, colour: Colour) -> Result<(), CommandError> {
        Ok(out.write_all(self.text(width, colour).as_bytes()).and_then(|()| out.flush())?)
    }

    /// The result for a terminal of that width.
    pub fn text(&self, width: usize, colour: Colour) -> String {
        let report = &self.counts.report;
        if report.verified == 0 {
            return lines(&format!("nothing {}{}", self.verb, self.unmoved()), width);
        }
        let (what, is_verified) = match &self.foreign {
            Some(file) => (file.path.clone(), file.is_verified),
            None => (entries(report.verified), true),
        };
        let first = format!(
            "{} {what}, {} in {}{}{}{}",
            self.verb,
            units::size(report.bytes),
            units::duration(self.elapsed),
            self.rate().map(|rate| format!(": {rate}")).unwrap_or_default(),
            if is_verified { ", verified" } else { "" },
            self.unmoved(),
        );
        let table =
            if self.paths.is_empty() { String::new() } else { final_table(&self.paths).text(width, colour) };
        lines(&first, width) + &table
    }

    /// Prints the progress of a transfer that did not complete. It is a message: standard output may carry the file.
    pub fn tell_part(&self, global: &GlobalArgs) {
        let totals = self.counts.totals;
        // A transfer that never began has no progress.
        if global.json || global.quiet || self.counts.attempts == 0 || totals.files == 0 {
            return;
        }
        let there = self.moved_over_paths().saturating_add(self.counts.resumed);
        // Where nothing arrived, as after a refusal, the error says it all.
        if there == 0 {
            return;
        }
        let of = if totals.bytes > 0 { format!(" of {}", units::size(totals.bytes)) } else { String::new() };
        let (moved, time) = (units::size(there), units::duration(self.elapsed));
        note(&format!("{} {moved}{of} in {time}{}; not complete", self.verb, self.unmoved()));
        if !self.paths.is_empty() {
            note(final_table(&self.paths).text(message_width(), Colour::of_messages()).trim_end());
        }
    }

    /// The bytes that were transferred, as far as the table of paths shows them: its figures may be a moment older.
    fn moved_over_paths(&self) -> u64 {
        let carried = self.paths.iter().map(|row| row.path.counts.sent.max(row.path.counts.received));
        self.counts.moved.min(if self.paths.is_empty() { u64::MAX } else { carried.sum() })
    }

    /// The bytes that were not transferred, and why.
    fn unmoved(&self) -> String {
        let report = &self.counts.report;
        let mut text = String::new();
        if self.counts.resumed > 0 {
            text += &format!("; {} were there already", units::size(self.counts.resumed));
        }
        if report.holes > 0 {
            text += &format!("; {} are holes", units::size(report.holes));
        }
        if report.left_out > 0 {
            text += &format!("; {} skipped", report.left_out);
        }
        if report.hard_links > 0 {
            text += &match report.hard_links {
                1 => "; 1 hard link, sent as a file of its own".to_owned(),
                many => format!("; {many} hard links, sent as files of their own"),
            };
        }
        text
    }

    /// Adds the progress of an incomplete transfer to its error.
    pub fn explain(&self, error: CommandError) -> CommandError {
        // A transfer that never began has no progress.
        if self.counts.attempts == 0 {
            return error;
        }
        let mut facts = self.to_json();
        facts.insert("complete".to_owned(), false.into());
        error.with_facts(facts)
    }

    fn to_json(&self) -> Map<String, Value> {
        let paths: Vec<_> = self
            .paths
            .iter()
            .map(|row| {
                let (path, counts) = (&row.path, row.path.counts);
                json!({
                    "path": path.name, "interface": path.label.interface,
                    "local": path.label.local.to_string(), "remote": path.label.remote(),
                    "carrier": path.label.carrier.to_string(),
                    "state": path.state.word(), "rtt": path.rtt.map(|rtt| rtt.as_secs_f64()),
                    "open": path.state != PathState::Closed,
                    "bytes_sent": counts.sent, "bytes_received": counts.received,
                    "packets_sent": counts.packets.map(|packets| packets.sent),
                    "packets_lost": counts.packets.map(|packets| packets.lost),
                })
            })
            .collect();
        let report = &self.counts.report;
        let failed: Vec<_> = report
            .failed
            .iter()
            .map(|failed| json!({ "name": failed.name, "reason": failed.failure.to_string() }))
            .collect();
        let document = json!({
            "complete": report.is_complete(),
            "files": self.counts.totals.files, "bytes_total": self.counts.totals.bytes,
            "verified": report.verified, "bytes": report.bytes,
            "bytes_sent": self.counts.moved, "bytes_resumed": self.counts.resumed, "bytes_sparse": report.holes,
            "attempts": self.counts.attempts, "seconds": self.elapsed.as_secs_f64(),
            "bits_per_second": self.rate().map(Rate::bits_per_second),
            "left_out": report.left_out, "grew": report.grown, "hard_links": report.hard_links,
            "failures": report.failures, "failed": failed, "paths": paths,
        });
        let mut fields = if let Value::Object(fields) = document { fields } else { Map::new() };
        if let Some(file) = &self.foreign {
            fields.insert("file".to_owned(), file.path.clone().into());
            if !file.is_verified {
                fields.insert("verified".to_owned(), 0.into());
            }
        }
        fields
    }
}

/// A sentence on as many lines as it takes; a name in it may be longer than a line.
fn lines(sentence: &str, width: usize) -> String {
    wrap_strictly(sentence, width).into_iter().map(|line| line + "\n").collect()
}

/// Shorter transfers have no rate.
const SHORTEST: Duration = Duration::from_millis(50);
/// Smaller transfers have no rate either.
const LEAST: u64 = 100_000;
/// The probes of a path that never carried a file are fewer bytes.
const MORE_THAN_QUESTIONS: u64 = 64 * 1024;

/// What a user can do about a file that failed.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others say all there is to say")]
fn next_step(reason: Reason) -> &'static str {
    match reason {
        Reason::DiskFull => "; make room and run the same command again, what has arrived is kept",
        Reason::Busy | Reason::Changed => "; run the same command again, what has arrived is kept",
        Reason::PermissionDenied => "; let the user who runs manyway there read or write it",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::book::Observed;
    use crate::output::fits::{LONG_FILES, LONG_PATH, assert_fits};
    use manyway_transfer::{FailedFile, Failure, Report};

    fn summary(moved: u64, elapsed: Duration, report: Report) -> Summary {
        let counts = Counts { moved, report, attempts: 1, ..Counts::default() };
        Summary::new("sent", counts, elapsed, Vec::new())
    }

    fn report(verified: u64, failures: &[(&str, Reason)]) -> Report {
        let failed = failures
            .iter()
            .map(|(name, reason)| FailedFile { name: (*name).to_owned(), failure: Failure::new(*reason) });
        let mut report = Report::default();
        (report.verified, report.failed) = (verified, failed.collect());
        report.failures = u64::try_from(failures.len()).unwrap();
        report
    }

    fn text(summary: &Summary) -> String {
        summary.text(80, Colour::Without)
    }

    #[test]
    fn the_summary_of_a_transfer_fits_every_terminal() {
        let row = |id, name: &str, bytes| PathRow {
            path: Observed {
                why: Some("in use".to_owned()),
                ..Observed::example(id, name, PathState::Active, bytes)
            },
            rate: None,
        };
        let mut report = report(35, &[]);
        (report.bytes, report.holes, report.left_out, report.hard_links) = (204 << 20, 12 << 20, 2, 1);
        let counts = Counts { moved: 127 << 20, resumed: 65 << 20, report, attempts: 2, ..Counts::default() };
        let paths = vec![row(0, "wifi0", 98_000_000), row(1, "lte0", 49_000_000)];
        let sent = Summary::new("sent", counts, Duration::from_millis(16_300), paths);
        let nothing = summary(0, Duration::from_secs(1), Report::default());
        for width in [80, 120] {
            let screens = [&sent, &nothing].map(|summary| summary.text(width, Colour::Without));
            assert_fits(&screens.join("\n"), width);
            insta::assert_snapshot!(format!("summary_{width}"), screens.join("\n"));
        }
    }

    #[test]
    fn long_names_and_addresses_fit_every_terminal() {
        let path = |id| PathRow {
            path: Observed {
                why: Some("no answer on UDP for 12 s".to_owned()),
                ..Observed::example(id, LONG_PATH, PathState::Dead, 98_000_000)
            },
            rate: None,
        };
        for (width, name) in [80, 120].into_iter().flat_map(|width| LONG_FILES.map(|name| (width, name))) {
            let counts =
                Counts { moved: 127 << 20, report: report(1, &[]), attempts: 1, ..Counts::default() };
            let paths = vec![path(0), path(1)];
            let file = ForeignFile { path: name.to_owned(), is_verified: true };
            let sent = Summary::new("fetched", counts, Duration::from_secs(16), paths).of_foreign(file);
            let text = sent.text(width, Colour::Without);
            assert_fits(&text, width);
            let is_same = |text: &str| text.split_whitespace().collect::<String>();
            assert!(is_same(&text).contains(&is_same(name)), "the name is shown whole: {text}");
        }
    }

    #[test]
    fn without_a_terminal_the_sentence_is_one_line() {
        let file = |name: &str| ForeignFile { path: name.to_owned(), is_verified: true };
        for name in LONG_FILES {
            let sent = summary(10_000_000, Duration::from_secs(1), report(1, &[])).of_foreign(file(name));
            let text = sent.text(manyway_terminal::screen::UNLIMITED, Colour::Without);
            assert_eq!(text, format!("sent {name}, 0 B in 1.00 s: 80.0 Mbit/s, verified\n"));
        }
    }

    #[test]
    fn six_bytes_have_no_rate() {
        let short = summary(6, Duration::from_micros(11), report(1, &[]));
        assert!(!text(&short).contains("bit/s") && text(&short).contains("verified"), "{}", text(&short));
        assert!(short.to_json()["bits_per_second"].is_null());
        let long = summary(10_000_000, Duration::from_secs(1), report(1, &[]));
        assert!(text(&long).contains(": 80.0 Mbit/s, verified"), "{}", text(&long));
        assert_eq!(long.to_json()["bits_per_second"], 80_000_000);
    }

    #[test]
    fn an_empty_transfer_is_not_called_verified() {
        let mut report = report(0, &[]);
        report.left_out = 2;
        assert_eq!(text(&summary(0, Duration::from_secs(1), report)), "nothing sent; 2 skipped\n");
    }

    #[test]
    fn a_foreign_file_is_called_verified_only_with_a_sum() {
        let of = |is_verified| {
            let file = ForeignFile { path: "film.mp4".to_owned(), is_verified };
            summary(10_000_000, Duration::from_secs(1), report(1, &[])).of_foreign(file)
        };
        assert_eq!(text(&of(false)), "sent film.mp4, 0 B in 1.00 s: 80.0 Mbit/s\n");
        assert!(text(&of(true)).contains(": 80.0 Mbit/s, verified"), "{}", text(&of(true)));
        assert_eq!(
            (&of(false).to_json()["verified"], &of(true).to_json()["verified"]),
            (&0.into(), &1.into())
        );
        assert_eq!(of(false).to_json()["file"], "film.mp4");
    }

    #[test]
    fn hard_links_are_counted_in_words() {
        let of = |count| {
            let mut report = report(3, &[]);
            report.hard_links = count;
            summary(0, Duration::ZERO, report).unmoved()
        };
        assert_eq!(of(1), "; 1 hard link, sent as a file of its own");
        assert_eq!(of(2), "; 2 hard links, sent as files of their own");
    }

    #[test]
    fn a_single_failure_is_printed_alone() {
        let one = summary(0, Duration::from_secs(1), report(0, &[("nothere.bin", Reason::NotFound)]));
        assert!(one.has_only_failures());
        assert_eq!(one.failures(), "no such file or directory: nothere.bin");
        let two = [("a", Reason::NotFound), ("b", Reason::DiskFull)];
        let failures = summary(0, Duration::from_secs(1), report(3, &two)).failures();
        assert_eq!(failures, "2 of 5 files and directories failed; the first: no such file or directory: a");
    }
}
