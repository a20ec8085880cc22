//! The side that requests connections.

use std::io;
use std::net::SocketAddr;

use manyway_session::Session;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

use crate::answer::{Answer, Reason, Refusal};
use crate::classed::ClassedSend;
use crate::codec::CodecError;
use crate::destination::Destination;
use crate::error::EgressError;
use crate::request::Request;
use crate::treatment::Treatment;
use crate::wire::{read_answer, write_request};

/// A TCP connection at the other side, and the stream to it.
#[derive(Debug)]
pub struct Opened<W, R> {
    /// The address that the other side is connected to.
    pub address: SocketAddr,
    /// Sends to the destination.
    pub send: W,
    /// Receives from the destination.
    pub receive: R,
}

/// Requests a connection to `destination`, and waits for the answer.
///
/// # Errors
/// [`EgressError::Refused`] with the reason, or the stream broke.
pub async fn connect<S: Session>(
    session: &S,
    destination: &Destination,
) -> Result<Opened<ClassedSend<S>, S::Receive>, EgressError> {
    connect_as(session, destination, Treatment::default()).await
}

/// As [`connect`], for a connection that is treated like this in both directions.
///
/// # Errors
/// As [`connect`].
pub async fn connect_as<S: Session>(
    session: &S,
    destination: &Destination,
    treatment: Treatment,
) -> Result<Opened<ClassedSend<S>, S::Receive>, EgressError> {
    let (send, mut receive) = session.open().await?;
    let mut send = ClassedSend::new(send, treatment.class);
    ask_for(treatment, &mut send).await?;
    write_request(&mut send, &Request::Connect(destination.clone())).await?;
    match answer_of(&mut receive).await? {
        Answer::Done(Some(address)) => Ok(Opened { address, send, receive }),
        Answer::Done(None) => Err(CodecError::Truncated { field: "address", needed: 7, left: 0 }.into()),
        Answer::Refused(refusal) => Err(refusal.into()),
    }
}

/// Asks for a treatment, if that is not the default.
// egress 2.6
pub(crate) async fn ask_for<W: AsyncWrite + Unpin>(treatment: Treatment, send: &mut W) -> io::Result<()> {
    if treatment == Treatment::default() {
        return Ok(());
    }
    write_request(send, &Request::Treatment(treatment)).await
}

/// Asks whether the server carries connections of this client at all.
///
/// # Errors
/// [`EgressError::Refused`] if it does not, or the stream broke.
// egress 2.3
pub async fn check<S: Session>(session: &S) -> Result<(), EgressError> {
    let (mut send, mut receive) = session.open().await?;
    write_request(&mut send, &Request::Check).await?;
    let answer = answer_of(&mut receive).await?;
    // The server has finished with the stream.
    let _ = send.shutdown().await;
    match answer {
        Answer::Done(_) => Ok(()),
        Answer::Refused(refusal) => Err(refusal.into()),
    }
}

/// An answer of another protocol comes from a server that does not support this one.
pub(crate) async fn answer_of<R: AsyncRead + Unpin>(receive: &mut R) -> Result<Answer, EgressError> {
    match read_answer(receive).await {
        Err(EgressError::Codec(CodecError::Value { field: "protocol", .. })) => {
            Err(Refusal::new(Reason::Unsupported).into())
        }
        answer => answer,
    }
}
