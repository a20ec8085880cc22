//! Scenarios in virtual time.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod builtin;
mod changes;
mod cross;
mod experiments;
mod gates;
mod matrix;
mod traffic;
mod who;

use manyway_lab::campaign::{Notice, Watcher};
use manyway_lab::contender::{ManywaySettings, RouteChoice};
use manyway_lab::simulated::Simulated;
use manyway_lab::{Contender, Outcome, Runner as _, Scenario};

/// Ignores all notices of a campaign.
struct Unwatched;

impl Watcher for Unwatched {
    fn notice(&mut self, _: Notice<'_>) {}
}

/// Reads a scenario and runs Manyway through it over all routes.
fn run(text: &str) -> Outcome {
    run_with(text, ManywaySettings::default())
}

fn run_with(text: &str, settings: ManywaySettings) -> Outcome {
    let scenario = Scenario::parse("mine.toml", text, &|_| Err(std::io::ErrorKind::NotFound.into())).unwrap();
    let outcome = Simulated::new().run(&scenario, &Contender::Manyway(settings), 7).unwrap();
    assert_eq!(outcome.failure, None);
    outcome
}

/// Only this route.
fn only(route: usize) -> ManywaySettings {
    ManywaySettings { routes: RouteChoice::Only(route), ..ManywaySettings::default() }
}

/// Two links of 10 Mbit/s.
const TWO: &str = "[links.a]\nrate = '10M'\nrtt = '20ms'\n[links.b]\nrate = '10M'\nrtt = '20ms'\n";
