//! The sockets of a driver: the listening ones, and one for each local address of clients.
//!
//! A full socket keeps the batch that it did not take and asks to be woken. The protocol machine builds nothing more for
//! that address pair until then (spec 6.80), so a slow interface delays neither other paths nor other connections.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use manyway_proto::{FourTuple, Instant, LocalAddress, LocalCandidate, Role, SendRefusal, Shard, Transmit};

use super::lane::{Batch, Lane, SMALL};
use super::lane_choice::{Demand, Load, Window};
use super::traffic::{Traffic, Way};
use crate::interfaces::Snapshot;
use crate::options::Lanes;
use crate::udp::{
    BindError, BindOptions, BufferSizes, Capabilities, SendError, SendFailure, UdpSocket, Unreachable,
};

/// Most bytes that are pending at a full socket, of all its address pairs; more are dropped.
const MOST_PENDING: usize = 2 * 1024 * 1024;
/// A rate-limiting firewall drops a datagram now and then (EPERM); this many in a row are a rule against the path.
const DENIED_AFTER: u32 = 3;
/// Most address pairs whose EPERM errors are counted.
const MOST_COUNTED_PAIRS: usize = 256;
/// Least interval between two reads of the error queue of a socket.
const BETWEEN_READS: Duration = Duration::from_millis(10);

/// A socket and its pending datagrams.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) udp: Arc<UdpSocket>,
    /// The thread that seals and sends, if there is one. While it has something, all goes through it.
    lane: Option<Lane>,
    demand: Demand,
    pending: VecDeque<(Transmit, Vec<u8>)>,
    pending_bytes: usize,
    /// The address pairs of the pending datagrams.
    blocked: Vec<FourTuple>,
    pub(super) listens: bool,
    /// Successive receive errors.
    pub(super) errors: u32,
    /// When the error queue was last read.
    errors_read_at: Option<Instant>,
    pub(super) traffic: Traffic,
}

/// A send error to be reported to the connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Refusal {
    /// Nothing can be sent between these addresses.
    Addresses(FourTuple, SendRefusal),
    /// Datagrams of this size cannot be sent between these addresses.
    TooLarge(FourTuple, usize),
}

/// The outcome of sending a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Done,
    /// The rest is pending, and the task is woken when the socket is writable.
    Waits,
    /// The system refuses the batch.
    Refused(Refusal),
}

/// What came of the pending datagrams.
#[derive(Debug, Default)]
pub(super) struct Flushed {
    pub(super) refused: Vec<Refusal>,
    /// Address pairs with nothing pending any more.
    pub(super) writable: Vec<FourTuple>,
}

#[derive(Debug, Default)]
pub(super) struct Sockets {
    sockets: Vec<Socket>,
    buffers: BufferSizes,
    mark: Option<u32>,
    /// Whether the traffic over them is counted.
    counts: bool,
    /// Which of them have a lane, and the load by which that is decided.
    lanes: Lanes,
    load: Load,
    /// Whether new ones get the port of the first, where it is free.
    one_port: bool,
    /// Which of several drivers that listen on the same ports this one is.
    shard: Shard,
    /// Indices of interfaces whose quota is used up.
    exhausted: Vec<u32>,
    /// What the system granted to new sockets, until it is taken.
    granted: Vec<(LocalAddress, Capabilities)>,
    failure: Option<BindError>,
    permission_errors: PermissionErrors,
}

/// Counts successive EPERM errors for each address pair.
#[derive(Debug, Default)]
struct PermissionErrors(BTreeMap<FourTuple, u32>);

impl PermissionErrors {
    /// Counts an EPERM error; returns `Some` once they amount to a refusal.
    fn on_denied(&mut self, tuple: FourTuple) -> Option<SendRefusal> {
        if self.0.len() >= MOST_COUNTED_PAIRS && !self.0.contains_key(&tuple) {
            self.0.clear();
        }
        let count = self.0.entry(tuple).or_insert(0);
        *count = count.saturating_add(1);
        (*count >= DENIED_AFTER).then_some(SendRefusal::Denied)
    }

    fn on_sent(&mut self, tuple: &FourTuple) {
        if !self.0.is_empty() {
            self.0.remove(tuple);
        }
    }
}

impl Sockets {
    /// Starts without sockets; later ones request buffers of these sizes, have this mark, and count their traffic if
    /// `counts`.
    pub(super) fn new(buffers: BufferSizes, mark: Option<u32>, counts: bool, lanes: Lanes) -> Self {
        let has_cores =
            lanes == Lanes::Always || thread::available_parallelism().is_ok_and(|it| it.get() > 1);
        // Traffic is counted, and a quota is kept, when a batch is sent.
        let lanes = if counts || !has_cores { Lanes::Never } else { lanes };
        Self { buffers, mark, counts, lanes, ..Self::default() }
    }

    /// Starts and ends lanes by the load.
    pub(super) fn choose_lanes(&mut self, now: Instant) {
        if self.lanes != Lanes::Auto {
            return;
        }
        let Some(window) = self.load.end_window(now) else { return };
        self.sockets.iter_mut().for_each(|socket| socket.choose_lane(window));
    }

    /// Takes the traffic of all sockets since the last call.
    pub(super) fn take_traffic(&mut self) -> impl Iterator<Item = (Way, u64)> {
        self.sockets.iter_mut().flat_map(|socket| socket.traffic.take())
    }

    /// From now on nothing is sent or received over the interfaces with these indices.
    pub(super) fn set_exhausted(&mut self, interfaces: Vec<u32>) {
        self.exhausted = interfaces;
    }

    /// Of the interfaces of [`Self::set_exhausted`] only these stay silent.
    pub(super) fn retain_exhausted(&mut self, still: &[u32]) {
        self.exhausted.retain(|interface| still.contains(interface));
    }

    /// Index of the interface that carries packets of this address pair; 0 if unknown.
    pub(super) fn interface(&self, tuple: &FourTuple) -> u32 {
        self.sockets.iter().map(|socket| socket.traffic.interface(tuple)).find(|it| *it != 0).unwrap_or(0)
    }

    /// The interfaces of [`Self::set_exhausted`], and the sockets.
    pub(super) fn split(&mut self) -> (&[u32], impl Iterator<Item = &mut Socket>) {
        (&self.exhausted, self.sockets.iter_mut())
    }

    /// The buffer sizes that sockets request.
    pub(super) fn buffers(&self) -> BufferSizes {
        self.buffers
    }

    /// Takes what the system granted to the sockets made since the last call.
    pub(super) fn take_granted(&mut self) -> Vec<(LocalAddress, Capabilities)> {
        std::mem::take(&mut self.granted)
    }

    pub(super) fn listen(&mut self, address: SocketAddr) -> Result<(), BindError> {
        self.bind(LocalAddress { interface: 0, address }, true).map(|_| ())
    }

    /// From now on listening sockets share their ports with those of the other drivers.
    pub(super) fn share_ports(&mut self, shard: Shard) {
        self.shard = shard;
    }

    /// From now on new sockets get the port of the first one, unless theirs is chosen or that one is taken.
    pub(super) fn use_one_port(&mut self) {
        self.one_port = true;
    }

    /// The address with the port of the first socket of its kind, if new ones are to have that.
    fn with_common_port(&self, mut local: LocalAddress, listens: bool) -> Option<LocalAddress> {
        let first = self.sockets.iter().find(|socket| socket.listens == listens && self.one_port)?;
        let is_free = local.address.port() == 0;
        local.address.set_port(first.udp.local().address.port());
        is_free.then_some(local)
    }

    fn bind(&mut self, local: LocalAddress, listens: bool) -> Result<LocalAddress, BindError> {
        let bind_with = |local, shared_by| {
            let mut options = BindOptions::new(local);
            options.buffers = self.buffers;
            options.mark = self.mark;
            options.shared_by = shared_by;
            UdpSocket::bind(&options)
        };
        let shared_by = if listens { self.shard.count() } else { 1 };
        // Sockets of another process that share a port would let this one join them, so the first driver binds it alone
        // before.
        let is_first = shared_by > 1 && self.shard.index() == 0;
        let local = if is_first { bind_with(local, 1)?.local() } else { local };
        let bind = |local| bind_with(local, shared_by);
        let common = self.with_common_port(local, listens).and_then(|local| bind(local).ok());
        let udp = common.map_or_else(|| bind(local), Ok)?;
        let bound = udp.local();
        self.granted.push((bound, udp.capabilities()));
        let udp = Arc::new(udp);
        let lane = if self.lanes == Lanes::Always { start_lane(&udp, 0) } else { None };
        let traffic = Traffic::new(self.counts);
        self.sockets.push(Socket {
            udp,
            lane,
            demand: Demand::default(),
            pending: VecDeque::new(),
            pending_bytes: 0,
            blocked: Vec::new(),
            listens,
            errors: 0,
            errors_read_at: None,
            traffic,
        });
        Ok(bound)
    }

    /// The listening sockets, or if there are none all of them.
    pub(super) fn reachable(&self) -> Vec<LocalAddress> {
        let listening = self.listening();
        let all = self.sockets.iter().map(|socket| socket.udp.local());
        if listening.is_empty() { all.collect() } else { listening }
    }

    pub(super) fn listening(&self) -> Vec<LocalAddress> {
        self.sockets.iter().filter(|socket| socket.listens).map(|socket| socket.udp.local()).collect()
    }

    /// Finds or binds a socket for each wanted address; leaves out those that cannot be bound.
    pub(super) fn candidates(&mut self, wanted: Vec<(LocalAddress, Role)>) -> Vec<LocalCandidate> {
        self.failure = None;
        let mut found = Vec::new();
        for (local, role) in wanted {
            match self.find_or_bind(local) {
                Ok(address) => found.push(LocalCandidate { address, role }),
                Err(error) => {
                    tracing::warn!(%local, %error, "address not used");
                    self.failure = Some(error);
                }
            }
        }
        found
    }

    fn find_or_bind(&mut self, local: LocalAddress) -> Result<LocalAddress, BindError> {
        let known = self.sockets.iter().filter(|socket| !socket.listens).map(|socket| socket.udp.local());
        let fits = |known: &LocalAddress| {
            known.interface == local.interface
                && known.address.ip() == local.address.ip()
                && (local.address.port() == 0 || known.address.port() == local.address.port())
        };
        if let Some(known) = known.into_iter().find(fits) {
            return Ok(known);
        }
        self.bind(local, false)
    }

    /// Takes the reason why the last call of [`Self::candidates`] left out an address.
    pub(super) fn take_failure(&mut self) -> Option<BindError> {
        self.failure.take()
    }

    pub(super) fn has_failure(&self) -> bool {
        self.failure.is_some()
    }

    /// Closes sockets whose address or interface is gone. A recreated interface has another index, and a socket bound
    /// to the old one is dead.
    pub(super) fn drop_gone(&mut self, snapshot: &Snapshot) {
        self.sockets.retain(|socket| {
            let local = socket.udp.local();
            let ip = local.address.ip();
            if socket.listens || ip.is_unspecified() || ip.is_loopback() {
                return true;
            }
            if local.interface == 0 {
                return snapshot.is_own(ip);
            }
            let interface = snapshot.interface(local.interface);
            interface.is_some_and(|i| i.addresses.iter().any(|own| own.prefix.address == ip))
        });
    }

    /// Takes what came of the batches of lanes, and sends the pending datagrams of full sockets, unless the quota of the
    /// interface is used up.
    pub(super) fn flush(&mut self, context: &mut Context<'_>) -> Flushed {
        let mut flushed = Flushed::default();
        let Self { sockets, permission_errors, exhausted, .. } = self;
        for socket in sockets {
            socket.settle_lane(permission_errors, &mut flushed.refused);
            while let Some((transmit, bytes)) = socket.pending.pop_front() {
                socket.pending_bytes -= bytes.len();
                if socket.traffic.is_over(&transmit.tuple, exhausted) {
                    continue;
                }
                match socket.send_sealed(context, &transmit, &bytes, permission_errors) {
                    Sent::Done => {}
                    Sent::Waits => break,
                    Sent::Refused(refusal) => flushed.refused.push(refusal),
                }
            }
            if socket.pending.is_empty() && socket.lane.as_ref().is_none_or(Lane::has_room) {
                flushed.writable.append(&mut socket.blocked);
            }
        }
        flushed
    }

    /// Seals and sends a batch, or hands it to the socket's lane; keeps it if the socket is full.
    pub(super) fn send(&mut self, context: &mut Context<'_>, transmit: &Transmit, batch: &mut Batch) -> Sent {
        let local = transmit.tuple.local;
        let Self { sockets, permission_errors, exhausted, .. } = self;
        let exact = sockets.iter().position(|socket| socket.udp.local() == local);
        let index = exact.or_else(|| sockets.iter().position(|socket| socket.serves(&local)));
        let Some(socket) = index.and_then(|index| sockets.get_mut(index)) else {
            // The socket was closed with its address; the path follows when the connection learns of it.
            return Sent::Refused(Refusal::Addresses(transmit.tuple, SendRefusal::Unreachable));
        };
        if socket.traffic.is_over(&transmit.tuple, exhausted) {
            return Sent::Done;
        }
        let sent = socket.send(context, transmit, batch, permission_errors);
        if sent == Sent::Waits && !socket.blocked.contains(&transmit.tuple) {
            socket.blocked.push(transmit.tuple);
        }
        sent
    }

    /// Whether a full socket has pending datagrams, or a lane is still sending; the driver is woken when it no longer is.
    pub(super) fn has_pending(&self) -> bool {
        let is_sending = |socket: &Socket| socket.lane.as_ref().is_some_and(Lane::is_sending);
        self.sockets.iter().any(|socket| !socket.pending.is_empty() || is_sending(socket))
    }
}

/// A lane for a socket; `None` if the system gives no thread.
fn start_lane(udp: &Arc<UdpSocket>, least: usize) -> Option<Lane> {
    let lane = Lane::start(udp, least);
    match &lane {
        Ok(_) => tracing::debug!(local = %udp.local(), "a thread seals and sends for the socket"),
        Err(error) => tracing::debug!(local = %udp.local(), %error, "no thread for the socket"),
    }
    lane.ok()
}

impl Socket {
    /// Takes the ICMP errors for undelivered datagrams, at a limited rate: anyone can forge one.
    pub(super) fn take_unreachable(&mut self, now: Instant) -> impl Iterator<Item = Unreachable> {
        let is_due = self.errors_read_at.is_none_or(|at| now - at >= BETWEEN_READS);
        if is_due {
            self.errors_read_at = Some(now);
        }
        is_due.then(|| self.udp.take_unreachable()).into_iter().flatten()
    }

    /// A wildcard socket sends from every address of its port and family.
    fn serves(&self, local: &LocalAddress) -> bool {
        let own = self.udp.local();
        self.udp.is_wildcard()
            && own.address.port() == local.address.port()
            && own.address.is_ipv4() == local.address.is_ipv4()
    }

    fn queue(&mut self, transmit: &Transmit, bytes: &[u8]) {
        if self.pending_bytes + bytes.len() <= MOST_PENDING {
            self.pending_bytes += bytes.len();
            self.pending.push_back((*transmit, bytes.to_vec()));
        }
    }

    /// Starts or ends the lane, if the load asks for it and nothing waits.
    fn choose_lane(&mut self, window: Window) {
        let is_wanted = self.demand.end_window(window, self.lane.is_some());
        match &self.lane {
            None if is_wanted && self.pending.is_empty() => self.lane = start_lane(&self.udp, SMALL),
            Some(lane) if !is_wanted && lane.is_settled() => self.lane = None,
            _ => {}
        }
    }

    /// Takes what came of the batches of the lane.
    fn settle_lane(&mut self, permission_errors: &mut PermissionErrors, refused: &mut Vec<Refusal>) {
        let Some(lane) = &mut self.lane else { return };
        lane.settle(|transmit, result| match result {
            Ok(()) => permission_errors.on_sent(&transmit.tuple),
            Err(error) => refused.extend(on_failure(transmit, &error, permission_errors)),
        });
    }

    fn send(
        &mut self,
        context: &mut Context<'_>,
        transmit: &Transmit,
        batch: &mut Batch,
        permission_errors: &mut PermissionErrors,
    ) -> Sent {
        self.demand.on_sent(transmit.length);
        let is_ready = self.pending.is_empty();
        if let Some(lane) = self.lane.as_mut().filter(|lane| is_ready && lane.takes(transmit.length)) {
            let has_room = lane.push(context, *transmit, batch);
            return if has_room { Sent::Done } else { Sent::Waits };
        }
        if !batch.seal() {
            return Sent::Done;
        }
        if is_ready {
            return self.send_sealed(context, transmit, &batch.bytes, permission_errors);
        }
        self.queue(transmit, &batch.bytes);
        Sent::Waits
    }

    fn send_sealed(
        &mut self,
        context: &mut Context<'_>,
        transmit: &Transmit,
        bytes: &[u8],
        permission_errors: &mut PermissionErrors,
    ) -> Sent {
        let (mut transmit, mut bytes) = (*transmit, bytes);
        loop {
            let error = match self.udp.try_send(&transmit, bytes) {
                Ok(()) => {
                    self.traffic.on_sent(&transmit.tuple, transmit.length, transmit.segment);
                    permission_errors.on_sent(&transmit.tuple);
                    return Sent::Done;
                }
                Err(error) => error,
            };
            self.traffic.on_sent(&transmit.tuple, error.sent, transmit.segment);
            if error.failure != SendFailure::WouldBlock {
                return on_failure(&transmit, &error, permission_errors).map_or(Sent::Done, Sent::Refused);
            }
            transmit = error.rest(&transmit);
            bytes = bytes.get(error.sent..).unwrap_or_default();
            // The socket is writable after all: the readiness was stale.
            if let Poll::Ready(Ok(())) = self.udp.poll_writable(context) {
                continue;
            }
            self.pending_bytes += bytes.len();
            self.pending.push_front((transmit, bytes.to_vec()));
            return Sent::Waits;
        }
    }
}

/// What a failure tells the connections; `None` if it counts as a loss on the way, which recovery handles.
fn on_failure(
    transmit: &Transmit,
    error: &SendError,
    permission_errors: &mut PermissionErrors,
) -> Option<Refusal> {
    let tuple = transmit.tuple;
    match error.failure {
        SendFailure::Unreachable => Some(Refusal::Addresses(tuple, SendRefusal::Unreachable)),
        SendFailure::Denied => {
            permission_errors.on_denied(tuple).map(|refusal| Refusal::Addresses(tuple, refusal))
        }
        SendFailure::TooLarge => Some(Refusal::TooLarge(tuple, transmit.segment)),
        SendFailure::Refused | SendFailure::Dropped | SendFailure::WouldBlock => None,
        SendFailure::Other => {
            tracing::debug!(%tuple, %error, "send");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use manyway_proto::Ecn;

    use super::*;

    /// A datagram in the queue of the first socket reaches the second, unless the quota of its interface is used up
    /// meanwhile.
    #[tokio::test]
    async fn pending_datagrams_of_a_full_socket_are_dropped_once_the_quota_is_used_up() {
        let mut sockets = Sockets::new(BufferSizes::default(), None, true, Lanes::default());
        let here = LocalAddress { interface: 0, address: ([127, 0, 0, 1], 0).into() };
        let from = sockets.bind(here, false).unwrap();
        let to = std::net::UdpSocket::bind(here.address).unwrap();
        to.set_nonblocking(true).unwrap();
        let tuple = FourTuple::udp(from, to.local_addr().unwrap());
        std::future::poll_fn(|context| sockets.sockets[0].udp.poll_writable(context)).await.unwrap();
        for (exhausted, arrives) in [(vec![], true), (vec![7], true), (vec![9, 7], false)] {
            let socket = &mut sockets.sockets[0];
            let interface = if exhausted.len() == 1 { 8 } else { 7 };
            socket.traffic.on_received(&tuple, (1, 1), Some(interface));
            let transmit = Transmit { tuple, length: 3, segment: 3, ecn: Ecn::default() };
            socket.queue(&transmit, b"abc");
            sockets.set_exhausted(exhausted);
            assert!(sockets.flush(&mut Context::from_waker(Waker::noop())).refused.is_empty());
            assert!(!sockets.has_pending() && sockets.sockets[0].pending_bytes == 0);
            assert_eq!(to.recv(&mut [0; 9]).is_ok(), arrives);
        }
    }

    #[tokio::test]
    async fn sockets_of_one_port_have_it_on_every_address_where_it_is_free() {
        let at = |host: u8| LocalAddress { interface: 0, address: ([127, 0, 0, host], 0).into() };
        let mut sockets = Sockets::default();
        let port = |local: LocalAddress| local.address.port();
        let first = port(sockets.bind(at(1), false).unwrap());
        assert_ne!(port(sockets.bind(at(2), false).unwrap()), first);
        sockets.use_one_port();
        assert_eq!(port(sockets.bind(at(3), false).unwrap()), first);
        // Taken there.
        assert_ne!(port(sockets.bind(at(1), false).unwrap()), first);
        sockets.listen(at(1).address).unwrap();
        sockets.listen(at(4).address).unwrap();
        let listening = sockets.listening();
        assert_eq!(port(listening[0]), port(listening[1]));
    }

    #[test]
    fn three_eperm_errors_in_a_row_are_a_refusal_and_fewer_are_losses() {
        let tuple = |port| {
            FourTuple::udp(
                LocalAddress { interface: 0, address: ([127, 0, 0, 1], 1).into() },
                ([127, 0, 0, 1], port).into(),
            )
        };
        let mut permission_errors = PermissionErrors::default();
        for _ in 0..5 {
            assert_eq!(permission_errors.on_denied(tuple(1)), None);
            assert_eq!(permission_errors.on_denied(tuple(1)), None);
            permission_errors.on_sent(&tuple(1));
        }
        assert_eq!(
            (permission_errors.on_denied(tuple(2)), permission_errors.on_denied(tuple(2))),
            (None, None)
        );
        permission_errors.on_sent(&tuple(1));
        assert_eq!(permission_errors.on_denied(tuple(2)), Some(SendRefusal::Denied));
        assert!((3..2000).all(|port| permission_errors.on_denied(tuple(port)).is_none()));
        assert!(permission_errors.0.len() <= MOST_COUNTED_PAIRS);
    }
}
