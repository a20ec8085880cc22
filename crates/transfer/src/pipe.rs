//! Connects blocking work on files to an asynchronous stream by short queues of large chunks, so that disk, hashing and
//! network run in parallel in constant memory.

use std::io::{self, BufRead, Read};
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::error::TransferError;
use crate::frame::{DATA_LIMIT, Frame, HEADER, Header, Kind};
use crate::progress::{Progress, ProgressEvent};

/// Runs `produce` on a blocking thread and writes its frames to the stream.
///
/// If the stream breaks, the thread finds its queue closed and ends.
pub(crate) async fn send_produced<W, T, F>(
    send: &mut W,
    progress: &Arc<dyn Progress>,
    produce: F,
) -> Result<T, TransferError>
where
    W: AsyncWrite + Unpin,
    T: Send + 'static,
    F: FnOnce(&mut FrameSink) -> Result<T, Closed> + Send + 'static,
{
    let (chunks, mut queue) = mpsc::channel::<Chunk>(QUEUE);
    let (spare, spares) = mpsc::channel(QUEUE + 1);
    let worker = spawn_blocking(move || {
        let mut sink = FrameSink::new(chunks, spares);
        let result = produce(&mut sink)?;
        sink.flush()?;
        Ok::<T, Closed>(result)
    });
    while let Some(chunk) = queue.recv().await {
        let bytes = chunk.buffer.get(..chunk.used).unwrap_or_default();
        send.write_all(bytes).await.map_err(TransferError::stream("sending files"))?;
        if chunk.content > 0 {
            progress.on_progress(ProgressEvent::Advanced { bytes: chunk.content });
        }
        let _ = spare.try_send(chunk.buffer);
    }
    match worker.await {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(Closed)) | Err(_) => Err(TransferError::Internal),
    }
}

/// Feeds the stream to `consume` on a blocking thread until that returns.
pub(crate) async fn consume_received<R, T, F>(receive: &mut R, consume: F) -> Result<T, TransferError>
where
    R: AsyncRead + Unpin,
    T: Send + 'static,
    F: FnOnce(&mut ChunkSource) -> Result<T, TransferError> + Send + 'static,
{
    let (chunks, queue) = mpsc::channel(QUEUE);
    let mut worker = spawn_blocking(move || consume(&mut ChunkSource { current: Bytes::new(), queue }));
    let mut buffer = BytesMut::new();
    loop {
        if buffer.capacity() - buffer.len() < CHUNK / 4 {
            buffer.reserve(CHUNK);
        }
        let chunk = tokio::select! {
            read = receive.read_buf(&mut buffer) => match read {
                Ok(0) => break,
                Ok(_) => Ok(buffer.split().freeze()),
                Err(error) => Err(error),
            },
            result = &mut worker => return joined(result),
        };
        let is_last = chunk.is_err();
        if chunks.send(chunk).await.is_err() || is_last {
            break;
        }
    }
    drop(chunks);
    join(worker).await
}

async fn join<T>(worker: JoinHandle<Result<T, TransferError>>) -> Result<T, TransferError> {
    joined(worker.await)
}

fn joined<T>(result: Result<Result<T, TransferError>, tokio::task::JoinError>) -> Result<T, TransferError> {
    result.unwrap_or(Err(TransferError::Internal))
}

/// The stream for the frames is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Closed;

#[derive(Debug)]
struct Chunk {
    buffer: Vec<u8>,
    used: usize,
    content: u64,
}

/// Collects frames into chunks: many small files share one chunk, a large file fills one after the other.
#[derive(Debug)]
pub(crate) struct FrameSink {
    buffer: Vec<u8>,
    used: usize,
    content: u64,
    scratch: Vec<u8>,
    chunks: mpsc::Sender<Chunk>,
    spares: mpsc::Receiver<Vec<u8>>,
}

impl FrameSink {
    fn new(chunks: mpsc::Sender<Chunk>, spares: mpsc::Receiver<Vec<u8>>) -> Self {
        Self { buffer: vec![0; CHUNK], used: 0, content: 0, scratch: Vec::new(), chunks, spares }
    }

    /// Adds a frame; returns the size of its body.
    pub(crate) fn frame(&mut self, frame: &Frame) -> Result<usize, Closed> {
        self.scratch.clear();
        frame.encode(&mut self.scratch);
        if self.buffer.len() - self.used < self.scratch.len() {
            self.flush()?;
        }
        let end = self.used + self.scratch.len();
        if let Some(place) = self.buffer.get_mut(self.used..end) {
            place.copy_from_slice(&self.scratch);
        }
        self.used = end;
        Ok(self.scratch.len() - HEADER)
    }

    /// Adds a DATA frame of what `fill` writes into the given space; none if it writes nothing.
    pub(crate) fn data(
        &mut self,
        fill: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> Result<io::Result<usize>, Closed> {
        if self.buffer.len() - self.used < SMALLEST_READ {
            self.flush()?;
        }
        let Some((header, space)) =
            self.buffer.get_mut(self.used..).and_then(|rest| rest.split_first_chunk_mut::<HEADER>())
        else {
            return Err(Closed);
        };
        let room = space.len().min(DATA_LIMIT);
        let length = match fill(space.get_mut(..room).unwrap_or_default()) {
            Ok(0) => return Ok(Ok(0)),
            Ok(length) => length.min(room),
            Err(error) => return Ok(Err(error)),
        };
        *header = Header { kind: Kind::Data, length }.encode();
        self.used += HEADER + length;
        self.content += u64::try_from(length).unwrap_or(0);
        Ok(Ok(length))
    }

    /// Sends the collected frames.
    pub(crate) fn flush(&mut self) -> Result<(), Closed> {
        if self.used == 0 {
            return Ok(());
        }
        let next = self.spares.try_recv().unwrap_or_else(|_| vec![0; CHUNK]);
        let buffer = std::mem::replace(&mut self.buffer, next);
        let chunk = Chunk { buffer, used: self.used, content: self.content };
        self.used = 0;
        self.content = 0;
        self.chunks.blocking_send(chunk).map_err(|_| Closed)
    }
}

/// The received stream for blocking readers.
#[derive(Debug)]
pub(crate) struct ChunkSource {
    current: Bytes,
    queue: mpsc::Receiver<io::Result<Bytes>>,
}

/// A source that knows whether it has to wait.
pub(crate) trait Arriving: BufRead {
    /// Whether nothing is there to read at once.
    fn is_drained(&self) -> bool;
}

impl Arriving for ChunkSource {
    fn is_drained(&self) -> bool {
        self.current.is_empty()
    }
}

impl BufRead for ChunkSource {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.current.is_empty()
            && let Some(next) = self.queue.blocking_recv()
        {
            self.current = next?;
        }
        Ok(&self.current)
    }

    fn consume(&mut self, amount: usize) {
        self.current.advance(amount.min(self.current.len()));
    }
}

impl Read for ChunkSource {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let length = available.len().min(out.len());
        if let (Some(to), Some(from)) = (out.get_mut(..length), available.get(..length)) {
            to.copy_from_slice(from);
        }
        self.consume(length);
        Ok(length)
    }
}

/// Bytes of a chunk: exactly one DATA frame with its header.
const CHUNK: usize = DATA_LIMIT;
/// Most chunks between a thread and its stream.
const QUEUE: usize = 4;
/// The least room in a chunk for which a file is read; with less the chunk is sent first.
const SMALLEST_READ: usize = 16 * 1024;
