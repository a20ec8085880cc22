//! The independent peer of MMSP/1 in Python at one end and `manyway` at the other, over two paths with lost packets.
//! Tests need `python3`; where it is missing they count as skipped.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

use std::process::Command;

use serde_json::Value;

use crate::common::place::Place;
use crate::common::program::{Running, have};

const BYTES: u64 = 2 << 20;

/// The peer, which drops 2 % of the packets that it sends, on two addresses of this host.
fn peer(arguments: &[&str]) -> Running {
    let mut command = Command::new("python3");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/mmsp1_peer.py")).args(arguments);
    command.args([
        "--bind",
        "127.0.0.2",
        "--loss",
        "2",
        "--loss-in",
        "2",
        "--seed",
        "1",
        "--linger",
        "0.2",
        "--json",
    ]);
    Running::start(command)
}

/// Checks the peer's summary: complete, and nothing against the specification.
fn check(peer: Running, connections: usize) -> Vec<Value> {
    let document: Value = serde_json::from_str(&peer.end().expect(0).out).unwrap();
    let all = document["connections"].as_array().unwrap().clone();
    assert_eq!(all.len(), connections, "{document}");
    for connection in &all {
        assert_eq!(
            (&connection["ok"], &connection["faults"]),
            (&true.into(), &Value::Array(Vec::new())),
            "{document}"
        );
        let paths = connection["paths"].as_array().unwrap();
        assert_eq!(paths.len(), 2, "{document}");
        let is_right = |path: &Value| path["verified"] == true || path["packets_received"] == 0;
        assert!(paths.iter().all(is_right), "{document}");
    }
    assert!(document["packets"]["packets_dropped_here"].as_u64().unwrap() > 0, "{document}");
    all
}

/// Each connection is short, so the answer on its second path may be lost; hardly in both.
fn check_paths(connections: &[Value]) {
    let verified = |path: &Value| path["verified"] == true;
    let uses_both = |it: &Value| it["paths"].as_array().unwrap().iter().all(verified);
    assert!(connections.len() == 2 && connections.iter().any(uses_both), "{connections:?}");
}

#[test]
fn the_independent_peer_sends_to_a_server_and_receives_from_it() {
    if !have(&[("python3", "--version")]) {
        return;
    }
    let place = Place::new();
    let server = Running::start(place.serving(&[
        "--listen",
        "127.0.0.1:0",
        "--wire",
        "mmsp1",
        "--from",
        "127.0.0.0/8",
    ]));
    server.wait_until("the address of the server", || server.printed().contains("127.0.0.1:"));
    let host = server.printed().trim().to_owned();
    let mut connections = Vec::new();
    for direction in ["--bench-send", "--bench-receive"] {
        let peer = peer(&["connect", &host, "--bind", "127.0.0.1", direction, &BYTES.to_string()]);
        connections.extend(check(peer, 1));
    }
    assert!(connections.iter().all(|it| it["bench"]["bytes"] == BYTES), "{connections:?}");
    check_paths(&connections);
    server.signal("TERM");
    server.end().expect(0).says("2.0 MiB received").says("2.0 MiB sent");
}

#[test]
fn a_client_sends_to_the_independent_peer_and_receives_from_it() {
    if !have(&[("python3", "--version")]) {
        return;
    }
    let place = Place::new();
    let peer = peer(&["listen", "127.0.0.1:0", "--bench", "--connections", "2"]);
    peer.wait_for("listening on 127.0.0.1 port ");
    let port: String =
        peer.messages().split("port ").nth(1).unwrap().chars().take_while(char::is_ascii_digit).collect();
    let host = format!("127.0.0.1:{port}");
    for direction in [&[][..], &["-R"]] {
        let bench = ["--wire", "mmsp1", "bench", "-J", "-n", "2M", &host];
        let measured = Running::start(place.command(&[&bench, direction].concat())).end().expect(0);
        let document: Value = serde_json::from_str(&measured.out).unwrap();
        assert_eq!(document["end"]["bytes"], BYTES, "{document}");
    }
    check_paths(&check(peer, 2));
}
