//! A server's memory is returned after its connections, and its maximum is known.
#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::time::{Duration, Instant};

use crate::common::place::Place;
use crate::common::program::Running;

/// Most memory of a server for one connection, by SECURITY.md.
const OF_A_CONNECTION: u64 = 256 << 20;

/// Resident bytes of a process, current or at the peak.
fn memory(process: &Running, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

#[test]
fn a_server_returns_its_memory_within_10_s_of_the_last_connection_and_keeps_its_peak() {
    let place = Place::new();
    let server = place.serve(&[]);
    let process = &server.running;
    let idle = memory(process, "VmRSS:");
    for connections in [1, 3] {
        for way in [&["-R"][..], &["--bidir"]] {
            let run = [&["bench", "-q", "-P", "128", "-t", "1", &server.ticket], way].concat();
            let clients: Vec<_> = (0..connections).map(|_| place.start(&run)).collect();
            for client in clients {
                client.end().expect(0);
            }
        }
        let peak = memory(process, "VmHWM:");
        assert!(
            peak <= idle + OF_A_CONNECTION * connections,
            "{connections}: {peak} bytes, {idle} when idle"
        );
        let ended = Instant::now();
        while memory(process, "VmRSS:") > 2 * idle {
            let now = memory(process, "VmRSS:");
            assert!(ended.elapsed() < Duration::from_secs(10), "{now} bytes, {idle} when idle");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    server.stop().expect(0);
}
