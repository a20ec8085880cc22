//! The log of a server: files that do not arrive have a line too.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use super::place::{Place, Side};
use crate::common::program::{Running, Server, names};

/// 1 MB a second.
const SLOW: [&str; 2] = ["--max-rate", "8M"];
const SIZE: usize = 8_000_000;

/// A server, and a client that sends `big` to it and one that fetches `film`, both in progress.
struct Scene {
    place: Place,
    server: Server,
    clients: [Running; 2],
}

impl Scene {
    fn start() -> Self {
        let place = Place::new();
        place.make("big", SIZE);
        place.make_served("film", SIZE);
        let server = place.serve(&[]);
        let slow = place.add_ticket("slow", &SLOW);
        let clients = [&["send", "big"][..], &["get", "film"]].map(|arguments| {
            let (verb, name) = (arguments[0], arguments[1]);
            let arguments = if verb == "send" { [verb, name, &slow] } else { [verb, &slow, name] };
            place.start(&[&["--connect-timeout", "1s"], &arguments[..]].concat())
        });
        for (running, side) in clients.iter().zip([Side::Server, Side::Client]) {
            let directory = place.files(side);
            running.wait_until("a part of its file", || {
                names(&directory).iter().any(|name| {
                    let length = directory.join(name).metadata().map_or(0, |it| it.len());
                    name.ends_with(".manyway-part") && length > 500_000
                })
            });
        }
        Self { place, server, clients }
    }
}

/// Checks that both files failed, and before their clients left.
#[track_caller]
fn assert_both_failed(log: &str, reason: &str) {
    for file in ["big, not received", "film, not sent"] {
        let text = format!(" failed {file}: {reason} after ");
        let lines: Vec<_> = log.lines().filter(|line| line.contains(&text)).collect();
        assert_eq!(lines.len(), 1, "{text:?} in\n{log}");
        assert!(lines[0].ends_with(" of 7.6 MiB") && !lines[0].contains("after 0 B"), "{log}");
        let (client, _) = lines[0].split_once(" failed").unwrap();
        let left = format!("{} left after ", client.split_once(' ').unwrap().1);
        assert!(log.find(lines[0]) < log.find(&left), "{left:?} in\n{log}");
    }
}

#[test]
fn a_file_that_its_client_breaks_off_is_logged_with_its_progress() {
    let Scene { server, clients, place: _place } = Scene::start();
    for client in clients {
        client.signal("INT");
        client.end().expect(130);
    }
    server
        .running
        .wait_until("both to leave", || server.running.messages().matches(" left after ").count() == 2);
    assert_both_failed(&server.stop().expect(0).err, "broken off by the client");
}

#[test]
fn a_stopped_server_logs_unfinished_files_and_connected_clients() {
    let Scene { server, clients, place } = Scene::start();
    let idle = place.start(&["ping", &server.ticket, "-c", "1000"]);
    server.running.wait_for("client 3 connected");
    let log = server.stop().expect(0).err;
    assert_both_failed(&log, "broken off by the server");
    assert_eq!(log.matches("; closed by this end: the server is stopping").count(), 3, "{log}");
    drop((clients, idle));
}

#[test]
fn a_failure_is_logged_with_the_end_at_which_it_happened() {
    let place = Place::new();
    let server = place.serve(&[]);
    for (side, directory) in [(Side::Client, "own"), (Side::Server, "served")] {
        let directory = place.files(side).join(directory);
        std::fs::create_dir(&directory).unwrap();
        // A name that is not UTF-8 cannot be announced.
        std::fs::write(directory.join(OsStr::from_bytes(b"name\xff")), "x").unwrap();
    }
    place.client(&["send", "own", &server.ticket]).expect(1);
    place.client(&["get", &server.ticket, "served"]).expect(1);
    std::fs::create_dir(place.files(Side::Server).join("small")).unwrap();
    place.make("small", 10);
    place.client(&["send", "small", &server.ticket]).expect(1);
    let log = server.stop().expect(0).err;
    for line in [
        "client 1 failed own/name\u{fffd}, not received: at the client: the name is not allowed",
        "client 2 failed served/name\u{fffd}, not sent: at the server: the name is not allowed",
        "client 3 failed small, not received: at the server: a directory is in the way",
    ] {
        assert!(log.contains(line), "{line} in\n{log}");
    }
}

#[test]
fn a_refused_destination_is_logged_with_the_reason() {
    let place = Place::new();
    let server = place.serve(&["--egress", "--allow", "127.0.0.1:8080"]);
    for (host, port) in [("10.1.2.3", "80"), ("127.0.0.1", "22"), ("not-there.invalid", "443")] {
        let ended = place.client(&["pipe", &server.ticket, host, port]);
        assert!(ended.code.is_some_and(|code| code != 0), "{ended:?}");
    }
    let log = server.stop().expect(0).err;
    for line in [
        "client 1 refused 10.1.2.3:80: forbidden by the rules of the server: a private address",
        "client 2 refused 127.0.0.1:22: forbidden by the rules of the server: ",
        // Without a name server it is unknown whether the name exists.
        "client 3 refused not-there.invalid:443: ",
    ] {
        assert!(log.contains(line), "{line} in\n{log}");
    }

    let server = place.serve(&["--log-format", "json"]);
    place.client(&["pipe", &server.ticket, "example.org", "80"]).expect(5);
    let log = server.stop().expect(0).err;
    let refused = log.lines().find(|line| line.contains("\"event\":\"refused\"")).unwrap();
    let refused: serde_json::Value = serde_json::from_str(refused).unwrap();
    assert_eq!((&refused["client"], &refused["destination"]), (&1.into(), &"example.org:80".into()));
    assert!(refused["reason"].as_str().unwrap().contains("manyway serve --egress"), "{refused}");
}
