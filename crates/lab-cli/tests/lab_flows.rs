//! Many connections over `manyway forward`, on loopback.
#![cfg(target_os = "linux")]

use std::path::Path;

use manyway_sim::skipped::skip;

use crate::common::command::{PROGRAM, err, json, lab};

#[test]
fn every_connection_of_several_clients_is_answered_and_its_memory_is_told() {
    let manyway = Path::new(PROGRAM).with_file_name("manyway");
    if !manyway.exists() {
        skip(format!("there is no {}: build the whole workspace", manyway.display()));
        return;
    }
    // One client has 512 at most.
    let output = lab(&["flows", "-n", "520", "--rate", "2000", "--rounds", "1", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let report = json(&output).pop().unwrap();
    assert_eq!((&report["flows"], &report["clients"]), (&520.into(), &2.into()), "{report}");
    for answers in [&report["opening"], &report["rounds"][0]] {
        assert_eq!(answers["count"], 520, "{report}");
        assert!(answers["most"].as_f64().unwrap() > 0.0, "{report}");
    }
    for end in ["server", "client"] {
        let bytes = |field: &str| report[end][field].as_u64().unwrap();
        assert!(bytes("idle_bytes") > 1 << 20 && bytes("open_bytes") > bytes("idle_bytes"), "{report}");
    }
}
