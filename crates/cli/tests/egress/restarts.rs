//! Programs whose server was restarted.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::verbs::{OUT, ask, connected, forward, shouter};
use crate::common::place::Place;
use crate::common::program::{PATIENCE, Server};

/// A server that has the same keys each time.
fn serve(place: &Place, listen: &str) -> Server {
    let mut command = place.serving(&[&["--listen", listen], &OUT[..]].concat());
    command.env("MANYWAY_HOME", place.there().join("home"));
    Server::start(command)
}

#[test]
fn programs_go_on_after_the_server_was_restarted() {
    let place = Place::new();
    let server = serve(&place, "127.0.0.1:0");
    let listen = server.listening();
    let (running, address) = forward(&place, &server, shouter());
    assert_eq!(ask(connected(&address), "before").unwrap(), "BEFORE");
    server.stop().expect(0);
    running.wait_for("connecting again");
    let _server = serve(&place, &listen);
    running.wait_for("connected again");
    assert_eq!(ask(connected(&address), "after").unwrap(), "AFTER");
}

#[test]
fn the_first_connection_after_a_crash_of_the_server_is_carried_by_the_next_one() {
    let place = Place::new();
    let server = serve(&place, "127.0.0.1:0");
    let listen = server.listening();
    let (running, address) = forward(&place, &server, shouter());
    assert_eq!(ask(connected(&address), "before").unwrap(), "BEFORE");
    server.running.signal("KILL");
    server.running.end();
    let _server = serve(&place, &listen);
    // The client does not know yet that its connection is lost.
    assert!(!running.messages().contains("connection lost"), "{}", running.messages());
    assert_eq!(ask(connected(&address), "after").unwrap(), "AFTER");
    running.wait_for("connected again");
}

/// So long that the pauses between attempts to reach a server have grown to 8 s, without a program that waits.
const AWAY: Duration = Duration::from_secs(12);
const SOON: Duration = Duration::from_secs(2);

#[test]
fn connections_are_reset_at_once_and_new_ones_work_within_two_seconds_after_a_server_was_away() {
    std::thread::scope(|scope| {
        for signal in ["TERM", "KILL"] {
            scope.spawn(move || check(signal));
        }
    });
}

fn check(signal: &str) {
    // A busy machine only ever adds to a time.
    let mut times = Vec::new();
    let is_soon =
        |times: &[(Duration, Duration)]| times.last().is_some_and(|(reset, next)| *reset.max(next) < SOON);
    while times.len() < 3 && !is_soon(&times) {
        times.push(times_around(signal));
    }
    assert!(is_soon(&times), "{signal}: {times:?}");
}

/// How long a connection in use takes to be reset, and how long a program waits for its answer by a new one: since the server
/// came back, but the reset since it took its leave, if it did.
fn times_around(signal: &str) -> (Duration, Duration) {
    let place = Place::new();
    let server = serve(&place, "127.0.0.1:0");
    let listen = server.listening();
    let (running, address) = forward(&place, &server, echo());
    let in_use = use_until_reset(connected(&address));
    server.running.signal(signal);
    server.running.end();
    let ended = Instant::now();
    std::thread::sleep(AWAY);
    let _server = serve(&place, &listen);
    let back = Instant::now();
    assert_eq!(ask(connected(&address), "after").unwrap(), "after", "{}", running.messages());
    let next = back.elapsed();
    let since = if signal == "TERM" { ended } else { back };
    (in_use.join().unwrap().saturating_duration_since(since), next)
}

/// Answers each byte with itself.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            std::thread::spawn(move || std::io::copy(&mut socket.try_clone()?, &mut socket));
        }
    });
    address
}

/// Returns as soon as the connection carries data; in the thread, sends a byte now and then until the connection was reset,
/// and returns when.
fn use_until_reset(mut socket: TcpStream) -> JoinHandle<Instant> {
    socket.write_all(b"x").unwrap();
    socket.read_exact(&mut [0]).unwrap();
    std::thread::spawn(move || {
        let begin = Instant::now();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        loop {
            // The first call after a reset tells it.
            if socket.write_all(b"x").is_err() {
                return Instant::now();
            }
            match socket.read(&mut [0]) {
                Err(error) if is_timeout(&error) => {}
                Err(_) => return Instant::now(),
                Ok(1..) => std::thread::sleep(Duration::from_millis(50)),
                Ok(0) => panic!("an end instead of a reset"),
            }
            assert!(begin.elapsed() < PATIENCE, "it is open");
        }
    })
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}
