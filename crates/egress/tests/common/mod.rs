//! A connection in memory whose streams can be reset, a server's end over it, and a fake resolver.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use manyway_egress::{
    Access, Destination, EgressError, Gateway, GatewayConfig, Name, NetPorts, Quota, Reason, RequestError,
    Resolve, Rules, Turn, Volume, answer_messages,
};
use manyway_session::{Delivery, Message, MessageHalves, MessageReceiver, MessageSender, Session, Urgency};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, DuplexStream, ReadBuf, ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, mpsc};

/// Longer than any step takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// One end of a connection whose streams hold 64 KiB in each direction.
pub(crate) struct MemorySession {
    open: mpsc::UnboundedSender<(MemorySend, MemoryReceive)>,
    accept: Mutex<mpsc::UnboundedReceiver<(MemorySend, MemoryReceive)>>,
    /// The classes that were set for its streams, and those of the other end.
    pub(crate) urgencies: Urgencies,
    others: Urgencies,
}

type Urgencies = Arc<std::sync::Mutex<Vec<Urgency>>>;

pub(crate) fn pair() -> (MemorySession, MemorySession) {
    let (to_right, from_left) = mpsc::unbounded_channel();
    let (to_left, from_right) = mpsc::unbounded_channel();
    let (left, right) = (Urgencies::default(), Urgencies::default());
    let session = |open, accept, own: &Urgencies, others: &Urgencies| MemorySession {
        open,
        accept: Mutex::new(accept),
        urgencies: Arc::clone(own),
        others: Arc::clone(others),
    };
    (session(to_right, from_right, &left, &right), session(to_left, from_left, &right, &left))
}

impl MemorySession {
    /// The classes that the other end has set.
    pub(crate) fn others(&self) -> Vec<Urgency> {
        self.others.lock().unwrap().clone()
    }
}

impl Session for MemorySession {
    type Send = MemorySend;
    type Receive = MemoryReceive;

    async fn open(&self) -> io::Result<(Self::Send, Self::Receive)> {
        let (near_send, far_receive) = direction(&self.urgencies);
        let (far_send, near_receive) = direction(&self.others);
        self.open.send((far_send, far_receive)).map_err(|_| io::ErrorKind::ConnectionReset)?;
        Ok((near_send, near_receive))
    }

    async fn accept(&self) -> Option<(Self::Send, Self::Receive)> {
        self.accept.lock().await.recv().await
    }

    fn set_urgency(send: &mut MemorySend, urgency: Urgency) {
        send.urgencies.lock().unwrap().push(urgency);
    }
}

impl MessageSender for MemoryMessages<mpsc::UnboundedSender<Message>> {
    fn send(&mut self, message: Bytes, delivery: Delivery) -> Later<'_, io::Result<()>> {
        Box::pin(async move { self.try_send(message, delivery).map(drop) })
    }

    fn try_send(&mut self, data: Bytes, delivery: Delivery) -> io::Result<bool> {
        let message = Message { data, protocol: delivery.protocol };
        let half = self.half.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        self.deliveries.lock().unwrap_or_else(PoisonError::into_inner).push(delivery);
        half.send(message).map_err(|_| io::ErrorKind::ConnectionReset)?;
        Ok(true)
    }

    fn finish(&mut self) {
        self.half = None;
    }
}

impl MessageReceiver for MemoryMessages<mpsc::UnboundedReceiver<Message>> {
    fn receive(&mut self) -> Later<'_, io::Result<Option<Message>>> {
        Box::pin(async { Ok(self.half.as_mut().unwrap().recv().await) })
    }
}

/// One half of a stream of messages.
pub(crate) struct MemoryMessages<H> {
    half: Option<H>,
    deliveries: Deliveries,
}

/// How messages were sent.
pub(crate) type Deliveries = Arc<std::sync::Mutex<Vec<Delivery>>>;

type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Both halves of a stream of messages, and those of the other end.
pub(crate) fn messages() -> (MessageHalves, MessageHalves) {
    noted_messages(&Deliveries::default())
}

pub(crate) fn noted_messages(deliveries: &Deliveries) -> (MessageHalves, MessageHalves) {
    let ((to_right, from_left), (to_left, from_right)) =
        (mpsc::unbounded_channel(), mpsc::unbounded_channel());
    let halves = |to, from| -> MessageHalves {
        let deliveries = || Arc::clone(deliveries);
        let sender = MemoryMessages { half: Some(to), deliveries: deliveries() };
        (Box::new(sender), Box::new(MemoryMessages { half: Some(from), deliveries: deliveries() }))
    };
    (halves(to_right, from_right), halves(to_left, from_left))
}

fn direction(urgencies: &Urgencies) -> (MemorySend, MemoryReceive) {
    let (near, far) = tokio::io::duplex(64 << 10);
    let (unused_read, write) = tokio::io::split(near);
    let (read, unused_write) = tokio::io::split(far);
    let was_finished = Arc::new(AtomicBool::new(false));
    let urgencies = Arc::clone(urgencies);
    let send = MemorySend { write, _read: unused_read, was_finished: Arc::clone(&was_finished), urgencies };
    (send, MemoryReceive { read, _write: unused_write, was_finished })
}

/// The sending half: dropping it before its end resets the stream.
#[derive(Debug)]
pub(crate) struct MemorySend {
    write: WriteHalf<DuplexStream>,
    _read: ReadHalf<DuplexStream>,
    was_finished: Arc<AtomicBool>,
    urgencies: Urgencies,
}

impl AsyncWrite for MemorySend {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.write).poll_write(context, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.write).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.was_finished.store(true, Ordering::SeqCst);
        Pin::new(&mut self.write).poll_shutdown(context)
    }
}

/// The receiving half: an end without `shutdown` is a reset; dropping it stops the writer.
#[derive(Debug)]
pub(crate) struct MemoryReceive {
    read: ReadHalf<DuplexStream>,
    _write: WriteHalf<DuplexStream>,
    was_finished: Arc<AtomicBool>,
}

impl AsyncRead for MemoryReceive {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.read).poll_read(context, buffer);
        let is_end = matches!(polled, Poll::Ready(Ok(()))) && buffer.filled().len() == before;
        if is_end && !self.was_finished.load(Ordering::SeqCst) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        polled
    }
}

/// One end of a connection whose streams carry messages alone.
pub(crate) struct MessageSession {
    opened: mpsc::UnboundedSender<MessageHalves>,
    accepted: Mutex<mpsc::UnboundedReceiver<MessageHalves>>,
    /// Of both ends.
    pub(crate) deliveries: Deliveries,
}

pub(crate) fn message_pair() -> (MessageSession, MessageSession) {
    let ((to_right, from_left), (to_left, from_right)) =
        (mpsc::unbounded_channel(), mpsc::unbounded_channel());
    let deliveries = Deliveries::default();
    let session = |opened, accepted| MessageSession {
        opened,
        accepted: Mutex::new(accepted),
        deliveries: Arc::clone(&deliveries),
    };
    (session(to_right, from_right), session(to_left, from_left))
}

impl Session for MessageSession {
    type Send = Opened;
    type Receive = tokio::io::Empty;

    async fn open(&self) -> io::Result<(Self::Send, Self::Receive)> {
        let (near, far) = noted_messages(&self.deliveries);
        self.opened.send(far).map_err(|_| io::ErrorKind::ConnectionReset)?;
        Ok((Opened(Some(near)), tokio::io::empty()))
    }

    async fn accept(&self) -> Option<(Self::Send, Self::Receive)> {
        let halves = self.accepted.lock().await.recv().await?;
        Some((Opened(Some(halves)), tokio::io::empty()))
    }

    fn messages(mut send: Self::Send, _: Self::Receive) -> Option<MessageHalves> {
        send.0.take()
    }
}

/// The halves of a stream that was opened; no bytes can be written.
pub(crate) struct Opened(Option<MessageHalves>);

impl AsyncWrite for Opened {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Serves the flows of a client in memory. How they ended comes out of the channel.
pub(crate) fn serve_flows(gateway: Gateway) -> (MessageSession, Quota, Ends) {
    serve_datagrams(gateway, &[])
}

pub(crate) type Ends = mpsc::UnboundedReceiver<Result<Volume, RequestError>>;

/// As [`serve_flows`], for a client that may listen at these addresses.
pub(crate) fn serve_datagrams(gateway: Gateway, listen: &[&str]) -> (MessageSession, Quota, Ends) {
    let listen: Vec<NetPorts> = listen.iter().map(|text| text.parse().unwrap()).collect();
    let (ends, ended) = mpsc::unbounded_channel();
    let ((near, far), quota) = (message_pair(), gateway.quota());
    let (own, far) = (quota.clone(), Arc::new(far));
    tokio::spawn(async move {
        while let Some((send, receive)) = far.accept().await {
            let (gateway, quota, ends) = (gateway.clone(), own.clone(), ends.clone());
            let (far, listen) = (Arc::clone(&far), listen.clone());
            tokio::spawn(async move {
                let client = Access { session: &*far, quota: &quota, listen: &listen };
                let halves = MessageSession::messages(send, receive).unwrap();
                let end = answer_messages(Some((&gateway, &client)), None, halves).await;
                drop(quota);
                drop(ends.send(end));
            });
        }
    });
    (near, quota, ended)
}

/// Serves a client in memory that may reach `openings`.
pub(crate) fn serve(openings: &[&str]) -> (MemorySession, Quota) {
    serve_with(gateway(openings, GatewayConfig::default(), Names::default()))
}

pub(crate) fn gateway(openings: &[&str], config: GatewayConfig, names: Names) -> Gateway {
    gateway_of(openings, &[], config, names)
}

/// A gateway with these openings and denials.
pub(crate) fn gateway_of(
    openings: &[&str],
    denials: &[&str],
    config: GatewayConfig,
    names: Names,
) -> Gateway {
    let parsed = |nets: &[&str]| nets.iter().map(|text| text.parse().unwrap()).collect();
    let rules = Rules::new(parsed(openings)).deny(parsed(denials));
    Gateway::with_resolver(rules, config, Box::new(names))
}

pub(crate) fn serve_with(gateway: Gateway) -> (MemorySession, Quota) {
    serve_listening(gateway, &[])
}

/// Serves a client in memory that may listen at these addresses.
pub(crate) fn serve_listening(gateway: Gateway, listen: &[&str]) -> (MemorySession, Quota) {
    let listen: Vec<NetPorts> = listen.iter().map(|text| text.parse().unwrap()).collect();
    let (near, far) = pair();
    let (quota, far) = (gateway.quota(), Arc::new(far));
    let own = quota.clone();
    tokio::spawn(async move {
        while let Some((send, receive)) = far.accept().await {
            let (gateway, quota, listen, far) =
                (gateway.clone(), own.clone(), listen.clone(), Arc::clone(&far));
            tokio::spawn(async move {
                let client = Access { session: &*far, quota: &quota, listen: &listen };
                drop(gateway.answer(&client, send, receive).await);
            });
        }
    });
    (near, quota)
}

/// Names with the addresses of their first look-up, of the second and so on.
#[derive(Debug, Default, Clone)]
pub(crate) struct Names {
    pub(crate) answers: Vec<(String, Vec<Vec<IpAddr>>)>,
    pub(crate) asked: Arc<AtomicUsize>,
    /// Never answers, and works on when its caller has gone.
    pub(crate) is_mute: bool,
    pub(crate) turns: Arc<std::sync::Mutex<Vec<Turn>>>,
    /// The name servers.
    pub(crate) servers: Vec<SocketAddr>,
}

impl Names {
    pub(crate) fn of(name: &str, answers: &[&[&str]]) -> Self {
        let parse = |answer: &&[&str]| answer.iter().map(|text| text.parse().unwrap()).collect();
        Self { answers: vec![(name.to_owned(), answers.iter().map(parse).collect())], ..Self::default() }
    }
}

impl Resolve for Names {
    fn name_servers(&self) -> Pin<Box<dyn Future<Output = Vec<SocketAddr>> + Send + '_>> {
        Box::pin(std::future::ready(self.servers.clone()))
    }

    fn resolve<'a>(
        &'a self,
        name: &'a Name,
        turn: Turn,
    ) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>> {
        let number = self.asked.fetch_add(1, Ordering::SeqCst);
        if self.is_mute {
            // Like a thread that waits for a name server.
            self.turns.lock().unwrap().push(turn);
            return Box::pin(std::future::pending());
        }
        Box::pin(async move {
            let found = self.answers.iter().find(|(known, _)| known == name.as_str());
            let (_, answers) = found.ok_or(io::ErrorKind::NotFound)?;
            Ok(answers[number.min(answers.len() - 1)].clone())
        })
    }
}

/// A listener on loopback, and the destination that leads there.
pub(crate) async fn listen() -> (TcpListener, Destination) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, Destination::parse("127.0.0.1", address.port()).unwrap())
}

/// A connected pair of sockets on loopback.
pub(crate) async fn sockets() -> (TcpStream, TcpStream) {
    let (listener, _) = listen().await;
    let address: SocketAddr = listener.local_addr().unwrap();
    let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
    (near.unwrap(), far.unwrap().0)
}

/// The reason of a refusal.
#[track_caller]
pub(crate) fn reason<T: std::fmt::Debug>(result: Result<T, EgressError>) -> Reason {
    match result {
        Err(EgressError::Refused(refusal)) => refusal.reason,
        other => panic!("no refusal: {other:?}"),
    }
}

/// Waits, not for ever.
pub(crate) async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.unwrap()
}

/// Waits for a condition.
pub(crate) async fn until(mut holds: impl FnMut() -> bool) {
    in_time(async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Reads everything; the kind of error if it does not end in order.
pub(crate) async fn read_all(from: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, io::ErrorKind> {
    let mut all = Vec::new();
    in_time(from.read_to_end(&mut all)).await.map_err(|error| error.kind())?;
    Ok(all)
}
