//! What the real binary shows of its own connections: decoded captures, qlog, key log.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::common::program::{MANYWAY, Running, Server, names};
use serde_json::Value;

#[test]
fn a_bench_leaves_a_capture_that_opens_and_a_log_at_each_end() {
    let home = tempfile::tempdir().unwrap();
    let (logs, keys, capture) =
        (home.path().join("logs"), home.path().join("keys"), home.path().join("trace.pcap"));
    let relay = Relay::new();
    let mut command = Command::new(MANYWAY);
    command.args(["serve", "--listen", "127.0.0.1:0", "--advertise", &relay.address.to_string()]);
    command.arg("--dir").arg(home.path()).arg("--qlog").arg(&logs);
    let server = Server::start(command);
    let relay = relay.start(server.listening().parse().unwrap());

    let mut command = Command::new(MANYWAY);
    command.args(["bench", "-n", "8M", &server.ticket, "--qlog"]).arg(&logs).env("SSLKEYLOGFILE", &keys);
    Running::start(command).end().expect(0).says("SSLKEYLOGFILE is set");
    server.stop().expect(0);
    std::fs::write(&capture, relay.stop()).unwrap();

    let mut command = Command::new(MANYWAY);
    command.args(["decode", "--json", "--keylog"]).arg(&keys).arg(&capture).env_remove("SSLKEYLOGFILE");
    let packets = Running::start(command).end().expect(0).json();
    assert!(packets.len() > 100, "{}", packets.len());
    for packet in &packets {
        assert!(packet["blocks"].as_array().is_some_and(|blocks| !blocks.is_empty()), "{packet}");
    }
    let mut command = Command::new(MANYWAY);
    command.arg("decode").arg(&capture).env_remove("SSLKEYLOGFILE");
    Running::start(command).end().expect(0).says("ClientHello").says("--keylog FILE opens them");

    let files = names(&logs);
    let [client, server] = &files[..] else { panic!("{files:?}") };
    assert_eq!(client.replace("_client.sqlog", "_server.sqlog"), *server);
    for file in [client, server] {
        check_log(&logs.join(file));
    }
}

/// Each record is JSON, and the log covers a whole connection.
fn check_log(path: &Path) {
    let text = std::fs::read_to_string(path).unwrap();
    let records: Vec<Value> = text
        .split_terminator('\n')
        .map(|record| serde_json::from_str(record.strip_prefix('\u{1e}').unwrap()).unwrap())
        .collect();
    assert_eq!(records[0]["serialization_format"], "application/qlog+json-seq");
    assert!(records[0]["trace"]["common_fields"]["reference_time"]["wall_clock_time"].is_string());
    let names: Vec<_> = records[1..].iter().map(|record| record["name"].as_str().unwrap()).collect();
    for name in [
        "quic:connection_started",
        "quic:tuple_assigned",
        "quic:packet_sent",
        "quic:packet_received",
        "quic:recovery_metrics_updated",
        "mmsp:path_updated",
        "quic:connection_closed",
    ] {
        assert!(names.contains(&name), "{name} is not in {}", path.display());
    }
}

#[test]
fn hex_on_standard_input_is_shown_in_words() {
    let text = output(&["decode", "--blocks"], "85 00 0006 4200 0000 # credit\n98 00 00 04");
    assert_eq!(String::from_utf8(text.stdout).unwrap(), "        MAX-DATA credit 512\n        ACK-NOW\n");
    let text = output(&["decode", "-"], "46010203040506070801020300112233445566778899aabbccddeeff00");
    assert_eq!(text.status.code(), Some(0));
    assert!(String::from_utf8(text.stdout).unwrap().contains("1-RTT, 29 bytes, to 0102030405060708"));
    let json = output(&["decode", "--json", "--blocks"], "9b000004");
    let value: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(value["blocks"][0]["malformed"].as_str().unwrap().contains("block 0x9b is cut at byte 4"));
    assert_eq!(json.status.code(), Some(1));
}

#[test]
fn the_block_in_the_help_is_valid() {
    let help = String::from_utf8(output(&["decode", "--help"], "").stdout).unwrap();
    let example = help.lines().find_map(|line| line.trim().strip_prefix("echo ")).unwrap();
    let (bytes, _) = example.split_once(" | manyway decode --blocks").unwrap();
    assert_eq!(output(&["decode", "--blocks"], bytes).status.code(), Some(0), "{bytes}");
}

#[test]
fn unreadable_input_is_status_1_and_names_the_place() {
    for (arguments, input, reason) in [
        (&["decode"][..], "no hex", "line 1 has other characters"),
        (&["decode"], "", "there are no bytes"),
        (&["decode"], "\u{a}\r\r\u{a}", "cut or damaged at its start"),
        (&["decode", "--blocks"], "123", "odd number of digits"),
        (&["decode", "no/such/file"], "", "no/such/file"),
        (&["decode", "--keylog", "no/such/file"], "40", "no/such/file"),
    ] {
        let output = output(arguments, input);
        assert_eq!(output.status.code(), Some(1), "{arguments:?} {input:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(reason), "{reason} in\n{text}");
    }
    let malformed = output(&["decode"], "2000000000");
    assert_eq!(malformed.status.code(), Some(1));
    assert!(String::from_utf8(malformed.stdout).unwrap().contains("malformed: no packet begins with 0x20"));
}

fn output(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(MANYWAY);
    command.args(arguments).env_remove("SSLKEYLOGFILE").env_remove("MANYWAY_LOG");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It may have ended before it read anything.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// Forwards between a client and a server and captures the datagrams.
struct Relay {
    socket: UdpSocket,
    address: SocketAddr,
}

struct RunningRelay {
    wires: Arc<Wires>,
    threads: [JoinHandle<()>; 2],
}

struct Wires {
    near: UdpSocket,
    far: UdpSocket,
    server: SocketAddr,
    client: Mutex<Option<SocketAddr>>,
    passed: Mutex<Vec<(SocketAddr, SocketAddr, Vec<u8>)>>,
    stop: AtomicBool,
}

impl Relay {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        Self { socket, address }
    }

    fn start(self, server: SocketAddr) -> RunningRelay {
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        far.connect(server).unwrap();
        let wires = Arc::new(Wires {
            near: self.socket,
            far,
            server,
            client: Mutex::default(),
            passed: Mutex::default(),
            stop: AtomicBool::new(false),
        });
        let (up, down) = (Arc::clone(&wires), Arc::clone(&wires));
        let threads = [std::thread::spawn(move || up.up()), std::thread::spawn(move || down.down())];
        RunningRelay { wires, threads }
    }
}

impl Wires {
    fn up(&self) {
        self.receive(&self.near, |from, bytes| {
            *self.client.lock().unwrap() = Some(from);
            self.passed.lock().unwrap().push((from, self.server, bytes.to_vec()));
            let _ = self.far.send(bytes);
        });
    }

    fn down(&self) {
        self.receive(&self.far, |_, bytes| {
            let Some(client) = *self.client.lock().unwrap() else { return };
            self.passed.lock().unwrap().push((self.server, client, bytes.to_vec()));
            let _ = self.near.send_to(bytes, client);
        });
    }

    fn receive(&self, socket: &UdpSocket, each: impl Fn(SocketAddr, &[u8])) {
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let mut buffer = vec![0; 65_536];
        while !self.stop.load(Ordering::Relaxed) {
            if let Ok((length, from)) = socket.recv_from(&mut buffer) {
                each(from, &buffer[..length]);
            }
        }
    }
}

impl RunningRelay {
    /// The captured datagrams, as a pcap file of raw IP packets.
    fn stop(self) -> Vec<u8> {
        self.wires.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
        let mut file = Vec::new();
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
        file.extend(words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 101]));
        for (number, (from, to, payload)) in (0..).zip(self.wires.passed.lock().unwrap().iter()) {
            let total = u16::try_from(28 + payload.len()).unwrap();
            let [from, to] = [from, to].map(|address| match address {
                SocketAddr::V4(address) => *address,
                SocketAddr::V6(address) => SocketAddrV4::new(Ipv4Addr::LOCALHOST, address.port()),
            });
            let mut packet = vec![0x45, 0];
            packet.extend(total.to_be_bytes());
            packet.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
            packet.extend([from.ip().octets(), to.ip().octets()].concat());
            packet.extend([from.port(), to.port(), total - 20, 0].map(u16::to_be_bytes).concat());
            packet.extend(payload);
            let length = u32::from(total);
            file.extend(words(&[1, number, length, length]));
            file.extend(packet);
        }
        file
    }
}
