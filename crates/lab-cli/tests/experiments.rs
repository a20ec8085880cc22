//! Experiments of documents by the real binary.

#[cfg(target_os = "linux")]
use crate::common::command::{err, json, lab, out};

#[test]
fn an_experiment_prints_the_figures_of_the_document_and_ours_and_which_claims_hold() {
    let output = lab(&["sim", "cmt-table2", "--quick"]);
    let text = out(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for part in ["the document: 2.40, 4.12 and 4.21 MB/s", "document MB/s", "manyway MB/s", "holds in 3 of 3"]
    {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn an_experiment_in_json_ends_with_rows_and_claims() {
    let output = lab(&["sim", "ams-fig10", "--quick", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let lines = json(&output);
    assert_eq!(lines.len(), 3, "two contenders and the findings");
    assert_eq!(lines[0]["contender"], "manyway");
    let findings = &lines[2];
    assert_eq!((&findings["experiment"], &findings["holds"]), (&"ams-fig10".into(), &true.into()));
    let rows = findings["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[1]["phase"]["name"]), (3, &"two addresses".into()));
    assert_eq!(rows[1]["figures"][0]["column"], "document, times");
    assert_eq!(rows[1]["figures"][0]["value"]["median"], 2.0);
    let claims = findings["claims"].as_array().unwrap();
    // AMS over TCP runs on sockets alone.
    let judged = claims.iter().filter(|claim| !claim["judgement"].is_null());
    let reached = judged.filter(|claim| claim["judgement"]["result"] == "reached").count();
    assert!(reached == 6 && claims.len() == 9, "{claims:?}");
}

#[test]
fn a_claim_that_does_not_hold_is_status_6() {
    // Too short for all paths to reach their rate.
    let output = lab(&["sim", "cmt-table2", "-n", "1", "-t", "100ms"]);
    let text = out(&output);
    assert_eq!(output.status.code(), Some(6), "{text}");
    assert!(text.contains("at least 95.0 %: holds in") && text.contains("paths 3: "), "{text}");
}

#[test]
fn a_report_begins_with_the_table_and_the_documents_figure() {
    let place = tempfile::TempDir::new().unwrap();
    let report = place.path().join("report");
    let output = lab(&["sim", "ams-fig9", "--quick", "--report", report.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let page = std::fs::read_to_string(report.join("index.html")).unwrap();
    let (table, results) =
        (page.find("the document: ideal").unwrap(), page.find("<h2>Results</h2>").unwrap());
    assert!(table < results && page[table..results].contains("<svg") && !page.contains("<script"));
    assert!(report.join("figures/ams-fig9-figure.svg").exists());
}

#[test]
fn experiments_are_listed_and_run_by_themselves() {
    for list in [&["sim", "list"][..], &["list"]] {
        let text = out(&lab(list));
        assert!(text.contains("experiments") && text.contains("goff-fig5b"), "{text}");
        let lines = json(&lab(&[list, &["--json"]].concat()));
        let found: Vec<&serde_json::Value> =
            lines.iter().filter(|line| line["experiment"] == "cmt-table1").collect();
        assert_eq!((found.len(), &found[0]["scenarios"], &found[0]["routes"]), (1, &18.into(), &3.into()));
    }
    for (arguments, reason) in [
        (&["sim", "ams-fig9", "two-50"][..], "runs by itself"),
        (&["sim", "two-50", "ams-fig9"], "runs by itself"),
        (&["sim", "ams-fig9", "-c", "manyway"], "says itself who runs"),
        (&["sim", "ams-fig9", "--direction", "both"], "says itself who runs"),
        (&["sim", "ams-fig9", "--scheduler", "min-rtt"], "says itself who runs"),
        (&["ams-fig8"], "did you mean ams-fig9?"),
        (&["sim", "programs-tcp"], "on real sockets alone"),
        (&["programs", "ams-fig9"], "no experiment is called"),
    ] {
        let output = lab(arguments);
        let text = err(&output);
        assert!(output.status.code() == Some(2) && text.contains(reason), "{arguments:?}: {text}");
    }
}

#[test]
fn the_experiments_of_several_documents_make_one_page() {
    let place = tempfile::TempDir::new().unwrap();
    let report = place.path().join("report");
    let names = ["ams-fig9", "goff-fig5a"];
    let options = ["--only", "virtual", "--quick", "--report", report.to_str().unwrap()];
    let output = lab(&[&["experiments"], &names[..], &options].concat());
    let text = out(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for part in ["in virtual time:\nams-fig9: ", "AMS", "not run"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let page = std::fs::read_to_string(report.join("index.html")).unwrap();
    let sections: Vec<&str> = page.split("<section>").collect();
    assert_eq!(sections.len(), 3);
    assert!(names.iter().all(|name| sections[0].contains(name)) && sections[0].matches("holds").count() == 2);
    // A figure of the document, and curves over time where its figure is one.
    assert!(sections[1..].iter().all(|section| section.contains("<svg")
        && section.contains("<h3>The document</h3>")
        && section.contains("<h3>Settings</h3>")));
    assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("href="));
    assert!(report.join("figures/virtual-ams-fig9-figure.svg").exists());
    let output = lab(&["experiments", "ams-fig9", "--only", "virtual", "--quick", "--json"]);
    let lines = json(&output);
    let last = lines.last().unwrap();
    assert_eq!((&last["mode"], &last["experiment"]["holds"]), (&"in virtual time".into(), &true.into()));
    let output = lab(&["experiments", "ams-fig8"]);
    assert!(
        output.status.code() == Some(2) && err(&output).contains("no experiment is called"),
        "{output:?}"
    );
}

#[test]
fn an_experiment_that_runs_again_replaces_its_own_part_of_the_page() {
    let place = tempfile::TempDir::new().unwrap();
    let report = place.path().join("report");
    let run = |name: &str, time: &str| {
        let report = report.to_str().unwrap();
        let output =
            lab(&["experiments", name, "--only", "virtual", "-n", "1", "-t", time, "--report", report]);
        (err(&output), std::fs::read_to_string(place.path().join("report/index.html")).unwrap())
    };
    run("goff-fig5b", "3s");
    run("ams-fig9", "3s");
    let (_, page) = run("goff-fig5b", "4s");
    let (ams, goff) = (page.find("ams-fig9 --only").unwrap(), page.find("goff-fig5b --only").unwrap());
    assert!(ams < goff, "the order is that of all experiments");
    assert!(page.contains("-t 3s") && page.contains("-t 4s") && page.matches("<section>").count() == 2);
    std::fs::write(report.join("parts/virtual-ams-fig9.json"), "{}").unwrap();
    let (error, _) = run("goff-fig5b", "3s");
    assert!(error.contains("virtual-ams-fig9.json") && error.contains("remove it"), "{error}");
}

/// The document's setting with real sockets: a new address of the receiver is used, and the connection survives the
/// death of its first path. Whether its figures are reached depends on the machine.
#[cfg(target_os = "linux")]
#[test]
fn an_experiment_runs_on_real_sockets() {
    let arguments = ["ams-fig10", "--quick", "-t", "3s", "--json"];
    let Some(output) = crate::common::hosts::with_hosts(&arguments) else { return };
    assert!(matches!(output.status.code(), Some(0 | 6)), "{}", err(&output));
    let findings = json(&output).pop().unwrap();
    assert_eq!((&findings["experiment"], &findings["broken"]), (&"ams-fig10".into(), &0.into()));
    let median = |row: usize, column: &str| {
        let figures = findings["rows"][row]["figures"].as_array().unwrap();
        let figure = figures.iter().find(|figure| figure["column"] == column).unwrap();
        figure["value"]["median"].as_f64().unwrap()
    };
    assert!(median(0, "over the second") < 0.1 && median(0, "over the first") > 0.5, "{findings}");
    assert!(median(1, "over the second") > 0.3 && median(1, "over the first") > 0.3, "{findings}");
    assert!(median(2, "over the second") > 0.5 && median(2, "over the first") < 0.1, "{findings}");
}
