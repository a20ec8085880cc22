//! Programs that take their time with their request to the proxy.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::verbs::{OUT, connected, line};
use crate::common::place::Place;
use crate::common::program::PATIENCE;

/// Programs that the proxy serves at the same time.
const PLACES: usize = 1024;
/// How long a program may take for its request.
const LIMIT: Duration = Duration::from_secs(10);

/// Sends a byte a second until the proxy closes the connection; returns how long that took.
fn trickle(mut socket: TcpStream, request: &[u8]) -> Duration {
    let begin = Instant::now();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let mut bytes = request.iter();
    let mut buffer = [0; 1000];
    loop {
        if let Some(byte) = bytes.next()
            && socket.write_all(&[*byte]).is_err()
        {
            return begin.elapsed();
        }
        match socket.read(&mut buffer) {
            Ok(1..) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Ok(0) | Err(_) => return begin.elapsed(),
        }
        assert!(begin.elapsed() < 3 * LIMIT, "it keeps its place");
    }
}

#[test]
fn programs_that_send_a_byte_a_second_lose_their_place_to_those_that_wait() {
    let place = Place::new();
    let server = place.serve(&OUT);
    let running = place.start(&["proxy", &server.ticket, "--listen", "127.0.0.1:0"]);
    let address = line(&running, "socks5h://").split_off("socks5h://".len());
    // A greeting and a request for a name of 200 bytes, by SOCKS5 and by HTTP.
    let socks = [&[5, 1, 0, 5, 1, 0, 3, 200][..], &[b'a'; 200]].concat();
    let http = [&b"CONNECT "[..], &[b'a'; 200]].concat();
    let slow: Vec<_> = [socks, http]
        .map(|request| {
            let socket = connected(&address);
            std::thread::spawn(move || trickle(socket, &request))
        })
        .into();
    let silent: Vec<_> = (slow.len()..PLACES).map(|_| connected(&address)).collect();
    let mut next = connected(&address);
    next.write_all(&[5, 1, 0]).unwrap();
    next.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let mut chosen = [0; 2];
    let waits = next.read(&mut chosen).unwrap_err();
    assert!(
        matches!(waits.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        "all places are taken: {waits}"
    );
    next.set_read_timeout(Some(LIMIT + PATIENCE)).unwrap();
    next.read_exact(&mut chosen).unwrap();
    assert_eq!(chosen, [5, 0]);
    for program in slow {
        let took = program.join().unwrap();
        assert!(took >= LIMIT - Duration::from_secs(1), "{took:?}");
    }
    for mut socket in silent {
        // An end or a reset, and not only silence.
        let end = socket.read(&mut [0]).map_err(|error| error.kind());
        assert!(matches!(end, Ok(0) | Err(ErrorKind::ConnectionReset)), "{end:?}");
    }
}
