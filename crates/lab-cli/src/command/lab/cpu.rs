//! `manyway-lab cpu`: processor time per byte.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use manyway_chart::{Align, Table};
use manyway_lab::Stop;
use manyway_lab::cpu::{self, CpuOptions, CpuReport, CpuRow, CpuVerdict, Part, Subject};
use manyway_lab::measures::Spread;
use manyway_terminal::{CommandError, ExitCode, json, note, print_line};
use manyway_units::text;
use serde_json::Value;

use super::budget;
use crate::args::{CpuArgs, GlobalArgs};
use crate::command::campaign::{end_on_signal, of_lab};

/// Measures and prints.
pub(super) fn run(
    global: &GlobalArgs,
    arguments: &CpuArgs,
    program: &Path,
) -> Result<ExitCode, CommandError> {
    let stop = Stop::default();
    let (options, left_out) = options(arguments, stop.clone())?;
    let say = |sentence: &str| {
        if !global.quiet {
            note(sentence);
        }
    };
    left_out.iter().for_each(|sentence| say(sentence));
    end_on_signal(stop.clone());
    let begins = |part: Part| {
        let left = text::duration(each(&options) * (part.all - part.done));
        say(&format!("{} of {}, about {left} left: {}", part.done + 1, part.all, name(part.subject)));
    };
    let report = cpu::run(program, &options, begins).map_err(of_lab)?;
    let printed = if global.json {
        json::print(&document(&report, &stop)).map_err(CommandError::from)
    } else {
        print_line(text(&report).trim_end())
    };
    let code = ExitCode::Ok.after_printing(printed)?;
    if stop.is_set() {
        let text = "interrupted; the measurements until then stand above";
        return Err(CommandError::new(ExitCode::Interrupted, text));
    }
    let is_reached = report.verdicts().iter().all(|verdict| verdict.holds);
    Ok(if is_reached { code } else { ExitCode::Gain })
}

/// What to measure within the budget, and what is left out.
fn options(arguments: &CpuArgs, stop: Stop) -> Result<(CpuOptions, Vec<String>), CommandError> {
    let mut options = CpuOptions { stop, ..CpuOptions::default() };
    if arguments.quick {
        (options.repetitions, options.duration) = (1, Duration::from_secs(1));
    }
    options.repetitions = arguments.repeat.unwrap_or(options.repetitions);
    options.duration = arguments.duration.unwrap_or(options.duration);
    if !arguments.only.is_empty() {
        let meant = arguments.only.iter().map(|name| name.trim().parse::<Subject>());
        let meant = meant.collect::<Result<Vec<_>, _>>();
        options.subjects = meant.map_err(|known| CommandError::usage(format!("--only names {known}")))?;
    }
    options.peers.clone_from(&arguments.peers);
    let mut left_out = Vec::new();
    let Some(budget) = arguments.budget else { return Ok((options, left_out)) };
    let once = time(&options) / options.repetitions.max(1);
    options.repetitions = budget::repetitions(options.repetitions, once, budget, &mut left_out);
    if time(&options) > budget {
        let before = text::duration(options.duration);
        let each = budget / u32::try_from(options.subjects.len()).unwrap_or(1).max(1);
        options.duration = each.saturating_sub(SET_UP).max(SHORTEST).min(options.duration);
        left_out.push(format!("{} each instead of {before}, to fit", text::duration(options.duration)));
    }
    budget::check(time(&options), budget, &mut left_out);
    Ok((options, left_out))
}

fn time(options: &CpuOptions) -> Duration {
    let subjects = u32::try_from(options.subjects.len()).unwrap_or(u32::MAX);
    each(options).saturating_mul(subjects.saturating_mul(options.repetitions))
}

/// About how long a measurement takes.
fn each(options: &CpuOptions) -> Duration {
    options.duration + SET_UP
}

/// The report with times in seconds, as in all documents, its goals, and how it ended.
fn document(report: &CpuReport, stop: &Stop) -> Value {
    let mut document = serde_json::to_value(report).unwrap_or_default();
    if let Some(fields) = document.as_object_mut() {
        fields.insert("duration".to_owned(), report.duration.as_secs_f64().into());
        fields.insert("goals".to_owned(), serde_json::to_value(report.verdicts()).unwrap_or_default());
        fields.insert("end".to_owned(), if stop.is_set() { "interrupted" } else { "complete" }.into());
    }
    document
}

fn text(report: &CpuReport) -> String {
    let mut table = Table::new([
        ("who", Align::Left),
        ("Gbit/s", Align::Right),
        ("least–most", Align::Right),
        ("of manyway", Align::Right),
        ("sender s/GB", Align::Right),
        ("receiver s/GB", Align::Right),
        ("machine s/GB", Align::Right),
        ("lost", Align::Right),
    ]);
    let number = |spread: Spread| format!("{:.2}", spread.median);
    let own = report.rows.iter().find(|row| row.subject == Subject::Manyway);
    let share = |row: &CpuRow| own.map(|own| row.gigabits.median / own.gigabits.median);
    for row in &report.rows {
        table.row([
            name(row.subject).to_owned(),
            number(row.gigabits),
            format!("{:.2}–{:.2}", row.gigabits.least, row.gigabits.most),
            share(row).map_or_else(String::new, |share| format!("{:.0} %", share * 100.0)),
            number(row.sender),
            number(row.receiver),
            number(row.machine),
            if row.lost > 0.0 { format!("{:.2} %", row.lost * 100.0) } else { String::new() },
        ]);
    }
    let time = text::duration(report.duration);
    let mut text = format!("{table}one connection over veth, MTU {}, {time} each, medians\n", report.mtu);
    for remark in &report.remarks {
        text.push_str(remark);
        text.push('\n');
    }
    for CpuVerdict { subject, of, least, share, holds } in report.verdicts() {
        let (subject, of) = (name(subject), name(of));
        let verdict = if holds { "holds" } else { "falls short" };
        let _ = writeln!(text, "{subject}, of {of}, at least {least:.2}: {verdict} with {share:.2}");
    }
    text
}

const fn name(subject: Subject) -> &'static str {
    match subject {
        Subject::Manyway => "manyway",
        Subject::ManywayTcp => "manyway over TCP",
        Subject::ManywayMmsp1 => "manyway over MMSP/1",
        Subject::Run => "a program by manyway run",
        Subject::Tunnel => "a program by manyway tunnel",
        Subject::WireGuard => "a program by wireguard-go",
        Subject::Quinn => "quinn",
        Subject::S2nQuic => "s2n-quic",
        Subject::Tcp => "kernel TCP",
        Subject::TcpWithoutOffload => "kernel TCP without offload",
        Subject::Udp => "UDP alone",
    }
}

/// Additional time of a measurement.
const SET_UP: Duration = Duration::from_millis(500);
const SHORTEST: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_drops_repetitions_then_shortens_and_says_so() {
        let arguments = |seconds| CpuArgs {
            repeat: None,
            duration: None,
            quick: false,
            only: Vec::new(),
            peers: None,
            budget: Some(Duration::from_secs(seconds)),
        };
        let fit = |seconds| options(&arguments(seconds), Stop::default()).unwrap();
        let (all, left_out) = fit(3600);
        assert_eq!((all.repetitions, left_out.len()), (5, 0));
        let (fewer, left_out) = fit(80);
        assert_eq!((fewer.repetitions, fewer.duration, left_out.len()), (2, Duration::from_secs(3), 1));
        let (shorter, left_out) = fit(22);
        assert_eq!((shorter.repetitions, shorter.duration), (1, Duration::from_millis(1500)));
        assert_eq!(left_out.len(), 2);
    }

    #[test]
    fn subjects_are_chosen_by_name() {
        let arguments = |only: &[&str]| CpuArgs {
            repeat: None,
            duration: None,
            quick: true,
            only: only.iter().map(|name| (*name).to_owned()).collect(),
            peers: None,
            budget: None,
        };
        let chosen = |only: &[&str]| options(&arguments(only), Stop::default());
        let (named, _) = chosen(&["manyway", "manyway-tcp"]).unwrap();
        assert_eq!(named.subjects, [Subject::Manyway, Subject::ManywayTcp]);
        assert!(chosen(&["iperf"]).unwrap_err().to_string().contains("manyway-tcp"));
    }

    #[test]
    fn a_document_has_its_time_in_seconds_and_its_end() {
        let report = CpuReport {
            mtu: 1500,
            duration: Duration::from_millis(1500),
            rows: Vec::new(),
            remarks: Vec::new(),
        };
        let stop = Stop::default();
        let document = |stop: &Stop| document(&report, stop);
        assert_eq!(
            (&document(&stop)["duration"], &document(&stop)["end"]),
            (&1.5.into(), &"complete".into())
        );
        stop.set();
        assert_eq!(document(&stop)["end"], "interrupted");
    }
}
