//! The state diagrams of the specification, made of the tables by which the machines run.

use std::fmt::{self, Write as _};

use super::table::Transition;
use super::{closing, handshake};

/// The table as a state diagram of Mermaid that begins with `start`, one arrow for each row and state.
fn mermaid<S, E, A>(start: S, table: &[Transition<S, E, A>]) -> String
where
    S: fmt::Display + PartialEq + Copy,
    E: fmt::Display,
    A: fmt::Display,
{
    let mut states = vec![start];
    for state in table.iter().flat_map(|row| row.from.iter().chain([&row.to])) {
        if !states.contains(state) {
            states.push(*state);
        }
    }
    let mut text = String::from("stateDiagram-v2\n");
    for state in &states {
        let _ = writeln!(text, "    state \"{state}\" as {}", id(state));
    }
    let _ = writeln!(text, "    [*] --> {}", id(&start));
    for row in table {
        for from in row.from {
            let _ = writeln!(text, "    {} --> {}: {} / {}", id(from), id(&row.to), row.event, row.action);
        }
    }
    text
}

/// The name of a state without the hyphens that Mermaid does not take in ids.
fn id(state: &impl fmt::Display) -> String {
    state.to_string().replace('-', "_")
}

const CHAPTER: &str = include_str!("../../../../docs/specification/mmsp1-states.md");

/// Compares a table with the diagram under a heading of the chapter.
fn compare(heading: &str, table: &str) {
    let section = CHAPTER.split("\n## ").find(|section| section.starts_with(heading)).expect(heading);
    let diagram = section.split("```mermaid\n").nth(1).and_then(|rest| rest.split("```").next());
    let place = "docs/specification/mmsp1-states.md";
    assert!(diagram == Some(table), "the diagram under \"{heading}\" in {place} must be:\n\n{table}");
}

#[test]
fn the_handshake_in_the_specification_is_the_table() {
    compare("Handshake", &mermaid(handshake::HandshakeState::Closed, &handshake::TABLE));
}

#[test]
fn the_close_in_the_specification_is_the_table() {
    compare("Close", &mermaid(closing::CloseState::Established, &closing::TABLE));
}

#[test]
fn a_table_becomes_a_diagram() {
    let table = [
        Transition { from: &["OFF"], event: "button", action: "light", to: "ON-TIME" },
        Transition { from: &["ON-TIME", "OFF"], event: "timer", action: "none", to: "OFF" },
    ];
    let lines = [
        "stateDiagram-v2",
        "    state \"OFF\" as OFF",
        "    state \"ON-TIME\" as ON_TIME",
        "    [*] --> OFF",
        "    OFF --> ON_TIME: button / light",
        "    ON_TIME --> OFF: timer / none",
        "    OFF --> OFF: timer / none",
    ];
    assert_eq!(mermaid("OFF", &table).lines().collect::<Vec<_>>(), lines);
}
