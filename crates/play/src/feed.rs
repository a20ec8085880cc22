//! Carries a part of a file from the server to a player.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use manyway_session::Session;
use manyway_transfer::{Entry, Part, RelativePath, TransferError, read_part};
use tokio::sync::mpsc;

use crate::buffer::{Buffer, Gathered, Waiting};
use crate::source::Source;
use crate::viewing::Viewing;

/// How often a part is asked for again without a byte in between.
const ATTEMPTS: u32 = 5;
/// How often the target is looked at while nothing arrives.
const LOOK: Duration = Duration::from_millis(250);

type Receiving<S> = Part<<<S as Source>::Session as Session>::Receive>;

/// A part of a file that is open at the server.
pub(crate) struct Opened<S: Source> {
    pub(crate) session: S::Session,
    pub(crate) part: Receiving<S>,
}

/// Opens a part; `None`: the server is away. A connection that turns out to be broken is replaced once.
pub(crate) async fn open<S: Source>(
    source: &S,
    path: &RelativePath,
    range: std::ops::Range<u64>,
) -> Option<Result<Opened<S>, TransferError>> {
    let mut is_last = false;
    loop {
        let session = source.session().await?;
        match read_part(&session, path.clone(), range.clone()).await {
            Ok(part) => return Some(Ok(Opened { session, part })),
            Err(error) if error.is_resumable() && !is_last => is_last = true,
            Err(error) => return Some(Err(error)),
        }
    }
}

/// One answer that is under way.
pub(crate) struct Feed<S: Source> {
    pub(crate) source: Arc<S>,
    pub(crate) path: RelativePath,
    /// The next byte, and the end of the part.
    pub(crate) position: u64,
    pub(crate) end: u64,
    pub(crate) buffer: Buffer,
    /// Bytes that are gathered or in the queue.
    pub(crate) waiting: Arc<Waiting>,
    pub(crate) gathered: Gathered,
    pub(crate) queue: mpsc::UnboundedSender<io::Result<Bytes>>,
    pub(crate) viewing: Option<Viewing>,
}

impl<S: Source> Feed<S> {
    /// Runs until everything was handed over, the player is gone, or the server gives up. A broken connection is
    /// replaced, and the part goes on where it was.
    pub(crate) async fn run(mut self, opened: Opened<S>) {
        let entry = opened.part.entry().clone();
        let queue = self.queue.clone();
        let ended = tokio::select! {
            biased;
            () = queue.closed() => return,
            ended = self.carry(opened, &entry) => ended,
        };
        self.hand_over_rest();
        if let Err(error) = ended {
            tracing::debug!(path = %self.path, %error, "a part of a file broke off");
            // The player may be gone meanwhile.
            let _ = queue.send(Err(io::Error::other(error)));
        }
    }

    async fn carry(&mut self, mut opened: Opened<S>, entry: &Entry) -> Result<(), TransferError> {
        let mut attempts = 0;
        loop {
            let before = self.position;
            let error = match self.relay(opened).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            attempts = if self.position > before { 1 } else { attempts + 1 };
            if !error.is_resumable() || attempts > ATTEMPTS {
                return Err(error);
            }
            opened = match open(&*self.source, &self.path, self.position..self.end).await {
                Some(again) => again?,
                None => return Err(error),
            };
            if opened.part.entry() != entry {
                // Bytes of two versions are never put together.
                return Err(error);
            }
        }
    }

    /// Hands over what arrives, until the end of the part.
    async fn relay(&mut self, Opened { session, mut part }: Opened<S>) -> Result<(), TransferError> {
        let mut held = None;
        let mut look = tokio::time::interval(LOOK);
        loop {
            let target = self.viewing.as_ref().and_then(|viewing| viewing.target(self.waiting.bytes()));
            if target != held
                && let Some(target) = target
            {
                session.hold(part.stream(), target);
                held = Some(target);
            }
            tokio::select! {
                _ = look.tick() => {}
                () = self.waiting.taken(), if !self.gathered.is_empty() => {}
                next = part.next() => match next? {
                    Some(bytes) => self.hand_over(bytes).await,
                    None => return Ok(()),
                },
            }
            // A player that has taken everything else does not wait for a whole piece.
            if self.waiting.bytes() == self.gathered.len() {
                self.hand_over_rest();
            }
        }
    }

    async fn hand_over(&mut self, bytes: Bytes) {
        let limit = |feed: &Self| feed.buffer.bytes(feed.viewing.as_ref().and_then(Viewing::bit_rate));
        while self.waiting.bytes() > limit(self) {
            self.waiting.taken().await;
        }
        let length = bytes.len() as u64;
        self.waiting.add(length);
        self.position += length;
        for piece in self.gathered.add(bytes) {
            // Without a receiver this future is about to be dropped.
            let _ = self.queue.send(Ok(piece));
        }
    }

    fn hand_over_rest(&mut self) {
        if let Some(rest) = self.gathered.take() {
            let _ = self.queue.send(Ok(rest));
        }
    }
}
