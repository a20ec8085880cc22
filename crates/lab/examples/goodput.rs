//! Prints the goodput of Manyway in virtual time in every built-in scenario, in both directions, beside that of each
//! route alone.
//!
//! `cargo run --release -p manyway-lab --example goodput -- [SCENARIO] [SEED]`
#![expect(clippy::print_stdout, reason = "a program that prints")]

use manyway_lab::contender::{ManywaySettings, RouteChoice};
use manyway_lab::scenario::{Library, Scenario};
use manyway_lab::simulated::Simulated;
use manyway_lab::{Contender, LabError, Outcome, Runner as _};
use manyway_proto::Rate;
use manyway_units::text::megabits;

fn main() -> Result<(), LabError> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "all".to_owned());
    let seed = arguments.next().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!(
        "Mbit/s, seed {seed}; the rest of a line: silence of all routes together, then each route alone"
    );
    for scenario in Library::builtin()?.find(&name)? {
        for (way, scenario) in [("up", scenario.clone()), ("down", scenario.clone().reversed())] {
            row(way, &scenario, seed)?;
        }
    }
    Ok(())
}

fn row(way: &str, scenario: &Scenario, seed: u64) -> Result<(), LabError> {
    let all = run(scenario, RouteChoice::All, seed)?;
    let alone = (0..scenario.routes.len())
        .map(|route| run(scenario, RouteChoice::Only(route), seed))
        .collect::<Result<Vec<_>, _>>()?;
    let goodput = |outcome: &Outcome| {
        let rate = outcome.flows.first().map_or(Rate::ZERO, |flow| flow.arrivals.goodput());
        let mark = if outcome.failure.is_some() { "!" } else { "" };
        format!("{}{mark}", megabits(rate))
    };
    let best = alone.iter().filter_map(|outcome| Some(outcome.flows.first()?.arrivals.goodput())).max();
    let best = best.unwrap_or(Rate::ZERO);
    let together = all.flows.first().map_or(Rate::ZERO, |flow| flow.arrivals.goodput());
    let percent = together.bytes_per_second() * 100 / best.bytes_per_second().max(1);
    let silence = all.flows.first().and_then(|flow| flow.arrivals.longest_silence());
    let silence = silence.map_or(0, |silence| silence.length.as_millis());
    let each: Vec<_> = alone.iter().map(goodput).collect();
    println!(
        "{:17} {way:4} {:>7} of best {:>6} = {percent:>3} %  {silence:>5} ms  [{}]",
        scenario.name,
        goodput(&all),
        megabits(best),
        each.join(" ")
    );
    for failure in all.failure.iter().chain(alone.iter().filter_map(|outcome| outcome.failure.as_ref())) {
        println!("    {failure}");
    }
    Ok(())
}

fn run(scenario: &Scenario, routes: RouteChoice, seed: u64) -> Result<Outcome, LabError> {
    let settings = ManywaySettings { routes, ..ManywaySettings::default() };
    Simulated::new().run(scenario, &Contender::Manyway(settings), seed)
}
