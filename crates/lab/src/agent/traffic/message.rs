//! Messages at regular intervals, each with its number and its send time.

use std::io;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::agent::clock;
use crate::agent::document::Received;
use crate::agent::lane::{SHORTEST_MESSAGE as HEADER, Writing};

/// The due times of messages.
#[derive(Debug)]
pub(super) struct Schedule {
    pub(super) size: usize,
    pub(super) interval: Duration,
    pub(super) begin: Instant,
    /// No message is due from this instant on.
    pub(super) stop: Instant,
}

/// Sends every message that is due.
///
/// A message carries the time at which it is written. One that has to wait for the stream carries the time at which it
/// was due, so that its delay counts.
pub(super) async fn send(write: &mut Writing, schedule: &Schedule) -> io::Result<()> {
    let mut message = vec![0; schedule.size.max(HEADER)];
    let mut due = schedule.begin;
    let mut number: u64 = 0;
    while due < schedule.stop {
        let late = Instant::now().checked_duration_since(due).filter(|_| number > 0);
        if late.is_none() {
            sleep_until(due).await;
        }
        let late = late.map_or(0, |late| u64::try_from(late.as_nanos()).unwrap_or(u64::MAX));
        let moment = clock::nanos().saturating_sub(late);
        let header = [number.to_be_bytes(), moment.to_be_bytes()].concat();
        if let Some(place) = message.get_mut(..HEADER) {
            place.copy_from_slice(&header);
        }
        write.put(&message).await?;
        number += 1;
        due += schedule.interval;
    }
    Ok(())
}

/// Extracts the messages from received data.
#[derive(Debug)]
pub(super) struct Reader {
    size: usize,
    /// The number after the highest so far.
    next: u64,
    /// Whether messages are reliable and ordered.
    is_ordered: bool,
    /// The beginning of an incomplete message.
    begun: Vec<u8>,
}

impl Reader {
    pub(super) fn new(size: usize, is_ordered: bool) -> Self {
        Self { size: size.max(HEADER), next: 0, is_ordered, begun: Vec::new() }
    }

    /// Adds bytes that arrived at an instant and records every message that they complete.
    pub(super) fn take(&mut self, mut new: &[u8], now: u64, received: &mut Received) -> Result<(), String> {
        while !new.is_empty() {
            let (now_mine, rest) = new.split_at(new.len().min(self.size - self.begun.len()));
            self.begun.extend_from_slice(now_mine);
            new = rest;
            if self.begun.len() < self.size {
                continue;
            }
            let (number, moment) = header(&self.begun);
            if self.is_ordered && number != self.next {
                return Err(format!("message {number} came where {} was expected", self.next));
            }
            received.overtaken += u64::from(number < self.next);
            self.next = self.next.max(number.saturating_add(1));
            received.latencies.push(now.saturating_sub(moment));
            self.begun.clear();
        }
        Ok(())
    }
}

/// Number and send time.
fn header(message: &[u8]) -> (u64, u64) {
    let mut numbers = message.chunks_exact(8).map(|eight| eight.try_into().map_or(0, u64::from_be_bytes));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u64, moment: u64, size: usize) -> Vec<u8> {
        let mut message = [number.to_be_bytes(), moment.to_be_bytes()].concat();
        message.resize(size, 0);
        message
    }

    #[test]
    fn messages_are_found_in_any_fragmentation() {
        let stream = [message(0, 100, 20), message(1, 250, 20), message(2, 300, 20)].concat();
        for cut in 1..stream.len() {
            let (mut reader, mut received) = (Reader::new(20, true), Received::default());
            for piece in stream.chunks(cut) {
                reader.take(piece, 1000, &mut received).unwrap();
            }
            assert_eq!(received.latencies, [900, 750, 700]);
        }
    }

    #[test]
    fn a_message_out_of_order_is_reported() {
        let early = message(7, 0, 16);
        let failure = Reader::new(16, true).take(&early, 0, &mut Received::default()).unwrap_err();
        assert_eq!(failure, "message 7 came where 0 was expected");
        assert_eq!(Reader::new(16, false).take(&early, 0, &mut Received::default()), Ok(()));
    }

    #[test]
    fn messages_that_arrive_after_a_later_one_are_counted() {
        let (mut reader, mut received) = (Reader::new(16, false), Received::default());
        for number in [0, 3, 1, 4, 2, 5] {
            reader.take(&message(number, 0, 16), 0, &mut received).unwrap();
        }
        assert_eq!((received.overtaken, received.latencies.len()), (2, 6));
    }
}
