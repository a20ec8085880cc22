//! A TCP connection that this process has accepted.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::sleep_until;

use super::machine::{Machine, Next, Output};
use super::segment::{Ends, Segment};

/// A TCP connection of a program that ends in this process. Both directions may be used at the same time; each ends by
/// itself (half-close).
///
/// Dropping it after both have ended lets the last data arrive; dropping it before resets it.
pub struct Connection {
    flow: Arc<Flow>,
}

impl Connection {
    pub(super) fn new(flow: Arc<Flow>) -> Self {
        Self { flow }
    }

    /// Reads what the program has sent; nothing at the end.
    pub fn poll_read(&self, context: &Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.flow.with(|machine| machine.poll_read(context, buffer))
    }

    /// Sends to the program, as much as there is room for.
    pub fn poll_write(&self, context: &Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.flow.with(|machine| machine.poll_write(context, data))
    }

    /// Ends the direction to the program.
    pub fn finish(&self) {
        self.flow.with(Machine::finish);
    }

    /// Waits until the program resets the connection, and returns the error. For a connection whose data has been read to
    /// the end: before that, reading reports it.
    pub async fn until_reset(&self) -> io::Error {
        poll_fn(|context| self.flow.with(|machine| machine.poll_reset(context))).await
    }

    /// Resets the connection, at once.
    pub fn reset(&self) {
        self.flow.reset();
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Self::poll_read(&self, context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Self::poll_write(&self, context, data)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.finish();
        Poll::Ready(Ok(()))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.flow.with(|machine| {
            if !machine.has_ended() {
                machine.reset(&self.flow.output);
            }
        });
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("ends", &self.flow.ends).finish_non_exhaustive()
    }
}

/// What packets, timers and the owner of a connection share.
pub(super) struct Flow {
    ends: Ends,
    state: Mutex<FlowState>,
    /// The timer has to be looked at.
    changed: Notify,
    output: Arc<Output>,
}

struct FlowState {
    machine: Machine,
    /// What [`Flow::drive`] waits for.
    awaited: Next,
}

impl Flow {
    pub(super) fn new(ends: Ends, machine: Machine, output: Arc<Output>) -> Self {
        let state = Mutex::new(FlowState { machine, awaited: Next::Over });
        Self { ends, state, changed: Notify::new(), output }
    }

    pub(super) fn handle_segment(&self, segment: &Segment<'_>) {
        self.with(|machine| machine.handle_segment(segment));
    }

    /// Sends all pending segments.
    pub(super) fn flush(&self) {
        self.with(|_| ());
    }

    pub(super) fn is_over(&self) -> bool {
        self.lock().machine.is_over()
    }

    pub(super) fn is_reset(&self) -> bool {
        self.lock().machine.is_reset()
    }

    /// Answers a segment that came after the end.
    pub(super) fn answer_late(&self, segment: &Segment<'_>) {
        self.lock().machine.answer_late(segment, &self.output);
    }

    /// Serves the timers until the connection is over.
    pub(super) async fn drive(&self) {
        loop {
            let (next, woken) = {
                let mut state = self.lock();
                state.machine.flush(&self.output);
                state.awaited = state.machine.next();
                (state.awaited, state.machine.take_woken())
            };
            wake(woken);
            match next {
                Next::Over => return,
                Next::At(at) => {
                    tokio::select! {
                        () = self.changed.notified() => {}
                        () = sleep_until(at) => {}
                    }
                }
            }
        }
    }

    /// Resets the connection, if it is not over.
    pub(super) fn reset(&self) {
        self.with(|machine| machine.reset(&self.output));
    }

    /// Changes the connection, then sends all pending segments and wakes those who wait for the change.
    fn with<T>(&self, work: impl FnOnce(&mut Machine) -> T) -> T {
        let mut state = self.lock();
        let result = work(&mut state.machine);
        state.machine.flush(&self.output);
        let is_sooner = match (state.machine.next(), state.awaited) {
            (Next::Over, awaited) => awaited != Next::Over,
            (Next::At(at), Next::At(awaited)) => at < awaited,
            // The timers are not served yet.
            (Next::At(_), Next::Over) => false,
        };
        let woken = state.machine.take_woken();
        drop(state);
        if is_sooner {
            self.changed.notify_one();
        }
        wake(woken);
        result
    }

    fn lock(&self) -> MutexGuard<'_, FlowState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A waker runs what its task brings along, such as a call of the same connection: nothing may be locked.
fn wake(woken: [Option<Waker>; 3]) {
    woken.into_iter().flatten().for_each(Waker::wake);
}
