//! The verbs over MMSP/1, between two processes on this host.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use serde_json::Value;
use tempfile::TempDir;

use crate::common::place::Place;
use crate::common::program::{Finished, Running, as_user, assert_same_content, make_file, names, wait_until};

/// A server over MMSP/1, and a client that names the wire.
struct Clear {
    place: Place,
    home: TempDir,
    server: Running,
    host: String,
}

impl Clear {
    fn start(who: &[&str]) -> Self {
        let (place, home) = (Place::new(), TempDir::new().unwrap());
        let mut command = place.serving(&[&["--listen", "127.0.0.1:0", "--wire", "mmsp1"], who].concat());
        as_user(&mut command, home.path());
        let server = Running::start(command);
        wait_until("the address of the server", || server.printed().contains("127.0.0.1:"));
        let host = server.printed().trim().to_owned();
        Self { place, home, server, host }
    }

    fn start_client(&self, arguments: &[&str]) -> Running {
        let mut command = self.place.command(&[&["--wire", "mmsp1"], arguments].concat());
        as_user(&mut command, self.home.path());
        Running::start(command)
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        self.start_client(arguments).end()
    }
}

#[test]
fn files_go_both_ways_are_verified_and_no_key_is_made() {
    let clear = Clear::start(&["--from", "127.0.0.0/8"]);
    let (here, there) = (clear.place.here(), clear.place.there());
    std::fs::create_dir(here.join("tree")).unwrap();
    for (name, size) in [("film", 12_000_001), ("nothing", 0), ("one", 1)] {
        make_file(&here.join("tree").join(name), size);
    }
    clear.run(&["send", "tree", "--to", &clear.host]).expect(0).says("verified");
    clear.run(&["get", &clear.host, "tree", "-o", "back"]).expect(0);
    for name in ["film", "nothing", "one"] {
        assert_same_content(&here.join("tree").join(name), &there.join("tree").join(name));
        assert_same_content(&here.join("tree").join(name), &here.join("back/tree").join(name));
    }
    clear.run(&["ping", "-c", "2", "-i", "100ms", &clear.host]).expect(0);
    clear.server.wait_for("MMSP/1 neither encrypts nor authenticates: every host at 127.0.0.0/8 may");
    clear.server.wait_for("connected address 127.0.0.1, from 127.0.0.1:");
    assert!(names(clear.home.path()).iter().all(|name| name == "manyway"), "{:?}", names(clear.home.path()));
    clear.server.signal("TERM");
    clear.server.end().expect(0);
}

#[test]
fn a_measurement_runs_in_both_directions_and_names_the_wire_and_its_defaults() {
    let clear = Clear::start(&["--from", "127.0.0.1"]);
    for more in [&[][..], &["-R"], &["--bidir"], &["--scheduler", "earliest", "-C", "cubic"]] {
        let measured =
            clear.run(&[&["bench", "-J", "-b", "20M", "-t", "1s", &clear.host], more].concat()).expect(0);
        let document: Value = serde_json::from_str(&measured.out).unwrap();
        let start = &document["start"]["connection"];
        let (scheduler, congestion) =
            if more.contains(&"earliest") { ("earliest", "cubic") } else { ("primary", "new-reno") };
        assert_eq!(
            (&start["wire"], &start["scheduler"], &start["congestion"]),
            (&"mmsp1".into(), &scheduler.into(), &congestion.into()),
            "{document}"
        );
        assert!(measured.out.contains("bits_per_second"));
    }
    clear.run(&["bench", "--messages", "500", "-t", "1s", &clear.host]).expect(0);
}

#[test]
fn status_names_the_wire() {
    let clear = Clear::start(&["--from", "127.0.0.1"]);
    let pinging = clear.start_client(&["ping", "-i", "100ms", &clear.host]);
    let peers = || {
        let mut command = clear.place.command(&["status", "--json"]);
        as_user(&mut command, clear.home.path());
        let document = Running::start(command).end().expect(0).summary();
        let commands = document["commands"].as_array().unwrap().clone();
        commands
            .iter()
            .filter_map(|command| command["peers"][0]["wire"].as_str().map(str::to_owned))
            .collect()
    };
    pinging.wait_until("both ends", || {
        let wires: Vec<String> = peers();
        wires == ["mmsp1", "mmsp1"]
    });
    drop(pinging);
}

#[test]
fn paths_changes_the_primary_of_what_runs_and_says_why_it_can_not() {
    let clear = Clear::start(&["--from", "127.0.0.1"]);
    let change = |interface: &str, more: &[&str]| {
        let mut command = clear.place.command(&[&["paths", "--primary", interface], more].concat());
        as_user(&mut command, clear.home.path());
        Running::start(command).end()
    };
    change("lo", &[]).expect(1).says("no connection");
    let pinging = clear.start_client(&["ping", "-i", "100ms", &clear.host]);
    wait_until("an answer", || pinging.printed().contains("ms"));
    let pid = pinging.id().to_string();
    let changed = change("127.0.0.1", &["--json", "--pid", &pid]).expect(0).summary();
    let row = &changed["connections"][0];
    assert_eq!(
        (&row["verb"], &row["scheduler"], &row["path"], &row["error"]),
        (&"ping".into(), &"primary".into(), &0.into(), &Value::Null),
        "{changed}"
    );
    change("127.0.0.1", &["--pid", &pid]).expect(0).says("path 0 is the primary path");
    change("wlan9", &["--pid", &pid]).expect(1).says("no path over wlan9; its paths go over");
    drop(pinging);

    let other = clear.start_client(&["ping", "-i", "100ms", "--scheduler", "earliest", &clear.host]);
    wait_until("an answer", || other.printed().contains("ms"));
    let refused = change("127.0.0.1", &["--pid", &other.id().to_string(), "--json"]).expect(1).summary();
    let error = refused["connections"][0]["error"].as_str().unwrap();
    assert!(error.contains("the scheduler earliest has no primary path"), "{error}");
}

#[test]
fn an_open_server_lets_all_clients_fetch_and_none_send() {
    let clear = Clear::start(&["--open"]);
    make_file(&clear.place.there().join("film"), 100_000);
    make_file(&clear.place.here().join("other"), 1000);
    clear.run(&["get", &clear.host, "film"]).expect(0);
    assert_same_content(&clear.place.here().join("film"), &clear.place.there().join("film"));
    let refused = clear.run(&["send", "other", "--to", &clear.host]);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert_eq!(names(&clear.place.there()), ["film"]);
    clear.server.wait_for("every host may connect and fetch, and every host on the way");
}

#[test]
fn a_server_says_what_it_needs_and_a_client_what_to_check() {
    let place = Place::new();
    let refused = |arguments: &[&str]| Running::start(place.serving(arguments)).end().expect(2);
    refused(&["--wire", "mmsp1"]).says("--from 192.168.1.0/24").says("--open");
    refused(&["--wire", "mmsp1", "--from", "10.0.0.0/8", "--open"]).says("cannot be used with");
    refused(&["--wire", "mmsp1", "--from", "10.0.0.0/99"]).says("such as 192.168.1.0/24");
    let two = ["--listen", "127.0.0.1:4001", "--listen", "127.0.0.2:4002"];
    let serving = place.serving(&[&["--wire", "mmsp1", "--from", "10.0.0.1"], &two[..]].concat());
    Running::start(serving).end().expect(1).says("one port");
    refused(&["--from", "10.0.0.0/8"]).says("--from is for --wire mmsp1");
    place.run(&["--wire", "mmsp1", "get", "mw1abc"]).expect(2).says("nothing secret goes over MMSP/1");
    place.run(&["--wire", "mmsp1", "proxy", "host"]).expect(2).says("leave out --wire mmsp1");
    make_file(&place.here().join("film"), 10);
    place.run(&["--wire", "mmsp1", "send", "film"]).expect(2).says("--to HOST");
    place.run(&["--wire", "tcp", "get", "host"]).expect(2).says("must be mmsp2 or mmsp1");

    let clear = Clear::start(&["--from", "127.0.0.2"]);
    let unheard = clear.run(&["--connect-timeout", "1s", "get", &clear.host, "film"]);
    unheard.expect(7).says("does its --from name an address of this host");
}

/// Neither end answers the other's wire.
#[test]
fn a_client_and_a_server_of_different_wires_do_not_meet() {
    let clear = Clear::start(&["--from", "127.0.0.1"]);
    let mut command =
        clear.place.command(&["--connect-timeout", "1s", "--trust-on-first-use", "get", &clear.host]);
    command.env("MANYWAY_HOME", clear.home.path());
    Running::start(command).end().expect(7).says("no answer");
    let server = clear.place.serve(&["--json"]);
    let document: Value = serde_json::from_str(server.running.printed().trim()).unwrap();
    assert_eq!(document["wire"], "mmsp2");
    let host = document["listening"][0].as_str().unwrap().to_owned();
    clear.run(&["--connect-timeout", "1s", "get", &host, "film"]).expect(7).says("no answer over MMSP/1");
}
