//! The data of all experiments.

use std::time::Duration;

use super::*;
use crate::campaign::{Course, Timing};
use crate::scenario::Library;

fn quantities(experiment: &'static Experiment) -> impl Iterator<Item = &'static Quantity> {
    let columns = experiment.columns.iter().map(|column| &column.quantity);
    let curves =
        experiment.curves.iter().flat_map(|curves| curves.series.iter().map(|(_, quantity)| quantity));
    columns.chain(experiment.claims.iter().map(|claim| &claim.quantity)).chain(curves)
}

#[test]
fn every_experiment_can_be_planned_in_full_and_quickly() {
    for experiment in all() {
        let simulated = (!experiment.needs_sockets()).then_some(Timing::Virtual);
        for timing in simulated.into_iter().chain([Timing::Real]) {
            let full = plan(experiment, Extent::Full, timing).unwrap();
            let quick = plan(experiment, Extent::Quick, timing).unwrap();
            let name = experiment.name;
            let repetitions = if experiment.needs_sockets() { 5 } else { 3 };
            assert_eq!((full.course, full.repetitions), (Course::Kept, repetitions), "{name}");
            assert_eq!(quick.repetitions, 1, "{name}");
            assert!(!quick.cases.is_empty() && quick.estimate() * 9 < full.estimate(), "{name}");
            for case in &quick.cases {
                let same = full.cases.iter().find(|full| full.scenario.name == case.scenario.name).unwrap();
                assert!(case.scenario.duration <= same.scenario.duration / 5, "{}", case.scenario.name);
                assert_eq!(case.scenario.events.len(), same.scenario.events.len());
            }
        }
    }
}

#[test]
fn a_plan_is_thinned_to_its_time_and_keeps_what_claims_name() {
    for experiment in all() {
        let whole = plan(experiment, Extent::Quick, Timing::Real).unwrap();
        let time = whole.estimate() / 5;
        let mut thinned = whole.clone();
        let sentence = thin(experiment, &mut thinned, time);
        thinned.fit(&|_| true);
        let name = experiment.name;
        assert_eq!(sentence.is_some(), whole.runs() > 1, "{name}");
        // A run takes 7 s at least.
        assert!(thinned.estimate() <= time.max(Duration::from_secs(7)), "{name}: {:?}", thinned.estimate());
        assert!(!thinned.cases.is_empty(), "{name}");
        let last = &whole.cases.last().unwrap().scenario.name;
        assert_eq!(&thinned.cases.last().unwrap().scenario.name, last, "{name}");
    }
    let experiment = find("multitcp-fig82").unwrap();
    let mut thinned = plan(experiment, Extent::Quick, Timing::Real).unwrap();
    thin(experiment, &mut thinned, Duration::from_secs(110));
    let left: Vec<String> = thinned.cases[0].contenders.iter().map(ToString::to_string).collect();
    assert_eq!(left, ["manyway:carrier=tcp,connections=5,target=800k,congestion=reno"]);
}

#[test]
fn every_compared_contender_runs() {
    for experiment in all() {
        let plan = plan(experiment, Extent::Full, Timing::Real).unwrap();
        let mut names = Vec::new();
        quantities(experiment).for_each(|quantity| quantity.contenders(&mut names));
        for row in (experiment.rows)() {
            let name = experiment.scenario(&row).unwrap().name;
            let case = plan.cases.iter().find(|case| case.scenario.name == name).unwrap();
            let run: Vec<String> = case.contenders.iter().map(ToString::to_string).collect();
            for name in &names {
                let name = row.filled(name);
                assert!(run.contains(&name), "{}: {name} is not in {run:?}", case.label());
            }
            for (place, name) in run.iter().enumerate() {
                assert!(!run[..place].contains(name), "{}: {name} runs twice", case.label());
            }
        }
        let applies = |claim: &Claim| (experiment.rows)().iter().any(|row| (claim.applies)(row));
        assert!(
            !experiment.claims.is_empty() && experiment.claims.iter().all(applies),
            "{}",
            experiment.name
        );
    }
}

#[test]
fn every_row_has_its_values_and_the_phases_follow_each_other() {
    for experiment in all() {
        let rows = (experiment.rows)();
        let mut end = 0.0;
        for row in &rows {
            assert_eq!(row.values.len(), experiment.values.len(), "{}", experiment.name);
            assert_eq!(row.document.len(), rows[0].document.len(), "{}", experiment.name);
            if let Some(phase) = row.phase {
                // The phases of rows with other values start at 0 again.
                if phase.from < 1e-9 && (end - 1.0_f64).abs() < 1e-9 {
                    end = 0.0;
                }
                assert!((phase.from - end).abs() < 1e-9 && phase.to > phase.from, "{}", experiment.name);
                end = phase.to;
            }
        }
        let has_phases = rows.iter().any(|row| row.phase.is_some());
        assert!(!has_phases || (end - 1.0).abs() < 1e-9, "{}: the end is {end}", experiment.name);
    }
}

#[test]
fn a_path_returns_with_another_address_each_time_in_goff_fig5b_alone() {
    let new_addresses = |name: &str| {
        let case = plan(find(name).unwrap(), Extent::Full, Timing::Virtual).unwrap().cases.remove(0);
        let address = |event: crate::scenario::Event| {
            let crate::scenario::Change::Readdress { address, .. } = event.change else { return None };
            Some(address.to_string())
        };
        case.scenario.events.into_iter().filter_map(address).collect::<Vec<_>>()
    };
    assert_eq!(new_addresses("goff-fig5a"), Vec::<String>::new());
    assert_eq!(new_addresses("goff-fig5b"), ["10.9.9.1", "10.9.9.2", "10.9.9.3"]);
}

#[test]
fn no_experiment_shares_its_name_with_anything_else() {
    let library = Library::builtin().unwrap();
    let taken = library.all().iter().map(|scenario| scenario.name.as_str()).chain(library.groups());
    let taken: Vec<&str> =
        taken.chain(["list", "gates", "agree", "share", "cpu", "up", "matrix", "all"]).collect();
    for (place, experiment) in all().enumerate() {
        assert!(!taken.contains(&experiment.name), "{}", experiment.name);
        let first = all().position(|other| other.name == experiment.name);
        assert_eq!(first, Some(place), "{}", experiment.name);
        assert!(find(experiment.name).is_some_and(|found| std::ptr::eq(found, experiment)));
    }
    assert!(find("goff").is_none());
    let hint = library.find("cmt-duplicate").unwrap_err().to_string();
    assert!(hint.contains("did you mean cmt-duplicates?"), "{hint}");
}
