//! `manyway-lab validate`: the emulated links against theory.

use std::time::Duration;

use manyway_lab::Stop;
use manyway_lab::validation::{self, Extent, Options, Property, Report, Row};
use manyway_terminal::{CommandError, ExitCode, json, note, print_line};
use manyway_units::text;
use serde_json::{Value, json};

use super::budget;
use crate::args::{GlobalArgs, ValidateArgs};
use crate::command::campaign::{end_on_signal, of_lab};

/// Measures, prints and judges.
pub(super) fn run(global: &GlobalArgs, arguments: &ValidateArgs) -> Result<ExitCode, CommandError> {
    let stop = Stop::default();
    let (options, left_out) = options(arguments, stop.clone());
    let say = |sentence: &str| {
        if !global.quiet {
            note(sentence);
        }
    };
    left_out.iter().for_each(|sentence| say(sentence));
    end_on_signal(stop.clone());
    let begins = |number: u32| {
        let left = options.once() * (options.repetitions - number);
        say(&format!("{} of {}, about {} left", number + 1, options.repetitions, text::duration(left)));
    };
    let report = validation::run(&options, begins).map_err(of_lab)?;
    let code = if report.holds() { ExitCode::Ok } else { ExitCode::Gain };
    let printed = if global.json {
        json::print(&document(&report, &stop)).map_err(CommandError::from)
    } else {
        print_line(validation::text(&report).trim_end())
    };
    let code = code.after_printing(printed)?;
    if stop.is_set() {
        let text = "interrupted; what was measured until then stands above";
        return Err(CommandError::new(ExitCode::Interrupted, text));
    }
    Ok(code)
}

/// What to measure within the budget, and what is left out.
fn options(arguments: &ValidateArgs, stop: Stop) -> (Options, Vec<String>) {
    let mut options = Options { seed: arguments.seed, stop, ..Options::default() };
    if !arguments.properties.is_empty() {
        let is_named = |property: &Property| arguments.properties.iter().any(|name| name == property.name());
        options.properties.retain(is_named);
    }
    if arguments.quick {
        (options.repetitions, options.extent) = (1, Extent::Quick);
    }
    options.repetitions = arguments.repeat.unwrap_or(options.repetitions);
    let left_out = arguments.budget.map_or_else(Vec::new, |budget| fit(&mut options, budget));
    (options, left_out)
}

/// Keeps to a budget, and reports what is left out.
fn fit(options: &mut Options, time: Duration) -> Vec<String> {
    let mut left_out = Vec::new();
    options.repetitions = budget::repetitions(options.repetitions, options.once(), time, &mut left_out);
    if options.takes() > time && options.extent == Extent::Full {
        options.extent = Extent::Quick;
        left_out.push("half the time for each, to fit".to_owned());
    }
    budget::check(options.takes(), time, &mut left_out);
    left_out
}

fn document(report: &Report, stop: &Stop) -> Value {
    let row = |row: &Row| {
        let mut value = serde_json::to_value(row).unwrap_or_default();
        if let Some(fields) = value.as_object_mut() {
            let holds = row.is_judged().then(|| row.holds());
            fields.insert("holds".to_owned(), holds.into());
        }
        value
    };
    json!({
        "validation": report.rows.iter().map(row).collect::<Vec<_>>(),
        "holds": report.holds(),
        "remarks": report.remarks,
        "end": if stop.is_set() { "interrupted" } else { "complete" },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::PROPERTIES;

    fn arguments(properties: &[&str], budget: Option<u64>) -> ValidateArgs {
        ValidateArgs {
            properties: properties.iter().map(|name| (*name).to_owned()).collect(),
            repeat: None,
            seed: 1,
            quick: false,
            budget: budget.map(Duration::from_secs),
        }
    }

    #[test]
    fn every_property_has_its_name_on_the_command_line() {
        assert_eq!(Property::ALL.map(Property::name), PROPERTIES);
        let (options, _) = options(&arguments(&["loss", "rate", "loss"], None), Stop::default());
        assert_eq!(options.properties, [Property::Rate, Property::Loss]);
    }

    #[test]
    fn a_budget_drops_repetitions_then_halves_the_time_and_reports_both() {
        let fit = |seconds| {
            let (options, left_out) = options(&arguments(&[], Some(seconds)), Stop::default());
            (options.repetitions, options.extent, left_out.len())
        };
        let once = Options::default().once().as_secs();
        assert_eq!(fit(4 * once), (3, Extent::Full, 0));
        assert_eq!(fit(2 * once + 2), (2, Extent::Full, 1));
        assert_eq!(fit(once - 1), (1, Extent::Quick, 2));
        assert_eq!(fit(1), (1, Extent::Quick, 3));
    }
}
