//! Reads a part of a file of the other side.

use std::ops::Range;

use bytes::{Buf as _, Bytes, BytesMut};
use manyway_session::Session;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::entry::{Entry, EntryKind};
use crate::error::TransferError;
use crate::failure::{Failure, Reason};
use crate::frame::{Frame, HEADER, Header, Kind};
use crate::name::RelativePath;
use crate::request::{ReadRequest, Request, Totals};
use crate::wire::{finish, read_acceptance, read_frame, write_request};

/// Bytes of a buffer that pieces share.
const ROOM: usize = 64 * 1024;
/// Least room in the buffer before the stream is read. A new buffer for each read would be held by one small piece.
const LEAST_ROOM: usize = 4 * 1024;

/// A part of a file that arrives. Dropping it tells the other side to stop.
///
/// Nothing verifies a part against a hash: over MMSP/2 its bytes are those that the server read, over MMSP/1 those that
/// arrived.
#[derive(Debug)]
pub struct Part<R> {
    receive: R,
    entry: Entry,
    /// What the other side announced.
    announced: Totals,
    /// Content that has not been returned.
    left: u64,
    /// The rest of the current DATA frame.
    body: usize,
    buffer: BytesMut,
    has_ended: bool,
}

/// Requests the bytes of `range` of a file; those beyond its end do not count. An empty range tells about the file
/// alone.
///
/// # Errors
/// The other side has no such file or refuses, is too old to know this request, or the connection broke.
pub async fn read_part<S: Session>(
    session: &S,
    path: RelativePath,
    range: Range<u64>,
) -> Result<Part<S::Receive>, TransferError> {
    let (mut send, mut receive) = session.open().await.map_err(TransferError::stream("opening a stream"))?;
    let (offset, length) = (range.start, range.end.saturating_sub(range.start));
    write_request(&mut send, Request::Read(ReadRequest { path, offset, length })).await?;
    finish(&mut send).await?;
    let announced = read_acceptance(&mut receive).await?;
    let Frame::Entry(entry) = read_frame(&mut receive).await? else {
        return Err(TransferError::Unexpected { wanted: "the size of the file" });
    };
    let length = entry.size.saturating_sub(offset).min(length);
    if entry.kind != EntryKind::File || announced != (Totals { files: 1, bytes: length }) {
        return Err(TransferError::Unexpected { wanted: "a part of a file" });
    }
    Ok(Part { receive, entry, announced, left: length, body: 0, buffer: BytesMut::new(), has_ended: false })
}

impl<R: AsyncRead + Unpin> Part<R> {
    /// The file: its last component as a name, its whole size, and when it last changed.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Bytes of the part.
    pub fn length(&self) -> u64 {
        self.announced.bytes
    }

    /// The stream, to set its target rate.
    pub fn stream(&mut self) -> &mut R {
        &mut self.receive
    }

    /// The next bytes, `None` at the end of the part. Cancelling the wait loses nothing.
    ///
    /// # Errors
    /// The file has become shorter or cannot be read on, or the connection broke.
    pub async fn next(&mut self) -> Result<Option<Bytes>, TransferError> {
        loop {
            if self.has_ended {
                return Ok(None);
            }
            if let Some(bytes) = self.content() {
                return Ok(Some(bytes));
            }
            if self.body == 0 && self.take_frame()? {
                continue;
            }
            if self.buffer.capacity() - self.buffer.len() < LEAST_ROOM {
                self.buffer.reserve(ROOM);
            }
            let read = self.receive.read_buf(&mut self.buffer).await;
            if read.map_err(TransferError::stream("reading a part of a file"))? == 0 {
                return Err(TransferError::Incomplete { verified: 0 });
            }
        }
    }

    /// Content of the current frame that has arrived.
    fn content(&mut self) -> Option<Bytes> {
        let length = self.body.min(self.buffer.len());
        if length == 0 {
            return None;
        }
        self.body -= length;
        self.left = self.left.saturating_sub(length as u64);
        Some(self.buffer.split_to(length).freeze())
    }

    /// Takes the next frame, of DATA its header; returns false if it has not arrived.
    fn take_frame(&mut self) -> Result<bool, TransferError> {
        let Some(header) = self.buffer.first_chunk::<HEADER>() else { return Ok(false) };
        let header = Header::decode(*header)?;
        if header.kind == Kind::Data {
            if header.length as u64 > self.left {
                return Err(TransferError::Local(Failure::new(Reason::Limit)));
            }
            self.buffer.advance(HEADER);
            self.body = header.length;
            return Ok(true);
        }
        let Some(body) = self.buffer.get(HEADER..HEADER + header.length) else { return Ok(false) };
        match Frame::decode(header.kind, body)? {
            Frame::Done(totals) if self.left == 0 && totals == self.announced => self.has_ended = true,
            Frame::Abandoned { failure, .. } | Frame::Refused(failure) => {
                return Err(TransferError::Refused(failure));
            }
            Frame::Request(_)
            | Frame::Accepted(_)
            | Frame::Hello { .. }
            | Frame::Entry(_)
            | Frame::End { .. }
            | Frame::Done(_)
            | Frame::Start { .. }
            | Frame::Hole { .. }
            | Frame::Answer(_)
            | Frame::Verdict(_)
            | Frame::Interval(_)
            | Frame::Summary(_)
            | Frame::Account(_) => return Err(TransferError::Unexpected { wanted: "a part of a file" }),
        }
        Ok(true)
    }
}
