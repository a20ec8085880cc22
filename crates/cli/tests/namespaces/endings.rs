//! How a command ends when the peer fails, or the user interrupts.

use std::time::Duration;

use manyway_sim::nightly::is_nightly;

use super::MB;
use crate::common::lab::{Family, Hole, Lab};
use crate::common::program::{Running, assert_same_content, make_file, names, wait_until};

#[test]
fn a_peer_that_does_not_answer_is_told_within_the_connect_timeout() {
    let Some(lab) = Lab::start(2, Family::Both) else { return };
    let server = lab.serve(&[]);
    lab.black_hole(1, Hole::Both);
    lab.black_hole(2, Hole::Both);
    let finished = lab
        .run_client(&["--connect-timeout", "2s", "bench", "-t", "1", &server.ticket])
        .expect(7)
        .says("no answer from any address of the server");
    let took = finished.took;
    assert!(took >= Duration::from_secs(2) && took < Duration::from_secs(8), "{took:?}");
}

#[test]
fn a_closed_port_is_reported_within_the_connect_timeout() {
    let Some(lab) = Lab::start(1, Family::V4) else { return };
    let server = lab.serve(&[]);
    let ticket = server.ticket.clone();
    server.stop().expect(0);
    let finished = lab.run_client(&["--connect-timeout", "2s", "get", &ticket]).expect(7);
    assert!(finished.took < Duration::from_secs(8), "{finished:?}");
}

#[test]
fn the_ticket_of_another_server_is_an_authentication_failure() {
    let Some(lab) = Lab::start(1, Family::V4) else { return };
    let first = lab.serve(&[]);
    let old = first.ticket.clone();
    first.stop().expect(0);
    // At the same address and port, with keys of its own.
    let second = lab.serve(&[]);
    lab.run_client(&["bench", "-t", "1", &old]).expect(3).says("check that the ticket is this server's");
    lab.run_client(&["-q", "bench", "-t", "1", &second.ticket]).expect(0);
}

/// The client gives up after a minute without a path, which a nightly run waits for. Otherwise the user interrupts it
/// once it has announced that.
#[test]
fn a_killed_server_ends_the_client_as_incomplete_whether_it_is_restarted_or_not() {
    let (Some(killed), Some(restarted)) = (Lab::start(2, Family::V4), Lab::start(2, Family::V4)) else {
        return;
    };
    let give_up = |client: Running| {
        client.wait_for("no working path; giving up in ");
        if is_nightly() {
            client.end_within(WITHOUT_PATH).expect(4).says("run the same command again");
        } else {
            client.signal("INT");
            client.end().expect(130);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (server, client) = sending(&killed);
            server.signal("KILL");
            give_up(client);
            assert_eq!(names(&killed.there()), [PART]);
        });
        scope.spawn(|| {
            let (server, client) = sending(&restarted);
            server.signal("KILL");
            server.end();
            let server = restarted.serve(&[]);
            give_up(client);
            let sent = restarted.run_client(&["--json", "send", "big", &server.ticket]).expect(0).summary();
            assert!(sent["bytes_resumed"].as_u64().unwrap() >= 1_000_000, "{sent}");
            assert_same_content(&restarted.here().join("big"), &restarted.there().join("big"));
            assert_eq!(names(&restarted.there()), ["big"]);
        });
    });
}

#[test]
fn a_stopped_server_tells_the_client_and_what_arrived_stays() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    let (server, client) = sending(&lab);
    server.signal("TERM");
    let stopped = server.end().expect(0).says("SIGTERM: closing");
    assert!(stopped.took < Duration::from_secs(10), "{stopped:?}");
    let finished = client.end().expect(4).says("the server is stopping");
    assert!(finished.took < Duration::from_secs(10), "{finished:?}");
    assert_eq!(names(&lab.there()), [PART]);
}

#[test]
fn an_interrupted_client_ends_with_130_and_what_arrived_stays_at_the_server() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    for (signal, name) in [("INT", "Ctrl-C"), ("TERM", "SIGTERM")] {
        let (server, client) = sending(&lab);
        client.signal(signal);
        let finished = client.end().expect(130).says(&format!("ended by {name}"));
        assert!(finished.took < Duration::from_secs(10), "{finished:?}");
        server.signal("TERM");
        server.end().expect(0);
        assert_eq!(names(&lab.there()), [PART]);
        std::fs::remove_file(lab.there().join(PART)).unwrap();
    }
}

#[test]
fn an_interrupted_fetch_goes_on_where_it_was() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    limit(&lab);
    make_file(&lab.there().join("big"), 20 * MB);
    let server = lab.serve(&[]);
    for signal in ["INT", "TERM"] {
        let client = lab.start_client(&["-q", "get", &server.ticket, "big", "-o", "fetched/"]);
        let before = lab.server.sent("vb1");
        wait_until("data", || lab.server.sent("vb1") > before + 1_000_000);
        client.signal(signal);
        client.end().expect(130);
        assert_eq!(names(&lab.here().join("fetched")), [PART]);
    }
    let arguments = ["--retry", "0", "big", "-o", "fetched/"];
    let client = lab.start_client(&[&["get", server.ticket.as_str()], &arguments[..]].concat());
    let before = lab.server.sent("vb1");
    wait_until("data", || lab.server.sent("vb1") > before + 1_000_000);
    server.stop().expect(0);
    client.end().expect(4).says("the server is stopping");
    assert_eq!(names(&lab.here().join("fetched")), [PART]);
}

/// A server, and a client that sends it `big`, of which a part has arrived.
fn sending(lab: &Lab) -> (Running, Running) {
    limit(lab);
    make_file(&lab.here().join("big"), 20 * MB);
    let server = lab.serve(&[]);
    let client = lab.start_client(&["send", "--retry", "0", "big", &server.ticket]);
    let part = lab.there().join(".big.manyway-part");
    wait_until("a part", || part.metadata().is_ok_and(|facts| facts.len() > 1_000_000));
    (server.running, client)
}

fn limit(lab: &Lab) {
    lab.limit(1, 20);
    lab.limit(2, 20);
}

/// What an interrupted transfer of `big` leaves behind.
const PART: &str = ".big.manyway-part";
/// A connection lives for a minute without any path.
const WITHOUT_PATH: Duration = Duration::from_secs(100);
