//! Closes an endpoint: its connections close in order, and those that take too long are aborted.

use std::task::Context;
use std::time::Duration;

use manyway_proto::{Endpoint, Instant};
use tokio::sync::oneshot;
use tokio::time::Instant as TokioInstant;

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
    /// Nothing is left to do.
    Over,
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

    pub(super) fn deadline(&self) -> Option<TokioInstant> {
        match self.stage {
            Stage::InOrder(until) | Stage::Aborted(until) => Some(until),
            Stage::Over => None,
        }
    }

    /// All is closed or aborted.
    pub(super) fn end(&mut self) {
        self.stage = Stage::Over;
    }

    /// The code and the reason for the peers.
    pub(super) fn code_and_reason(&self) -> (u64, &str) {
        (self.code, &self.reason)
    }

    /// Tells the callers that the endpoint is closed.
    pub(super) fn tell(self) {
        for reply in self.replies {
            // A cancelled caller has dropped the receiver.
            let _ = reply.send(());
        }
    }

    /// Merges a second close: the earlier deadline counts, with its code and reason.
    pub(super) fn join(&mut self, other: Self) {
        if let Stage::InOrder(until) = &mut self.stage
            && let Some(earlier) = other.deadline().filter(|other| *other < *until)
        {
            *until = earlier;
            (self.code, self.reason) = (other.code, other.reason);
        }
        self.replies.extend(other.replies);
    }

    /// Aborts the connections that have not closed in time. Returns whether the endpoint is to end: its peers' late
    /// packets have been answered for long enough.
    pub(super) fn poll(&mut self, endpoint: &mut Endpoint, now: Instant, context: &Context<'_>) -> bool {
        let Some(deadline) = self.deadline() else { return true };
        if deadline > TokioInstant::now() {
            return false;
        }
        if let Stage::Aborted(_) = self.stage {
            return true;
        }
        self.abort_all(endpoint, now);
        // The next turn sends the aborts.
        context.waker().wake_by_ref();
        false
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
