//! Datagrams of programs over 127.0.0.1, without root.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::time::{Duration, Instant};

use super::verbs::{OUT, connected, line};
use crate::common::place::Place;
use crate::common::program::{PATIENCE, Server};

/// Answers each datagram with its text in capitals.
fn shouter() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 2000];
        while let Ok((length, source)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..length].to_ascii_uppercase(), source);
        }
    });
    address
}

fn program() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    socket
}

/// Sends until there is an answer, as programs over UDP do.
fn ask(socket: &UdpSocket, to: &str, datagram: &[u8]) -> Vec<u8> {
    let mut buffer = [0; 2000];
    for _ in 0..PATIENCE.as_millis() / 200 {
        socket.send_to(datagram, to).unwrap();
        if let Ok((length, _)) = socket.recv_from(&mut buffer) {
            return buffer[..length].to_vec();
        }
    }
    panic!("no answer from {to}");
}

#[test]
fn a_forward_of_udp_answers_each_program_from_the_port_it_sent_to() {
    let place = Place::new();
    let server = place.serve(&OUT);
    let (to, other) = (shouter(), shouter());
    let rules = [format!("127.0.0.1:0:{to}/udp"), format!("127.0.0.1:0:localhost:{}/udp", other.port())];
    let running = place.start(&["forward", &server.ticket, "-L", &rules[0], "-L", &rules[1]]);
    line(&running, "127.0.0.1:");
    running.wait_until("both ports", || running.printed().lines().count() == 2);
    let ports: Vec<_> =
        running.printed().lines().map(|it| it.split_once(' ').unwrap().0.to_owned()).collect();
    assert!(running.printed().lines().all(|line| line.ends_with("/udp")), "{}", running.printed());
    let (one, two) = (program(), program());
    for (socket, text, answer) in
        [(&one, "first", "FIRST"), (&two, "second", "SECOND"), (&one, "third", "THIRD")]
    {
        for port in &ports {
            assert_eq!(ask(socket, port, text.as_bytes()), answer.as_bytes());
        }
    }
}

#[test]
fn a_burst_of_datagrams_finds_room_in_a_forward() {
    let place = Place::new();
    let server = place.serve(&OUT);
    let rule = format!("127.0.0.1:0:{}/udp", shouter());
    let running = place.start(&["forward", &server.ticket, "-L", &rule]);
    let port = line(&running, "127.0.0.1:").split_once(' ').unwrap().0.to_owned();
    let socket = program();
    assert_eq!(ask(&socket, &port, b"first"), b"FIRST");
    let arrived = || {
        for _ in 0..200 {
            socket.send_to(b"burst", &port).unwrap();
        }
        std::iter::from_fn(|| socket.recv_from(&mut [0; 100]).ok()).count()
    };
    // A busy machine loses some of few bursts; without room nearly every burst does.
    let bursts: Vec<usize> = (0..5).map(|_| arrived()).collect();
    let whole = bursts.iter().filter(|arrived| **arrived == 200).count();
    assert!(whole >= 3, "{bursts:?} of 200");
}

#[test]
fn a_server_listens_for_datagrams_with_the_right_to_and_keeps_its_peers_apart() {
    let place = Place::new();
    let free = || UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (home, at) = (place.there().join("home"), free());
    let mut command = place.serving(&["--listen", "127.0.0.1:0", "--egress"]);
    command.env("MANYWAY_HOME", &home);
    let server = Server::start(command);
    let rule = format!("{at}:{}/udp", shouter());
    let refused = place.run(&["forward", &server.ticket, "-R", &rule]).expect(5);
    refused.says("the ticket needs the right to listen there");
    place.run(&["forward", &server.ticket, "-R", "0.0.0.0:5000:127.0.0.1:5000/udp"]).expect(2);

    let listening = server.listening();
    let right = at.to_string();
    let add = ["keys", "add", "ticket", "site", "-q", "--listen", &right, "--advertise", &listening];
    let made = place.command(&add).env("MANYWAY_HOME", &home).output().unwrap();
    let ticket = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    // A second rule, of TCP, on the same port.
    let both = format!("{at}:127.0.0.1:9");
    let running = place.start(&["forward", &ticket, "-R", &rule, "-R", &both]);
    line(&running, &format!("server {at} -> "));
    let (one, two) = (program(), program());
    for (socket, text, answer) in
        [(&one, "first", "FIRST"), (&two, "second", "SECOND"), (&one, "third", "THIRD")]
    {
        assert_eq!(ask(socket, &right, text.as_bytes()), answer.as_bytes());
    }
    place.run(&["forward", &ticket, "-R", &rule]).expect(1).says("the port is taken at the server");
    running.signal("TERM");
    running.end().expect(0);
    wait_until_free(at);
}

/// The server closes the port of a client that has gone.
fn wait_until_free(at: SocketAddr) {
    for _ in 0..PATIENCE.as_millis() / 50 {
        if UdpSocket::bind(at).is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{at} is still taken");
}

#[test]
fn a_forward_of_udp_reports_that_its_destination_is_forbidden() {
    let place = Place::new();
    let server = place.serve(&["--egress"]);
    let running = place.start(&["forward", &server.ticket, "-L", "127.0.0.1:0:127.0.0.1:53/udp"]);
    let address = line(&running, "127.0.0.1:").split_once(' ').unwrap().0.to_owned();
    program().send_to(b"question", address).unwrap();
    running.wait_for("forbidden by the rules of the server");
}

#[test]
fn the_first_rule_of_the_settings_that_matches_decides_at_the_server_too() {
    let place = Place::new();
    let server = place.serve(&[&OUT[..], &["-vv"]].concat());
    let (to, listener) = (shouter(), TcpListener::bind("127.0.0.1:0").unwrap());
    let tcp = listener.local_addr().unwrap();
    let rules = format!(
        "[[rule]]\nproto = \"udp\"\nport = {}\nclass = \"deadline\"\nlifetime = \"150ms\"\n\
         [[rule]]\nto = \"{tcp}\"\nclass = \"interactive\"\n\
         [[rule]]\nclass = \"bulk\"\n",
        to.port()
    );
    std::fs::write(place.here().join("rules.toml"), rules).unwrap();
    let command = |arguments: &[&str]| place.start(&[&["--config", "rules.toml"], arguments].concat());
    let forwarded = [format!("127.0.0.1:0:{to}/udp"), format!("127.0.0.1:0:{tcp}")];
    let running = command(&["forward", &server.ticket, "-L", &forwarded[0], "-L", &forwarded[1]]);
    running.wait_until("both ports", || running.printed().lines().count() == 2);
    let ports: Vec<_> =
        running.printed().lines().map(|it| it.split_once(' ').unwrap().0.to_owned()).collect();
    assert_eq!(ask(&program(), &ports[0], b"first"), b"FIRST");
    server.running.wait_for("class: Some(Deadline), lifetime: Some(150ms)");
    let _kept = connected(&ports[1]);
    server.running.wait_for("class: Some(Interactive), lifetime: None");
    // Its destination is a name, which is in no network.
    let _pipe = command(&["pipe", &server.ticket, "localhost", &tcp.port().to_string()]);
    server.running.wait_for("class: Some(Bulk), lifetime: None");
    // Without a right to listen it is refused, but understood.
    let refused = command(&["forward", &server.ticket, "-R", &format!("127.0.0.1:0:{tcp}")]);
    refused.end().expect(5);
    server
        .running
        .wait_for("asks for a listener address=127.0.0.1:0 treatment=Treatment { class: Some(Interactive)");
}

#[test]
fn a_ticket_keeps_its_rate_for_datagrams() {
    const RATE: f64 = 100e3;
    let place = Place::new();
    let home = place.there().join("home");
    let mut serving = place.serving(&[&["--listen", "127.0.0.1:0"], &OUT[..]].concat());
    serving.env("MANYWAY_HOME", &home);
    let server = Server::start(serving);
    let listen = server.listening();
    let mut keys = place.command(&["keys", "add", "ticket", "slow", "-q", "--max-rate", "800K"]);
    let made = keys.args(["--advertise", &listen]).env("MANYWAY_HOME", &home).output().unwrap();
    let ticket = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    let rule = format!("127.0.0.1:0:{}/udp", sink.local_addr().unwrap());
    let running = place.start(&["forward", &ticket, "-L", &rule]);
    let port = line(&running, "127.0.0.1:").split_once(' ').unwrap().0.to_owned();

    let begin = Instant::now();
    let flood = std::thread::spawn(move || {
        let socket = program();
        // A megabyte a second, for three seconds.
        for _ in 0..3000 {
            socket.send_to(&[7; 1000], &port).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    sink.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let (mut bytes, mut most) = (0.0, 0.0);
    while !flood.is_finished() {
        if sink.recv(&mut [0; 2000]).is_ok() {
            bytes += 1000.0;
            most = RATE * begin.elapsed().as_secs_f64();
        }
    }
    flood.join().unwrap();
    // A burst passes at once.
    assert!(bytes < most + 30e3, "{bytes} of {most}");
    assert!(bytes > RATE, "{bytes}");
}

/// Asks a proxy to relay datagrams; returns the connection that keeps the relay, and its address.
fn associate(proxy: &str) -> (std::net::TcpStream, String) {
    let mut socket = connected(proxy);
    socket.write_all(&[5, 1, 0]).unwrap();
    socket.read_exact(&mut [0; 2]).unwrap();
    socket.write_all(&[5, 3, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
    let mut reply = [0; 10];
    socket.read_exact(&mut reply).unwrap();
    assert_eq!((reply[1], &reply[3..8]), (0, &[1, 127, 0, 0, 1][..]));
    (socket, format!("127.0.0.1:{}", u16::from_be_bytes([reply[8], reply[9]])))
}

#[test]
fn a_proxy_relays_datagrams_to_addresses_and_names_as_long_as_the_program_stays_connected() {
    let place = Place::new();
    let server = place.serve(&OUT);
    let running = place.start(&["proxy", &server.ticket, "--listen", "127.0.0.1:0"]);
    let proxy = line(&running, "socks5h://").split_off("socks5h://".len());
    let (to, other) = (shouter(), shouter());
    let (kept, relay) = associate(&proxy);
    let socket = program();
    let by_address = [&[0, 0, 0, 1, 127, 0, 0, 1][..], &to.port().to_be_bytes()].concat();
    let by_name = [&[0, 0, 0, 3, 9][..], b"localhost", &other.port().to_be_bytes()].concat();
    let other_by_address = [&[0, 0, 0, 1, 127, 0, 0, 1][..], &other.port().to_be_bytes()].concat();
    assert_eq!(ask(&socket, &relay, &[&by_address[..], b"one"].concat()), [&by_address[..], b"ONE"].concat());
    assert_eq!(
        ask(&socket, &relay, &[&by_name[..], b"two"].concat()),
        [&other_by_address[..], b"TWO"].concat()
    );

    drop(kept);
    running.wait_until("the relay is gone", || UdpSocket::bind(&relay).is_ok());
}

#[test]
fn a_proxy_with_users_serves_nobody_else_and_listens_only_with_users_for_other_hosts() {
    let place = Place::new();
    let server = place.serve(&OUT);
    std::fs::write(place.here().join("users"), "ann:secret\n").unwrap();
    place
        .run(&["proxy", &server.ticket, "--listen", "0.0.0.0:0"])
        .expect(2)
        .says("add --users FILE with a line NAME:PASSWORD for each user");
    let running = place.start(&["proxy", &server.ticket, "--listen", "0.0.0.0:0", "--users", "users"]);
    let port = line(&running, "socks5h://").rsplit_once(':').unwrap().1.to_owned();
    let proxy = format!("127.0.0.1:{port}");

    let mut socket = connected(&proxy);
    socket.write_all(&[5, 2, 0, 2]).unwrap();
    let mut chosen = [0; 2];
    socket.read_exact(&mut chosen).unwrap();
    assert_eq!(chosen, [5, 2], "with a password");
    socket.write_all(b"\x01\x03ann\x05wrong").unwrap();
    socket.read_exact(&mut chosen).unwrap();
    assert_ne!(chosen[1], 0);

    let mut socket = connected(&proxy);
    socket.write_all(&[5, 1, 2]).unwrap();
    socket.read_exact(&mut chosen).unwrap();
    socket.write_all(b"\x01\x03ann\x06secret").unwrap();
    socket.read_exact(&mut chosen).unwrap();
    assert_eq!(chosen, [1, 0]);

    let mut socket = connected(&proxy);
    socket.write_all(b"GET /proxy.pac HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut settings = String::new();
    socket.read_to_string(&mut settings).unwrap();
    // Browsers cannot send a password over SOCKS5.
    assert!(settings.contains(&format!("PROXY 127.0.0.1:{port}; SOCKS5 127.0.0.1:{port}")), "{settings}");
}
