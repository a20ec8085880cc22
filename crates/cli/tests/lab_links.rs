//! Verbs of the lab about its links, of the real binary; as root.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test may fail and tell")]

#[path = "common/command.rs"]
mod command;
#[path = "common/hosts.rs"]
mod hosts;

use command::{err, json, out};
use hosts::with_hosts;

#[test]
fn links_are_measured_against_theory() {
    let Some(output) = with_hosts(&["lab", "validate", "loss", "trace", "--quick", "--json"]) else { return };
    let document = json(&output).pop().unwrap();
    let rows = document["validation"].as_array().unwrap();
    assert_eq!((rows.len(), &document["end"]), (4, &"complete".into()), "{document}");
    // What is lost follows from the seed; when packets come, from the machine as well.
    for row in rows.iter().filter(|row| row["property"] == "loss") {
        let figure = |name: &str| row[name].as_f64().unwrap();
        assert!(figure("least") < figure("theory") && figure("theory") < figure("most"), "{row}");
        assert_eq!((&row["holds"], &row["measured"]["count"]), (&true.into(), &1.into()), "{row}");
    }
    let expected = if document["holds"] == true { 0 } else { 6 };
    assert_eq!(output.status.code(), Some(expected));
    assert!(err(&output).contains("1 of 1, about"), "{}", err(&output));
    let text = out(&with_hosts(&["lab", "validate", "corruption", "--quick"]).unwrap());
    assert!(text.contains("corruption") && text.contains("1 of 1 hold"), "{text}");
}
