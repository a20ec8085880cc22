//! The system's own protocols over the links.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use manyway_lab::scenario::Side;
use manyway_sim::link::LinkConfig;
use manyway_sim::skipped::skip_optional;
use socket2::{Domain, Protocol, Socket, Type};

use crate::common::{Bench, MS, mbit, measured, side_by_side, single};

const AMOUNT: usize = 4_000_000;

#[test]
fn tcp_fills_a_link() {
    let config = LinkConfig::new(mbit(20), 10 * MS);
    let Some(bench) = Bench::shared(&single(&config)) else { return };
    // 1448 of 1500 bytes are payload, and slow start takes some round trips.
    let share = measured(
        |share| *share > 0.85 && *share < 1448.0 / 1500.0 + 0.01,
        || {
            let time = transfer(&bench, None);
            AMOUNT as f64 * 8.0 / time.as_secs_f64() / 20e6
        },
    );
    println!("TCP carried {share:.3} of the rate");
}

#[test]
fn mptcp_uses_both_links() {
    if !std::path::Path::new("/proc/sys/net/mptcp/enabled").exists() {
        skip_optional("this system has no MPTCP");
        return;
    }
    let config = LinkConfig::new(mbit(10), 10 * MS);
    let Some(bench) = Bench::shared(&side_by_side(&[config.clone(), config])) else { return };
    for side in [Side::Client, Side::Server] {
        bench.run(side, "ip mptcp limits set subflow 4 add_addr_accepted 4");
    }
    let far = bench.address(Side::Server, 1);
    bench.run(Side::Server, &format!("ip mptcp endpoint add {far} dev far1 signal"));
    transfer(&bench, Some(Protocol::MPTCP));
    let report = bench.emulator.finish().unwrap();
    for link in &report.totals.links {
        let bytes = link.up.delivered.bytes;
        assert!(bytes > AMOUNT as u64 / 5, "{}: {bytes} bytes of {AMOUNT}", link.name);
    }
}

/// Sends [`AMOUNT`] bytes from the client and returns the time until the last has arrived.
fn transfer(bench: &Bench, protocol: Option<Protocol>) -> Duration {
    let make = || Socket::new(Domain::IPV4, Type::STREAM, protocol).unwrap();
    let listener = bench.hosts.inside(Side::Server, || {
        let socket = make();
        // Further subflows use the other addresses.
        socket.bind(&SocketAddr::from(([0, 0, 0, 0], 0)).into()).unwrap();
        socket.listen(1).unwrap();
        TcpListener::from(socket)
    });
    let listener = listener.unwrap();
    let local = SocketAddr::new(bench.address(Side::Client, 0), 0);
    let sender = bench.hosts.inside(Side::Client, || {
        let socket = make();
        socket.bind(&local.into()).unwrap();
        socket
    });
    let sender = sender.unwrap();
    let port = listener.local_addr().unwrap().port();
    let to = SocketAddr::new(bench.address(Side::Server, 0), port);
    std::thread::scope(|scope| {
        let start = Instant::now();
        scope.spawn(move || {
            sender.connect(&to.into()).unwrap();
            let mut stream = TcpStream::from(sender);
            stream.write_all(&vec![7; AMOUNT]).unwrap();
        });
        let (mut stream, _) = listener.accept().unwrap();
        let mut content = Vec::new();
        stream.read_to_end(&mut content).unwrap();
        assert!(content.len() == AMOUNT && content.iter().all(|byte| *byte == 7));
        start.elapsed()
    })
}
