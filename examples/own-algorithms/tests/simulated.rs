//! Both algorithms on whole connections in virtual time, chosen by their names.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use manyway::ConnectionConfig;
use manyway_lab::simulated::Simulated;
use manyway_lab::{Contender, Outcome, Runner as _, Scenario};

fn config() -> ConnectionConfig {
    let mut config = ConnectionConfig::default();
    own_algorithms::register(&mut config).unwrap();
    config
}

/// Runs a contender through the scenario of this example, to which `more` is added.
fn run(contender: &str, more: &str) -> Outcome {
    let text = format!("{}{more}", include_str!("../metered.toml"));
    let scenario =
        Scenario::parse("metered.toml", &text, &|_| Err(std::io::ErrorKind::NotFound.into())).unwrap();
    let contender = Contender::find_with(contender, &[], &config()).unwrap();
    let outcome = Simulated::with_config(config()).run(&scenario, &contender, 1).unwrap();
    assert_eq!(outcome.failure, None);
    outcome
}

/// Percent of all bytes that the metered link carried.
fn metered_share(outcome: &Outcome) -> f64 {
    let [line, modem] = [0, 1].map(|route| outcome.routes[route].up.total().get() as f64);
    100.0 * modem / (line + modem)
}

/// Goodput of the files in megabits a second.
fn goodput(outcome: &Outcome) -> f64 {
    outcome.flows[0].arrivals.goodput().bits_per_second() as f64 / 1e6
}

/// The time that half of the messages needed at most.
fn median_latency(outcome: &Outcome) -> Duration {
    let mut latencies = outcome.flows[1].latencies.clone().unwrap();
    latencies.sort();
    latencies[latencies.len() / 2]
}

#[test]
fn a_ration_is_used_up_but_not_exceeded() {
    assert!(metered_share(&run("manyway", "")) > 40.0);
    for percent in [0, 10, 30] {
        let outcome = run(&format!("manyway:scheduler=ration={percent}"), "");
        let share = metered_share(&outcome);
        let percent = f64::from(percent);
        // Acknowledgements and probes are not rationed.
        assert!((percent - 1.0..percent + 1.0).contains(&share), "{percent}: {share}");
        // The free line carries the rest, and all of its 40 Mbit/s.
        let possible = 40.0 / (1.0 - percent / 100.0);
        assert!(goodput(&outcome) > 0.9 * possible, "{percent}: {}", goodput(&outcome));
    }
}

#[test]
fn a_ration_does_not_stall_a_connection() {
    let outcome = run("manyway:scheduler=ration=10", "\n[[events]]\nat = '3s'\ncut = 'line'\n");
    let silence = outcome.flows[0].arrivals.longest_silence().unwrap();
    assert!(silence.length < Duration::from_millis(500), "{silence:?}");
    assert!(goodput(&outcome) > 30.0, "{}", goodput(&outcome));
}

#[test]
fn gentle_fills_the_links_with_a_fraction_of_the_delay() {
    let (gentle, cubic) = (run("manyway:congestion=gentle", ""), run("manyway:congestion=cubic", ""));
    assert!(goodput(&gentle) > 0.95 * goodput(&cubic), "{} {}", goodput(&gentle), goodput(&cubic));
    let (short, long) = (median_latency(&gentle), median_latency(&cubic));
    assert!(short * 3 < long, "{short:?} {long:?}");
}

#[test]
fn an_unknown_name_is_answered_with_ones_own_too() {
    let error = |name| Contender::find_with(name, &[], &config()).unwrap_err().to_string();
    assert!(error("manyway:scheduler=magic").contains("ration"));
    assert!(error("manyway:congestion=magic").contains("gentle"));
    assert!(error("manyway:scheduler=ration=all").contains("from 0 to 99"));
}
