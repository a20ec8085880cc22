//! A call that comes in at a port of the server, over two links of which one becomes a black hole.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use super::hosts::{HOST, tell};
use crate::common::lab::{Family, Hole, Lab};
use crate::common::program::{MANYWAY, Running, Server};

/// The longest silence that a call may have.
const SILENCE: Duration = Duration::from_millis(150);
const PORT: u16 = 5004;

/// A port of the server that leads to a service at the client, which answers everything with itself.
struct Scene {
    lab: Lab,
    _server: Server,
    _forward: Running,
}

impl Scene {
    fn start() -> Option<Self> {
        let lab = Lab::start(2, Family::V4)?;
        lab.limit(1, 20);
        lab.limit(2, 20);
        lab.server.ip(&format!("addr add {HOST}/32 dev lo"));
        let home = lab.there().join("home");
        let mut serving = lab.serving(&lab.there(), &["--egress", "--listen", "0.0.0.0:4455"]);
        serving.env("MANYWAY_HOME", &home);
        let server = Server::start(serving);
        let mut keys = lab.server.command(MANYWAY);
        keys.args(["keys", "add", "ticket", "caller", "-q", "--listen", &format!("{HOST}:{PORT}")]);
        keys.args(["--advertise", "10.7.1.2:4455", "--advertise", "10.7.2.2:4455"]);
        let made = keys.env("MANYWAY_HOME", &home).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let ticket = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        let service = lab.client.inside(|| UdpSocket::bind("127.0.0.1:0").unwrap());
        let rule = format!("{HOST}:{PORT}:{}/udp", service.local_addr().unwrap());
        // It ends with the test program.
        std::thread::spawn(move || echo(&service));
        let forward = lab.start_client(&["forward", &ticket, "-R", &rule]);
        forward.wait_until("the port", || forward.printed().contains("/udp"));
        Some(Self { lab, _server: server, _forward: forward })
    }

    /// A call of 3 s with 50 packets a second, whose link becomes a black hole in the middle. Returns its longest silence.
    fn call(&self) -> Duration {
        let socket = self.lab.server.inside(|| UdpSocket::bind((HOST, 0)).unwrap());
        socket.connect((HOST, PORT)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let hearing = socket.try_clone().unwrap();
        let hearer = std::thread::spawn(move || {
            let mut heard = Vec::new();
            let mut buffer = [0; 2000];
            while let Ok(length) = hearing.recv(&mut buffer) {
                heard.push((Instant::now(), buffer[..length].to_vec()));
            }
            heard
        });
        let before = LINKS.map(|link| self.lab.client.sent(&format!("va{link}")));
        let begin = Instant::now();
        for number in 0..PACKETS {
            let due = begin + Duration::from_millis(20) * number;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if number == PACKETS / 2 {
                let carried =
                    |link: u8| self.lab.client.sent(&format!("va{link}")) - before[usize::from(link) - 1];
                let busy = LINKS.into_iter().max_by_key(|link| carried(*link)).unwrap();
                self.lab.black_hole(busy, Hole::Both);
            }
            socket.send(&[&number.to_be_bytes()[..], &[0; 160]].concat()).unwrap();
        }
        let heard = hearer.join().unwrap();
        self.lab.release();
        assert!(heard.iter().all(|(_, packet)| packet.len() == 164), "a packet has its length");
        let lost = usize::try_from(PACKETS).unwrap() - heard.len();
        // The last one that came counts up to the end of the call.
        let end = heard
            .last()
            .map(|(at, _)| *at)
            .into_iter()
            .map(|last| (begin + CALL).saturating_duration_since(last));
        let gaps = heard.windows(2).map(|pair| pair[1].0.duration_since(pair[0].0));
        let silence = gaps.chain(end).max().unwrap_or(Duration::MAX);
        tell(&format!("a call by a port of the server: {silence:?} of silence, {lost} packets lost"));
        silence
    }
}

fn echo(service: &UdpSocket) {
    let mut buffer = [0; 2000];
    while let Ok((length, peer)) = service.recv_from(&mut buffer) {
        let _ = service.send_to(&buffer[..length], peer);
    }
}

const LINKS: [u8; 2] = [1, 2];
const PACKETS: u32 = 150;
const CALL: Duration = Duration::from_millis(20 * PACKETS as u64);

#[test]
fn a_call_to_a_port_of_the_server_goes_on_when_a_link_becomes_a_black_hole() {
    let Some(scene) = Scene::start() else { return };
    // A busy machine only ever adds to a silence.
    let mut silences = Vec::new();
    for _ in 0..4 {
        let silence = scene.call();
        if silence <= SILENCE {
            return;
        }
        silences.push(silence);
    }
    panic!("{silences:?} of silence");
}
