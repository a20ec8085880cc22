//! Closes an endpoint: its connections close in order, and those that take too long are aborted.

use std::time::Duration;

use manyway_proto::{Endpoint, Instant};
use tokio::sync::oneshot;
use tokio::time::Instant as TokioInstant;

use super::Driver;

/// Longest time for an endpoint to close: writers' queues and data in flight take 30 s each at most.
pub(crate) const CLOSE_TIME: Duration = Duration::from_secs(65);
/// After an abort, late packets of the peers are answered with CLOSE for this long.
const ABORT_TIME: Duration = Duration::from_millis(300);

/// The state of an endpoint that is closing.
pub(super) struct Closing {
    code: u64,
    reason: String,
    stage: Stage,
    replies: Vec<oneshot::Sender<()>>,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    /// Written data still arrives, until this instant.
    InOrder(TokioInstant),
    /// The peers have been told that the connections are aborted.
    Aborted(TokioInstant),
}

impl Closing {
    pub(super) fn new(
        code: u64,
        reason: String,
        until: TokioInstant,
        reply: Option<oneshot::Sender<()>>,
    ) -> Self {
        Self { code, reason, stage: Stage::InOrder(until), replies: reply.into_iter().collect() }
    }

    pub(super) fn deadline(&self) -> TokioInstant {
        match self.stage {
            Stage::InOrder(until) | Stage::Aborted(until) => until,
        }
    }

    /// Tells the callers that the endpoint is closed.
    pub(super) fn tell(self) {
        for reply in self.replies {
            // A cancelled caller has dropped the receiver.
            let _ = reply.send(());
        }
    }

    /// Merges a second close: the earlier deadline counts, with its code and reason.
    fn join(&mut self, other: Self) {
        if let Stage::InOrder(until) = &mut self.stage
            && other.deadline() < *until
        {
            *until = other.deadline();
            (self.code, self.reason) = (other.code, other.reason);
        }
        self.replies.extend(other.replies);
    }

    fn abort_all(&mut self, endpoint: &mut Endpoint, now: Instant) {
        for handle in endpoint.handles() {
            if let Some(connection) = endpoint.connection(handle) {
                connection.abort(now, self.code, &self.reason);
            }
        }
        self.stage = Stage::Aborted(TokioInstant::now() + ABORT_TIME);
    }
}

impl Driver {
    pub(super) fn start_closing(&mut self, now: Instant, closing: Closing) {
        if let Some(known) = &mut self.closing {
            known.join(closing);
            return;
        }
        self.connections.close_all(&mut self.endpoint, now, (closing.code, &closing.reason));
        self.closing = Some(closing);
    }

    /// Advances the close of the endpoint, if one is under way. Returns whether it is finished.
    pub(super) fn drive_closing(&mut self, now: Instant, context: &std::task::Context<'_>) -> bool {
        let Some(closing) = &mut self.closing else { return false };
        if self.connections.all_ended(&self.endpoint) && !self.sockets.has_pending() {
            return true;
        }
        if closing.deadline() > TokioInstant::now() {
            return false;
        }
        if let Stage::Aborted(_) = closing.stage {
            return true;
        }
        closing.abort_all(&mut self.endpoint, now);
        // The next turn sends the aborts.
        context.waker().wake_by_ref();
        false
    }
}
