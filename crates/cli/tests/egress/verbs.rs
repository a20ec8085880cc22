//! The verbs over 127.0.0.1, without root.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::place::Place;
use crate::common::program::{MANYWAY, PATIENCE, Running, Server};

/// Enables egress, also to this host.
pub(crate) const OUT: [&str; 3] = ["--egress", "--allow", "127.0.0.0/8"];

/// A program that reads to the end, then answers with the input in capitals.
pub(super) fn shouter() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            std::thread::spawn(move || {
                let (mut socket, mut text) = (socket.unwrap(), Vec::new());
                if socket.read_to_end(&mut text).is_ok() {
                    let _ = socket.write_all(&text.to_ascii_uppercase());
                }
            });
        }
    });
    address
}

/// A port without a listener.
fn closed_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

pub(crate) fn connected(address: &str) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Sends a text and its end, and reads the answer.
pub(super) fn ask(mut socket: TcpStream, text: &str) -> std::io::Result<String> {
    socket.write_all(text.as_bytes())?;
    socket.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Runs `manyway pipe` with this input.
fn pipe(place: &Place, server: &Server, to: SocketAddr, input: &str) -> Output {
    let mut child = start_pipe(place, server, to);
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn start_pipe(place: &Place, server: &Server, to: SocketAddr) -> Child {
    let mut command = Command::new(MANYWAY);
    command.args(["pipe", &server.ticket, &to.ip().to_string(), &to.port().to_string()]);
    command.env("MANYWAY_HOME", place.here()).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for a line with this beginning.
pub(crate) fn line(running: &Running, start: &str) -> String {
    let find = || running.printed().lines().find(|line| line.starts_with(start)).map(str::to_owned);
    running.wait_until(start, || find().is_some());
    find().unwrap()
}

/// Starts a proxy and returns its listening address.
fn proxy(place: &Place, server: &Server) -> (Running, String) {
    let running = place.start(&["proxy", &server.ticket, "--listen", "127.0.0.1:0"]);
    let address = line(&running, "socks5h://").split_off("socks5h://".len());
    (running, address)
}

/// Starts a forward and returns its listening address.
pub(super) fn forward(place: &Place, server: &Server, to: SocketAddr) -> (Running, String) {
    let running = place.start(&["forward", &server.ticket, "-L", &format!("127.0.0.1:0:{to}")]);
    let address = line(&running, "127.0.0.1:").split_once(' ').unwrap().0.to_owned();
    (running, address)
}

#[test]
fn a_pipe_carries_both_directions_and_the_end_of_its_input() {
    let place = Place::new();
    let server = place.serve(&OUT);
    let done = pipe(&place, &server, shouter(), "half-close");
    assert_eq!((done.status.code(), done.stdout.as_slice()), (Some(0), &b"HALF-CLOSE"[..]), "{done:?}");
    assert!(done.stderr.is_empty(), "{done:?}");
}

#[test]
fn the_reader_of_a_pipe_sees_the_end_although_its_writer_goes_on() {
    let place = Place::new();
    let server = place.serve(&OUT);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut child = start_pipe(&place, &server, listener.local_addr().unwrap());
    let (mut socket, _) = listener.accept().unwrap();
    socket.write_all(b"all").unwrap();
    socket.shutdown(Shutdown::Write).unwrap();
    let mut all = String::new();
    child.stdout.take().unwrap().read_to_string(&mut all).unwrap();
    assert_eq!(all, "all");
    // It still sends.
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"more").unwrap();
    drop(input);
    let mut more = String::new();
    socket.read_to_string(&mut more).unwrap();
    assert_eq!(more, "more");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn destinations_that_refuse_are_forbidden_or_do_not_exist_are_reported_as_such() {
    let place = Place::new();
    let server = place.serve(&["--egress", "--allow", "127.0.0.1"]);
    for (host, port, code, text) in [
        ("127.0.0.1", closed_port().port(), 1, "connection refused"),
        ("127.0.0.2", 22, 5, "forbidden by the rules of the server"),
        ("::ffff:127.0.0.2", 22, 5, "forbidden by the rules of the server"),
        ("169.254.169.254", 80, 5, "a metadata service"),
    ] {
        let ended = place.run(&["pipe", &server.ticket, host, &port.to_string()]).expect(code).says(text);
        assert!(ended.took < Duration::from_secs(10), "{ended:?}");
    }
    place.run(&["pipe", &server.ticket, "a/b", "22"]).expect(2).says("a host name has letters");
    place.run(&["pipe", &server.ticket, "host.test", "0"]).expect(2);
}

#[test]
fn a_ticket_has_as_many_connections_as_its_server_says() {
    let place = Place::new();
    let settings = place.there().join("settings.toml");
    std::fs::write(&settings, "[serve]\negress-connections = 2\n").unwrap();
    let server = place.serve(&[&OUT[..], &["--config", settings.to_str().unwrap()]].concat());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (running, address) = forward(&place, &server, listener.local_addr().unwrap());
    let kept: Vec<_> = (0..2).map(|_| (connected(&address), listener.accept().unwrap())).collect();
    let mut one_too_many = connected(&address);
    assert!(!matches!(one_too_many.read(&mut [0]), Ok(1..)));
    running.wait_for("a client may have 2");
    drop(kept);
    std::fs::write(&settings, "[serve]\negress-connections = 0\n").unwrap();
    place
        .run(&["serve", "--config", settings.to_str().unwrap()])
        .expect(2)
        .says("must be from 1 to 16384")
        .says("egress-connections");
}

#[test]
fn pipe_forward_and_proxy_say_how_a_server_without_egress_must_be_started() {
    let place = Place::new();
    let server = place.serve(&[]);
    for arguments in [
        &["pipe", &server.ticket, "example.org", "80"][..],
        &["forward", &server.ticket, "-L", "0:example.org:80"],
        &["proxy", &server.ticket, "--listen", "127.0.0.1:0"],
    ] {
        place.run(arguments).expect(5).says("manyway serve --egress");
    }
    // The other verbs are unaffected.
    place.run(&["bench", "-n", "100K", &server.ticket]).expect(0);
    place.run(&["serve", "--allow", "10.0.0.0/8"]).expect(2).says("--egress");
    place.run(&["serve", "--egress", "--allow", "10.1.2.3/8"]).expect(2).says("10.0.0.0/8");
    place.run(&["serve", "--deny", "10.0.0.0/8"]).expect(2).says("--egress");
}

#[test]
fn files_and_programs_share_a_server() {
    let place = Place::new();
    let server = place.serve(&OUT);
    let (running, address) = forward(&place, &server, shouter());
    crate::common::program::make_file(&place.here().join("file"), 300_000);
    place.run(&["send", "file", &server.ticket]).expect(0);
    assert_eq!(ask(connected(&address), "beside").unwrap(), "BESIDE");
    running.signal("TERM");
    running.end_within(Duration::from_secs(10)).expect(0);
    server.stop().expect(0);
}

#[test]
fn a_forward_reports_a_taken_port_and_resets_what_has_no_destination() {
    let place = Place::new();
    let server = place.serve(&OUT);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let rule = format!("{port}:example.org:80");
    place.run(&["forward", &server.ticket, "-L", &rule]).expect(1).says("the port is taken").says(&port);

    let (running, address) = forward(&place, &server, closed_port());
    let error = ask(connected(&address), "x").unwrap_err();
    assert!(
        matches!(error.kind(), std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe),
        "{error:?}"
    );
    running.wait_for("connection refused");
}

#[test]
fn a_server_listens_for_a_client_with_the_right_to_and_again_after_a_restart() {
    let place = Place::new();
    let home = place.there().join("home");
    let serving = |listen: &str| {
        let mut command = place.serving(&["--listen", listen, "--egress"]);
        command.env("MANYWAY_HOME", &home);
        Server::start(command)
    };
    let server = serving("127.0.0.1:0");
    let (listen, port) = (server.listening(), closed_port().port());
    let rule = format!("127.0.0.1:{port}:{}", shouter());
    let refused = place.run(&["forward", &server.ticket, "-R", &rule]).expect(5);
    refused.says("the ticket needs the right to listen there");

    let right = format!("127.0.0.1:{port}");
    let mut keys =
        place.command(&["keys", "add", "ticket", "site", "-q", "--listen", &right, "--advertise", &listen]);
    let made = keys.env("MANYWAY_HOME", &home).output().unwrap();
    let ticket = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let running = place.start(&["forward", &ticket, "-R", &rule]);
    line(&running, &format!("server 127.0.0.1:{port} -> "));
    assert_eq!(ask(connected(&right), "from outside").unwrap(), "FROM OUTSIDE");
    server.stop().expect(0);
    running.wait_for("connecting again");
    let _server = serving(&listen);
    running.wait_for("the server listens again");
    assert_eq!(ask(connected(&right), "again").unwrap(), "AGAIN");
}

/// A request for SOCKS5, and the code of the reply.
fn socks(address: &str, to: &[u8], port: u16) -> (TcpStream, u8) {
    let mut socket = connected(address);
    socket.write_all(&[5, 1, 0]).unwrap();
    let mut chosen = [0; 2];
    socket.read_exact(&mut chosen).unwrap();
    assert_eq!(chosen, [5, 0]);
    socket.write_all(&[&[5, 1, 0], to, &port.to_be_bytes()].concat()).unwrap();
    let mut reply = [0; 10];
    socket.read_exact(&mut reply).unwrap();
    (socket, reply[1])
}

#[test]
fn a_proxy_speaks_socks_and_http_on_one_port_with_the_codes_of_both() {
    let place = Place::new();
    let server = place.serve(&["--egress", "--allow", "127.0.0.1"]);
    let (_running, address) = proxy(&place, &server);
    let (to, closed) = (shouter(), closed_port().port());
    let (socket, reply) = socks(&address, &[1, 127, 0, 0, 1], to.port());
    assert_eq!((reply, ask(socket, "socks").unwrap().as_str()), (0, "SOCKS"));
    let name = [&[3, 9][..], b"127.0.0.1"].concat();
    assert_eq!(socks(&address, &name, to.port()).1, 0);
    assert_eq!(socks(&address, &[1, 127, 0, 0, 1], closed).1, 5, "refused");
    assert_eq!(socks(&address, &[1, 127, 0, 0, 2], to.port()).1, 2, "forbidden");

    let connect = |port: u16| format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: x\r\n\r\n");
    let answer = ask(connected(&address), &(connect(to.port()) + "http")).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200") && body == "HTTP", "{answer}");
    for (request, status) in [
        (connect(closed), "502"),
        ("CONNECT 127.0.0.2:80 HTTP/1.1\r\n\r\n".to_owned(), "403"),
        ("GET http://example.org/ HTTP/1.1\r\n\r\n".to_owned(), "405"),
        ("nonsense\r\n\r\n".to_owned(), "400"),
    ] {
        let answer = ask(connected(&address), &request).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
    }
}

#[test]
fn every_verb_ends_within_two_seconds_of_a_signal_whatever_its_programs_do() {
    let place = Place::new();
    let server = place.serve(&OUT);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    // It never reads, so everything before it fills up.
    let (running, address) = forward(&place, &server, to);
    let mut socket = connected(&address);
    socket.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    while socket.write(&[0; 65536]).is_ok() {}
    let (proxying, _) = proxy(&place, &server);
    let mut piping = start_pipe(&place, &server, to);
    drop(listener.accept().unwrap());
    let _second = listener.accept().unwrap();
    for (running, code) in [(running, 0), (proxying, 0)] {
        running.signal("INT");
        let took = running.end().expect(code).took;
        assert!(took < Duration::from_secs(4), "{took:?}");
    }
    let begin = Instant::now();
    Command::new("kill").args(["-s", "TERM", &piping.id().to_string()]).status().unwrap();
    assert_eq!(piping.wait().unwrap().code(), Some(130));
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
}
