//! What runs on real sockets and in virtual time, of the real binary.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::process::Command;

use manyway_sim::skipped::skip;

use crate::common::command::{PROGRAM, err, json, lab, out};

#[test]
fn scenarios_are_listed_for_people_and_for_programs() {
    for list in [&["sim", "list"][..], &["list"]] {
        let text = out(&lab(list));
        assert!(text.contains("two-50") && text.contains("environments"), "{text}");
        let lines = json(&lab(&[list, &["--json"]].concat()));
        assert!(lines.len() >= 33 && lines.iter().all(|line| line["routes"].as_u64() >= Some(1)));
    }
}

#[test]
fn a_simulation_prints_a_line_for_each_run_and_a_summary() {
    let arguments = ["sim", "three-1", "--duration", "1s", "-n", "2", "--json"];
    let output = lab(&arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let lines = json(&output);
    assert_eq!(lines.len(), 5, "two contenders, two seeds, and the summary");
    assert_eq!((&lines[0]["contender"], &lines[1]["contender"]), (&"manyway".into(), &"manyway-best".into()));
    assert!(lines[0]["bits_per_second"].as_u64().unwrap() > 1_000_000, "{}", lines[0]);
    assert_eq!((&lines[0]["seed"], &lines[2]["seed"]), (&1.into(), &2.into()));
    assert_eq!((&lines[4]["end"], lines[4]["summary"].as_array().unwrap().len()), (&"complete".into(), 2));
    assert_eq!(json(&lab(&arguments))[0]["bytes"], lines[0]["bytes"], "the same seed, the same figures");
}

#[test]
fn a_simulation_writes_a_page_and_a_table() {
    let place = tempfile::TempDir::new().unwrap();
    let (report, csv) = (place.path().join("report"), place.path().join("runs.csv"));
    let [report_text, csv_text] = [&report, &csv].map(|path| path.to_str().unwrap());
    let both = ["sim", "three-1", "-t", "1s", "-n", "1", "--direction", "both"];
    let output = lab(&[&both[..], &["--report", report_text, "--csv", csv_text]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let table = out(&output);
    assert!(table.contains("three-1 (reversed)") && table.contains("manyway-best"), "{table}");
    let page = std::fs::read_to_string(report.join("index.html")).unwrap();
    assert!(page.contains("--direction both") && !page.contains("<script"));
    assert_eq!(std::fs::read_to_string(csv).unwrap().lines().count(), 5);
}

#[test]
fn a_report_that_cannot_be_written_is_reported_before_any_run() {
    let place = tempfile::TempDir::new().unwrap();
    let file = place.path().join("file");
    std::fs::write(&file, "").unwrap();
    for option in ["--report", "--csv"] {
        let below = file.join("below");
        let output = lab(&["sim", "three-1", "-t", "1s", "-n", "1", option, below.to_str().unwrap()]);
        assert_eq!((output.status.code(), out(&output).as_str()), (Some(1), ""), "{output:?}");
        assert!(err(&output).contains("below"));
    }
}

#[test]
fn two_scenarios_of_one_name_are_refused_and_one_may_be_named_twice() {
    let place = tempfile::TempDir::new().unwrap();
    let file = |folder: &str, text: &str| {
        let folder = place.path().join(folder);
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join("mine.toml");
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let (one, other) = (file("a", "[links.x]\nrate = \"1M\"\n"), file("b", "[links.x]\nrate = \"2M\"\n"));
    let short = ["-t", "200ms", "-n", "1", "-c", "manyway", "--json"];
    let run = |names: [&str; 2]| lab(&[&["sim"][..], &names, &short].concat());
    let output = run([&one, &other]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(err(&output).contains("two scenarios are called mine"));
    let output = run([&one, &one]);
    assert_eq!((output.status.code(), json(&output).len()), (Some(0), 2), "a run and the summary");
}

#[test]
fn a_closed_reader_ends_a_simulation_without_an_error() {
    use std::io::{BufRead as _, BufReader};
    use std::process::Stdio;
    let mut child = Command::new(PROGRAM)
        .args(["sim", "three-1", "-t", "1s", "-n", "1000", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("\"manyway\""), "{line}");
    assert_eq!(child.wait().unwrap().code(), Some(141));
}

#[test]
fn gates_without_anything_to_judge_are_no_shortfall() {
    let place = tempfile::TempDir::new().unwrap();
    let file = place.path().join("one.toml");
    let text = "duration = \"1s\"\n[links.x]\nrate = \"1M\"\n[[events]]\nat = \"100ms\"\nset = \"x\"\nrate = \"2M\"\n";
    std::fs::write(&file, text).unwrap();
    let output = lab(&["sim", "gates", file.to_str().unwrap(), "-n", "1"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(err(&output).contains("nothing that a gate could judge"));
}

#[test]
fn gates_report_shortfalls_and_end_with_6_or_0() {
    let output = lab(&["sim", "gates", "three-1", "-t", "2s", "-n", "1", "--direction", "up"]);
    let text = out(&output);
    assert!(text.contains("gate 1, never below the best link") && text.contains("not judged here"), "{text}");
    let expected = if text.contains("falls short by") { 6 } else { 0 };
    assert_eq!(output.status.code(), Some(expected), "{text}");
}

#[test]
fn wrong_names_are_status_2_and_similar_ones_are_suggested() {
    for (arguments, reason) in [
        (&["sim", "two-5"][..], "did you mean two-50?"),
        (&["enviroments"], "did you mean environments?"),
        (&["sim", "two-50", "-c", "manyway:scheduler=fastest"], "min-rtt"),
        (&["sim", "two-50", "-c", "quic"], "mptcp-CC"),
        (&["sim", "two-50", "--scheduler", "fastest"], "min-rtt"),
        (&["sim", "gates", "two-50", "--congestion", "cubic"], "leave --scheduler"),
        (&["sim", "two-50", "--qlog", "logs"], "unexpected argument '--qlog'"),
        (&["two-50", "-c", "external:pipe"], "--external"),
        (&["share", "-c", "external:pipe,manyway"], "can not run in `share`"),
        (&["up", "table"], "is a group"),
    ] {
        let output = lab(arguments);
        let text = err(&output);
        assert!(
            output.status.code() == Some(2) && text.contains(reason),
            "{arguments:?}: {reason} in\n{text}"
        );
    }
}

#[test]
fn a_wrong_file_is_status_2_and_names_file_line_and_field() {
    let place = tempfile::TempDir::new().unwrap();
    let file = place.path().join("mine.toml");
    std::fs::write(&file, "title = \"mine\"\n\n[links.first]\nrate = \"fast\"\n").unwrap();
    let output = lab(&["sim", file.to_str().unwrap()]);
    let text = err(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("mine.toml") && text.contains('4') && text.contains("rate"), "{text}");
}

#[test]
fn a_contender_that_cannot_run_in_virtual_time_is_skipped_with_a_sentence() {
    let output = lab(&["sim", "three-1", "-t", "1s", "-n", "1", "-c", "manyway,tcp-cubic"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(out(&output).contains("tcp-cubic did not run: kernel TCP needs real sockets"), "{output:?}");
    let strict = ["sim", "three-1", "-t", "1s", "-n", "1", "--strict"];
    assert_eq!(lab(&strict).status.code(), Some(0));
    assert_eq!(lab(&[&strict[..], &["-c", "manyway,tcp-cubic"]].concat()).status.code(), Some(1));
    let output = lab(&["sim", "three-1", "-c", "tcp-cubic"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(err(&output).contains("no contender could run"));
}

#[test]
fn a_budget_that_drops_a_contender_is_not_strict() {
    // 3 s are the shortest run, and each of these takes longer than the budget.
    let short = ["fiber-lte", "lte-starlink", "-t", "3s", "-n", "1", "--budget", "100ms"];
    for verb in [&["sim"][..], &["sim", "gates"]] {
        let lax = [verb, &short].concat();
        let strict = lab(&[&lax[..], &["--strict"]].concat());
        assert_eq!(strict.status.code(), Some(1), "{strict:?}");
        assert!(err(&strict).contains("runs were made in time, which --strict does not take"), "{strict:?}");
        let output = lab(&lax);
        assert_ne!(output.status.code(), Some(130));
        assert!(out(&output).contains("the time was over"), "{output:?}");
    }
    assert_eq!(lab(&[&["sim"][..], &short].concat()).status.code(), Some(0));
}

#[test]
fn strict_gates_judge_everything() {
    // The route returns 10 ms before the end; a contender that does not use it by then cannot be judged.
    let place = tempfile::TempDir::new().unwrap();
    let file = place.path().join("late.toml");
    let text = "duration = '4s'\n[links.a]\nrate = '5M'\n[links.b]\nrate = '5M'\n[[events]]\nat = '2s'\ncut = 'a'\nfor = '1990ms'\n";
    std::fs::write(&file, text).unwrap();
    let gates = ["sim", "gates", file.to_str().unwrap(), "-n", "1", "--direction", "up"];
    let (lax, strict) = (lab(&gates), lab(&[&gates[..], &["--strict"]].concat()));
    assert!(lax.status.code() == Some(0) && out(&lax).contains("1 of 1 returns"), "{lax:?}");
    assert_eq!(strict.status.code(), Some(1), "{strict:?}");
    assert!(err(&strict).contains("1 comparisons could not be made"), "{strict:?}");
}

#[test]
fn gates_that_no_contender_can_pass_end_with_6() {
    // Data sent when the route returns takes 6 s.
    let place = tempfile::TempDir::new().unwrap();
    let file = place.path().join("far.toml");
    let text = "duration = '10s'\n[links.near]\nrate = '1M'\n[links.far]\nrate = '1M'\ndelay = '6s'\n[[events]]\nat = '1s'\ncut = 'far'\nfor = '1s'\n";
    std::fs::write(&file, text).unwrap();
    for more in [&[][..], &["--strict"]] {
        let gates = ["sim", "gates", file.to_str().unwrap(), "-n", "1", "--direction", "up"];
        let output = lab(&[&gates[..], more].concat());
        assert_eq!(output.status.code(), Some(6), "{output:?}");
        assert!(out(&output).contains("a route is used again"), "{}", out(&output));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn without_root_the_lab_points_to_the_simulator() {
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let program = copy();
    for arguments in [["two-50"], ["validate"]] {
        let mut command = Command::new(if is_root { "setpriv" } else { PROGRAM });
        if is_root {
            // Only the user changes, so that the program can still be read where it was built.
            let nobody = [
                "--reuid=65534",
                "--regid=65534",
                "--clear-groups",
                "--inh-caps=-all",
                "--bounding-set=-all",
            ];
            command.args(nobody).arg(program.path().join("manyway-lab"));
        }
        let Ok(output) = command.args(arguments).output() else {
            skip("there is no setpriv");
            return;
        };
        let text = err(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("root") && text.contains("manyway-lab sim"), "{text}");
    }
}

/// A directory with a copy of the program that every user can read, wherever it was built. Another process copies it: a
/// file that this one had open for writing could be held by the child of another test, and then not be executed.
#[cfg(target_os = "linux")]
fn copy() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let place = tempfile::TempDir::new().unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(
        Command::new("cp")
            .args([PROGRAM, "manyway-lab"])
            .current_dir(place.path())
            .status()
            .unwrap()
            .success()
    );
    place
}
