use std::time::Duration;

use super::*;
use manyway_proto::Rate;

/// Measured by the link's own clock, so that a busy machine cannot change it: with the queue never empty, every whole
/// bin but the first and the last has exactly the rate.
#[test]
fn a_full_link_delivers_its_rate() {
    let bench = Bench::new("20Mbit,5ms");
    let deadline = Instant::now() + Duration::from_millis(900);
    while Instant::now() < deadline {
        // 12.5 Mbyte/s are offered, five times the rate.
        bench.send_to_server(100, 1172);
        std::thread::sleep(Duration::from_millis(8));
    }
    bench.settle();
    let bins = bench.link().figures(Direction::Up).delivered;
    let first = bins.iter().position(|b| *b > 0).unwrap() + 1;
    let middle = &bins[first..first + 15];
    // Of 1200 bytes on the wire 1172 are payload.
    let expected = 20_000_000 / 8 * 15 / 20 * 1172 / 1200;
    let sum: u64 = middle.iter().sum();
    assert!(sum.abs_diff(expected) * 100 <= expected * 3, "{sum} instead of {expected}: {middle:?}");
}

#[test]
fn a_datagram_arrives_after_the_delay_and_so_does_its_answer() {
    let bench = Bench::new("100Mbit,30ms");
    let sent = Instant::now();
    bench.client.send_to(b"question", bench.link().front()).unwrap();
    let (text, from) = receive(&bench.server).unwrap();
    let there = sent.elapsed();
    assert_eq!(text, b"question");
    assert_eq!(from.ip(), bench.link().front().ip());
    bench.server.send_to(b"answer", from).unwrap();
    let (text, from) = receive(&bench.client).unwrap();
    let back = sent.elapsed();
    assert_eq!((text.as_slice(), from), (&b"answer"[..], bench.link().front()));
    assert!(there >= Duration::from_millis(30) && back >= Duration::from_millis(60), "{there:?} {back:?}");
    // The upper bound only catches a lost timer: the machine may be busy.
    assert!(back < Duration::from_millis(500), "{back:?}");
}

#[test]
fn a_cut_link_is_a_black_hole_until_it_is_restored() {
    let bench = Bench::new("100Mbit,1ms");
    bench.link().cut();
    bench.settle();
    bench.send_to_server(10, 500);
    bench.wait_until(|figures| figures.counters.outage.packets == 10);
    assert_eq!(bench.link().figures(Direction::Up).counters.delivered.packets, 0);
    bench.link().restore();
    bench.settle();
    bench.send_to_server(10, 500);
    bench.wait_until(|figures| figures.counters.delivered.packets == 10);
}

#[test]
fn datagrams_in_flight_are_lost_in_a_cut() {
    let bench = Bench::new("100Mbit,400ms");
    bench.send_to_server(5, 500);
    bench.wait_until(|figures| figures.counters.offered.packets == 5);
    bench.link().cut();
    bench.settle();
    bench.link().restore();
    std::thread::sleep(Duration::from_millis(500));
    let counters = bench.link().figures(Direction::Up).counters;
    assert_eq!((counters.delivered.packets, counters.outage.packets), (0, 5));
}

#[test]
fn a_datagram_from_another_address_is_dropped() {
    let bench = Bench::new("100Mbit,1ms");
    let stranger = UdpSocket::bind("127.0.77.1:0").unwrap();
    stranger.send_to(b"let me in", bench.link().front()).unwrap();
    bench.wait_until(|figures| figures.foreign == 1);
    assert_eq!(bench.link().figures(Direction::Up).counters.offered.packets, 0);
}

#[test]
fn two_client_sockets_share_a_link_and_get_their_own_answers() {
    let bench = Bench::new("100Mbit,1ms");
    let other = UdpSocket::bind((bench.link().client(), 0)).unwrap();
    for (socket, text) in [(&bench.client, b"one"), (&other, b"two")] {
        socket.send_to(text, bench.link().front()).unwrap();
        let (text, from) = receive(&bench.server).unwrap();
        bench.server.send_to(&text, from).unwrap();
        assert_eq!(receive(socket).unwrap().0, text);
    }
}

#[test]
fn the_datagrams_of_a_batch_stay_separate() {
    let bench = Bench::new("100Mbit,1ms");
    let port = quinn_udp::UdpSocketState::new((&bench.client).into()).unwrap();
    let batch: Vec<u8> = (0..10_u8).flat_map(|n| vec![n; if n < 9 { 300 } else { 7 }]).collect();
    let segments = port.max_gso_segments();
    for (piece, start) in batch.chunks(300 * segments.min(10)).zip(0..) {
        let transmit = quinn_udp::Transmit {
            destination: bench.link().front(),
            ecn: None,
            contents: piece,
            segment_size: Some(300),
            src_ip: None,
        };
        port.try_send((&bench.client).into(), &transmit).unwrap();
        let _: usize = start;
    }
    for n in 0..10_u8 {
        assert_eq!(receive(&bench.server).unwrap().0, vec![n; if n < 9 { 300 } else { 7 }]);
    }
    assert_eq!(bench.link().figures(Direction::Up).counters.offered.packets, 10);
}

#[test]
fn a_lossy_link_loses_its_share() {
    let bench = Bench::new("1Gbit,0ms,20%");
    for round in 1..=20 {
        bench.send_to_server(50, 200);
        // More at once would overflow the socket.
        bench.wait_until(|figures| figures.counters.offered.packets == round * 50);
    }
    let counters = bench.link().figures(Direction::Up).counters;
    assert!((150..250).contains(&counters.lost.packets), "{counters:?}");
}

#[test]
fn an_emulator_needs_links() {
    let server = "127.0.0.1:9".parse().unwrap();
    assert!(Emulator::start(&[], server, EmulatorConfig::default()).is_err());
}

/// Measures the throughput and cost of the relays; prints them.
#[test]
#[ignore = "a measurement: run alone with --ignored --nocapture"]
fn three_fast_links_at_once() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let spec: LinkSpec = "120Mbit,10ms".parse().unwrap();
    assert!(spec.rate > Rate::ZERO);
    let emulator =
        Emulator::start(&[spec; 3], server.local_addr().unwrap(), EmulatorConfig::default()).unwrap();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for link in emulator.links() {
            scope.spawn(move || {
                let socket = UdpSocket::bind((link.client(), 0)).unwrap();
                let batch = vec![0; 1172 * 40];
                let port = quinn_udp::UdpSocketState::new((&socket).into()).unwrap();
                while start.elapsed() < Duration::from_secs(2) {
                    let transmit = quinn_udp::Transmit {
                        destination: link.front(),
                        ecn: None,
                        contents: &batch,
                        segment_size: Some(1172),
                        src_ip: None,
                    };
                    let _ = port.try_send((&socket).into(), &transmit);
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
        }
    });
    let bytes: u64 =
        emulator.links().iter().map(|l| l.figures(Direction::Up).counters.delivered.bytes.get()).sum();
    println!("{} Mbit/s through three links", bytes * 8 / 2_000_000);
    assert!(bytes * 8 / 2_000_000 > 300);
}

struct Bench {
    emulator: Emulator,
    client: UdpSocket,
    server: UdpSocket,
}

impl Bench {
    fn new(spec: &str) -> Self {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let specs = [spec.parse().unwrap()];
        let emulator =
            Emulator::start(&specs, server.local_addr().unwrap(), EmulatorConfig::default()).unwrap();
        let client = UdpSocket::bind((emulator.links()[0].client(), 0)).unwrap();
        for socket in [&client, &server] {
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        }
        Self { emulator, client, server }
    }

    fn link(&self) -> &LinkHandle {
        &self.emulator.links()[0]
    }

    fn send_to_server(&self, count: usize, size: usize) {
        for _ in 0..count {
            self.client.send_to(&vec![7; size], self.link().front()).unwrap();
        }
    }

    /// Waits until the figures of what goes up are so, which a busy machine takes its time for.
    fn wait_until(&self, are_so: impl Fn(&Figures) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let figures = self.link().figures(Direction::Up);
            if are_so(&figures) {
                return;
            }
            assert!(Instant::now() < deadline, "{figures:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Gives the relay time for a change, much more than it needs.
    fn settle(&self) {
        std::thread::sleep(Duration::from_millis(60));
    }
}

fn receive(socket: &UdpSocket) -> io::Result<(Vec<u8>, SocketAddr)> {
    let mut buffer = vec![0; 65536];
    let (length, from) = socket.recv_from(&mut buffer)?;
    buffer.truncate(length);
    Ok((buffer, from))
}
