//! Sends a part of a file.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::task::spawn_blocking;
use tracing::debug;

use super::refuse::refuse;
use super::served::Served;
use crate::error::TransferError;
use crate::failure::{Failure, Reason};
use crate::frame::{Frame, HEADER, Header, Kind};
use crate::request::{ReadRequest, Totals};
use crate::wire::finish;

/// Bytes of content in a frame. A reader that pauses holds one of them, and no thread.
const CHUNK: usize = 64 * 1024;

/// Answers a request until its part has been written or the client stops reading.
// transfer 8.2
pub(super) async fn send<W: AsyncWrite + Unpin>(
    served: &Arc<Served>,
    ReadRequest { path, offset, length }: ReadRequest,
    send: &mut W,
) -> Result<(), TransferError> {
    debug!(%path, offset, length, "sending a part of a file");
    let served = Arc::clone(served);
    let opened = spawn_blocking(move || {
        let (mut file, entry) = served.open(path)?;
        if offset < entry.size {
            file.seek(SeekFrom::Start(offset)).map_err(|error| Failure::from_io(&error))?;
        }
        Ok((file, entry))
    });
    let (mut file, entry) = match opened.await.map_err(|_| TransferError::Internal)? {
        Ok(opened) => opened,
        Err(failure) => return refuse(send, failure).await,
    };
    let part = entry.size.saturating_sub(offset).min(length);
    let totals = Totals { files: 1, bytes: part };
    let mut bytes = Vec::new();
    Frame::Accepted(totals).encode(&mut bytes);
    Frame::Entry(entry).encode(&mut bytes);
    let mut left = part;
    while left > 0 {
        write(send, &bytes).await?;
        let read = spawn_blocking(move || read(file, bytes, left)).await;
        let (content, failure);
        (file, bytes, content, failure) = read.map_err(|_| TransferError::Internal)?;
        left -= content;
        if let Some(failure) = failure {
            Frame::Abandoned { entry: Some(0), name: String::new(), failure }.encode(&mut bytes);
            write(send, &bytes).await?;
            return finish(send).await;
        }
    }
    Frame::Done(totals).encode(&mut bytes);
    write(send, &bytes).await?;
    finish(send).await
}

async fn write<W: AsyncWrite + Unpin>(send: &mut W, bytes: &[u8]) -> Result<(), TransferError> {
    send.write_all(bytes).await.map_err(TransferError::stream("sending a part of a file"))
}

/// Fills `bytes` with the next DATA frame of a file, which has at most `left` bytes. Returns the bytes of its content,
/// and why there is no more where the file fails or has become shorter.
fn read(mut file: File, mut bytes: Vec<u8>, left: u64) -> (File, Vec<u8>, u64, Option<Failure>) {
    bytes.clear();
    bytes.resize(HEADER, 0);
    let limit = left.min(CHUNK as u64);
    let failure = match (&mut file).take(limit).read_to_end(&mut bytes) {
        Ok(_) if (bytes.len() - HEADER) as u64 == limit => None,
        Ok(_) => Some(Failure::new(Reason::Shorter)),
        Err(error) => Some(Failure::from_io(&error)),
    };
    let length = bytes.len() - HEADER;
    if let Some(header) = bytes.first_chunk_mut() {
        *header = Header { kind: Kind::Data, length }.encode();
    }
    (file, bytes, length as u64, failure)
}
