//! Single frames over an asynchronous stream.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::codec::CodecError;
use crate::error::TransferError;
use crate::failure::Failure;
use crate::frame::{Frame, HEADER, Header, Kind};
use crate::request::{Request, Totals};

/// Reads one frame that is not DATA.
pub(crate) async fn read_frame<R: AsyncRead + Unpin>(receive: &mut R) -> Result<Frame, TransferError> {
    let mut bytes = [0; HEADER];
    receive.read_exact(&mut bytes).await.map_err(TransferError::stream("waiting for an answer"))?;
    let header = Header::decode(bytes)?;
    if header.kind == Kind::Data {
        return Err(TransferError::Unexpected { wanted: "an answer" });
    }
    // At most 64 KiB, and filled as the bytes arrive.
    let mut body = vec![0; header.length];
    receive.read_exact(&mut body).await.map_err(TransferError::stream("waiting for an answer"))?;
    Ok(Frame::decode(header.kind, &body)?)
}

/// Writes one frame.
pub(crate) async fn write_frame<W: AsyncWrite + Unpin>(
    send: &mut W,
    frame: &Frame,
) -> Result<(), TransferError> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    send.write_all(&bytes).await.map_err(TransferError::stream("sending"))
}

/// Writes a request, after a check that it can be decoded.
pub(crate) async fn write_request<W: AsyncWrite + Unpin>(
    send: &mut W,
    request: Request,
) -> Result<(), TransferError> {
    let frame = Frame::Request(Ok(request));
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    let body = bytes.get(HEADER..).unwrap_or_default();
    if body.len() > crate::frame::BODY_LIMIT {
        let error =
            CodecError::TooLong { field: "request", length: body.len(), limit: crate::frame::BODY_LIMIT };
        return Err(TransferError::Local(Failure::with_text(crate::Reason::Limit, error.to_string())));
    }
    if let Err(error) = Frame::decode(Kind::Request, body) {
        return Err(TransferError::Local(Failure::with_text(crate::Reason::Malformed, error.to_string())));
    }
    send.write_all(&bytes).await.map_err(TransferError::stream("sending the request"))
}

/// Finishes the sending half.
pub(crate) async fn finish<W: AsyncWrite + Unpin>(send: &mut W) -> Result<(), TransferError> {
    send.shutdown().await.map_err(TransferError::stream("ending the stream"))
}

/// Reads the end of a half after its last frame. Without this, dropping the half could overtake its end and tell a
/// sender that has finished to stop.
// transfer 1.8
pub(crate) async fn read_end<R: AsyncRead + Unpin>(receive: &mut R) -> Result<(), TransferError> {
    match receive.read(&mut [0]).await {
        // If the connection ended instead, everything had been sent all the same.
        Ok(0) | Err(_) => Ok(()),
        Ok(_) => Err(TransferError::Unexpected { wanted: "the end of the stream" }),
    }
}

/// Reads the first frame of an answer.
pub(crate) async fn read_acceptance<R: AsyncRead + Unpin>(receive: &mut R) -> Result<Totals, TransferError> {
    match read_frame(receive).await? {
        Frame::Accepted(totals) => Ok(totals),
        Frame::Refused(failure) => Err(TransferError::Refused(failure)),
        Frame::Request(_)
        | Frame::Hello { .. }
        | Frame::Entry(_)
        | Frame::End { .. }
        | Frame::Abandoned { .. }
        | Frame::Done(_)
        | Frame::Start { .. }
        | Frame::Hole { .. }
        | Frame::Answer(_)
        | Frame::Verdict(_)
        | Frame::Interval(_)
        | Frame::Summary(_)
        | Frame::Account(_) => Err(TransferError::Unexpected { wanted: "acceptance or refusal" }),
    }
}
