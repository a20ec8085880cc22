//! Packets that no system sends.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use etherparse::{PacketBuilder, TcpHeader};
use proptest::prelude::*;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

use super::super::{Connection, Stack};
use super::program::opening;
use crate::packet::Packet;

#[derive(Debug, Clone)]
enum Step {
    /// A segment of the program, with numbers relative to what the stack has sent last: its acknowledgement and window,
    /// and its own next number.
    Segment {
        sequence: i32,
        acknowledgement: i32,
        window: u16,
        flags: u8,
        length: usize,
    },
    Read(usize),
    Write(usize),
    Shutdown,
    Wait(u64),
}

/// Near the numbers that matter.
fn offset() -> impl Strategy<Value = i32> {
    prop_oneof![4 => Just(0), 4 => -3..=3, 2 => -70_000..70_000, 1 => any::<i32>()]
}

fn step() -> impl Strategy<Value = Step> {
    let segment =
        (offset(), offset(), any::<u16>(), any::<u8>(), prop_oneof![Just(0), 0..64_usize, 0..65_000_usize]);
    prop_oneof![
        6 => segment.prop_map(|(sequence, acknowledgement, window, flags, length)| Step::Segment {
            sequence,
            acknowledgement,
            window,
            flags,
            length,
        }),
        2 => (1..70_000_usize).prop_map(Step::Read),
        2 => (1..300_000_usize).prop_map(Step::Write),
        1 => Just(Step::Shutdown),
        1 => (0..200_000_u64).prop_map(Step::Wait),
    ]
}

/// The header of the last segment that the stack has sent.
type Last = Arc<Mutex<Option<TcpHeader>>>;

fn stack(mtu: u16) -> (Stack, Last) {
    let last = Last::default();
    let seen = Arc::clone(&last);
    let stack = Stack::new(mtu, move |packet| {
        let headers = etherparse::PacketHeaders::from_ip_slice(packet).unwrap();
        *seen.lock().unwrap() = headers.transport.and_then(etherparse::TransportHeader::tcp);
    });
    (stack, last)
}

const PROGRAM: ([u8; 4], u16) = ([198, 18, 0, 1], 40_000);
const DESTINATION: ([u8; 4], u16) = ([192, 0, 2, 7], 80);

/// A segment of the program.
fn segment(last: &TcpHeader, step: &Step) -> Vec<u8> {
    let Step::Segment { sequence, acknowledgement, window, flags, length } = step else { return Vec::new() };
    let sequence = last.acknowledgment_number.wrapping_add_signed(*sequence);
    let next = last.sequence_number.wrapping_add(u32::from(last.syn || last.fin));
    let mut tcp = TcpHeader::new(PROGRAM.1, DESTINATION.1, sequence, *window);
    tcp.acknowledgment_number = next.wrapping_add_signed(*acknowledgement);
    // Most segments acknowledge, and few end, reset or open.
    tcp.ack = flags & 0x07 != 0;
    tcp.fin = flags & 0xf0 == 0;
    tcp.rst = flags & 0xfc == 0x10;
    tcp.syn = flags & 0xfc == 0x20;
    let mut packet = Vec::new();
    PacketBuilder::ipv4(PROGRAM.0, DESTINATION.0, 64)
        .tcp_header(tcp)
        .write(&mut packet, &vec![7; *length])
        .unwrap();
    packet
}

fn carry_out(step: &Step, connection: &mut Connection) {
    let mut context = Context::from_waker(Waker::noop());
    match step {
        Step::Read(length) => {
            let mut buffer = vec![0; *length];
            let _ = Pin::new(connection).poll_read(&mut context, &mut ReadBuf::new(&mut buffer));
        }
        Step::Write(length) => {
            let _ = Pin::new(connection).poll_write(&mut context, &vec![9; *length]);
        }
        Step::Shutdown => {
            let _ = Pin::new(connection).poll_shutdown(&mut context);
        }
        Step::Segment { .. } | Step::Wait(_) => {}
    }
}

async fn run(mtu: u16, steps: Vec<Step>) {
    let (stack, last) = stack(mtu);
    stack.receive(&opening(SocketAddr::new(IpAddr::from(PROGRAM.0), PROGRAM.1), DESTINATION.into()));
    let mut connection = stack.accept().await.accept();
    for step in steps {
        let header = last.lock().unwrap().clone().unwrap();
        match &step {
            Step::Segment { .. } => stack.receive(&segment(&header, &step)),
            Step::Wait(milliseconds) => tokio::time::sleep(Duration::from_millis(*milliseconds)).await,
            Step::Read(_) | Step::Write(_) | Step::Shutdown => carry_out(&step, &mut connection),
        }
    }
    drop(connection);
    // The stack forgets every connection in the end. A late SYN may have opened another one.
    while let Ok(attempt) = tokio::time::timeout(Duration::from_millis(1), stack.accept()).await {
        drop(attempt);
    }
    tokio::time::sleep(Duration::from_secs(1000)).await;
    assert!(stack.shared.connections().is_empty());
}

/// A segment of the program in order, with these flags.
fn in_order(last: &Last, flags: u8, (acknowledgement, length): (i32, usize)) -> Vec<u8> {
    let header = last.lock().unwrap().clone().unwrap();
    segment(&header, &Step::Segment { sequence: 0, acknowledgement, window: 1000, flags, length })
}

const DATA: u8 = 0x41;
const FIN: u8 = 0x01;

#[test]
fn before_the_answer_to_the_syn_is_acknowledged_nothing_is_taken() {
    paused().block_on(async {
        let (stack, last) = stack(65_521);
        stack.receive(&opening(SocketAddr::new(IpAddr::from(PROGRAM.0), PROGRAM.1), DESTINATION.into()));
        let connection = stack.accept().await.accept();
        let syn = last.lock().unwrap().clone().unwrap();
        for _ in 0..5 {
            // It acknowledges the number before that of the answer.
            stack.receive(&in_order(&last, DATA, (-1, 60_000)));
        }
        stack.receive(&in_order(&last, FIN, (-1, 0)));
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(last.lock().unwrap().clone().unwrap(), syn, "it is repeated");
        let mut buffer = [0; 10];
        let context = Context::from_waker(Waker::noop());
        assert!(connection.poll_read(&context, &mut ReadBuf::new(&mut buffer)).is_pending());
    });
}

#[test]
fn a_fin_that_comes_again_is_acknowledged_again() {
    paused().block_on(async {
        let (stack, last) = stack(1500);
        stack.receive(&opening(SocketAddr::new(IpAddr::from(PROGRAM.0), PROGRAM.1), DESTINATION.into()));
        let connection = stack.accept().await.accept();
        stack.receive(&in_order(&last, DATA, (0, 0)));
        connection.finish();
        let fin = in_order(&last, FIN, (0, 0));
        for _ in 0..2 {
            *last.lock().unwrap() = None;
            stack.receive(&fin);
            tokio::time::sleep(Duration::from_millis(500)).await;
            let answer = last.lock().unwrap().clone().unwrap();
            assert!(answer.ack && !answer.rst, "{answer:?}");
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(stack.shared.connections().is_empty());
    });
}

fn paused() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

proptest! {
    #[test]
    fn any_segments_of_a_connection_leave_it_sound(
        mtu in prop_oneof![Just(1280_u16), Just(1500), Just(65_521)],
        steps in prop::collection::vec(step(), 0..60),
    ) {
        paused().block_on(run(mtu, steps));
    }

    #[test]
    fn any_bytes_are_taken(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..120), 0..10)) {
        let stack = Stack::new(1500, |answer| assert!(Packet::parse(answer).is_ok()));
        for packet in packets {
            stack.receive(&packet);
            // The same with the headers of a TCP packet before it.
            let mut whole = opening(([198, 18, 0, 1], 1).into(), "192.0.2.7:80".parse().unwrap());
            let room = whole.len().min(20 + packet.len());
            whole[20..room].copy_from_slice(&packet[..room - 20]);
            stack.receive(&whole);
        }
    }
}
