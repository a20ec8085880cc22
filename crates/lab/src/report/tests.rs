use std::time::Duration;

use super::*;
use crate::Stop;
use crate::campaign::tests::{Scripted, Silent, plan};
use crate::campaign::{self, Machine, Results};

/// A small campaign with the same figures everywhere.
fn results(title: &str) -> Results {
    let mut plan = plan(&["two-50", "wifi-lte"], &["manyway", "possible", "mptcp-cubic"], 2);
    plan.cases[0].scenario.title = title.to_owned();
    let megabits = vec![90.0, 95.0, 40.0, 44.0, 92.0, 96.0, 41.0, 45.0];
    let mut runner = Scripted { megabits, refused: Some("mptcp-cubic"), ..Scripted::default() };
    let mut results = campaign::run(plan, &mut runner, &mut Silent::default(), &Stop::default());
    results.took = Duration::from_secs(60);
    results.runs.iter_mut().for_each(|run| run.took = Duration::from_secs(15));
    results.machine =
        Machine { kernel: "linux 6.18".into(), cpu: "a processor".into(), cores: 2, memory: 16 << 30 };
    results
}

fn origin() -> Origin {
    let command = ["manyway-lab", "sim", "two-50", "--external", "a;b c;d"];
    Origin {
        version: "0.1.0".into(),
        command: command.map(str::to_owned).to_vec(),
        date: "2026-03-01T12:00:00Z".into(),
    }
}

#[test]
fn the_table_has_medians_shares_and_reasons() {
    insta::assert_snapshot!(table(&results("two links")));
}

#[test]
fn returns_that_cannot_be_judged_are_summed_up_over_the_repetitions() {
    let plan = plan(&["flaps"], &["manyway"], 2);
    // Too little for a route to be in use.
    let mut runner = Scripted { megabits: vec![0.5], ..Scripted::default() };
    let results = campaign::run(plan, &mut runner, &mut Silent::default(), &Stop::default());
    let (untold, returns) = results.runs[0].measures.untold_returns();
    assert!(untold > 0);
    let text = table(&results);
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("too short to see")).collect();
    let sum = format!("flaps, manyway: {} of {} returns were too short", 2 * untold, 2 * returns);
    assert!(lines.len() == 1 && lines[0].starts_with(&sum), "{text}");
}

#[test]
fn csv_has_a_line_for_each_run() {
    insta::assert_snapshot!(csv(&results("two links")));
}

#[test]
fn a_run_is_one_document() {
    let results = results("two links");
    let line = run_line(&results.plan, &results.runs[0]);
    insta::assert_snapshot!(format!("{line:#}"));
}

#[test]
fn the_document_has_every_setting_and_every_run() {
    let mut document = document(&results("two links"), &origin());
    let runs = document["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 8);
    assert!(runs[0]["course"]["flows"][0]["bytes"].as_array().unwrap().len() > 100);
    document["runs"] = "…".into();
    insta::assert_snapshot!(format!("{document:#}"));
}

#[test]
fn the_page_is_self_contained_and_escapes_text() {
    let results = results("<script src=\"https://example.org/x.js\">alert('x')</script> & \"more\"");
    let figures = html::figures(&results).unwrap();
    let page = html::page(&results, &origin(), (&Lead::default(), &figures));
    for outside in ["<script", "src=\"", "href=", "url(", "@import", "http://", "<link", "<iframe", "<img"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("&lt;script src=&quot;https://example.org/x.js&quot;&gt;alert(&#39;x&#39;)"));
    assert!(page.contains("manyway-lab sim two-50 --external &#39;a;b c;d&#39;"));
    assert_eq!(page.matches("<svg").count(), figures.len());
    // Bars and bytes for both scenarios, and the rates of two contenders in each.
    assert_eq!(figures.len(), 2 * (2 + 2));
    for text in ["linux 6.18", "2 × a processor, 16.0 GiB", "manyway 0.1.0", "mptcp-cubic did not run"] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn the_page_begins_with_the_result_and_explains_what_it_shows_and_nothing_else() {
    let results = results("two links");
    let page = html::page(&results, &origin(), (&Lead::default(), &[]));
    let sentence = "Manyway carried data in 2 cases: 91 to 95 % of what the links can carry.";
    assert!(
        page.contains(&format!("<h1>Manyway in the lab</h1>\n<p><strong>{sentence}</strong></p>")),
        "{page}"
    );
    assert!(page.contains("possible is a connection of the kernel"), "{page}");
    for absent in ["manyway-best is", "Used again is", "Recovery is", "Message latency", "<dt>End</dt>"] {
        assert!(!page.contains(absent), "{absent}\n{page}");
    }
    let mut once = results;
    once.plan.repetitions = 1;
    assert!(html::page(&once, &origin(), (&Lead::default(), &[])).contains(", 1 repetition, "));
}

#[test]
fn the_pictures_of_a_case_have_equal_axes() {
    let plan = plan(&["two-50"], &["manyway", "tcp-cubic"], 1);
    let mut runner = Scripted { megabits: vec![90.0, 9.0], ..Scripted::default() };
    let results = campaign::run(plan, &mut runner, &mut Silent::default(), &Stop::default());
    let figures = html::figures(&results).unwrap();
    let labels = |name: &str| {
        let figure = figures.iter().find(|figure| figure.file.ends_with(name)).unwrap();
        let numbers = figure.svg.lines().map(str::trim).filter(|line| line.parse::<f64>().is_ok());
        numbers.map(str::to_owned).collect::<Vec<_>>()
    };
    let axes = labels("rates-manyway");
    assert!(axes.len() > 5, "{axes:?}");
    assert_eq!(axes, labels("rates-tcp-cubic"));
}

#[test]
fn a_report_of_an_interrupted_campaign_is_written_too() {
    let plan = plan(&["two-50"], &["manyway"], 3);
    let mut runner = Scripted { interrupted_after: Some(1), ..Scripted::default() };
    let results = campaign::run(plan, &mut runner, &mut Silent::default(), &Stop::default());
    let place = tempfile::TempDir::new().unwrap();
    let directory = place.path().join("deep/report");
    write(&results, &origin(), &directory).unwrap();
    let read = |file: &str| fs::read_to_string(directory.join(file)).unwrap();
    assert!(read("index.html").contains("interrupted: 1 of 3 runs were made"));
    assert!(read("results.json").contains("\"interrupted\""));
    assert_eq!(read("runs.csv").lines().count(), 2);
    assert!(read("figures/two-50-rates-manyway.svg").starts_with("<svg"));
}

#[test]
fn the_command_is_quoted_for_a_shell() {
    assert_eq!(origin().command_line(), "manyway-lab sim two-50 --external 'a;b c;d'");
    let quoted = Origin { command: vec!["it's".into(), String::new()], ..origin() };
    assert_eq!(quoted.command_line(), r"'it'\''s' ''");
}
