//! What the program prints where, and its exit status.

use crate::common::command::{err, json, lab, out};

#[test]
fn help_goes_to_standard_output_and_shows_examples() {
    let output = lab(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    let text = out(&output);
    let commands = ["list", "gates", "agree", "share", "validate", "cpu", "up", "sim", "completion"];
    for part in ["Usage: manyway-lab", "Examples:", "Exit status:"].iter().chain(&commands) {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert!(!text.contains("lab-agent"), "{text}");
    for command in commands {
        assert!(out(&lab(&[command, "--help"])).contains("Examples:"), "{command}");
    }
    for command in ["list", "gates", "matrix"] {
        assert!(out(&lab(&["sim", command, "--help"])).contains("Examples:"), "sim {command}");
    }
}

#[test]
fn a_wrong_command_line_is_status_2_and_says_why_on_standard_error() {
    for (arguments, reason) in [
        (&["two-50", "-I", "lo"][..], "unexpected argument '-I'"),
        (&["sim", "two-50", "-I", "lo"], "unexpected argument '-I'"),
        (&["-q", "-v", "list"], "cannot be used with"),
        (&["--scheduler", "blest", "sim", "two-50"], "stands before 'sim'"),
        (&[], "Usage: manyway-lab"),
    ] {
        let output = lab(arguments);
        assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""), "{arguments:?}");
        assert!(err(&output).contains(reason), "{reason} in\n{}", err(&output));
    }
    let told = json(&lab(&["--json", "two-50", "-n", "0"]));
    assert_eq!(told[0]["error"]["code"], 2);
}

#[test]
fn version_completion_and_manual_are_printed() {
    assert_eq!(out(&lab(&["--version"])), format!("manyway-lab {}\n", env!("CARGO_PKG_VERSION")));
    assert!(out(&lab(&["completion", "bash"])).contains("manyway-lab"));
    assert!(out(&lab(&["man"])).contains(".TH"));
}
