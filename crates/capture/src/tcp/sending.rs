//! What goes to a program, until it is acknowledged: retransmission (RFC 6298), congestion control (RFC 5681, 6582, without
//! inflation of the window) and the program's window.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::segment::Control;

/// Bytes that were sent or are to be.
#[derive(Debug)]
pub(super) struct Sender {
    /// From `acknowledged` on.
    buffer: VecDeque<u8>,
    capacity: usize,
    /// The position after the last byte, which is that of the FIN.
    end: u64,
    /// The writer has finished.
    is_finished: bool,
    /// The first position that is not acknowledged; before the SYN is, 0.
    acknowledged: u64,
    /// What is sent next, and the position after everything that was ever sent.
    next: u64,
    highest: u64,
    /// The first position that the program does not accept yet.
    edge: u64,
    /// Bytes of data in a segment.
    largest: u64,
    congestion: Congestion,
    timer: Timer,
}

/// What a segment carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) position: u64,
    pub(super) length: usize,
    pub(super) control: Control,
}

#[derive(Debug)]
struct Congestion {
    window: u64,
    threshold: u64,
    duplicates: u32,
    /// The end of what was sent before the last loss was noticed: duplicate acknowledgements up to there may answer
    /// retransmissions, and tell of no loss (RFC 6582, 3.2).
    recover: u64,
    /// A fast retransmission is not yet acknowledged up to `recover`.
    is_recovering: bool,
    /// The first segment is to be sent again.
    repeats: bool,
}

#[derive(Debug)]
struct Timer {
    at: Option<Instant>,
    timeout: Duration,
    /// The smoothed round-trip time and its variation.
    rtt: Option<(Duration, Duration)>,
    /// A position whose acknowledgement measures the round-trip time, and when it was sent.
    measures: Option<(u64, Instant)>,
}

impl Sender {
    /// Sends segments of at most `largest` bytes.
    pub(super) fn new(capacity: usize, largest: u64) -> Self {
        let congestion = Congestion {
            // RFC 6928
            window: 10 * largest,
            threshold: u64::MAX,
            duplicates: 0,
            recover: 0,
            is_recovering: false,
            repeats: false,
        };
        let timer = Timer { at: None, timeout: FIRST_TIMEOUT, rtt: None, measures: None };
        let (buffer, end, is_finished) = (VecDeque::new(), 1, false);
        let (acknowledged, next, highest, edge) = (0, 0, 0, 0);
        Self {
            buffer,
            capacity,
            end,
            is_finished,
            acknowledged,
            next,
            highest,
            edge,
            largest,
            congestion,
            timer,
        }
    }

    pub(super) fn room(&self) -> usize {
        self.capacity.saturating_sub(self.buffer.len())
    }

    /// Takes as much as there is room for.
    pub(super) fn write(&mut self, data: &[u8]) -> usize {
        let length = self.room().min(data.len());
        self.buffer.extend(data.get(..length).unwrap_or_default());
        self.end += u64::try_from(length).unwrap_or(0);
        length
    }

    /// Ends the stream after what was written.
    pub(super) fn finish(&mut self) {
        self.is_finished = true;
    }

    pub(super) fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Whether the program has acknowledged that the connection is open.
    pub(super) fn is_established(&self) -> bool {
        self.acknowledged > 0
    }

    /// Whether the program has everything, and its end.
    pub(super) fn is_complete(&self) -> bool {
        self.is_finished && self.acknowledged > self.end
    }

    /// What new segments without data have as their number.
    pub(super) fn highest(&self) -> u64 {
        self.highest
    }

    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Whether data wait for the program's window alone.
    pub(super) fn is_blocked(&self) -> bool {
        self.is_established() && self.next == self.acknowledged && self.next < self.end
    }

    /// When something has to be sent again.
    pub(super) fn timer(&self) -> Option<Instant> {
        self.timer.at
    }

    /// The next piece that may be sent.
    pub(super) fn next_piece(&mut self, now: Instant) -> Option<Piece> {
        if std::mem::take(&mut self.congestion.repeats) {
            let end = self.highest.min(self.end);
            let length = end.saturating_sub(self.acknowledged).min(self.largest);
            let piece = self.piece(self.acknowledged, length);
            // A FIN that was not sent yet waits for its turn.
            let is_early = piece.control == Control::End && self.highest <= self.end;
            return Some(Piece { control: if is_early { Control::None } else { piece.control }, ..piece });
        }
        let piece = if self.next == 0 { Some(self.piece(0, 0)) } else { self.new_piece() }?;
        let taken = u64::try_from(piece.length).unwrap_or(0);
        let after = piece.position + taken + u64::from(piece.control != Control::None);
        let is_new = piece.position == self.highest;
        self.next = after;
        self.highest = self.highest.max(after);
        if is_new && self.timer.measures.is_none() {
            self.timer.measures = Some((after, now));
        }
        self.timer.at.get_or_insert(now + self.timer.timeout);
        Some(piece)
    }

    /// The bytes of a piece.
    pub(super) fn data(&self, piece: &Piece) -> Vec<u8> {
        let begin = piece.position.saturating_sub(self.acknowledged.max(1));
        let begin = usize::try_from(begin).unwrap_or(usize::MAX);
        let (front, back) = self.buffer.as_slices();
        let middle = begin.min(front.len());
        let all = [front.get(middle..).unwrap_or_default(), back.get(begin - middle..).unwrap_or_default()];
        let mut data = Vec::with_capacity(piece.length);
        for part in all {
            let length = part.len().min(piece.length - data.len());
            data.extend_from_slice(part.get(..length).unwrap_or_default());
        }
        data
    }

    /// Takes an acknowledgement and the position up to which the program accepts data. `false`: it acknowledges what was
    /// never sent, or what was acknowledged long ago.
    pub(super) fn acknowledge(&mut self, position: u64, edge: u64, is_bare: bool, now: Instant) -> bool {
        // RFC 5961, 5.2
        if position > self.highest || position + MOST_IN_FLIGHT < self.acknowledged {
            return false;
        }
        if position > self.acknowledged {
            self.advance(position, now);
        } else if position == self.acknowledged {
            let is_duplicate = is_bare && edge == self.edge && self.highest > position;
            if is_duplicate && self.is_established() {
                self.on_duplicate();
            }
        }
        if position == self.acknowledged {
            self.edge = edge;
        }
        true
    }

    /// The timer has expired: everything that is not acknowledged is sent again.
    // RFC 6298, 5.4 to 5.6
    pub(super) fn on_timeout(&mut self, now: Instant) {
        self.congestion.threshold = (self.in_flight() / 2).max(2 * self.largest);
        self.congestion.window = self.largest;
        self.congestion.recover = self.highest;
        self.congestion.is_recovering = false;
        self.congestion.duplicates = 0;
        self.next = self.acknowledged;
        self.timer.measures = None;
        self.timer.timeout = (self.timer.timeout * 2).min(LONGEST_TIMEOUT);
        self.timer.at = Some(now + self.timer.timeout);
    }

    fn new_piece(&self) -> Option<Piece> {
        let end = self.end;
        let allowed = self.edge.min(self.acknowledged + self.congestion.window);
        let length = end.min(allowed).saturating_sub(self.next).min(self.largest);
        let left = end.saturating_sub(self.next);
        // Rather wait for a larger window than send small segments (RFC 9293, 3.8.6.2.1).
        let is_silly = length < left.min(self.largest) && self.next > self.acknowledged;
        if length > 0 && !is_silly {
            return Some(self.piece(self.next, length));
        }
        (self.is_finished && self.next == end).then(|| self.piece(end, 0))
    }

    fn piece(&self, position: u64, length: u64) -> Piece {
        let control = if position == 0 {
            Control::Open
        } else if self.is_finished && position + length == self.end {
            Control::End
        } else {
            Control::None
        };
        Piece { position, length: usize::try_from(length).unwrap_or(0), control }
    }

    fn in_flight(&self) -> u64 {
        self.highest - self.acknowledged
    }

    fn advance(&mut self, position: u64, now: Instant) {
        let newly = position - self.acknowledged;
        // The SYN and the FIN are no bytes of the buffer.
        let data = position.saturating_sub(self.acknowledged.max(1));
        let data = usize::try_from(data).unwrap_or(usize::MAX).min(self.buffer.len());
        self.buffer.drain(..data);
        self.acknowledged = position;
        self.next = self.next.max(position);
        if let Some((_, sent)) = self.timer.measures.take_if(|(measured, _)| *measured <= position) {
            self.timer.on_sample(now - sent);
        }
        self.timer.at = (position < self.highest).then(|| now + self.timer.timeout);
        self.congestion.on_progress(position, newly, self.largest);
    }

    fn on_duplicate(&mut self) {
        self.congestion.duplicates += 1;
        let tells_of_loss = !self.congestion.is_recovering && self.acknowledged > self.congestion.recover;
        if self.congestion.duplicates == 3 && tells_of_loss {
            self.congestion.threshold = (self.in_flight() / 2).max(2 * self.largest);
            self.congestion.window = self.congestion.threshold;
            self.congestion.recover = self.highest;
            self.congestion.is_recovering = true;
            self.congestion.repeats = true;
            self.timer.measures = None;
        }
    }
}

impl Congestion {
    fn on_progress(&mut self, position: u64, newly: u64, largest: u64) {
        self.duplicates = 0;
        if self.is_recovering {
            self.is_recovering = position < self.recover;
            self.repeats = self.is_recovering;
        } else if self.window < self.threshold {
            self.window += newly;
        } else {
            self.window += (largest * newly / self.window).max(1);
        }
        self.window = self.window.min(MOST_IN_FLIGHT);
    }
}

impl Timer {
    // RFC 6298, 2.2 and 2.3
    fn on_sample(&mut self, sample: Duration) {
        let (smoothed, variation) = match self.rtt {
            None => (sample, sample / 2),
            Some((smoothed, variation)) => {
                ((smoothed * 7 + sample) / 8, (variation * 3 + smoothed.abs_diff(sample)) / 4)
            }
        };
        self.rtt = Some((smoothed, variation));
        self.timeout = (smoothed + variation * 4).clamp(SHORTEST_TIMEOUT, LONGEST_TIMEOUT);
    }
}

/// Before a round-trip time is known.
const FIRST_TIMEOUT: Duration = Duration::from_secs(1);
/// As Linux has it: longer than acknowledgements are delayed.
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(200);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(15);
/// More than any buffer.
const MOST_IN_FLIGHT: u64 = 1 << 20;
