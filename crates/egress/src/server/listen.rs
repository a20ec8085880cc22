//! Ports at the server whose connections a client takes.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use manyway_session::Session;
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::shared::{Shared, say};
use crate::answer::{Answer, Reason, Refusal};
use crate::classed::ClassedSend;
use crate::destination::{Destination, Host};
use crate::error::EgressError;
use crate::quota::Quota;
use crate::relay::Volume;
use crate::request::Request;
use crate::rules::NetPorts;
use crate::tcp::{relay_tcp, reset_when_closed};
use crate::treatment::Treatment;
use crate::wire::{read_answer, write_answer, write_request};

/// One client at the server: its connection, and what it may use.
#[derive(Debug)]
pub struct Access<'a, S> {
    /// Its connection, on which the server opens a stream for each connection that comes in.
    pub session: &'a S,
    /// What it may use, over all its connections.
    pub quota: &'a Quota,
    /// Where it may listen; nowhere if it is empty.
    pub listen: &'a [NetPorts],
}

/// What a client asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Listening {
    pub(super) number: u16,
    pub(super) address: SocketAddr,
    /// That of what comes in.
    pub(super) treatment: Treatment,
}

impl Listening {
    /// For a log.
    pub(super) fn destination(&self) -> Option<Destination> {
        Destination::new(Host::Ip(self.address.ip()), self.address.port()).ok()
    }
}

/// Listens until the client ends the stream of its request, and passes each connection to it.
// egress 9
pub(super) async fn listen<S, W, R>(
    shared: &Shared,
    client: &Access<'_, S>,
    listening: Listening,
    (mut send, mut receive): (W, R),
) -> Result<Volume, EgressError>
where
    S: Session + 'static,
    W: AsyncWrite + Unpin,
    R: AsyncRead + Unpin,
{
    let patience = shared.config.request_timeout;
    let place = || client.quota.connection();
    let (listener, _place) = match open(client, (listening.address, Type::STREAM), place, accepting) {
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
    // One at a time: while the client has no stream left, connections wait at the listener.
    let mut taking = None;
    loop {
        tokio::select! {
            accepted = listener.accept(), if taking.is_none() => match accepted {
                Ok((socket, peer)) => taking = Some(Box::pin(take(shared, client, listening, (socket, peer)))),
                Err(error) => {
                    tracing::debug!(%error, "accept failed");
                    tokio::time::sleep(PAUSE).await;
                }
            },
            Some(taken) = opened(&mut taking) => {
                taking = None;
                if let Some(taken) = taken {
                    connections.spawn(taken.carry(client.quota.clone(), patience));
                }
            }
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

/// Waits for the stream that is being opened; `None` without one.
async fn opened<F: Future + Unpin>(work: &mut Option<F>) -> Option<F::Output> {
    match work {
        Some(work) => Some(work.await),
        None => None,
    }
}

/// Binds a socket where the client may listen, and makes of it what receives; `place` takes what it costs.
// egress 9.4
pub(super) fn open<S, P, L>(
    client: &Access<'_, S>,
    (address, kind): (SocketAddr, Type),
    place: impl FnOnce() -> Option<P>,
    make: impl FnOnce(Socket) -> io::Result<L>,
) -> Result<(L, P), Refusal> {
    let may = |address| client.listen.iter().any(|opening| opening.contains(address));
    let forbidden = || {
        let text =
            "the ticket needs the right to listen there: manyway keys add ticket NAME --listen ADDRESS:PORT";
        Refusal::with_text(Reason::Forbidden, text)
    };
    // Of a port that the system chooses only the address is known.
    let may_somewhere = client.listen.iter().any(|opening| opening.covers(address.ip()));
    if !may_somewhere || address.port() != 0 && !may(address) {
        return Err(forbidden());
    }
    // egress 9.7
    if kind == Type::DGRAM && address.ip().is_unspecified() {
        let text = "a port of UDP needs one address of the server";
        return Err(Refusal::with_text(Reason::Unsupported, text));
    }
    let place = place().ok_or_else(|| Refusal::new(Reason::TooMany))?;
    let socket = bind(address, kind).map_err(reason_of)?;
    let bound = socket.local_addr().map_err(reason_of)?.as_socket();
    if bound.is_some_and(may) { Ok((make(socket).map_err(reason_of)?, place)) } else { Err(forbidden()) }
}

/// Binds to exactly this address: one of IPv6 does not stand for IPv4, too.
fn bind(address: SocketAddr, kind: Type) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // Two sockets of UDP would share a port.
    if kind == Type::STREAM {
        socket.set_reuse_address(cfg!(unix))?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn accepting(socket: Socket) -> io::Result<TcpListener> {
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the system has many more")]
fn reason_of(error: io::Error) -> Refusal {
    let text = match error.kind() {
        io::ErrorKind::AddrInUse => "the port is taken at the server",
        io::ErrorKind::AddrNotAvailable => "no interface of the server has this address",
        io::ErrorKind::PermissionDenied => "the server may not listen on ports below 1024",
        _ => return Refusal::with_text(Reason::Other, error.to_string()),
    };
    Refusal::with_text(Reason::Other, text)
}

/// A connection, and the stream that was opened for it.
struct Taken<W, R> {
    socket: TcpStream,
    stream: (W, R),
    request: Request,
    _places: [OwnedSemaphorePermit; 2],
}

/// Opens a stream for a connection. Without a place for it, it is reset.
async fn take<S: Session>(
    shared: &Shared,
    client: &Access<'_, S>,
    Listening { number, treatment, .. }: Listening,
    (socket, peer): (TcpStream, SocketAddr),
) -> Option<Taken<ClassedSend<S>, S::Receive>> {
    let places = (client.quota.connection(), Arc::clone(&shared.connections).try_acquire_owned().ok());
    let stream = match places {
        (Some(own), Some(all)) => {
            let opened = timeout(PATIENCE, client.session.open()).await;
            opened.ok().and_then(Result::ok).map(|stream| (stream, [own, all]))
        }
        _ => None,
    };
    let Some(((send, receive), places)) = stream else {
        reset_when_closed(&socket);
        return None;
    };
    let stream = (ClassedSend::new(send, treatment.class), receive);
    Some(Taken { socket, stream, request: Request::Incoming { number, peer }, _places: places })
}

impl<W, R> Taken<W, R>
where
    W: AsyncWrite + Unpin,
    R: AsyncRead + Unpin,
{
    /// Asks the client for the connection, and carries it to its end.
    async fn carry(self, quota: Quota, patience: Duration) -> Result<Volume, EgressError> {
        let Self { socket, stream: (mut send, mut receive), request, _places } = self;
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
                reset_when_closed(&socket);
                let _ = send.shutdown().await;
                Err(refusal.into())
            }
            Err(error) => {
                reset_when_closed(&socket);
                Err(error)
            }
        }
    }
}

/// Waits for the end of a stream that carries nothing more.
async fn end_of<R: AsyncRead + Unpin>(receive: &mut R) -> io::Result<()> {
    match receive.read_u8().await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Connections that wait to be accepted; the system has a limit of its own.
const BACKLOG: i32 = 1024;
/// Pause after the system refused a connection, mostly for lack of file descriptors.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
/// How long a connection waits for a stream.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
