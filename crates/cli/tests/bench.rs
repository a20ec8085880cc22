//! How a measurement ends: with any number of streams, without a server, and after an interruption.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::io::Read as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::place::Place;
/// Longest time of a command to end after a signal, with a margin for a busy machine.
const SOON: Duration = Duration::from_secs(4);

#[test]
fn as_many_streams_as_are_accepted_run_in_both_directions() {
    let place = Place::new();
    let server = place.serve(&[]);
    for load in [&[][..], &["-b", "1M"], &["-l", "1K"]] {
        let run = ["bench", "--json", "-P", "128", "--bidir", "-t", "1", &server.ticket];
        let summary = place.run(&[&run, load].concat()).expect(0).summary();
        for direction in ["up", "down"] {
            assert!(
                summary[direction]["receiver"]["bytes"].as_u64().unwrap() > 100_000,
                "{load:?}: {summary}"
            );
        }
    }
}

#[test]
fn the_stream_limit_of_a_server_is_reported() {
    let place = Place::new();
    let server = place.serve(&["--memory", "small"]);
    let run = ["bench", "-P", "64", "-t", "1", &server.ticket];
    place.run(&run).expect(1).says("streams of a run at once, not 64");
    let bearable = ["bench", "-P", "8", "-n", "1M", &server.ticket];
    place.run(&bearable).expect(0);
}

#[test]
fn a_measurement_whose_server_dies_ends_after_its_time_with_partial_results() {
    let place = Place::new();
    for form in [&[][..], &["-J"]] {
        let server = place.serve(&[]);
        let run = ["bench", "-b", "10M", "-t", "3", "-i", "500ms", &server.ticket];
        let started = Instant::now();
        let client = place.start(&[&run, form].concat());
        if form.is_empty() {
            client.wait_until("an interval", || client.printed().contains("0.00-0.50"));
        } else {
            std::thread::sleep(Duration::from_millis(1500));
        }
        server.running.signal("KILL");
        let finished = client.end_within(Duration::from_secs(20)).expect(1).says("no path works");
        assert!(started.elapsed() < Duration::from_secs(14), "{:?}", started.elapsed());
        if form.is_empty() {
            finished.says("lost packets").says("no answer on UDP");
        } else {
            let document = finished.summary();
            assert!(document["start"]["connection"]["paths"].is_array(), "{document}");
            assert!(!document["intervals"].as_array().unwrap().is_empty(), "{document}");
            assert!(document["events"].is_array(), "{document}");
            assert!(document["end"]["up"]["receiver"]["bytes"].as_u64().unwrap() > 0, "{document}");
            assert_eq!(document["error"]["code"], 1, "{document}");
        }
    }
}

// spec 9.67
#[test]
fn ecn_marks_survive_real_sockets() {
    let place = Place::new();
    let server = place.serve(&[]);
    let document = place.run(&["bench", "-J", "-n", "4M", &server.ticket]).expect(0).summary();
    let paths = document["end"]["paths"].as_array().unwrap();
    assert!(paths.iter().any(|path| path["ecn"] == "capable"), "{document}");
}

#[test]
fn a_document_has_all_parts_without_a_server_too() {
    let place = Place::new();
    let ticket = {
        let server = place.serve(&[]);
        let ticket = server.ticket.clone();
        server.stop().expect(0);
        ticket
    };
    let document = place.run(&["bench", "-J", "--connect-timeout", "1s", &ticket]).expect(7).summary();
    assert!(document["start"]["options"].is_object(), "{document}");
    assert_eq!(document["intervals"].as_array().unwrap().len(), 0, "{document}");
    assert_eq!(document["error"]["code"], 7, "{document}");
}

#[test]
fn ctrl_c_and_sigterm_end_a_command_whose_server_is_stuck() {
    let place = Place::new();
    place.make_big("big");
    let server = place.serve(&[]);
    let commands = [
        &["bench", "-P", "128", "--bidir", "-t", "60"][..],
        &["bench", "-b", "10M", "-t", "0"],
        &["bench", "--messages", "100", "-t", "60"],
        &["send", "big"],
        &["ping"],
    ];
    for (command, signal) in commands.iter().zip(["INT", "TERM"].into_iter().cycle()) {
        let client = place.start(&[command, &[server.ticket.as_str()][..]].concat());
        std::thread::sleep(Duration::from_millis(700));
        server.running.suspend();
        std::thread::sleep(Duration::from_millis(300));
        client.signal(signal);
        let finished = client.end_within(Duration::from_secs(20));
        server.running.signal("CONT");
        assert!(finished.took < SOON, "{command:?} took {:?}", finished.took);
        // Those that run until then have reached their regular end, or have not begun.
        let is_endless = command[0] == "ping" || command.ends_with(&["-t", "0"]);
        let expected = if is_endless { [Some(0), Some(130)] } else { [Some(130); 2] };
        assert!(expected.contains(&finished.code), "{command:?}: {finished:?}");
    }
}

#[test]
fn ctrl_c_ends_a_command_with_a_blocked_output() {
    let place = Place::new();
    let server = place.serve(&[]);
    let mut command =
        place.command(&["bench", "--json", "-b", "10M", "-i", "10ms", "-t", "60", &server.ticket]);
    let mut client =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // A pipe holds 64 KiB: it is soon full.
    std::thread::sleep(Duration::from_secs(4));
    let id = client.id().to_string();
    assert!(std::process::Command::new("kill").args(["-s", "INT", &id]).status().unwrap().success());
    let signalled = Instant::now();
    while client.try_wait().unwrap().is_none() {
        if signalled.elapsed() > Duration::from_secs(20) {
            client.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let took = signalled.elapsed();
    assert!(took < SOON, "{took:?}");
    assert_eq!(client.wait().unwrap().code(), Some(130));
    let mut printed = Vec::new();
    client.stdout.take().unwrap().read_to_end(&mut printed).unwrap();
    assert!(printed.len() >= 60_000, "{} bytes are no full pipe", printed.len());
}

impl Place {
    fn make_big(&self, name: &str) {
        std::fs::File::create(self.here().join(name)).unwrap().set_len(20 << 30).unwrap();
    }
}
