//! Ports at the server whose connections a client takes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use manyway_session::Session;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::shared::{Shared, say};
use crate::answer::{Answer, Reason, Refusal};
use crate::error::EgressError;
use crate::quota::Quota;
use crate::relay::Volume;
use crate::request::Request;
use crate::rules::Opening;
use crate::tcp::relay_tcp;
use crate::wire::{read_answer, write_answer, write_request};

/// One client at the server: its connection, and what it may use.
#[derive(Debug)]
pub struct Access<'a, S> {
    /// Its connection, on which the server opens a stream for each connection that comes in.
    pub session: &'a S,
    /// What it may use, over all its connections.
    pub quota: &'a Quota,
    /// Where it may listen; nowhere if it is empty.
    pub listen: &'a [Opening],
}

/// Listens until the client ends the stream of its request, and passes each connection to it.
// egress 9
pub(super) async fn listen<S, W, R>(
    shared: &Shared,
    client: &Access<'_, S>,
    (number, address): (u16, SocketAddr),
    (mut send, mut receive): (W, R),
) -> Result<Volume, EgressError>
where
    S: Session,
    W: AsyncWrite + Unpin,
    R: AsyncRead + Unpin,
{
    let patience = shared.config.request_timeout;
    let (listener, _place) = match open(client, address).await {
        Ok(opened) => opened,
        Err(refusal) => {
            let _ = say(patience, &mut send, &Answer::Refused(refusal.clone())).await;
            return Err(refusal.into());
        }
    };
    let bound = listener.local_addr()?;
    timeout(patience, write_answer(&mut send, &Answer::Done(Some(bound))))
        .await
        .map_err(|_| EgressError::Late)??;
    let mut connections = JoinSet::new();
    let mut volume = Volume::default();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((socket, peer)) => take(shared, client, &mut connections, (number, socket, peer)).await,
                Err(error) => {
                    tracing::debug!(%error, "a connection to a listener was not taken");
                    tokio::time::sleep(PAUSE).await;
                }
            },
            Some(ended) = connections.join_next() => {
                let carried: Volume = ended.ok().and_then(Result::ok).unwrap_or_default();
                volume.sent += carried.sent;
                volume.received += carried.received;
            }
            // Dropping the connections resets them.
            ended = end_of(&mut receive) => return ended.map(|()| volume).map_err(EgressError::from),
        }
    }
}

async fn open<S>(
    client: &Access<'_, S>,
    address: SocketAddr,
) -> Result<(TcpListener, tokio::sync::OwnedSemaphorePermit), Refusal> {
    let may = |address| client.listen.iter().any(|opening| opening.contains(address));
    let forbidden = || {
        let text =
            "the ticket needs the right to listen there: manyway keys add ticket NAME --listen ADDRESS:PORT";
        Refusal::with_text(Reason::Forbidden, text)
    };
    if address.port() != 0 && !may(address) {
        return Err(forbidden());
    }
    let place = client.quota.connection().ok_or_else(|| Refusal::new(Reason::TooMany))?;
    let listener = TcpListener::bind(address).await.map_err(|error| reason_of(&error))?;
    let bound = listener.local_addr().map_err(|error| reason_of(&error))?;
    if may(bound) { Ok((listener, place)) } else { Err(forbidden()) }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the system has many more")]
fn reason_of(error: &io::Error) -> Refusal {
    let text = match error.kind() {
        io::ErrorKind::AddrInUse => "the port is taken at the server",
        io::ErrorKind::AddrNotAvailable => "no interface of the server has this address",
        io::ErrorKind::PermissionDenied => "the server may not listen on ports below 1024",
        _ => return Refusal::with_text(Reason::Other, error.to_string()),
    };
    Refusal::with_text(Reason::Other, text)
}

/// Opens a stream for a connection, and carries it in the background. Without a place for it, it is reset.
async fn take<S: Session>(
    shared: &Shared,
    client: &Access<'_, S>,
    connections: &mut JoinSet<Result<Volume, EgressError>>,
    (number, socket, peer): (u16, TcpStream, SocketAddr),
) {
    let place = (client.quota.connection(), Arc::clone(&shared.connections).try_acquire_owned().ok());
    let (Some(own), Some(all)) = place else { return reset(&socket) };
    let Ok(Ok((mut send, mut receive))) = timeout(PATIENCE, client.session.open()).await else {
        return reset(&socket);
    };
    let (quota, patience) = (client.quota.clone(), shared.config.request_timeout);
    connections.spawn(async move {
        let _places = (own, all);
        let request = Request::Incoming { number, peer };
        let asking = async {
            write_request(&mut send, &request).await?;
            read_answer(&mut receive).await
        };
        let answer = timeout(patience, asking).await.map_err(|_| EgressError::Late).and_then(|it| it);
        match answer {
            Ok(Answer::Done(_)) => {
                let carried = relay_tcp(socket, (send, receive), &quota).await;
                carried.map_err(|error| EgressError::Stream(io::Error::other(error)))
            }
            Ok(Answer::Refused(refusal)) => {
                reset(&socket);
                let _ = send.shutdown().await;
                Err(refusal.into())
            }
            Err(error) => {
                reset(&socket);
                Err(error)
            }
        }
    });
}

fn reset(socket: &TcpStream) {
    // A socket that cannot be reset any more is closed already.
    let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
}

/// Waits for the end of a stream that carries nothing more.
async fn end_of<R: AsyncRead + Unpin>(receive: &mut R) -> io::Result<()> {
    match receive.read_u8().await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Pause after the system refused a connection, mostly for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a connection waits for a stream.
const PATIENCE: Duration = Duration::from_secs(2);
