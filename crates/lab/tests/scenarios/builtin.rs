use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use manyway_lab::Scenario;
use manyway_lab::scenario::{Direction, Library};
use manyway_units::text::megabits;

#[test]
fn the_folder_and_the_program_hold_the_same_scenarios() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let library = Library::builtin().unwrap();
    let mut built_in: Vec<_> = library.all().iter().collect();
    built_in.sort_by_key(|scenario| scenario.name.clone() + ".toml");
    assert_eq!(files.len(), built_in.len());
    for (file, built_in) in files.iter().zip(built_in) {
        let mut read = Scenario::read(file).unwrap();
        read.source.clone_from(&built_in.source);
        assert_eq!(format!("{read:?}"), format!("{built_in:?}"), "{}", file.display());
    }
}

/// The column "sum" of the design's table, and the sums of the rates of its environments.
#[test]
fn the_rates_add_up_as_in_the_design() {
    let mut table = String::new();
    for scenario in Library::builtin().unwrap().all() {
        let sums = [Direction::Up, Direction::Down].map(|direction| megabits(scenario.sum(direction)));
        assert_eq!(sums[0], sums[1], "{}", scenario.name);
        let (routes, events) = (scenario.routes.len(), scenario.events.len());
        writeln!(table, "{:16} {:>7} Mbit/s, {routes} routes, {events} events", scenario.name, sums[0])
            .unwrap();
    }
    insta::assert_snapshot!(table);
}

#[test]
fn every_built_in_scenario_states_its_queues() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let sections = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!(sections("[links."), sections("queue = "), "{}", path.display());
        assert!(text.starts_with("# "), "{} says why", path.display());
    }
}
