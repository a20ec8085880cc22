//! Numbered datagrams from one socket to another, and the fate of each.

use std::io;
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// How many datagrams.
    pub count: u64,
    /// Bytes of each; at least 16, for number and send time.
    pub size: usize,
    /// Duration, evenly distributed.
    pub time: Duration,
    /// Time for data in flight after that.
    pub wait: Duration,
}

/// A datagram that arrived.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arrived {
    /// Its number, from 0.
    pub number: u64,
    /// From sending to arriving.
    pub delay: Duration,
    /// When it was sent.
    pub sent_at: Instant,
    /// When it arrived.
    pub at: Instant,
    /// Bits that differ from those sent, after number and send time.
    pub flipped: u32,
}

/// Sends a load between two connected sockets and returns what arrives, in the order of arrival. A datagram that an
/// interface refuses because it is down counts as sent.
///
/// # Errors
/// The sockets cannot be configured.
pub fn send((from, to): (&UdpSocket, &UdpSocket), load: Load) -> io::Result<Vec<Arrived>> {
    // Late datagrams of an earlier call would be counted.
    to.set_nonblocking(true)?;
    while to.recv(&mut [0; 16]).is_ok() {}
    to.set_nonblocking(false)?;
    to.set_read_timeout(Some(READ))?;
    let start = Instant::now();
    thread::scope(|scope| {
        let receiver = scope.spawn(move || receive(to, start, start + load.time + load.wait));
        let mut number = 0;
        let mut datagram = vec![FILLING; load.size.max(HEAD)];
        while number < load.count {
            let part = crate::measures::count(number) / crate::measures::count(load.count);
            // Sleeping is imprecise, so what is due within a millisecond is sent at once.
            let rest = (start + load.time.mul_f64(part)).checked_duration_since(Instant::now());
            if let Some(rest) = rest.filter(|rest| *rest > Duration::from_millis(1)) {
                thread::sleep(rest);
            }
            let since = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            if let Some((head, _)) = datagram.split_first_chunk_mut::<HEAD>() {
                *head = (u128::from(number) << 64 | u128::from(since)).to_be_bytes();
            }
            let _ = from.send(&datagram);
            number += 1;
        }
        receiver.join().map_err(|_| io::ErrorKind::Other.into())
    })
}

fn receive(to: &UdpSocket, start: Instant, end: Instant) -> Vec<Arrived> {
    let mut arrived = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let received = to.recv(&mut buffer);
        let at = Instant::now();
        let datagram = received.ok().and_then(|length| buffer.get(..length));
        arrived.extend(datagram.and_then(|datagram| read(datagram, start, at)));
        if at > end {
            return arrived;
        }
    }
}

fn read(datagram: &[u8], start: Instant, at: Instant) -> Option<Arrived> {
    let (number, rest) = datagram.split_first_chunk()?;
    let (since, filling) = rest.split_first_chunk()?;
    let [number, since] = [number, since].map(|bytes| u64::from_be_bytes(*bytes));
    let sent_at = start.checked_add(Duration::from_nanos(since))?;
    let flipped = filling.iter().map(|byte| (byte ^ FILLING).count_ones()).sum();
    Some(Arrived { number, delay: at.saturating_duration_since(sent_at), sent_at, at, flipped })
}

const HEAD: usize = 16;
const FILLING: u8 = 0xA5;
/// How soon the receiver notices the end.
const READ: Duration = Duration::from_millis(20);
