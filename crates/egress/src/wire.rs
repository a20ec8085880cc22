//! Single frames over a stream.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::answer::Answer;
use crate::error::EgressError;
use crate::request::{HEADER, Header, Request, Unknown};

/// Reads a request.
pub(crate) async fn read_request<R: AsyncRead + Unpin>(
    receive: &mut R,
) -> Result<Result<Request, Unknown>, EgressError> {
    let (header, body) = read_frame(receive).await?;
    Ok(Request::decode_body(header, &body)?)
}

/// Reads an answer.
pub(crate) async fn read_answer<R: AsyncRead + Unpin>(receive: &mut R) -> Result<Answer, EgressError> {
    let (header, body) = read_frame(receive).await?;
    Ok(Answer::decode_body(header, &body)?)
}

async fn read_frame<R: AsyncRead + Unpin>(receive: &mut R) -> Result<(Header, Vec<u8>), EgressError> {
    let mut bytes = [0; HEADER];
    receive.read_exact(&mut bytes).await?;
    let header = Header::decode(bytes)?;
    // At most 1 KiB.
    let mut body = vec![0; header.length];
    receive.read_exact(&mut body).await?;
    Ok((header, body))
}

/// Writes a request.
pub(crate) async fn write_request<W: AsyncWrite + Unpin>(send: &mut W, request: &Request) -> io::Result<()> {
    let mut bytes = Vec::new();
    request.encode(&mut bytes);
    send.write_all(&bytes).await?;
    send.flush().await
}

/// Writes an answer.
pub(crate) async fn write_answer<W: AsyncWrite + Unpin>(send: &mut W, answer: &Answer) -> io::Result<()> {
    let mut bytes = Vec::new();
    answer.encode(&mut bytes);
    send.write_all(&bytes).await?;
    send.flush().await
}
