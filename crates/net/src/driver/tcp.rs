//! The TCP connections of a driver: those that its clients opened, and those that its server accepted.
//!
//! An accepted connection is unassociated until a packet over it belongs to a connection of the endpoint (RFC 9000,
//! section 5.2). Those are bounded in number and in time.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};
use std::time::Duration;

use manyway_proto::{ByteCount, ConnectionHandle, Ecn, Endpoint, FourTuple, Instant, Transmit};

use super::group::Group;
use super::handshakes::Handshakes;
use super::traffic::{Traffic, Way};
use tokio_rustls::TlsAcceptor;

use crate::clock::Clock;
use crate::tcp::{Accepted, Listener, RecordStream, Settings};

/// Connections accepted in one turn at one address.
const ACCEPTS: usize = 16;
/// Reads of one connection in one turn, each of up to [`READ`] bytes.
const READS: usize = 4;
const READ: usize = 64 * 1024;
/// A listener rests for this long after an error, such as too many open files.
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);
/// A connection that no path uses after this time is closed.
const GRACE: Duration = Duration::from_secs(3);
/// Interval at which the connections that no path uses are looked for.
const SWEEP: Duration = Duration::from_millis(500);
/// Most connections that no path uses yet, and of these most from one address.
const MOST_UNASSOCIATED: usize = 256;
const MOST_UNASSOCIATED_OF_HOST: usize = 64;
/// Least interval between two reports of a connection's figures.
const REPORT: Duration = Duration::from_millis(1);
/// Least interval between two searches for the path that uses a connection.
const SEARCH: Duration = Duration::from_millis(5);
/// Most bytes that wait for a connection that takes nothing.
const MOST_PENDING: u64 = 1024 * 1024;
/// Payload of a typical segment, for counting headers.
const SEGMENT: usize = 1400;

/// The TCP connections of a driver, and the addresses where it accepts more.
pub(super) struct TcpStreams {
    settings: Settings,
    listeners: Vec<Listener>,
    /// TLS handshakes of clients.
    handshakes: Handshakes,
    accept_at: Option<Instant>,
    streams: BTreeMap<FourTuple, Stream>,
    unassociated: BTreeMap<IpAddr, usize>,
    /// Connections that have ended since they were last taken.
    ended: Vec<FourTuple>,
    /// Connections whose first record belongs to another driver, with that record.
    misplaced: Vec<(usize, RecordStream, Vec<u8>)>,
    sweep_at: Option<Instant>,
    buffer: Vec<u8>,
    traffic: Traffic,
}

/// A TCP connection.
#[derive(Debug)]
struct Stream {
    io: RecordStream,
    since: Instant,
    /// The connection of which a path uses it, as far as is known.
    user: Option<ConnectionHandle>,
    searched_at: Option<Instant>,
    reported_at: Option<Instant>,
    standing: Standing,
    is_blocked: bool,
    /// Something was written or read since the last report, or was on its way then.
    is_busy: bool,
}

/// What one turn received over a connection.
enum Received {
    /// All that had come.
    All,
    /// A part of it.
    Some,
    /// The first record, which belongs to the driver with this index.
    Misplaced(usize, Vec<u8>),
}

/// Whether anything that came over a TCP connection belongs to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It was accepted. Its first record, which has not come yet, shows which driver it belongs to.
    New,
    /// Records came, and none of them belongs to a connection yet.
    Unassociated,
    /// This end opened it, or a record belongs to a connection.
    Associated,
}

impl TcpStreams {
    pub(super) fn new(settings: Settings, counts: bool) -> Self {
        Self {
            settings,
            listeners: Vec::new(),
            handshakes: Handshakes::default(),
            accept_at: None,
            streams: BTreeMap::new(),
            unassociated: BTreeMap::new(),
            ended: Vec::new(),
            misplaced: Vec::new(),
            sweep_at: None,
            buffer: Vec::new(),
            traffic: Traffic::new(counts),
        }
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Accepts connections at an address from now on.
    pub(super) fn listen(&mut self, address: SocketAddr) -> io::Result<()> {
        self.listeners.push(Listener::bind(address, &self.settings, None)?);
        Ok(())
    }

    /// Accepts connections with TLS at an address from now on.
    pub(super) fn listen_tls(&mut self, address: SocketAddr, tls: TlsAcceptor) -> io::Result<()> {
        self.listeners.push(Listener::bind(address, &self.settings, Some(tls))?);
        Ok(())
    }

    /// The addresses where connections without TLS are accepted.
    pub(super) fn listening(&self) -> impl Iterator<Item = SocketAddr> {
        self.listeners.iter().filter(|listener| !listener.is_tls()).map(Listener::address)
    }

    /// Accepts no more connections.
    pub(super) fn stop_listening(&mut self) {
        self.listeners.clear();
    }

    /// Takes over a connection that this end has opened.
    pub(super) fn add(&mut self, now: Instant, io: RecordStream) {
        self.insert(now, io, Standing::Associated);
    }

    /// Takes over a connection that leads to a client of this server, as if it had been accepted.
    pub(super) fn adopt(&mut self, now: Instant, io: RecordStream) {
        self.admit(now, io);
    }

    /// Takes the connections that have ended since the last call.
    pub(super) fn take_ended(&mut self) -> Vec<FourTuple> {
        std::mem::take(&mut self.ended)
    }

    /// Takes over a connection that another driver accepted, with the first record that came over it.
    pub(super) fn take_over(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        io: RecordStream,
        mut first: Vec<u8>,
    ) {
        let tuple = io.tuple();
        self.admit(now, io);
        endpoint.handle_datagram(now, tuple, Ecn::NotEct, &mut first);
        if let Some(stream) = self.streams.get_mut(&tuple) {
            stream.standing = Standing::Unassociated;
            while let Some(record) = stream.io.next_record() {
                endpoint.handle_datagram(now, tuple, Ecn::NotEct, record);
            }
        }
    }

    /// Takes the connections that belong to other drivers: the driver's index, the connection, its first record.
    pub(super) fn take_misplaced(&mut self) -> Vec<(usize, RecordStream, Vec<u8>)> {
        std::mem::take(&mut self.misplaced)
    }

    /// Takes the traffic since the last call.
    pub(super) fn take_traffic(&mut self) -> impl Iterator<Item = (Way, u64)> {
        self.traffic.take().into_iter()
    }

    fn insert(&mut self, now: Instant, io: RecordStream, standing: Standing) {
        let tuple = io.tuple();
        if standing != Standing::Associated {
            *self.unassociated.entry(tuple.remote.ip()).or_default() += 1;
        }
        let (user, searched_at, reported_at) = (None, None, None);
        let (is_blocked, is_busy) = (false, true);
        let stream = Stream { io, since: now, user, searched_at, reported_at, standing, is_blocked, is_busy };
        self.streams.insert(tuple, stream);
        self.sweep_at.get_or_insert(now + SWEEP);
    }

    /// Accepts connections and reads records. Returns true if more is pending.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        context: &mut Context<'_>,
        (clock, group): (Clock, &Group),
        endpoint: &mut Endpoint,
    ) -> bool {
        let mut more = self.accept(now, context);
        if self.streams.is_empty() {
            return more;
        }
        let mut ended = Vec::new();
        if self.buffer.is_empty() {
            self.buffer = vec![0; READ];
        }
        let Self { streams, buffer, traffic, .. } = self;
        let mut misplaced = Vec::new();
        for (tuple, stream) in streams {
            match stream.receive(context, (clock, group), buffer, endpoint, traffic) {
                Ok(Received::Some) => more = true,
                Ok(Received::All) => {}
                Ok(Received::Misplaced(shard, first)) => misplaced.push((*tuple, shard, first)),
                Err(error) => {
                    tracing::debug!(%tuple, %error, "TCP connection ended");
                    ended.push(*tuple);
                }
            }
        }
        for tuple in ended {
            self.close(clock.now(), tuple, endpoint);
        }
        for (tuple, shard, first) in misplaced {
            let stream = self.remove(&tuple);
            self.misplaced.extend(stream.map(|stream| (shard, stream, first)));
        }
        more
    }

    /// Returns true if more may be waiting.
    fn accept(&mut self, now: Instant, context: &mut Context<'_>) -> bool {
        if self.accept_at.is_some_and(|at| now < at) {
            return false;
        }
        self.accept_at = None;
        let mut accepted = Vec::new();
        for listener in &self.listeners {
            for _ in 0..ACCEPTS {
                match listener.poll_accept(context) {
                    Poll::Ready(Ok(Accepted::Plain(stream))) => accepted.push(stream),
                    Poll::Ready(Ok(Accepted::Tls(accept, tuple))) => self.handshakes.start(accept, tuple),
                    Poll::Ready(Err(error)) => {
                        tracing::debug!(%error, "accept");
                        self.accept_at = Some(now + ACCEPT_AGAIN);
                        break;
                    }
                    Poll::Pending => break,
                }
            }
        }
        let more = accepted.len() >= ACCEPTS;
        accepted.extend(self.handshakes.poll(context));
        for stream in accepted {
            self.admit(now, stream);
        }
        more
    }

    /// Takes an unassociated connection, in place of the oldest one, of the same host or of all, where there are too many.
    fn admit(&mut self, now: Instant, stream: RecordStream) {
        let host = stream.tuple().remote.ip();
        let of_host = self.unassociated.get(&host).is_some_and(|count| *count >= MOST_UNASSOCIATED_OF_HOST);
        if of_host || self.unassociated.values().sum::<usize>() >= MOST_UNASSOCIATED {
            let is_one = |tuple: &FourTuple| !of_host || tuple.remote.ip() == host;
            let unassociated =
                self.streams.iter().filter(|(tuple, stream)| stream.is_unassociated() && is_one(tuple));
            let oldest = unassociated.min_by_key(|(_, stream)| stream.since).map(|(tuple, _)| *tuple);
            oldest.and_then(|oldest| self.remove(&oldest)).into_iter().for_each(RecordStream::reset);
        }
        self.insert(now, stream, Standing::New);
    }

    /// Writes a record. A connection that takes no more is reported as blocked.
    pub(super) fn send(
        &mut self,
        now: Instant,
        context: &mut Context<'_>,
        endpoint: &mut Endpoint,
        (transmit, record): (&Transmit, &[u8]),
    ) {
        let tuple = transmit.tuple;
        let Some(stream) = self.streams.get_mut(&tuple) else {
            return endpoint.on_carrier_closed(now, tuple);
        };
        if stream.io.pending() > MOST_PENDING {
            return;
        }
        self.traffic.on_sent(&tuple, record.len(), SEGMENT);
        stream.is_busy = true;
        let is_broken = stream.io.write(record).is_err();
        let is_blocked = stream.io.pending() > 0 && !is_broken;
        if is_broken {
            self.close(now, tuple, endpoint);
        } else if is_blocked && !stream.is_blocked {
            stream.is_blocked = true;
            endpoint.on_blocked(now, tuple);
            self.flush(now, context, endpoint);
        }
    }

    /// Writes what waits for connections that took no more before.
    pub(super) fn flush(&mut self, now: Instant, context: &mut Context<'_>, endpoint: &mut Endpoint) {
        let mut ended = Vec::new();
        for (tuple, stream) in self.streams.iter_mut().filter(|(_, stream)| stream.is_blocked) {
            match stream.io.poll_flush(context) {
                Poll::Ready(Ok(())) => {
                    stream.is_blocked = false;
                    stream.report(now, endpoint);
                    endpoint.on_writable(*tuple);
                }
                Poll::Ready(Err(_)) => ended.push(*tuple),
                Poll::Pending => {}
            }
        }
        for tuple in ended {
            self.close(now, tuple, endpoint);
        }
    }

    /// Reports the system's figures of each connection that a path uses.
    pub(super) fn report(&mut self, now: Instant, endpoint: &mut Endpoint) {
        for stream in self.streams.values_mut() {
            if stream.is_busy && stream.reported_at.is_none_or(|at| now - at >= REPORT) {
                stream.report(now, endpoint);
            }
        }
    }

    /// Sets the receive windows of a connection's streams, and lifts those of its other ones.
    pub(super) fn set_windows(&mut self, user: ConnectionHandle, windows: &[(FourTuple, ByteCount)]) {
        for (tuple, stream) in &mut self.streams {
            let wanted = windows.iter().find(|(other, _)| other == tuple).map(|(_, window)| *window);
            let is_limited = wanted.is_some() || stream.io.receive_window().is_some();
            if is_limited && (wanted.is_some() || stream.user == Some(user)) {
                stream.io.set_receive_window(wanted);
            }
        }
    }

    /// Whether there is any connection.
    pub(super) fn are_used(&self) -> bool {
        !self.streams.is_empty()
    }

    /// Whether a record waits for a connection that takes no more.
    pub(super) fn has_pending(&self) -> bool {
        self.streams.values().any(|stream| stream.is_blocked)
    }

    /// When [`on_timeout`](Self::on_timeout) is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.sweep_at.into_iter().chain(self.accept_at).min()
    }

    /// Closes the connections that no path uses.
    pub(super) fn on_timeout(&mut self, now: Instant, endpoint: &Endpoint) {
        if self.sweep_at.is_none_or(|at| now < at) {
            return;
        }
        let mut unused = Vec::new();
        for (tuple, stream) in &mut self.streams {
            let is_used = stream.find_user(tuple, endpoint).is_some();
            if is_used
                && std::mem::replace(&mut stream.standing, Standing::Associated) != Standing::Associated
            {
                forget_unassociated(&mut self.unassociated, tuple);
            }
            if !is_used && now - stream.since >= GRACE {
                unused.push(*tuple);
            }
        }
        for tuple in unused {
            tracing::debug!(%tuple, "TCP connection closed: no path uses it");
            let was_unassociated = self.streams.get(&tuple).is_some_and(Stream::is_unassociated);
            self.remove(&tuple).filter(|_| was_unassociated).into_iter().for_each(RecordStream::reset);
            self.ended.push(tuple);
        }
        self.sweep_at = (!self.streams.is_empty()).then_some(now + SWEEP);
    }

    /// Ends a connection that no path uses.
    pub(super) fn discard(&mut self, tuple: &FourTuple) {
        self.remove(tuple).into_iter().for_each(RecordStream::reset);
    }

    fn close(&mut self, now: Instant, tuple: FourTuple, endpoint: &mut Endpoint) {
        if self.remove(&tuple).is_some() {
            endpoint.on_carrier_closed(now, tuple);
            self.ended.push(tuple);
        }
    }

    fn remove(&mut self, tuple: &FourTuple) -> Option<RecordStream> {
        let stream = self.streams.remove(tuple)?;
        if stream.is_unassociated() {
            forget_unassociated(&mut self.unassociated, tuple);
        }
        Some(stream.io)
    }
}

fn forget_unassociated(unassociated: &mut BTreeMap<IpAddr, usize>, tuple: &FourTuple) {
    let host = tuple.remote.ip();
    if let Some(count) = unassociated.get_mut(&host) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            unassociated.remove(&host);
        }
    }
}

impl Stream {
    fn is_unassociated(&self) -> bool {
        self.standing != Standing::Associated
    }

    /// Reads and handles records; an error if the connection has ended.
    fn receive(
        &mut self,
        context: &mut Context<'_>,
        (clock, group): (Clock, &Group),
        buffer: &mut [u8],
        endpoint: &mut Endpoint,
        traffic: &mut Traffic,
    ) -> io::Result<Received> {
        let tuple = self.io.tuple();
        for _ in 0..READS {
            // What was read before, also by whom the connection comes from.
            if let Some(misplaced) = self.handle_records(clock.now(), group, endpoint) {
                return Ok(misplaced);
            }
            let length = match self.io.poll_read(context, buffer) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Poll::Ready(result) => result?,
                Poll::Pending => return Ok(Received::All),
            };
            traffic.on_received(&tuple, (length, SEGMENT), None);
            self.is_busy = true;
        }
        Ok(self.handle_records(clock.now(), group, endpoint).unwrap_or(Received::Some))
    }

    /// Handles the records that were read, unless the first one shows that another driver has to.
    fn handle_records(&mut self, now: Instant, group: &Group, endpoint: &mut Endpoint) -> Option<Received> {
        let tuple = self.io.tuple();
        if self.standing == Standing::New {
            let first = self.io.next_record()?;
            if let Some(shard) = group.owner_of_stream(first) {
                return Some(Received::Misplaced(shard, first.to_vec()));
            }
            self.standing = Standing::Unassociated;
            endpoint.handle_datagram(now, tuple, Ecn::NotEct, first);
        }
        while let Some(record) = self.io.next_record() {
            endpoint.handle_datagram(now, tuple, Ecn::NotEct, record);
        }
        None
    }

    /// Reports the system's figures to the connection that uses this one.
    fn report(&mut self, now: Instant, endpoint: &mut Endpoint) {
        let tuple = self.io.tuple();
        let may_search = self.searched_at.is_none_or(|at| now - at >= SEARCH);
        if self.user.is_none() && may_search {
            self.searched_at = Some(now);
            self.find_user(&tuple, endpoint);
        }
        if let Some(connection) = self.user.and_then(|user| endpoint.connection(user))
            && let Some(figures) = self.io.figures()
        {
            self.reported_at = Some(now);
            self.is_busy = figures.outstanding > ByteCount::ZERO;
            connection.on_carrier_figures(now, tuple, figures);
        }
    }

    fn find_user(&mut self, tuple: &FourTuple, endpoint: &Endpoint) -> Option<ConnectionHandle> {
        self.user = self.user.filter(|user| endpoint.uses_stream(*user, tuple));
        self.user = self.user.or_else(|| endpoint.user_of_stream(tuple));
        self.user
    }
}
