//! `manyway demo`: demonstrates Manyway on this machine alone.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use manyway::ConnectionConfig;
use manyway_chart::{PathSeries, RatePlot};
use manyway_proto::{ByteCount, Rate};
use manyway_terminal::screen::{message_width, output_width, width_of_messages};
use manyway_terminal::{Colour, CommandError, ExitCode, ProgressMode, json, note, wrap_strictly};

use super::network::connection_config;
use super::signal::until_interrupted;
use crate::args::{DemoArgs, GlobalArgs};
use crate::demo::cutter::LONGEST_CUT;
use crate::demo::emulator::SERIES_BIN;
use crate::demo::link_spec::LinkSpec;
use crate::demo::source::{Source, Workshop};
use crate::demo::stage::MOST_LINKS;
use crate::demo::table::{DemoReport, HashCheck};
use crate::demo::trial::{Outcome, Trial};
use crate::output::cause;
use crate::output::progress::ProgressView;
use crate::output::units;

/// Runs the command.
///
/// # Errors
/// Wrong options, a file that cannot be sent, a refusal of the system, a broken transfer, or an interruption.
pub fn run(global: &GlobalArgs, arguments: &DemoArgs) -> Result<ExitCode, CommandError> {
    let config = settings(global, arguments)?;
    if let Some(place) = &arguments.plot {
        check_plot(place)?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let result = runtime.block_on(until_interrupted(show(global, arguments, &config)));
    // Threads that still read or write find their queues closed.
    runtime.shutdown_timeout(END_TIME);
    let (report, no_plot) = result?;
    let code = match report.hash {
        HashCheck::Right => ExitCode::Ok,
        HashCheck::Wrong => ExitCode::Failed,
    };
    let code = code.after_printing(print(global, &report).map_err(CommandError::from))?;
    match no_plot {
        // The default plot was not asked for, so a failure to write it is only a warning.
        Some(text) if arguments.plot.is_none() => {
            if !global.quiet {
                note(&format!("warning: {text}; --plot FILE names another place"));
            }
            Ok(code)
        }
        Some(text) => Err(CommandError::failed(text)),
        None => Ok(code),
    }
}

/// # Errors
/// The plot cannot be written there. The check comes before the minutes that the demo takes.
fn check_plot(place: &Path) -> Result<(), CommandError> {
    let was_there = place.symlink_metadata().is_ok();
    if place.metadata().is_ok_and(|facts| !facts.is_file() && !facts.is_dir()) {
        // Opening a pipe would wait for its reader.
        return Ok(());
    }
    let opened = std::fs::File::options().write(true).create(true).truncate(false).open(place);
    opened.map_err(|error| CommandError::failed(format!("--plot {}: {}", place.display(), cause(&error))))?;
    if !was_there {
        std::fs::remove_file(place)?;
    }
    Ok(())
}

fn settings(global: &GlobalArgs, arguments: &DemoArgs) -> Result<ConnectionConfig, CommandError> {
    if !global.interfaces.is_empty() || !global.exclude.is_empty() || global.ipv4 || global.ipv6 {
        let text = "the demo has links of its own and uses no interface of this host; leave out -I, --exclude, -4 and -6";
        return Err(CommandError::usage(text));
    }
    let links = arguments.links.len();
    if links > MOST_LINKS {
        return Err(CommandError::usage(format!("--link: at most {MOST_LINKS} links, not {links}")));
    }
    connection_config(global)
}

async fn show(
    global: &GlobalArgs,
    arguments: &DemoArgs,
    config: &ConnectionConfig,
) -> Result<(DemoReport, Option<String>), CommandError> {
    let links = arguments.links();
    let best = best(&links);
    let several = links.len() > 1;
    let cut = (several && !arguments.no_cut).then_some(best);
    let mode = ProgressMode::detect(global.quiet);
    let workshop = Workshop::new()?;
    let source = match &arguments.file {
        Some(path) => Source::existing(path).await?,
        None => Source::made(&workshop, arguments.size).await?,
    };
    let compares = several && !arguments.no_comparison;

    let trial = Trial { source: &source, links: &links, cut, config };
    let view = Arc::new(ProgressView::new(mode, if several { "over all links: sending" } else { "sending" }));
    let programme = Programme { bytes: source.bytes, links: &links, cut, alone: compares.then_some(best) };
    let width = width_of_messages().map_or_else(message_width, |width| width.min(WIDEST));
    programme.lines(width).iter().for_each(|line| view.message(line));
    let directory = workshop.directory("incoming").await?;
    let outcome = trial.run(&directory, &view).await?;
    view.finish();
    let hash = if source.arrived_in(&directory).await? { HashCheck::Right } else { HashCheck::Wrong };
    // Space for the second copy.
    tokio::fs::remove_dir_all(&directory).await?;

    let single = links.get(best..=best).filter(|_| compares);
    let best_single = match single {
        Some(single) => {
            let trial = Trial { links: single, cut: None, ..trial };
            Some(compare(&trial, best, mode, &workshop.directory("comparison").await?).await?)
        }
        None => None,
    };
    let mut report = DemoReport {
        bytes: source.bytes,
        time: outcome.time,
        possible: outcome.possible(&links),
        longest_stall: outcome.longest_stall,
        cut: outcome.cut,
        best_single,
        hash,
        links: outcome.links.clone(),
        plot: None,
    };
    let place = arguments.plot.clone().unwrap_or_else(|| PathBuf::from(PLOT));
    let no_plot = write_plot(&place, &report, &outcome).err();
    report.plot = no_plot.is_none().then_some(place);
    Ok((report, no_plot))
}

/// The time of the same transfer over the best link alone.
async fn compare(
    trial: &Trial<'_>,
    best: usize,
    mode: ProgressMode,
    directory: &Path,
) -> Result<Duration, CommandError> {
    let name = format!("link {} alone", best + 1);
    let view = Arc::new(ProgressView::new(mode, &format!("{name}: sending")));
    view.message(&comparison_begins(&name));
    Ok(trial.run(directory, &view).await?.time)
}

fn comparison_begins(name: &str) -> String {
    format!("Now the same file over {name}, without an outage, for comparison.")
}

/// What will happen.
#[derive(Debug, Clone, Copy)]
struct Programme<'a> {
    /// Bytes of the file.
    bytes: u64,
    links: &'a [LinkSpec],
    /// The link that is cut.
    cut: Option<usize>,
    /// The link of the comparison.
    alone: Option<usize>,
}

impl Programme<'_> {
    /// The lines of the introduction, of at most this width.
    fn lines(&self, width: usize) -> Vec<String> {
        let over = match self.links.len() {
            1 => "over one emulated link".to_owned(),
            links => format!("as one connection over {links} emulated links at once"),
        };
        let size = units::size(self.bytes);
        let mut text =
            format!("A file of {size} goes from a client to a server, both in this process, {over}.");
        if let Some(cut) = self.cut {
            text += &format!(
                " Link {} is cut after a quarter of the file, and restored after half of it or {} s later, whichever \
                 comes first; nothing notifies Manyway of either.",
                cut + 1,
                LONGEST_CUT.as_secs()
            );
        }
        if let Some(alone) = self.alone {
            text += &format!(
                " Then the same file goes over link {} alone, without an outage, for comparison.",
                alone + 1
            );
        }
        text += &format!(" This takes about {} s.", self.duration().as_secs().max(1));
        let links = (1..).zip(self.links);
        let links = links.map(|(number, link)| format!("  link {number}: {link} (one way)"));
        wrap_strictly(&text, width).into_iter().chain(links).collect()
    }

    /// Upper bound of the duration: the links filled, a tenth lost to headers and slow start.
    fn duration(&self) -> Duration {
        let rate = |index| self.links.get(index).map_or(Rate::ZERO, |link: &LinkSpec| link.rate);
        let all: Rate = self.links.iter().map(|link| link.rate).sum();
        let cut = self.cut.map_or(Rate::ZERO, rate);
        let rest = Rate::from_bits_per_second(all.bits_per_second().saturating_sub(cut.bits_per_second()));
        let quarter = ByteCount(self.bytes / 4 * 11 / 10);
        let comparison = self.alone.map_or(Duration::ZERO, |index| quarter / rate(index) * 4);
        let outage = if self.cut.is_some() { (quarter / rest).min(LONGEST_CUT) } else { quarter / rest };
        let missing = quarter - rest * outage;
        outage + missing / all + quarter / all * 3 + comparison
    }
}

/// The link with the highest rate; of equal ones that with the lowest delay.
fn best(links: &[LinkSpec]) -> usize {
    let ranked = links.iter().enumerate().min_by_key(|(_, link)| (std::cmp::Reverse(link.rate), link.delay));
    ranked.map_or(0, |(index, _)| index)
}

/// Writes the plot; a failure does not affect the rest of the demo.
///
/// # Errors
/// The plot cannot be written.
fn write_plot(place: &Path, report: &DemoReport, outcome: &Outcome) -> Result<(), String> {
    let svg = plot(report, outcome).to_svg().map_err(|error| error.to_string())?;
    let failed = |error| format!("cannot write the plot to {}: {}", place.display(), cause(&error));
    std::fs::write(place, svg).map_err(failed)
}

fn plot(report: &DemoReport, outcome: &Outcome) -> RatePlot {
    let bins = outcome.series.iter().map(Vec::len).max().unwrap_or(0);
    let together = bins.div_ceil(MOST_POINTS).max(2);
    let bin = SERIES_BIN.saturating_mul(u32::try_from(together).unwrap_or(u32::MAX));
    let rates = |series: &Vec<u64>| -> Vec<Rate> {
        series.chunks(together).map(|bytes| ByteCount(bytes.iter().sum()).per(bin)).collect()
    };
    let paths = (1..).zip(report.links.iter().zip(&outcome.series));
    RatePlot {
        title: format!(
            "{} over {} at once: {}",
            units::size(report.bytes),
            links_in_words(report.links.len()),
            units::duration(report.time)
        ),
        bin,
        paths: paths
            .map(|(number, (link, series))| PathSeries {
                name: format!("link {number}: {}", link.name),
                rates: rates(series),
            })
            .collect(),
        total: None,
        marks: report.cut.iter().flat_map(|cut| cut.marks()).collect(),
    }
}

fn links_in_words(count: usize) -> String {
    if count == 1 { "one link".to_owned() } else { format!("{count} links") }
}

fn print(global: &GlobalArgs, report: &DemoReport) -> io::Result<()> {
    if global.json {
        return json::print(&report.to_json());
    }
    let mut out = io::stdout().lock();
    out.write_all(report.text(output_width(), Colour::of_output()).as_bytes())?;
    out.flush()
}

/// Default file of the plot.
const PLOT: &str = "manyway-demo.svg";
/// The largest width of a terminal that is easy to read.
const WIDEST: usize = 100;
/// Time limit for threads to end.
const END_TIME: Duration = Duration::from_secs(2);
/// Most points of a curve.
const MOST_POINTS: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::cutter::CutEvent;
    use crate::demo::trial::{cut_words, event_line};
    use crate::output::fits::assert_fits;

    #[test]
    fn the_best_link_is_the_fastest_and_of_equals_the_nearest() {
        let links = |texts: &[&str]| -> Vec<LinkSpec> { texts.iter().map(|t| t.parse().unwrap()).collect() };
        assert_eq!(best(&LinkSpec::defaults()), 0);
        assert_eq!(best(&links(&["1M,1ms", "9M,50ms", "9M,20ms", "9M,20ms"])), 2);
    }

    #[test]
    fn introduction_and_events_fit_every_terminal() {
        let links = LinkSpec::defaults();
        let all = Programme { bytes: 64 << 20, links: &links, cut: Some(0), alone: Some(0) };
        let one = Programme { bytes: 300_000, links: &links[..1], cut: None, alone: None };
        let events = [CutEvent::Cut, CutEvent::Restored, CutEvent::Carries(Duration::from_millis(294))];
        let events = (1..).zip(events).map(|(second, event)| {
            let time = Duration::from_secs(2 * second);
            event_line(time, &cut_words(event, "link 1"))
        });
        let events: Vec<_> = events.chain([comparison_begins("link 1 alone")]).collect();
        for width in [80, 120] {
            let lines = [
                all.lines(width.min(WIDEST)),
                events.clone(),
                vec![String::new()],
                one.lines(width.min(WIDEST)),
            ]
            .concat();
            assert_fits(&lines.join("\n"), width);
            insta::assert_snapshot!(format!("introduction_{width}"), lines.join("\n"));
        }
    }
}
