//! The real binary: what it prints where, and its exit status.
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
        (&["bench", "mw1x", "-P", "1000"], "must be at most 128"),
        (&["ping", "mw1x", "-c", "0"], "must be at least 1"),
        (&["serve", "--max-clients", "0"], "must be at least 1"),
        (&["serve", "--threads", "65"], "1..=64"),
        (&["serve", "--wire", "mmsp1", "--open", "--threads", "2"], "one thread serves all clients"),
        (&["serve", "--cid-prefix", "4g"], "hexadecimal"),
        (&["serve", "--ephemeral", "--cid-prefix", "010203040506"], "--cid-prefix must be at most 5 bytes"),
        (&["serve", "--ephemeral", "--cid-length", "21"], "--cid-length must be from 8 to 20 bytes"),
        (
            &["serve", "--ephemeral", "--cid-prefix", "4a0107", "--cid-length", "10"],
            "--cid-length must be from 11 to 20 bytes",
        ),
        (&["serve", "--wire", "mmsp1", "--open", "--cid-length", "9"], "MMSP/1 has no connection IDs"),
        (&["pipe", "mw1x", "host", "http"], "http is not a port number"),
        (&["forward", "mw1x", "-L", "80:host:http"], "http is not a port number"),
        (&["proxy", "mw1x", "--listen", "1080"], "write it like 127.0.0.1:1080 or [::1]:1080"),
        (&["--config", "/nowhere/c.toml", "ping", "mw1x"], "/nowhere/c.toml: no such file or directory\n"),
        (&["lab-agen"], "unrecognized subcommand"),
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
        assert!(!text.contains("lab-agent") && !text.contains("os error"), "{text}");
    }
}

#[test]
fn no_error_shows_a_ticket() {
    let place = tempfile::TempDir::new().unwrap();
    std::fs::write(place.path().join("six.txt"), "six").unwrap();
    let ticket = format!("mw1{}", "aeaqcaib".repeat(9));
    let mistyped = ticket.replacen("mw1", "nw1", 1);
    for (arguments, reason) in [
        (&["send", "--to", "home", "six.txt", &ticket][..], "two servers are named: --to home and a ticket"),
        (&["send", "--to", &ticket, "six.txt", "@other"], "two servers are named: --to mw1… and a ticket"),
        (&["send", &ticket, "six.txt"], "the ticket comes last"),
        (&["get", &ticket, "six.txt"], "invalid ticket"),
        (&["get", "six.txt", &ticket], "the ticket comes first"),
        (&["ping", &mistyped], "looks like a mistyped ticket"),
        (&["ping", &ticket, &ticket], "unexpected argument 'mw1…'"),
        (&["ping", "--scheduler", &ticket, "home"], "mw1…"),
        (&["decode", &ticket], "mw1…: no such file or directory"),
    ] {
        for form in [&[][..], &["--json"]] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_manyway"));
            command.current_dir(place.path()).env("MANYWAY_HOME", place.path().join("home"));
            let output = command.args(form).args(arguments).output().unwrap();
            assert!(output.status.code().is_some_and(|code| code != 0), "{arguments:?}: {output:?}");
            let (out, err) =
                (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
            assert!(err.contains(reason), "{reason} in\n{err}");
            assert!(!format!("{out}{err}").contains(&ticket[3..30]), "{out}{err}");
        }
    }
}

#[test]
fn the_settings_may_not_name_a_missing_interface() {
    let home = tempfile::TempDir::new().unwrap();
    let run = |settings: &str| {
        std::fs::write(home.path().join("config.toml"), settings).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_manyway"));
        command.args(["ping", "-c", "1", "mw1x"]).env("MANYWAY_HOME", home.path());
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, text) = run("interfaces = [\"lo\", \"nope0\"]");
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains("interfaces in the settings: nope0: no such interface; this machine has: "),
        "{text}"
    );
    for settings in ["interfaces = [\"lo\", \"nope*\"]", "exclude = [\"nope0\"]"] {
        let (_, text) = run(settings);
        assert!(text.contains("invalid ticket"), "{text}");
    }
}

#[test]
fn the_help_of_send_fits_one_screen_and_shared_options_have_a_page_of_their_own() {
    let text = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_manyway"));
        String::from_utf8(command.args(arguments).env("COLUMNS", "80").output().unwrap().stdout).unwrap()
    };
    let send = text(&["send", "--help"]);
    assert!((15..=40).contains(&send.lines().count()), "{send}");
    assert!(send.lines().all(|line| line.chars().count() <= 80), "{send}");
    assert!(send.contains("--retry") && !send.contains("--scheduler") && !send.contains("ROLE"), "{send}");
    for other in [&["send", "-h"][..], &["help", "send"], &["-q", "help", "send"]] {
        assert_eq!(text(other), send, "{other:?}");
    }
    for verb in ["send", "get", "play", "bench", "ping", "paths", "pipe", "forward", "proxy"] {
        assert!(text(&[verb, "--help"]).contains("@FILE"), "{verb}");
    }
    for verb in ["keys", "status", "serve"] {
        assert!(!text(&["help", verb]).contains("--interface"), "{verb}");
    }
    assert!(text(&["help", "options"]).contains("role=ROLE"));
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
    for arguments in [&["completion", "bash"][..], &["completion", "zsh"], &["man"], &["--help"]] {
        let text = String::from_utf8(manyway(arguments).stdout).unwrap();
        assert!(!text.contains("lab-agent") && !text.contains("lab\\-agent"), "{arguments:?}");
    }
}

/// A directory with a copy of the program. Another process copies it: a file that this one had open for writing could
/// be held by the child of another test, and then not be executed.
#[cfg(unix)]
fn copy() -> tempfile::TempDir {
    let place = tempfile::TempDir::new().unwrap();
    let mut copy = Command::new("cp");
    copy.args([env!("CARGO_BIN_EXE_manyway"), "manyway"]).current_dir(place.path());
    assert!(copy.status().unwrap().success());
    place
}

/// Installs a program there that prints its arguments.
#[cfg(unix)]
fn install_lab(place: &std::path::Path, name: &str, status: u8) {
    let script =
        format!("echo '#!/bin/sh\necho {name}: \"$@\"\nexit {status}' > manyway-lab; chmod +x manyway-lab");
    std::fs::create_dir_all(place).unwrap();
    assert!(Command::new("sh").args(["-c", &script]).current_dir(place).status().unwrap().success());
}

#[cfg(unix)]
#[test]
fn lab_and_sim_run_the_other_program_and_exit_with_its_status() {
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
