//! A thread that seals and sends for one socket, while the driver builds the next packets.
//!
//! A lane takes whole batches, sends them in order, and gives back their memory with what came of each. A lock is taken
//! for a batch, never for a packet. A full lane looks to the driver like a full socket; a full socket holds up its lane
//! and nothing else.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle, Thread};

use manyway_proto::{SealJobs, Transmit};

use crate::udp::{SendError, SendFailure, UdpSocket};

/// Bytes of the largest batch.
const BATCH: usize = 64 * 1024;
/// A lane with so much is full, four large batches. A round trip begins when its packet is built, so what waits here
/// counts as its delay.
const FULL: usize = 256_000;
/// As many batches fill it, too, since each occupies memory.
const FULL_BATCHES: usize = 16;
/// A full lane takes more once so much is left: what keeps it busy until the driver has woken.
const LOW: usize = BATCH;
/// A smaller batch is sent without the lane while that has nothing: it is not worth waking a thread.
pub(super) const SMALL: usize = 16 * 1024;
/// Further batches are dropped. After the lane is full, the driver sends at most one batch more for each path.
const MOST_BATCHES: usize = 64;

/// Packets that leave with one call, and the jobs that still have to seal them.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    pub(super) jobs: SealJobs,
}

impl Batch {
    /// An empty one, with memory for the packets.
    pub(super) fn new() -> Self {
        Self { bytes: Vec::with_capacity(BATCH), jobs: SealJobs::default() }
    }

    /// Seals the packets; false if they must not leave.
    #[must_use = "what is not sealed must not leave"]
    pub(super) fn seal(&mut self) -> bool {
        self.jobs.run(&mut self.bytes)
    }
}

/// A batch that the thread is done with.
#[derive(Debug)]
struct Finished {
    transmit: Transmit,
    batch: Batch,
    result: Result<(), SendError>,
}

/// The driver's end. When it is dropped, the thread sends what it still has, but does not wait for a full socket, and
/// ends.
#[derive(Debug)]
pub(super) struct Lane {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Bytes of the smallest batch for which the thread is woken.
    least: usize,
    /// Batches handed over and not settled yet.
    unsettled: usize,
    is_full: bool,
    /// Memory for the next batches, and for the list of finished ones.
    spare: Vec<Batch>,
    finished: Vec<Finished>,
}

impl Lane {
    /// Starts the thread, for batches of `least` bytes and all that follow them closely.
    ///
    /// # Errors
    /// The system's, if it gives no thread.
    pub(super) fn start(socket: &Arc<UdpSocket>, least: usize) -> io::Result<Self> {
        let mut lane = Self::without_thread(socket, least);
        let shared = Arc::clone(&lane.shared);
        lane.thread = Some(thread::Builder::new().name("manyway-lane".into()).spawn(move || shared.run())?);
        Ok(lane)
    }

    fn without_thread(socket: &Arc<UdpSocket>, least: usize) -> Self {
        let shared = Arc::new(Shared { socket: Arc::clone(socket), state: Mutex::default() });
        let (spare, finished) = (Vec::new(), Vec::new());
        Self { shared, thread: None, least, unsettled: 0, is_full: false, spare, finished }
    }

    /// Whether every batch is settled, so that the socket may be used without the lane.
    pub(super) fn is_settled(&self) -> bool {
        self.unsettled == 0
    }

    /// Whether a batch of this size has to go by the lane: it must not overtake what the lane has.
    pub(super) fn takes(&self, bytes: usize) -> bool {
        self.unsettled > 0 || bytes >= self.least
    }

    /// Whether it takes more than what it has.
    pub(super) fn has_room(&self) -> bool {
        !self.is_full
    }

    /// Hands a batch over, for the memory of an earlier one. Returns false if the lane is full now: then the task of
    /// `context` is woken when there is room.
    pub(super) fn push(&mut self, context: &Context<'_>, transmit: Transmit, batch: &mut Batch) -> bool {
        if self.unsettled >= MOST_BATCHES {
            return false;
        }
        self.unsettled += 1;
        let next = self.spare.pop().unwrap_or_else(Batch::new);
        let batch = std::mem::replace(batch, next);
        let mut state = self.shared.lock();
        if !state.driver.as_ref().is_some_and(|driver| driver.will_wake(context.waker())) {
            state.driver = Some(context.waker().clone());
        }
        state.bytes += batch.bytes.len();
        state.queue.push_back((transmit, batch));
        self.is_full |= state.bytes >= FULL || self.unsettled >= FULL_BATCHES;
        if self.is_full {
            state.wake_at = Some(LOW);
        }
        drop(state);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
        !self.is_full
    }

    /// Passes what came of each finished batch to `settle`.
    pub(super) fn settle(&mut self, mut settle: impl FnMut(&Transmit, Result<(), SendError>)) {
        if self.unsettled == 0 {
            return;
        }
        let mut state = self.shared.lock();
        std::mem::swap(&mut state.finished, &mut self.finished);
        self.is_full &= state.bytes > LOW;
        if self.is_full {
            state.wake_at = Some(LOW);
        }
        drop(state);
        self.unsettled -= self.finished.len();
        for Finished { transmit, batch, result } in self.finished.drain(..) {
            settle(&transmit, result);
            self.spare.push(batch);
        }
    }

    /// Whether something has not been sent yet; if so, the driver is woken once all is.
    pub(super) fn is_sending(&self) -> bool {
        if self.unsettled == 0 {
            return false;
        }
        let mut state = self.shared.lock();
        if state.bytes > 0 {
            state.wake_at.get_or_insert(0);
        }
        state.bytes > 0
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.shared.lock().is_ended = true;
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// What the driver and the thread share.
#[derive(Debug)]
struct Shared {
    socket: Arc<UdpSocket>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<(Transmit, Batch)>,
    /// Bytes of the batches in the queue and of the one that is being sent.
    bytes: usize,
    finished: Vec<Finished>,
    /// The driver wants to be woken when no more than so many bytes are left.
    wake_at: Option<usize>,
    driver: Option<Waker>,
    is_ended: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread: sends batches until the driver has no more.
    fn run(&self) {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        loop {
            if self.send_next(&waker) {
                continue;
            }
            if self.lock().is_ended {
                return;
            }
            thread::park();
        }
    }

    /// Seals and sends the next batch; false if there is none.
    fn send_next(&self, waker: &Waker) -> bool {
        let Some((transmit, mut batch)) = self.lock().queue.pop_front() else { return false };
        let result = if batch.seal() { self.send(waker, transmit, &batch.bytes) } else { Ok(()) };
        let is_failure = result.is_err();
        let mut state = self.lock();
        state.bytes -= batch.bytes.len();
        state.finished.push(Finished { transmit, batch, result });
        let is_due = state.wake_at.is_some_and(|at| state.bytes <= at);
        if is_due {
            state.wake_at = None;
        }
        let driver = (is_due || is_failure).then(|| state.driver.clone()).flatten();
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
        true
    }

    /// Sends a batch; waits while the socket is full.
    fn send(&self, waker: &Waker, mut transmit: Transmit, mut bytes: &[u8]) -> Result<(), SendError> {
        loop {
            match self.socket.try_send(&transmit, bytes) {
                Err(error) if error.failure == SendFailure::WouldBlock => {
                    transmit = error.rest(&transmit);
                    bytes = bytes.get(error.sent..).unwrap_or_default();
                    if !self.wait_until_writable(waker) {
                        return Err(error);
                    }
                }
                result => return result,
            }
        }
    }

    /// Waits for space in the socket; false if the driver is gone meanwhile. The driver's runtime watches the socket and
    /// wakes this thread.
    fn wait_until_writable(&self, waker: &Waker) -> bool {
        loop {
            match self.socket.poll_writable(&mut Context::from_waker(waker)) {
                Poll::Ready(ready) => return ready.is_ok(),
                Poll::Pending if self.lock().is_ended => return false,
                Poll::Pending => thread::park(),
            }
        }
    }
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::net::UdpSocket as StdSocket;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use manyway_proto::{Ecn, FourTuple, LocalAddress};

    use super::*;
    use crate::udp::BindOptions;

    /// A socket for a lane, one that receives, and both their addresses.
    fn ends() -> (Arc<UdpSocket>, StdSocket, FourTuple) {
        let local = LocalAddress { interface: 0, address: ([127, 0, 0, 1], 0).into() };
        let here = UdpSocket::bind(&BindOptions::new(local)).unwrap();
        let there = StdSocket::bind(local.address).unwrap();
        there.set_nonblocking(true).unwrap();
        let tuple = FourTuple::udp(here.local(), there.local_addr().unwrap());
        (Arc::new(here), there, tuple)
    }

    fn push(lane: &mut Lane, context: &Context<'_>, tuple: FourTuple, bytes: &[u8], segment: usize) -> bool {
        let mut batch = Batch::new();
        batch.bytes.extend_from_slice(bytes);
        lane.push(context, Transmit { tuple, length: bytes.len(), segment, ecn: Ecn::Ect0 }, &mut batch)
    }

    fn received(there: &StdSocket) -> Vec<u8> {
        let mut buffer = [0; 2000];
        std::iter::from_fn(|| there.recv(&mut buffer).ok().map(|length| buffer[..length].to_vec()))
            .flatten()
            .collect()
    }

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn batches_leave_in_order_however_often_the_lane_is_full() {
        let (socket, there, tuple) = ends();
        let mut lane = Lane::start(&socket, 0).unwrap();
        let (mut next, mut times_full) = (0, 0);
        poll_fn(|context| {
            lane.settle(|_, result| result.unwrap());
            while next < 200 && lane.has_room() {
                times_full += u32::from(!push(&mut lane, context, tuple, &[next], 1));
                next += 1;
            }
            if next < 200 || lane.is_sending() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        assert_eq!(received(&there), (0..200).collect::<Vec<u8>>());
        assert!(times_full > 0);
    }

    #[tokio::test]
    async fn a_lane_is_full_with_four_batches_and_wakes_the_driver_when_one_is_left() {
        let (socket, _there, tuple) = ends();
        let mut lane = Lane::without_thread(&socket, SMALL);
        let count = Arc::new(Count::default());
        let (driver, unused) = (Waker::from(Arc::clone(&count)), Waker::noop());
        let context = Context::from_waker(&driver);
        assert!(!lane.takes(100) && lane.takes(SMALL));
        let batch = vec![7; 44 * 1472];
        let results: Vec<_> = (0..4).map(|_| push(&mut lane, &context, tuple, &batch, 1472)).collect();
        assert_eq!(results, [true, true, true, false]);
        assert!(lane.takes(100), "it must not overtake");
        for left in [3, 2] {
            assert!(lane.shared.send_next(unused));
            lane.settle(|_, result| result.unwrap());
            assert!(!lane.has_room() && count.0.load(Ordering::Relaxed) == 0, "{left} are left");
        }
        assert!(lane.shared.send_next(unused));
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        lane.settle(|_, result| result.unwrap());
        assert!(lane.has_room() && lane.is_sending());
        assert!(lane.shared.send_next(unused) && !lane.shared.send_next(unused));
        assert_eq!(count.0.load(Ordering::Relaxed), 2, "the driver asked for the end");
        lane.settle(|_, result| result.unwrap());
        assert!(lane.is_settled() && !lane.is_sending());
        assert_eq!(lane.spare.len(), 4, "their memory is used again");
    }

    #[tokio::test]
    async fn more_batches_than_a_lane_holds_are_dropped() {
        let (socket, there, tuple) = ends();
        let mut lane = Lane::without_thread(&socket, 0);
        let context = Context::from_waker(Waker::noop());
        for number in 0..100 {
            let has_room = push(&mut lane, &context, tuple, &[number], 1);
            assert_eq!(has_room, usize::from(number) + 1 < FULL_BATCHES);
        }
        while lane.shared.send_next(Waker::noop()) {}
        assert_eq!(received(&there).len(), MOST_BATCHES);
    }

    #[tokio::test]
    async fn a_failed_batch_wakes_the_driver_and_the_next_one_is_sent() {
        let (socket, there, tuple) = ends();
        let mut lane = Lane::start(&socket, 0).unwrap();
        let mut failures = Vec::new();
        let mut pushed = false;
        poll_fn(|context| {
            if !std::mem::replace(&mut pushed, true) {
                push(&mut lane, context, tuple, &[7; 65_530], 65_530);
            }
            lane.settle(|_, result| failures.extend(result.err().map(|error| error.failure)));
            if failures.is_empty() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        assert_eq!(failures, [SendFailure::TooLarge]);
        push(&mut lane, &Context::from_waker(Waker::noop()), tuple, b"next", 4);
        drop(lane);
        assert_eq!(received(&there), b"next");
    }

    #[tokio::test]
    async fn what_a_dropped_lane_still_has_is_sent_and_its_thread_ends() {
        let (socket, there, tuple) = ends();
        for _ in 0..20 {
            let mut lane = Lane::start(&socket, 0).unwrap();
            let context = Context::from_waker(Waker::noop());
            for number in 0..10 {
                push(&mut lane, &context, tuple, &[number], 1);
            }
            drop(lane);
            assert_eq!(received(&there), (0..10).collect::<Vec<u8>>());
            assert_eq!(Arc::strong_count(&socket), 1);
        }
    }
}
