//! One line a run, for spreadsheets.

use std::fmt::Write as _;

use super::table::latency;
use crate::campaign::{Results, Run, Standing, Way};

/// Writes the head and a line for each run. Times are in seconds, rates in bit/s; missing values are empty, what never
/// happened is `inf`.
pub fn csv(results: &Results) -> String {
    let mut text = HEAD.join(",") + "\n";
    for run in &results.runs {
        if let Some(cells) = cells(results, run) {
            let line: Vec<String> = cells.iter().map(|cell| quoted(cell)).collect();
            let _ = writeln!(text, "{}", line.join(","));
        }
    }
    text
}

const HEAD: [&str; 24] = [
    "scenario",
    "reversed",
    "contender",
    "repetition",
    "seed",
    "counts",
    "bits_per_second",
    "bytes",
    "longest_stall",
    "time_to_reuse",
    "recovery",
    "cpu_client",
    "cpu_server",
    "message_median",
    "message_p99",
    "message_p999",
    "messages_missing",
    "reordered_bytes",
    "delay_median",
    "delay_p95",
    "dropped",
    "others",
    "stolen",
    "failure",
];

fn cells(results: &Results, run: &Run) -> Option<[String; 24]> {
    let case = results.plan.cases.get(run.case)?;
    let measures = &run.measures;
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.6}"));
    let share = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.4}"));
    let cpu = measures.cpu;
    Some([
        case.scenario.name.clone(),
        (case.way == Way::Reversed).to_string(),
        case.contenders.get(run.contender)?.to_string(),
        (run.repetition + 1).to_string(),
        run.seed.to_string(),
        (run.standing == Standing::Counts).to_string(),
        measures.goodput.bits_per_second().to_string(),
        measures.bytes.get().to_string(),
        number(Some(measures.silence.as_secs_f64())),
        number(measures.used_again()),
        number(measures.recovery()),
        number(cpu.map(|cpu| cpu.client.as_secs_f64())),
        number(cpu.map(|cpu| cpu.server.as_secs_f64())),
        number(latency(measures.messages, |figures| figures.median)),
        number(latency(measures.messages, |figures| figures.p99)),
        number(latency(measures.messages, |figures| figures.p999)),
        measures.messages.map_or_else(String::new, |figures| figures.missing.to_string()),
        measures.delivery.map_or_else(String::new, |delivery| delivery.most_held.get().to_string()),
        number(measures.delivery.and_then(|delivery| Some(delivery.median?.as_secs_f64()))),
        number(measures.delivery.and_then(|delivery| Some(delivery.p95?.as_secs_f64()))),
        measures.dropped.to_string(),
        share(run.disturbance.map(|disturbance| disturbance.others)),
        share(run.disturbance.map(|disturbance| disturbance.stolen)),
        run.failure.clone().unwrap_or_default(),
    ])
}

/// A cell according to RFC 4180.
fn quoted(cell: &str) -> String {
    let is_plain = !cell.contains([',', '"', '\n', '\r']);
    if is_plain { cell.to_owned() } else { format!("\"{}\"", cell.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_cell_with_a_comma_or_a_quote_is_quoted() {
        assert_eq!(super::quoted("plain"), "plain");
        assert_eq!(super::quoted("a, \"b\""), "\"a, \"\"b\"\"\"");
    }
}
