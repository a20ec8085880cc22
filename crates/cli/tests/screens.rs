//! Live screens at a terminal of 80 × 24: their content, and that the terminal is restored.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::process::Command;

use tempfile::TempDir;

use crate::common::place::Place;
use crate::common::program::{MANYWAY, Server, as_user, make_file};
use crate::common::pty::AtScreen;

/// A program of the client at a terminal.
fn at_screen(place: &Place, home: &TempDir, arguments: &[&str]) -> AtScreen {
    let mut command = place.command(arguments);
    as_user(&mut command, home.path());
    AtScreen::start(&command, 80)
}

#[test]
fn paths_are_watched_live_and_the_last_figures_stay() {
    let (place, home) = (Place::new(), TempDir::new().unwrap());
    let server = place.serve(&[]);
    let mut watching = at_screen(&place, &home, &["paths", "-w", "-i", "100ms", &server.ticket]);
    watching.wait_until("a path", |text| text.contains("active") && text.contains("in use"));
    let text = watching.text();
    for part in ["path", "state", "rtt ms", "loss", "Mbit/s", "share", "q: quit"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert!(watching.is_full_screen() && watching.has_colour());
    watching.write("q");
    let (code, left) = watching.end();
    assert_eq!(code, Some(0), "{left}");
    assert!(left.contains("active"), "{left}");
}

#[test]
fn ping_shows_each_path_in_place_and_ctrl_c_leaves_the_summary() {
    let (place, home) = (Place::new(), TempDir::new().unwrap());
    let server = place.serve(&[]);
    let mut pinging = at_screen(&place, &home, &["ping", "-i", "50ms", &server.ticket]);
    pinging.wait_until("answers", |text| text.contains("jitter") && text.contains("  0.0 %"));
    assert!(pinging.is_full_screen(), "{}", pinging.text());
    let rows = pinging.text().lines().filter(|line| line.contains("  0.0 %")).count();
    assert_eq!(rows, 1, "one row a path, not one an answer: {}", pinging.text());
    pinging.write("\x03");
    let (code, left) = pinging.end();
    assert_eq!(code, Some(0), "{left}");
    assert!(left.contains("jitter") && left.contains("0.0 %"), "{left}");
}

#[test]
fn a_terminated_live_screen_restores_the_terminal() {
    let (place, home) = (Place::new(), TempDir::new().unwrap());
    let server = place.serve(&[]);
    let mut watching = at_screen(&place, &home, &["ping", &server.ticket]);
    watching.wait_until("an answer", |text| text.contains("  0.0 %"));
    let status = Command::new("kill").args(["-s", "TERM", &watching.id().to_string()]).status().unwrap();
    assert!(status.success());
    assert_eq!(watching.end().0, Some(0));
}

/// A server, and a ticket of it with a rate of half a megabyte a second.
fn slow_server(place: &Place, home: &TempDir) -> (Server, String) {
    let mut serving = place.serving(&["--listen", "127.0.0.1:0"]);
    as_user(&mut serving, home.path());
    let server = Server::start(serving);
    let mut keys = Command::new(MANYWAY);
    as_user(keys.args(["keys", "add", "ticket", "slow", "--max-rate", "4M"]), home.path());
    let made = keys.output().unwrap();
    let text = String::from_utf8(made.stdout).unwrap();
    let ticket = text.lines().find(|line| line.starts_with("mw1")).unwrap().to_owned();
    (server, ticket)
}

#[test]
fn a_transfer_shows_its_rate_and_ctrl_c_leaves_a_summary_instead_of_a_bar() {
    let (place, home, other) = (Place::new(), TempDir::new().unwrap(), TempDir::new().unwrap());
    let (_server, ticket) = slow_server(&place, &other);
    make_file(&place.here().join("film"), 20_000_000);
    let mut sending = at_screen(&place, &home, &["send", "film", &ticket]);
    sending.wait_until("a rate and the time left", |text| {
        text.contains("sending [") && text.contains("Mbit/s  ") && text.contains(" s left")
    });
    let shown = sending.text();
    for part in ["19.0 MiB", "path", "state", "rtt ms", "share", "active"] {
        assert!(shown.contains(part), "{part} in\n{shown}");
    }
    sending.write("\x03");
    let (code, left) = sending.end();
    assert_eq!(code, Some(130), "{left}");
    assert!(left.contains("not complete") && left.contains("received"), "{left}");
    assert!(left.contains("ended by Ctrl-C"), "{left}");
    assert!(!left.contains("sending ["), "the bar is erased: {left}");
    let mebibytes = |before: &str| {
        let (_, from) = left.split_once(before).unwrap();
        from.split_once(" MiB").unwrap().0.trim().parse::<f64>().unwrap()
    };
    let of_path = left.split_once("127.0.0.1 ").unwrap().1.split_once(" MiB").unwrap().0;
    let of_path: f64 = of_path.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(mebibytes("sent ") <= of_path, "what waited was not sent: {left}");
    assert!(left.contains("run the same command again to go on"), "{left}");
}

#[test]
fn messages_break_at_spaces_and_tickets_and_commands_do_not() {
    let (place, home) = (Place::new(), TempDir::new().unwrap());
    let mut command = place.serving(&["--listen", "127.0.0.1:0"]);
    as_user(&mut command, home.path());
    let mut serving = AtScreen::start(&command, 50);
    serving.wait_until("the banner", |text| text.contains("On the other side"));
    let written = serving.written();
    let lines: Vec<_> = written.lines().map(str::trim_end).collect();
    let port = written.split_once("127.0.0.1:").unwrap().1.split_whitespace().next().unwrap();
    let rule = format!("  nft add rule inet filter input meta l4proto {{ tcp, udp }} th dport {port} accept");
    for whole in [
        "Anyone with this ticket can connect;",
        "`manyway keys remove default` revokes it:",
        "`manyway get TICKET PATH…`,",
        &rule,
    ] {
        assert!(lines.iter().any(|line| line.contains(whole)), "{whole} in {lines:#?}");
    }
    let is_copied =
        |line: &&str| line.starts_with("mw1") || line.starts_with(' ') || line.starts_with("serving");
    assert!(lines.iter().any(|line| line.starts_with("mw1") && line.len() > 60), "{lines:#?}");
    for line in lines.iter().filter(|line| !is_copied(line)) {
        assert!(line.chars().count() <= 50, "{line} in {lines:#?}");
    }
    serving.write("\x03");
    assert_eq!(serving.end().0, Some(0));
    let mut failing = AtScreen::start(&place.command(&["bench", "mw1x", "-P", "1000", "--no-config"]), 40);
    let (code, left) = failing.end();
    assert_eq!(code, Some(2));
    assert!(
        left.contains("error: invalid value '1000' for\n'--parallel <N>': must be at most 128"),
        "{left}"
    );
}
