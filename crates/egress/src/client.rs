//! The side that requests connections.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_session::Session;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::answer::{Answer, Reason, Refusal};
use crate::codec::CodecError;
use crate::destination::Destination;
use crate::error::EgressError;
use crate::request::Request;
use crate::treatment::Treatment;
use crate::wire::{read_answer, read_request, write_answer, write_request};

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
) -> Result<Opened<S::Send, S::Receive>, EgressError> {
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
) -> Result<Opened<S::Send, S::Receive>, EgressError> {
    let (mut send, mut receive) = session.open().await?;
    if let Some(urgency) = treatment.class {
        session.set_urgency(&mut send, urgency);
    }
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
async fn ask_for<W: AsyncWrite + Unpin>(treatment: Treatment, send: &mut W) -> io::Result<()> {
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

/// A port at the server. Dropping it closes the port, and resets its connections.
#[derive(Debug)]
pub struct Listening<W, R> {
    /// Where the server listens.
    pub address: SocketAddr,
    _stream: (W, R),
}

/// Asks the server to listen at `address`, where port 0 leaves the port to it. Its connections come as streams that the
/// server opens, which [`accept`] takes; they have the `number` of the listener. The server sends like `treatment`; the
/// client's own direction is up to the caller.
///
/// # Errors
/// [`EgressError::Refused`] with the reason, or the stream broke.
// egress 9.1
pub async fn listen<S: Session>(
    session: &S,
    (number, address): (u16, SocketAddr),
    treatment: Treatment,
) -> Result<Listening<S::Send, S::Receive>, EgressError> {
    let (mut send, mut receive) = session.open().await?;
    ask_for(treatment, &mut send).await?;
    write_request(&mut send, &Request::Listen { number, address }).await?;
    match answer_of(&mut receive).await? {
        Answer::Done(Some(address)) => Ok(Listening { address, _stream: (send, receive) }),
        Answer::Done(None) => Err(CodecError::Truncated { field: "address", needed: 7, left: 0 }.into()),
        Answer::Refused(refusal) => Err(refusal.into()),
    }
}

/// A connection to a port at the server, which the client accepts or refuses.
#[derive(Debug)]
pub struct Incoming<W, R> {
    /// The number of its listener.
    pub number: u16,
    /// Who connected.
    pub peer: SocketAddr,
    send: W,
    receive: R,
}

/// Reads the request of a stream that the server opened.
///
/// # Errors
/// It is no connection to a listener, does not come within 10 s, or the stream broke.
// egress 9.2
pub async fn accept<W, R>(mut send: W, mut receive: R) -> Result<Incoming<W, R>, EgressError>
where
    W: AsyncWrite + Unpin,
    R: AsyncRead + Unpin,
{
    let request = timeout(PATIENCE, read_request(&mut receive)).await.map_err(|_| EgressError::Late)??;
    match request {
        Ok(Request::Incoming { number, peer }) => Ok(Incoming { number, peer, send, receive }),
        Ok(_) | Err(_) => {
            let refusal = Refusal::new(Reason::Unsupported);
            write_answer(&mut send, &Answer::Refused(refusal.clone())).await?;
            send.shutdown().await?;
            Err(refusal.into())
        }
    }
}

impl<W: AsyncWrite + Unpin, R> Incoming<W, R> {
    /// Accepts the connection, and returns its stream.
    ///
    /// # Errors
    /// The stream broke.
    pub async fn accept(mut self) -> io::Result<(W, R)> {
        write_answer(&mut self.send, &Answer::Done(None)).await?;
        Ok((self.send, self.receive))
    }

    /// Refuses it: the server resets it.
    ///
    /// # Errors
    /// The stream broke.
    pub async fn refuse(mut self, reason: Reason) -> io::Result<()> {
        write_answer(&mut self.send, &Answer::Refused(Refusal::new(reason))).await?;
        self.send.shutdown().await
    }
}

/// How long a stream of the server may take to say what it is for.
const PATIENCE: Duration = Duration::from_secs(10);

/// An answer of another protocol comes from a server that does not support this one.
async fn answer_of<R: AsyncRead + Unpin>(receive: &mut R) -> Result<Answer, EgressError> {
    match read_answer(receive).await {
        Err(EgressError::Codec(CodecError::Value { field: "protocol", .. })) => {
            Err(Refusal::new(Reason::Unsupported).into())
        }
        answer => answer,
    }
}
