//! Verbs of the lab about its links and about virtual time, of the real binary; as root.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;

use crate::common::command::{err, json, out};
use crate::common::hosts::with_hosts;
use serde_json::Value;

#[test]
fn links_are_measured_against_theory() {
    let Some(output) = with_hosts(&["validate", "loss", "trace", "--quick", "--json"]) else { return };
    let document = json(&output).pop().unwrap();
    let rows = document["validation"].as_array().unwrap();
    assert_eq!((rows.len(), &document["end"]), (4, &"complete".into()), "{document}");
    // Losses follow from the seed; arrival times also from the machine.
    for row in rows.iter().filter(|row| row["property"] == "loss") {
        let figure = |name: &str| row[name].as_f64().unwrap();
        assert!(figure("least") < figure("theory") && figure("theory") < figure("most"), "{row}");
        assert_eq!((&row["holds"], &row["measured"]["count"]), (&true.into(), &1.into()), "{row}");
    }
    let expected = if document["holds"] == true { 0 } else { 6 };
    assert_eq!(output.status.code(), Some(expected));
    assert!(err(&output).contains("1 of 1, about"), "{}", err(&output));
    let text = out(&with_hosts(&["validate", "corruption", "--quick"]).unwrap());
    assert!(text.contains("corruption") && text.contains("1 of 1 hold"), "{text}");
}

#[test]
fn sockets_and_virtual_time_are_compared() {
    let Some(output) = with_hosts(&["agree", "three-1", "-n", "1", "-t", "2s", "--json"]) else {
        return;
    };
    let lines = json(&output);
    let (document, runs) = lines.split_last().unwrap();
    // A disturbed run is there twice.
    assert!(matches!(runs.len(), 2 | 3), "{runs:?}");
    assert_eq!((&document["missing"], &document["end"]), (&serde_json::json!([]), &"complete".into()));
    let agreement = &document["agreement"][0];
    let median = |world: &str| agreement[world]["median"].as_f64().unwrap();
    let difference = agreement["difference"].as_f64().unwrap();
    assert_eq!(agreement["case"], "three-1");
    assert!((median("simulated") / median("real") - 1.0 - difference).abs() < 1e-9, "{agreement}");
    // Whether they agree depends on the load of the machine; the meaning of the status does not.
    let expected = if difference.abs() < 0.05 { 0 } else { 6 };
    assert_eq!(output.status.code(), Some(expected), "{document}");
}

#[test]
fn runs_of_one_kind_alone_are_no_agreement() {
    // A run takes 7 s with its hosts: there is time for one.
    let arguments = ["agree", "three-1", "80-10", "-n", "1", "-t", "3s", "--budget", "5s"];
    let Some(output) = with_hosts(&arguments) else { return };
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    let text = out(&output);
    assert!(text.contains("80-10 did not run in both worlds") && text.contains("of 2 differ"), "{text}");
    let strict = with_hosts(&[&arguments[..], &["--strict"]].concat()).unwrap();
    assert_eq!(strict.status.code(), Some(1), "{strict:?}");
    assert!(err(&strict).contains("1 of 2 runs were made in time"), "{}", err(&strict));
}

#[test]
fn an_emulation_executes_commands_and_reports_errors() {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Command, Stdio};
    // The answer to each command; of an error a part.
    let orders = [
        ("set lte jitter { spread = \"5ms\", order = \"free\" } loss { share = \"1%\", burst = 4 }", None),
        ("set wifi queue { codel = \"mark\" } rate 10Mbit up", None),
        ("address lte 10.99.0.1", None),
        ("down wifi", None),
        ("cut wifi", None),
        ("address wifi 10.99.0.1", Some("10.99.0.1 is in use")),
        ("set wifi delay 31s", Some("from 0ns to 30s")),
        ("set cable delay 3s", Some("none of the links: wifi, lte")),
    ];
    if with_hosts(&["validate", "duplication", "--quick"]).is_none() {
        return;
    }
    let mut child = Command::new(crate::common::command::PROGRAM)
        .args(["up", "wifi-lte"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for (order, _) in orders {
        writeln!(input, "{order}").unwrap();
    }
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut answer = || -> Value { serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap() };
    for (order, refusal) in orders {
        let answer = answer();
        match refusal {
            None => assert_eq!(answer["ok"], true, "{order}: {answer}"),
            Some(part) => assert!(answer["error"].as_str().unwrap().contains(part), "{order}: {answer}"),
        }
    }
    let addresses = client_addresses(child.id());
    assert!(addresses["lte"].contains("10.99.0.1") && addresses["lte"].contains(",UP"), "{addresses:?}");
    assert!(!addresses["wifi"].contains(",UP"), "{addresses:?}");
    writeln!(input, "up wifi\nfigures\nquit").unwrap();
    assert_eq!((&answer()["ok"], &answer()["links"][0]["name"]), (&true.into(), &"wifi".into()));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// The addresses that `ip` prints for each interface in the client's namespace of a program.
fn client_addresses(process: u32) -> BTreeMap<String, String> {
    let ip = |arguments: &[&str]| out(&std::process::Command::new("ip").args(arguments).output().unwrap());
    let names = ip(&["netns", "list"]);
    let names = names.lines().filter_map(|line| line.split_whitespace().next());
    let is_client = |name: &&str| name.starts_with(&format!("mwlab{process}.")) && name.ends_with('c');
    let client = names.into_iter().find(is_client).unwrap();
    ["wifi", "lte"]
        .map(|device| (device.to_owned(), ip(&["-n", client, "address", "show", "dev", device])))
        .into()
}
