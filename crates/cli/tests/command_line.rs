//! The real binary: what it prints where, and how it ends.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::process::{Command, Output};

#[test]
fn help_goes_to_standard_output_and_shows_examples() {
    let output = manyway(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    let commands = [
        "demo",
        "serve",
        "send",
        "get",
        "bench",
        "ping",
        "paths",
        "keys",
        "caps",
        "decode",
        "lab",
        "sim",
        "completion",
    ];
    for part in ["Usage: manyway", "Examples:", "Exit status:"].iter().chain(&commands) {
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
fn the_version_is_printed() {
    let output = manyway(&["--version"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("manyway {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn completion_and_manual_are_documents() {
    assert!(String::from_utf8(manyway(&["completion", "bash"]).stdout).unwrap().contains("_manyway"));
    assert!(String::from_utf8(manyway(&["man"]).stdout).unwrap().contains(".TH"));
}

fn manyway(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_manyway")).args(arguments).env_remove("MANYWAY_LOG").output().unwrap()
}
