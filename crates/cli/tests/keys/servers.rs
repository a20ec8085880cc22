//! Known servers: by a name, by trust on first use, and when their key changes.

use super::place::{Place, Side};

/// A server that accepts the client's user, and its address.
fn server(place: &Place) -> (crate::common::program::Server, String) {
    place.serve(&[]).stop().expect(0);
    let key = place.key(Side::Client);
    place.server_keys(&["add", "client", "laptop", &key]).expect(0);
    let server = place.serve(&[]);
    let address = server.listening();
    (server, address)
}

#[test]
fn an_unknown_server_is_not_trusted_unless_the_user_says_so() {
    let place = Place::new();
    let (_server, address) = server(&place);
    let key = place.key(Side::Server);
    let refused = place.client(&["bench", "-n", "1", &address]).expect(3);
    for part in ["is not known yet", &key, "--trust-on-first-use", "keys add server"] {
        assert!(refused.err.contains(part), "{part} in {}", refused.err);
    }
    assert!(!place.home(Side::Client).join("servers.toml").exists());
    place.client(&["-q", "--trust-on-first-use", "bench", "-n", "1", &address]).expect(0);
    place.client(&["-q", "bench", "-n", "1", &address]).expect(0);
    let listed = place.client(&["keys", "list", "--json"]).expect(0).summary();
    assert_eq!(listed["servers"][0]["name"], address);
    assert_eq!(listed["servers"][0]["key"], key);
}

#[test]
fn a_server_whose_key_changed_is_refused_until_it_is_forgotten() {
    let place = Place::new();
    let (first, address) = server(&place);
    place.client(&["-q", "--trust-on-first-use", "bench", "-n", "1", &address]).expect(0);
    let old = place.key(Side::Server);
    first.stop().expect(0);
    std::fs::remove_file(place.home(Side::Server).join("identity.pem")).unwrap();
    let _second = place.serve_at(&address, &[]);
    let new = place.key(Side::Server);
    assert_ne!(old, new);
    // Not even with the option for unknown servers.
    for arguments in
        [&["bench", "-n", "1", &address][..], &["--trust-on-first-use", "bench", "-n", "1", &address]]
    {
        let refused = place.client(arguments).expect(3);
        let forget = format!("manyway keys remove {address}");
        for part in ["CHANGED", &old, &new, "servers.toml", &forget] {
            assert!(refused.err.contains(part), "{part} in {}", refused.err);
        }
    }
    place.client(&["keys", "remove", &address]).expect(0).says("is forgotten");
    place.client(&["-q", "--trust-on-first-use", "bench", "-n", "1", &address]).expect(0);
}

#[test]
fn a_server_has_a_name_by_its_ticket_or_by_its_key() {
    let place = Place::new();
    let (server, address) = server(&place);
    place.make_served("film", 1000);
    let key = place.key(Side::Server);
    place.client(&["keys", "add", "server", "home", &server.ticket]).expect(0).says(&key);
    place.client(&["keys", "add", "server", "office", &address, "--key", &key]).expect(0);
    place.client(&["-q", "get", "home", "film"]).expect(0);
    place.client(&["-q", "get", "office", "film", "-o", "again"]).expect(0);
    place.client(&["keys", "add", "server", "x", &address]).expect(2).says("--key");
    let wrong = "ab".repeat(16);
    place.client(&["keys", "add", "server", "x", &server.ticket, "--key", &wrong]).expect(2);
    place.client(&["keys", "add", "server", "wrong", &address, "--key", &wrong]).expect(0);
    place.client(&["get", "wrong", "film"]).expect(3).says("CHANGED");
    place.client(&["get", "no such name"]).expect(2).says("neither a ticket");
}

#[test]
fn a_client_that_is_not_authorised_is_told_so() {
    let place = Place::new();
    let server = place.serve(&[]);
    let address = server.listening();
    let refused = place.client(&["--trust-on-first-use", "bench", "-n", "1", &address]).expect(3);
    assert!(refused.err.contains("lets a key in"), "{}", refused.err);
    let again = place.client(&["bench", "-n", "1", "--json", &address]).expect(3).summary();
    assert_eq!(again["error"]["kind"], "authentication");
}
