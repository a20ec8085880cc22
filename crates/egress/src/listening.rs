//! Ports at the server whose connections and datagrams come to the client.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_session::{MessageHalves, Session};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::answer::{Answer, Reason, Refusal};
use crate::client::{answer_of, ask_for};
use crate::codec::CodecError;
use crate::error::EgressError;
use crate::flow::{FlowReceiver, FlowSender, flow, request_flow};
use crate::quota::Quota;
use crate::request::Request;
use crate::treatment::Treatment;
use crate::wire::{read_request, write_answer, write_request};

/// A port at the server. Dropping it closes the port, resets its connections, and ends its flows.
pub struct Listening {
    /// Where the server listens.
    pub address: SocketAddr,
    _stream: Box<dyn Send>,
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Asks the server to listen for TCP at `address`, where port 0 leaves the port to it. Its connections come as streams that the
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
) -> Result<Listening, EgressError> {
    let (mut send, mut receive) = session.open().await?;
    ask_for(treatment, &mut send).await?;
    write_request(&mut send, &Request::Listen { number, address }).await?;
    let address = address_of(answer_of(&mut receive).await?)?;
    Ok(Listening { address, _stream: Box::new((send, receive)) })
}

/// As [`listen`], for datagrams of UDP: each address and port that they come from is a flow, whose stream [`accept_flow`]
/// takes.
///
/// # Errors
/// As [`listen`], or the connection carries no messages.
// egress 9.7
pub async fn listen_datagrams<S: Session>(
    session: &S,
    (number, address): (u16, SocketAddr),
    treatment: Treatment,
) -> Result<Listening, EgressError> {
    let request = Request::Listen { number, address };
    let (sender, mut receiver) = request_flow(session, &request, treatment).await?;
    let address = address_of(Answer::decode(&receiver.frame().await?)?)?;
    Ok(Listening { address, _stream: Box::new((sender, receiver)) })
}

fn address_of(answer: Answer) -> Result<SocketAddr, EgressError> {
    match answer {
        Answer::Done(Some(address)) => Ok(address),
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

/// A flow of datagrams to a port at the server, which the client accepts or refuses. Dropping it ends the flow.
#[derive(Debug)]
pub struct IncomingFlow {
    /// The number of its listener.
    pub number: u16,
    /// Where the datagrams come from.
    pub peer: SocketAddr,
    sender: FlowSender,
    receiver: FlowReceiver,
}

/// Reads the request of a stream of messages that the server opened.
///
/// # Errors
/// It is no flow to a listener, does not come within 10 s, or the stream broke.
// egress 9.8
pub async fn accept_flow(halves: MessageHalves) -> Result<IncomingFlow, EgressError> {
    let (mut sender, mut receiver) = flow(halves, &Quota::unlimited());
    let frame = timeout(PATIENCE, receiver.frame()).await.map_err(|_| EgressError::Late)??;
    if let Ok(Request::Incoming { number, peer }) = Request::decode(&frame)? {
        return Ok(IncomingFlow { number, peer, sender, receiver });
    }
    let refusal = Refusal::new(Reason::Unsupported);
    sender.send_answer(Answer::Refused(refusal.clone())).await?;
    Err(refusal.into())
}

impl IncomingFlow {
    /// Accepts the flow. What is sent back is treated like this.
    ///
    /// # Errors
    /// The stream broke.
    pub async fn accept(mut self, treatment: Treatment) -> io::Result<(FlowSender, FlowReceiver)> {
        self.sender.treat(treatment);
        self.sender.send_answer(Answer::Done(None)).await?;
        Ok((self.sender, self.receiver))
    }

    /// Refuses it: what its peer sends is lost.
    ///
    /// # Errors
    /// The stream broke.
    pub async fn refuse(mut self, reason: Reason) -> io::Result<()> {
        self.sender.send_answer(Answer::Refused(Refusal::new(reason))).await
    }
}

/// How long a stream of the server may take to say what it is for.
const PATIENCE: Duration = Duration::from_secs(10);
