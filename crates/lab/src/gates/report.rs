//! Prints verdicts for people and for programs.

use std::fmt::Write as _;

use manyway_chart::{Align, Table};
use serde_json::{Value, json};

use super::{Gate, Judgement, NOT_JUDGED, Unit, Verdict, Verdicts};

/// The shortfalls and their size, and for each gate how many comparisons passed.
pub fn text(verdicts: &Verdicts) -> String {
    let mut text = String::new();
    let short: Vec<&Verdict> =
        verdicts.judged.iter().filter(|verdict| !verdict.judgement.has_passed()).collect();
    if !short.is_empty() {
        let mut table = Table::new([
            ("gate", Align::Right),
            ("scenario", Align::Left),
            ("goal", Align::Left),
            ("limit", Align::Right),
            ("reached", Align::Right),
            ("least–most", Align::Right),
            ("falls short by", Align::Right),
        ]);
        for verdict in &short {
            table.row(row(verdict));
        }
        let _ = writeln!(text, "{table}");
    }
    for gate in Gate::ALL {
        let _ = writeln!(text, "{}", summary(verdicts, gate));
    }
    for unjudged in &verdicts.unjudged {
        let _ = writeln!(
            text,
            "gate {} could not be judged in {}: {}",
            unjudged.gate.number(),
            unjudged.case,
            unjudged.reason
        );
    }
    let _ = writeln!(text, "{NOT_JUDGED}");
    text
}

/// Verdicts as a document.
pub fn json(verdicts: &Verdicts) -> Value {
    let judged = verdicts.judged.iter().map(|verdict| {
        json!({
            "gate": verdict.gate.number(),
            "name": verdict.gate.name(),
            "case": verdict.case,
            "goal": verdict.goal,
            "unit": match verdict.unit {
                Unit::Megabits => "Mbit/s",
                Unit::Seconds => "s",
                Unit::Megabytes => "MB",
                Unit::Runs => "runs",
            },
            "limit": verdict.limit,
            "reached": verdict.reached,
            "judgement": verdict.judgement,
        })
    });
    let unjudged = verdicts.unjudged.iter().map(|unjudged| {
        json!({ "gate": unjudged.gate.number(), "case": unjudged.case, "reason": unjudged.reason })
    });
    json!({
        "passed": verdicts.have_passed(),
        "judged": judged.collect::<Vec<_>>(),
        "unjudged": unjudged.collect::<Vec<_>>(),
        "not_judged": NOT_JUDGED,
    })
}

fn row(verdict: &Verdict) -> [String; 7] {
    let number = |value: f64| number(verdict.unit, value);
    let reached = verdict.reached;
    let least = number(reached.least);
    // The unit is printed once.
    let least = least.split(' ').next().unwrap_or_default();
    let range = format!("{least}–{}", number(reached.most));
    [
        verdict.gate.number().to_string(),
        verdict.case.clone(),
        verdict.goal.clone(),
        number(verdict.limit),
        number(reached.median),
        if reached.count > 1 { range } else { String::new() },
        lack(verdict),
    ]
}

fn lack(verdict: &Verdict) -> String {
    let (Judgement::Short { lacks } | Judgement::WithinSpread { lacks }) = verdict.judgement else {
        return String::new();
    };
    let difference = (verdict.reached.median - verdict.limit).abs();
    if lacks.is_infinite() {
        return number(verdict.unit, difference);
    }
    format!("{} ({:.1} %)", number(verdict.unit, difference), lacks * 100.0)
}

fn number(unit: Unit, value: f64) -> String {
    match unit {
        _ if value.is_infinite() => "never".to_owned(),
        Unit::Megabits => format!("{value:.2} Mbit/s"),
        Unit::Seconds => format!("{:.1} ms", value * 1e3),
        Unit::Megabytes => format!("{value:.3} MB"),
        Unit::Runs => format!("{value:.0} runs"),
    }
}

fn summary(verdicts: &Verdicts, gate: Gate) -> String {
    let all: Vec<_> = verdicts.judged.iter().filter(|verdict| verdict.gate == gate).collect();
    let passed = all.iter().filter(|verdict| verdict.judgement.has_passed()).count();
    let near =
        all.iter().filter(|verdict| matches!(verdict.judgement, Judgement::WithinSpread { .. })).count();
    let head = format!("gate {}, {}", gate.number(), gate.name());
    if all.is_empty() {
        return format!("{head}: nothing to judge");
    }
    let mut line = format!("{head}: {passed} of {} passed", all.len());
    if near > 0 {
        let _ = write!(line, ", {near} of them only within the spread");
    }
    line
}
