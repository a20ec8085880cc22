//! Tickets and authorised clients: made, stored, used, revoked.

use std::path::Path;

use super::place::{Place, Side, mode};
use crate::common::program::{Running, names};

#[test]
fn the_ticket_of_a_server_survives_a_restart() {
    let place = Place::new();
    let first = place.serve(&[]);
    let (ticket, address) = (first.ticket.clone(), first.listening());
    first.stop().expect(0);
    let second = place.serve_at(&address, &[]);
    assert_eq!(second.ticket, ticket);
    place.client(&["-q", "bench", "-n", "1", &ticket]).expect(0);
    let shown = place.server_keys(&["show", "--ticket"]).expect(0);
    assert_eq!(shown.out.trim(), ticket);
    second.stop().expect(0);
}

#[test]
fn an_ephemeral_server_stores_nothing() {
    let place = Place::new();
    let first = place.serve(&["--ephemeral"]);
    let ticket = first.ticket.clone();
    place.client(&["-q", "bench", "-n", "1", &ticket]).expect(0);
    first.stop().expect(0).says("until this server ends");
    assert_ne!(place.serve(&["--ephemeral"]).ticket, ticket);
    assert!(!place.home(Side::Server).exists() && !place.home(Side::Client).exists());
}

#[test]
fn a_restarted_server_ends_the_connections_of_the_killed_one() {
    let place = Place::new();
    let killed = place.serve(&["-v"]);
    let (ticket, address) = (killed.ticket.clone(), killed.listening());
    let client = place.start(&["bench", "-b", "1M", "-t", "60", "-i", "100ms", &ticket]);
    killed
        .running
        .wait_until("the client", || killed.running.messages().contains("connected ticket default,"));
    killed.running.signal("KILL");
    killed.running.end();
    let _restarted = place.serve_at(&address, &[]);
    // Without the persistent key it would try for a minute.
    client.end_within(std::time::Duration::from_secs(30)).says("has forgotten this connection");
}

#[test]
fn a_removed_ticket_is_refused_at_once_and_its_connections_end() {
    let place = Place::new();
    let server = place.serve(&["-v"]);
    let ticket = place.add_ticket("alice", &[]);
    let running = place.start(&["bench", "-b", "10M", "-t", "60", &ticket]);
    server.running.wait_until("the client", || server.running.messages().contains("connected ticket alice,"));
    place.server_keys(&["remove", "alice"]).expect(0).says("alice may not connect any more");
    running.end().expect(3).says("revoked");
    place
        .client(&["bench", "-n", "1", &ticket])
        .expect(3)
        .says("error: the server refused this ticket or key: it is revoked");
    // Others are not touched.
    place.client(&["-q", "bench", "-n", "1", &server.ticket]).expect(0);
    server.stop().expect(0);
}

#[test]
fn a_ticket_that_is_made_while_the_server_runs_works_at_once() {
    let place = Place::new();
    let server = place.serve(&[]);
    let ticket = place.add_ticket("bob", &[]);
    assert_ne!(ticket, server.ticket);
    place.client(&["-q", "bench", "-n", "1", &ticket]).expect(0);
}

#[test]
fn an_expired_ticket_is_refused_and_its_connections_end() {
    let place = Place::new();
    let server = place.serve(&["-v"]);
    let ticket = place.add_ticket("short", &["--expires", "6s"]);
    let running = place.start(&["bench", "-b", "1M", "-t", "60", &ticket]);
    server.running.wait_until("the client", || server.running.messages().contains("connected ticket short,"));
    running.end().expect(3).says("it has expired");
    place.client(&["bench", "-n", "1", &ticket]).expect(3);
    let listed = place.server_keys(&["list", "--json"]).expect(0).summary();
    assert_eq!(listed["tickets"][1]["expired"], true, "{listed}");
    place.server_keys(&["list"]).expect(0).says("(over)");
}

#[test]
fn a_client_with_a_key_of_its_own_needs_no_ticket_until_it_is_removed() {
    let place = Place::new();
    let key = place.key(Side::Client);
    place.server_keys(&["add", "client", "laptop", &key]).expect(0).says("may connect");
    let server = serve_named(&place);
    let address = listening(&server);
    server.wait_for("1 named ticket or client may connect");
    let bench = ["--trust-on-first-use", "bench", "-n", "1", &address];
    place.client(&bench).expect(0).says("is known from now on");
    place.server_keys(&["remove", "laptop"]).expect(0);
    place
        .client(&["bench", "-n", "1", &address])
        .expect(3)
        .says("error: the server refused this ticket or key: it is revoked");
}

#[test]
fn a_name_can_be_taken_once_and_only_existing_entries_are_removed() {
    let place = Place::new();
    place.add_ticket("alice", &[]);
    let key = "ab".repeat(16);
    place.server_keys(&["add", "ticket", "alice"]).expect(1).says("a ticket named alice already");
    place.server_keys(&["add", "client", "alice", &key]).expect(1).says("keys remove alice");
    place.server_keys(&["add", "client", "bob", &key, "--max-rate", "1M"]).expect(0);
    place.server_keys(&["add", "client", "bobby", &key]).expect(1).says("authorised already, as bob");
    place.server_keys(&["remove", "alice", "carol"]).expect(1).says("nothing is named carol");
    let listed = place.server_keys(&["list", "--json"]).expect(0).summary();
    assert_eq!(listed["tickets"][0]["name"], "alice");
    assert_eq!(listed["clients"][0]["max_bits_per_second"], 1_000_000);
    assert!(!listed.to_string().contains("secret"), "{listed}");
    let only = place.server_keys(&["list", "servers", "--json"]).expect(0).summary();
    assert_eq!(only, serde_json::json!({ "servers": [] }));
    let removed = place.server_keys(&["remove", "alice", "bob", "--json"]).expect(0).summary();
    assert_eq!(removed["removed"]["tickets"][0], "alice");
    place.server_keys(&["show", "--ticket", "alice"]).expect(1).says("there is no ticket alice");
    for wrong in [
        &["add", "ticket", "a b"][..],
        &["add", "client", "x", "12"],
        &["add", "ticket", "x", "--expires", "2001-01-01"],
    ] {
        place.server_keys(wrong).expect(2);
    }
}

#[test]
fn keys_that_are_added_simultaneously_are_all_kept() {
    let place = Place::new();
    let mut running = Vec::new();
    for number in 0..12 {
        let name = format!("t{number}");
        running.push(Running::start(place.command(Side::Server, &["-q", "keys", "add", "ticket", &name])));
    }
    let tickets: std::collections::BTreeSet<_> =
        running.into_iter().map(|running| running.end().expect(0).out).collect();
    assert_eq!(tickets.len(), 12);
    let listed = place.server_keys(&["list", "--json"]).expect(0).summary();
    assert_eq!(listed["tickets"].as_array().unwrap().len(), 12);
}

#[test]
fn the_files_are_for_their_owner_only_and_are_replaced_as_a_whole() {
    let place = Place::new();
    place.add_ticket("alice", &[]);
    place.server_keys(&["add", "client", "bob", &"ab".repeat(16)]).expect(0);
    place.server_keys(&["add", "server", "home", "127.0.0.1", "--key", &"cd".repeat(16)]).expect(0);
    let home = place.home(Side::Server);
    let files = ["clients.toml", "identity.pem", "servers.toml", "tickets.toml"];
    assert_eq!(names(&home), [&[".lock"][..], &files].concat());
    assert_eq!(mode(&home), 0o700);
    for file in files {
        assert_eq!(mode(&home.join(file)), 0o600, "{file}");
    }
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).unwrap());
    let tickets = home.join("tickets.toml");
    let (before, old) = (inode(&tickets), std::fs::File::open(&tickets).unwrap());
    place.add_ticket("carol", &[]);
    assert_ne!(inode(&tickets), before);
    // A reader that had it open still reads the whole old one.
    let old = std::io::read_to_string(old).unwrap();
    assert!(old.contains("[alice]") && !old.contains("[carol]"));
}

#[test]
fn a_key_that_others_can_read_is_not_used() {
    let place = Place::new();
    place.key(Side::Server);
    let file = place.home(Side::Server).join("identity.pem");
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&file, permissions).unwrap();
    let line = format!("chmod 600 {}", file.display());
    place.server_keys(&["show"]).expect(1).says(&line);
    Running::start(place.command(Side::Server, &["serve", "--listen", "127.0.0.1:0"]))
        .end()
        .expect(1)
        .says(&line);
}

/// A server that prints no ticket, since its clients have names.
pub(crate) fn serve_named(place: &Place) -> Running {
    let command = place.command(Side::Server, &["serve", "-v", "--listen", "127.0.0.1:0"]);
    let running = Running::start(command);
    running.wait_for("may connect; ");
    running
}

/// The listening address that a server prints.
pub(crate) fn listening(server: &Running) -> String {
    let messages = server.messages();
    let (_, rest) = messages.split_once("on UDP ").unwrap();
    rest.split_whitespace().next().unwrap().to_owned()
}
