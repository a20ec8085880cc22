//! The stack against a program whose system is smoltcp, too, over a wire in memory; and against packets that no system
//! sends.

mod hostile;
mod program;
mod rules;

use std::time::Duration;

use etherparse::{IpNumber, IpSlice};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use self::program::{Faults, Program, bytes};
use super::*;

/// Longer than anything takes; the clock is virtual.
const PATIENCE: Duration = Duration::from_secs(600);
const NONE: Faults = Faults { seed: 0, lost: 0, doubled: 0, late: 0 };

async fn accepted(program: &Program) -> Connection {
    timeout(PATIENCE, program.stack.accept()).await.unwrap().accept()
}

/// A program uploads and downloads, and each direction ends by itself.
async fn exchange(program: Program, size: usize) {
    let (mut local, upload, download) = (accepted(&program).await, bytes(size, 1), bytes(size, 2));
    let (sent, expected) = (upload.clone(), download.clone());
    let served = async move {
        let mut received = Vec::new();
        local.read_to_end(&mut received).await.unwrap();
        assert!(received == sent, "{} of {} bytes", received.len(), sent.len());
        // The program has ended its direction; this one goes on.
        local.write_all(&download).await.unwrap();
        local.shutdown().await.unwrap();
    };
    let used = async {
        program.send(&upload).await;
        program.finish();
        let received = program.read_to_end().await;
        assert!(received == expected, "{} of {} bytes", received.len(), expected.len());
    };
    timeout(PATIENCE, async { tokio::join!(served, used) }).await.unwrap();
    program.until_forgotten().await;
}

#[tokio::test(start_paused = true)]
async fn both_directions_arrive_whole_and_end_by_themselves_over_either_version_of_ip() {
    for destination in ["192.0.2.7:80", "[2001:db8::7]:80"] {
        for mtu in [1280, 1500, 65_521] {
            exchange(Program::connect(destination, mtu, NONE), 1_000_000).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lost_doubled_and_late_packets_are_repaired() {
    for seed in 0..8 {
        let faults = Faults { seed, lost: 2, doubled: 2, late: 5 };
        exchange(Program::connect("192.0.2.7:80", 1500, faults), 200_000).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_program_that_does_not_read_stops_the_writer_and_one_that_is_not_read_is_stopped() {
    let program = Program::connect("192.0.2.7:80", 65_521, NONE);
    let mut local = accepted(&program).await;
    let all = bytes(10_000_000, 3);
    let stuck = timeout(Duration::from_secs(100), local.write_all(&all)).await;
    assert!(stuck.is_err(), "only buffers take it");
    let stuck = timeout(Duration::from_secs(100), program.send(&all)).await;
    assert!(stuck.is_err(), "only buffers take it");
    // Both go on as soon as they are read, by more than one buffer.
    let mut some = vec![0; 300_000];
    timeout(PATIENCE, local.read_exact(&mut some)).await.unwrap().unwrap();
    assert!(some == all[..some.len()]);
    let some = timeout(PATIENCE, program.read(300_000)).await.unwrap();
    assert!(some == all[..some.len()]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_dropped_before_its_end_is_reset_at_the_program() {
    let program = Program::connect("192.0.2.7:80", 1500, NONE);
    let mut local = accepted(&program).await;
    local.write_all(b"half of an answer").await.unwrap();
    drop(local);
    timeout(PATIENCE, program.until_reset()).await.unwrap();
    program.until_forgotten().await;
}

#[tokio::test(start_paused = true)]
async fn a_reset_by_the_program_is_seen_by_a_reader_a_writer_and_after_the_end() {
    let program = Program::connect("192.0.2.7:80", 1500, NONE);
    let mut local = accepted(&program).await;
    program.send(b"data").await;
    let mut data = [0; 4];
    local.read_exact(&mut data).await.unwrap();
    program.reset();
    let error = timeout(PATIENCE, local.read(&mut data)).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(local.write_all(b"more").await.is_err());

    let program = Program::connect("192.0.2.7:80", 1500, NONE);
    let mut local = accepted(&program).await;
    program.send(b"data").await;
    local.read_exact(&mut data).await.unwrap();
    program.finish();
    assert_eq!(timeout(PATIENCE, local.read(&mut data)).await.unwrap().unwrap(), 0);
    tokio::select! {
        error = local.until_reset() => panic!("{error}"),
        () = sleep(Duration::from_secs(100)) => {}
    }
    program.reset();
    timeout(PATIENCE, local.until_reset()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_stack_resets_its_connections_at_both_ends() {
    let mut program = Program::connect("192.0.2.7:80", 1500, NONE);
    let mut local = accepted(&program).await;
    let waiting = tokio::spawn(async move { local.read(&mut [0; 4]).await });
    tokio::task::yield_now().await;
    program.end_stack();
    let error = timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    timeout(PATIENCE, program.until_reset()).await.unwrap();

    let mut program = Program::connect("192.0.2.7:80", 1500, NONE);
    let attempt = timeout(PATIENCE, program.stack.accept()).await.unwrap();
    program.end_stack();
    assert!(timeout(PATIENCE, attempt.accept().read(&mut [0; 4])).await.unwrap().is_err());
    timeout(PATIENCE, program.until_reset()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_program_that_is_gone_is_noticed() {
    let program = Program::connect("192.0.2.7:80", 1500, NONE);
    let mut local = accepted(&program).await;
    program.vanish();
    assert!(timeout(PATIENCE, local.read(&mut [0; 4])).await.unwrap().is_err());
    program.until_forgotten().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_program_hears_why() {
    for destination in ["192.0.2.7:80", "[2001:db8::7]:80"] {
        let program = Program::connect(destination, 1500, NONE);
        program.stack.accept().await.refuse(Unreachable::Port);
        timeout(PATIENCE, program.until_reset()).await.unwrap();
        program.until_forgotten().await;

        let program = Program::connect(destination, 1500, NONE);
        let attempt = program.stack.accept().await;
        assert_eq!(
            (attempt.destination(), attempt.program()),
            (destination.parse().unwrap(), program.address)
        );
        attempt.refuse(Unreachable::Host);
        let answer = program.last_packet();
        let answer = IpSlice::from_slice(&answer).unwrap();
        assert!([IpNumber::ICMP, IpNumber::IPV6_ICMP].contains(&answer.payload_ip_number()));

        let program = Program::connect(destination, 1500, NONE);
        drop(program.stack.accept().await);
        timeout(PATIENCE, program.until_reset()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn connections_beyond_the_queue_are_not_answered() {
    let sent = Arc::new(Mutex::new(0));
    let count = Arc::clone(&sent);
    let stack = Stack::new(1500, move |_| *count.lock().unwrap() += 1);
    for port in 1..=1000 {
        stack.receive(&program::opening(([198, 18, 0, 1], port).into(), "192.0.2.7:80".parse().unwrap()));
    }
    let mut attempts = Vec::new();
    while let Ok(attempt) = timeout(Duration::from_millis(1), stack.accept()).await {
        attempts.push(attempt);
    }
    assert_eq!((attempts.len(), *sent.lock().unwrap()), (BACKLOG, 0));
}
