//! The real binary: what it prints where, and how it ends.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::process::{Command, Output};

#[test]
fn help_goes_to_standard_output_and_shows_examples() {
    let output = manyway(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    let commands =
        ["demo", "serve", "send", "get", "bench", "ping", "paths", "keys", "caps", "decode", "completion"];
    for part in ["Usage: manyway", "Examples:", "Exit status:", "lab", "sim"].iter().chain(&commands) {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    for command in commands {
        let output = manyway(&[command, "--help"]);
        assert!(String::from_utf8(output.stdout).unwrap().contains("Examples:"), "{command}");
    }
    for command in
        [&["show"][..], &["list"], &["add"], &["add", "ticket"], &["add", "client"], &["add", "server"]]
    {
        let output = manyway(&[&["keys"], command, &["--help"]].concat());
        assert!(String::from_utf8(output.stdout).unwrap().contains("Examples:"), "{command:?}");
    }
    for command in ["list", "set", "clear"] {
        let output = manyway(&["caps", command, "--help"]);
        assert!(String::from_utf8(output.stdout).unwrap().contains("Example"), "{command}");
    }
}

#[test]
fn a_wrong_command_line_is_status_2_and_says_why_on_standard_error() {
    for (arguments, reason) in [
        (&["demo", "--link", "20Mbit"][..], "RATE,DELAY[,LOSS]"),
        (&["get", "mw1x", "../x"], "\"..\""),
        (&["bench", "mw1x", "-P", "1000"], "1..=128"),
        (&["bench", "mw1x", "--messages", "100", "-P", "2"], "-P is for bulk"),
        (&["bench", "mw1x", "--messages", "100", "-b", "5M"], "-b is for bulk"),
        (&["bench", "mw1x", "--messages", "100", "-i", "1s"], "--interval"),
        (&["-I", "eth0,role=first", "demo"], "there is no role"),
        (&["serve", "-4"], "--listen"),
        (&["serve", "-I", "eth0"], "--listen"),
        (&["serve", "--exclude", "eth0"], "--listen"),
        (&["-q", "-v", "demo"], "cannot be used with"),
        (&["serve", "--cert", "chain.pem"], "--key"),
        (&["serve", "--max-clients", "0"], "--max-clients"),
        (&["--config", "a", "--no-config", "keys", "list"], "cannot be used with"),
        (&["keys", "add", "ticket", "mw1x"], "can not be a name"),
        (&["ping", "-I", "nope0", "mw1x"], "-I nope0: no such interface; this machine has: "),
        (&["get", "--exclude", "lo0", "mw1x"], "did you mean lo?"),
        (&["keys", "list", "--scheduler", "blest"], "does not use --scheduler"),
        (&["ping", "--scheduler", "earlyest", "host"], "did you mean earliest?"),
        (&["ping", "--congestion", "cubik", "host"], "did you mean cubic?"),
        (&["ping", "@/nowhere/ticket"], "@/nowhere/ticket: "),
        (&["ping", "@/dev/null"], "no ticket is in this file"),
        (&[], "Usage: manyway"),
    ] {
        let output = manyway(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(reason), "{reason} in\n{text}");
    }
}

#[test]
fn the_help_of_send_fits_one_screen_and_shared_options_have_a_page_of_their_own() {
    let text = |arguments: &[&str]| String::from_utf8(manyway(arguments).stdout).unwrap();
    let send = text(&["send", "--help"]);
    assert!((15..=42).contains(&send.lines().count()), "{send}");
    assert!(send.contains("--retry") && !send.contains("--scheduler"), "{send}");
    let shared = text(&["help", "options"]);
    for part in ["--scheduler", "--interface", "--trust", "--no-config"] {
        assert!(shared.contains(part), "{part} in\n{shared}");
    }
}

#[test]
fn bash_completes_values_and_the_interfaces_of_this_machine() {
    let place = tempfile::TempDir::new().unwrap();
    let script = place.path().join("completion");
    std::fs::write(&script, manyway(&["completion", "bash"]).stdout).unwrap();
    let complete = |option: &str| {
        let shell = format!(
            "source {}; COMP_WORDS=(manyway send {option} ''); COMP_CWORD=3; _manyway manyway '' {option}; \
             echo ${{COMPREPLY[@]}}",
            script.display()
        );
        let Ok(output) = Command::new("bash").args(["-c", &shell]).output() else { return None };
        Some(String::from_utf8(output.stdout).unwrap())
    };
    let Some(interfaces) = complete("-I") else { return };
    assert!(interfaces.split_whitespace().any(|name| name == "lo"), "{interfaces:?}");
    let schedulers = complete("--scheduler").unwrap();
    assert!(schedulers.contains("earliest") && schedulers.contains("blest"), "{schedulers:?}");
}

#[test]
fn the_version_is_printed() {
    let output = manyway(&["--version"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("manyway {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn completion_and_manual_are_documents() {
    assert!(String::from_utf8(manyway(&["completion", "bash"]).stdout).unwrap().contains("_manyway"));
    assert!(String::from_utf8(manyway(&["man"]).stdout).unwrap().contains(".TH"));
}

/// A directory with a copy of the program. Another process copies: a file that this one had open for writing could be
/// held by the child of another test, and then not run.
#[cfg(unix)]
fn copy() -> tempfile::TempDir {
    let place = tempfile::TempDir::new().unwrap();
    let mut copy = Command::new("cp");
    copy.args([env!("CARGO_BIN_EXE_manyway"), "manyway"]).current_dir(place.path());
    assert!(copy.status().unwrap().success());
    place
}

/// Puts a program there that says how it was called.
#[cfg(unix)]
fn install_lab(place: &std::path::Path, name: &str, status: u8) {
    let script =
        format!("echo '#!/bin/sh\necho {name}: \"$@\"\nexit {status}' > manyway-lab; chmod +x manyway-lab");
    std::fs::create_dir_all(place).unwrap();
    assert!(Command::new("sh").args(["-c", &script]).current_dir(place).status().unwrap().success());
}

#[cfg(unix)]
#[test]
fn lab_and_sim_run_the_other_program_and_end_as_it_does() {
    let place = copy();
    let search = place.path().join("search");
    install_lab(&search, "found", 0);
    let run = |words: &[&str]| {
        let mut command = Command::new(place.path().join("manyway"));
        let output = command.args(words).env("PATH", &search).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(run(&["lab", "two-50", "-n", "3"]), (Some(0), "found: two-50 -n 3\n".to_owned()));
    install_lab(place.path(), "beside", 6);
    for (words, told) in [
        (&["lab", "--help"][..], "--help"),
        (&["lab", "gates", "--strict", "--json"], "gates --strict --json"),
        (&["sim", "-c", "manyway,possible", "two-50"], "sim -c manyway,possible two-50"),
        (&["--json", "lab", "list"], "--json list"),
        (&["-q", "sim", "list", "-x"], "-q sim list -x"),
    ] {
        assert_eq!(run(words), (Some(6), format!("beside: {told}\n")), "{words:?}");
    }
}

#[cfg(unix)]
#[test]
fn without_the_other_program_lab_and_sim_say_in_one_line_how_to_get_it() {
    let place = copy();
    for words in [&["lab", "two-50"][..], &["sim", "list"], &["lab", "--help"]] {
        let mut command = Command::new(place.path().join("manyway"));
        let output = command.args(words).env("PATH", place.path()).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), text.lines().count()), (Some(1), 1), "{text}");
        assert!(text.contains("cargo install") && output.stdout.is_empty(), "{text}");
    }
}

fn manyway(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_manyway")).args(arguments).env_remove("MANYWAY_LOG").output().unwrap()
}
