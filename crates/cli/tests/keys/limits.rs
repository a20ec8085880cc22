//! The limits of a ticket or a client.

use std::time::Duration;

use super::place::{Place, Side};
use crate::common::program::{names, wait_until};

#[test]
fn a_read_only_ticket_cannot_send() {
    let place = Place::new();
    let _server = place.serve(&[]);
    let ticket = place.add_ticket("reader", &["--read-only"]);
    place.make("file", 1000);
    place.make_served("film", 1000);
    place.client(&["send", "file", &ticket]).expect(1).says("refused: this server or ticket is read-only");
    place.client(&["-q", "get", &ticket, "film"]).expect(0);
    assert_eq!(names(&place.files(Side::Server)), ["film"]);
}

#[test]
fn a_ticket_keeps_its_rate_in_each_direction() {
    let place = Place::new();
    let _server = place.serve(&[]);
    let ticket = place.add_ticket("slow", &["--max-rate", "8M"]);
    // 8 Mbit/s are a megabyte a second, and a burst of one passes at once.
    for direction in [&[][..], &["-R"]] {
        let arguments = [&["--json", "bench", "-n", "3MB", "-P", "2", &ticket], direction].concat();
        let finished = place.client(&arguments).expect(0);
        // Not the reported rate: a reader that pauses for a moment reads what has arrived meanwhile at once.
        assert!(finished.took >= Duration::from_millis(1900), "{finished:?}");
        let summary = finished.summary();
        assert!(summary["bits_per_second"].as_f64().unwrap() > 3e6, "{summary}");
    }
}

#[test]
fn one_connection_too_many_for_a_ticket_is_refused_until_another_ends() {
    let place = Place::new();
    let server = place.serve(&["-v"]);
    let ticket = place.add_ticket("one", &["--max-connections", "1"]);
    let first = place.start(&["bench", "-b", "1M", "-t", "60", &ticket]);
    server.running.wait_until("the client", || server.running.messages().contains("connected ticket one,"));
    let refused = place.client(&["bench", "-n", "1", &ticket]).expect(5);
    assert!(refused.err.contains("ticket one allows no more than 1 connection at once"), "{}", refused.err);
    // The others have limits of their own.
    place.client(&["-q", "bench", "-n", "1", &server.ticket]).expect(0);
    first.signal("INT");
    first.end().expect(130);
    wait_until("the place", || place.client(&["-q", "bench", "-n", "1", &ticket]).code == Some(0));
}

#[test]
fn one_connection_too_many_for_a_server_is_refused() {
    let place = Place::new();
    let server = place.serve(&["-v", "--max-clients", "1"]);
    let first = place.start(&["bench", "-b", "1M", "-t", "60", &server.ticket]);
    server.running.wait_until("the client", || server.running.messages().contains(" connected "));
    let refused = place.client(&["bench", "-n", "1", "--json", &server.ticket]).expect(5);
    assert!(refused.err.contains("--max-clients"), "{}", refused.err);
    assert_eq!(refused.summary()["error"]["kind"], "policy");
    first.signal("TERM");
    first.end().expect(130);
}

#[test]
fn a_change_of_rights_ends_the_connections_with_the_old_ones() {
    let place = Place::new();
    let server = place.serve(&["-v"]);
    let running = place.start(&["bench", "-b", "1M", "-t", "60", &server.ticket]);
    server
        .running
        .wait_until("the client", || server.running.messages().contains("connected ticket default,"));
    let tickets = place.home(Side::Server).join("tickets.toml");
    let text = std::fs::read_to_string(&tickets).unwrap();
    std::fs::write(&tickets, text + "read-only = true\n").unwrap();
    running.end_within(Duration::from_secs(30)).expect(3).says("rights were changed");
}
