//! How a server ends, and its reports to a service manager.

use std::os::unix::net::UnixDatagram;

use super::place::{Place, Side};
use crate::common::program::{Server, names};

#[test]
fn a_stopping_server_tells_its_clients_and_leaves_nothing_but_resumable_parts() {
    let place = Place::new();
    let server = place.serve(&["-v"]);
    let slow = place.add_ticket("slow", &["--max-rate", "8M"]);
    place.make("big", 8_000_000);
    let client = place.start(&["send", "big", &slow, "--connect-timeout", "1s"]);
    let there = place.files(Side::Server);
    server.running.wait_until("the transfer", || !names(&there).is_empty());
    server.stop().expect(0).says("SIGTERM: closing");
    client.end().expect(4).says("the server is stopping");
    assert!(!there.join("big").exists(), "{:?}", names(&there));
}

#[test]
fn a_service_manager_is_notified_when_the_server_is_ready_and_when_it_stops() {
    let place = Place::new();
    let path = place.files(Side::Client).join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    let mut command = place.command(Side::Server, &["serve", "--listen", "127.0.0.1:0"]);
    command.env("NOTIFY_SOCKET", &path);
    let server = Server::start(command);
    let mut buffer = [0; 64];
    let mut hear = || {
        let length = manager.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    assert_eq!(hear(), "READY=1");
    server.running.signal("INT");
    assert_eq!(hear(), "STOPPING=1");
    server.running.end().expect(0);
}
