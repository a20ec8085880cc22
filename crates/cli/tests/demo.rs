//! `manyway demo` as a user runs it.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

#[test]
fn a_small_demo_reports_as_json_draws_a_plot_and_leaves_nothing_behind() {
    let place = Place::new();
    let output = place.demo(&["--json", "--size", "2MiB", "--link", "40Mbit,5ms", "--link", "20Mbit,10ms"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(text(&output.stdout).lines().count(), 1);
    assert_eq!(report["hash"], "right");
    assert_eq!(report["bytes"], 2 << 20);
    for field in ["seconds", "best_single_seconds", "longest_stall_seconds"] {
        assert!(report[field].as_f64().unwrap() > 0.0, "{field} in {report}");
    }
    let number = |field: &str| report[field].as_u64().unwrap();
    assert!(number("goodput_bits_per_second") < number("possible_bits_per_second"), "{report}");
    assert!(report["gain_percent"].is_number());
    let cut = &report["cut"];
    assert_eq!(cut["link"], 1);
    assert!(cut["cut_at_seconds"].as_f64() < cut["restored_at_seconds"].as_f64(), "{cut}");
    let links = report["links"].as_array().unwrap();
    assert_eq!(links.len(), 2);
    assert!(links.iter().all(|link| link["delivered_bytes"].as_u64().unwrap() > 100_000), "{report}");
    let plot = std::fs::read_to_string(place.plot()).unwrap();
    assert!(plot.contains("link 1 cut") && plot.contains("link 1 restored"));
    place.check_that_nothing_is_left();
}

#[test]
fn the_user_first_learns_what_will_happen_and_finally_what_happened() {
    let place = Place::new();
    let output = place.demo(&["--size", "1M", "--link", "40M,1ms", "--link", "30M,2ms", "--no-comparison"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let told = text(&output.stderr).replace('\n', " ");
    assert!(told.starts_with("A file of 1.0 MiB goes from a client to a server"), "{told}");
    for part in
        ["over 2 emulated links", "link 2: 30.0 Mbit/s", "link 1 active", "link 1 cut", "link 1 restored"]
    {
        assert!(told.contains(part), "{part} in\n{told}");
    }
    let table = text(&output.stdout);
    for part in ["efficiency", "longest stall at the receiver", "link 1 for", "OK", "plot"] {
        assert!(table.contains(part), "{part} in\n{table}");
    }
    assert!(!table.contains("alone"), "{table}");
}

#[test]
fn a_file_of_the_user_is_sent_over_a_single_link_and_nothing_is_cut() {
    let place = Place::new();
    let file = place.directory.path().join("my film.mp4");
    std::fs::write(&file, vec![7; 300_000]).unwrap();
    let output = place.demo(&["-q", "--json", "--link", "20M,2ms", "--file", file.to_str().unwrap()]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["bytes"], &report["hash"]), (&300_000.into(), &"right".into()));
    assert!(report["cut"].is_null() && report["best_single_seconds"].is_null(), "{report}");
    assert_eq!(std::fs::read(&file).unwrap().len(), 300_000);
    place.check_that_nothing_is_left();
}

#[test]
fn a_missing_file_is_named() {
    let place = Place::new();
    let output = place.demo(&["--file", "/no/such/film.mp4"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty() && !place.plot().exists());
    let told = text(&output.stderr);
    assert!(told.contains("cannot read /no/such/film.mp4: no such file"), "{told}");
    place.check_that_nothing_is_left();
}

#[test]
fn an_unwritable_plot_is_an_early_error_if_requested_and_a_warning_by_default() {
    let place = Place::new();
    let link = ["--size", "200k", "--link", "40M,1ms", "--json"];
    let output =
        place.command(&[&link[..], &["--plot", "/no/such/place/plot.svg"]].concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stderr);
    assert_eq!(told, "error: --plot /no/such/place/plot.svg: no such file or directory\n");
    std::fs::create_dir(place.default_plot()).unwrap();
    let output = place.command(&link).output().unwrap();
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("warning: cannot write the plot to manyway-demo.svg: "), "{told}");
    assert!(serde_json::from_slice::<Value>(&output.stdout).unwrap()["plot"].is_null());
}

#[test]
fn options_that_do_not_apply_are_refused() {
    let place = Place::new();
    for (arguments, reason) in [
        (&["-I", "eth0"][..], "leave out -I"),
        (&["--size", "0"], "--size"),
        (&["--scheduler", "none-such"], "none-such"),
        (&["--link=1M,1ms"; 9], "at most 8 links, not 9"),
    ] {
        let output = place.demo(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(reason), "{}", text(&output.stderr));
    }
    place.check_that_nothing_is_left();
}

#[cfg(unix)]
#[test]
fn an_interruption_leaves_nothing_behind() {
    let place = Place::new();
    let mut child = place
        .command(&["--link", "1Mbit,5ms"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !place.has_something("incoming") && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(300));
    let interrupted = Instant::now();
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(interrupted.elapsed() < Duration::from_secs(5), "{:?}", interrupted.elapsed());
    let told = text(&child.wait_with_output().unwrap().stderr);
    assert!(told.contains("ended by Ctrl-C"), "{told}");
    place.check_that_nothing_is_left();
}

/// A place to run it, with a temporary directory of its own.
struct Place {
    directory: TempDir,
    temporary: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { directory: TempDir::new().unwrap(), temporary: TempDir::new().unwrap() }
    }

    fn plot(&self) -> PathBuf {
        self.directory.path().join("plot.svg")
    }

    /// Where the plot is written by default.
    fn default_plot(&self) -> PathBuf {
        self.directory.path().join("manyway-demo.svg")
    }

    fn demo(&self, arguments: &[&str]) -> Output {
        self.command(arguments).arg("--plot").arg(self.plot()).output().unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_manyway"));
        command.arg("demo").args(arguments).current_dir(self.directory.path());
        command.env("TMPDIR", self.temporary.path()).env_remove("MANYWAY_LOG");
        command
    }

    /// Whether a directory of this name is in the workshop.
    fn has_something(&self, name: &str) -> bool {
        entries(self.temporary.path()).iter().any(|workshop| workshop.join(name).exists())
    }

    fn check_that_nothing_is_left(&self) {
        assert_eq!(entries(self.temporary.path()), Vec::<PathBuf>::new());
    }
}

fn entries(place: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
