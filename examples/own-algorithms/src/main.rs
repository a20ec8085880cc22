//! Compares one's own algorithms with those built in, in virtual time or on real sockets.
//!
//! ```text
//! cargo run --release -p own-algorithms                        # its own scenario, with a metered link
//! cargo run --release -p own-algorithms -- two-50 wifi-lte     # others that are built in, or files
//! cargo build --release -p own-algorithms && sudo target/release/own-algorithms --real two-50
//! ```
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints")]

use std::error::Error;
use std::process::ExitCode;

use manyway::ConnectionConfig;
use manyway_lab::campaign::{self, Case, Course, End, Notice, Plan, Timing, Watcher, Way};
use manyway_lab::scenario::Library;
use manyway_lab::simulated::Simulated;
use manyway_lab::{Contender, LabError, Runner, Scenario, Stop, report};

/// One's own algorithms, and the built-in ones for comparison.
const CONTENDERS: [&str; 6] = [
    "manyway",
    "manyway:congestion=cubic",
    "manyway:congestion=gentle",
    "manyway:scheduler=cost",
    "manyway:scheduler=ration=20",
    "manyway:scheduler=ration=20,congestion=gentle",
];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut config = ConnectionConfig::default();
    own_algorithms::register(&mut config)?;
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    // On real sockets the lab starts this program again, at either end of a run.
    if names == ["lab-agent"] {
        return agent(config);
    }
    let is_real = names.iter().any(|name| name == "--real");
    names.retain(|name| name != "--real");
    let (mut runner, timing) = if is_real {
        (on_sockets()?, Timing::Real)
    } else {
        let runner: Box<dyn Runner> = Box::new(Simulated::with_config(config.clone()));
        (runner, Timing::Virtual)
    };
    let plan = plan(&scenarios(&names)?, &config, timing)?;
    let results = campaign::run(plan, &mut *runner, &mut Silent, &Stop::default());
    print!("{}", report::table(&results));
    match results.end {
        End::Failed(error) => Err(error.into()),
        End::Complete | End::OutOfTime | End::Interrupted => Ok(()),
    }
}

/// The named scenarios, or the scenario of this example.
fn scenarios(names: &[String]) -> Result<Vec<Scenario>, LabError> {
    if names.is_empty() {
        let no_files = |_: &str| Err(std::io::ErrorKind::NotFound.into());
        return Ok(vec![Scenario::parse("metered.toml", include_str!("../metered.toml"), &no_files)?]);
    }
    let library = Library::builtin()?;
    let found = names.iter().map(|name| library.find(name)).collect::<Result<Vec<_>, _>>()?;
    Ok(found.concat())
}

/// Every contender in every scenario, once.
fn plan(scenarios: &[Scenario], config: &ConnectionConfig, timing: Timing) -> Result<Plan, Box<dyn Error>> {
    let contenders = CONTENDERS.iter().map(|name| Contender::find_with(name, &[], config));
    let contenders = contenders.collect::<Result<Vec<_>, _>>()?;
    let case = |scenario: &Scenario| Case {
        scenario: scenario.clone(),
        way: Way::AsWritten,
        contenders: contenders.clone(),
    };
    Ok(Plan {
        cases: scenarios.iter().map(case).collect(),
        repetitions: 1,
        seed: 1,
        timing,
        budget: None,
        repeats_disturbed: true,
        course: Course::Dropped,
    })
}

#[cfg(target_os = "linux")]
fn agent(config: ConnectionConfig) -> Result<(), Box<dyn Error>> {
    Ok(manyway_lab::agent::run_with(config)?)
}

#[cfg(target_os = "linux")]
fn on_sockets() -> Result<Box<dyn Runner>, Box<dyn Error>> {
    Ok(Box::new(manyway_lab::real::Real::new(std::env::current_exe()?)?))
}

#[cfg(not(target_os = "linux"))]
fn agent(_config: ConnectionConfig) -> Result<(), Box<dyn Error>> {
    Err("the lab needs Linux".into())
}

#[cfg(not(target_os = "linux"))]
fn on_sockets() -> Result<Box<dyn Runner>, Box<dyn Error>> {
    Err("the lab needs Linux; virtual time does not".into())
}

/// Prints no progress.
struct Silent;

impl Watcher for Silent {
    fn notice(&mut self, _notice: Notice<'_>) {}
}
