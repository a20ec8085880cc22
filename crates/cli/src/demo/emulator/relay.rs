//! The thread of one link: sockets at both ends, the link's model between them.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use manyway_proto::{Instant as Moment, Rng};
use manyway_sim::link::{Link, LinkState, Parcel};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec};
use tracing::debug;

use super::config::EmulatorConfig;
use super::figures::{Direction, Figures};
use super::link::{Control, LinkHandle};

/// One running link.
#[derive(Debug)]
pub(super) struct Relay {
    client: IpAddr,
    server: SocketAddr,
    front: Port,
    flows: Vec<Flow>,
    up: Link<Datagram>,
    down: Link<Datagram>,
    control: Arc<Control>,
    started: Instant,
    slab: Vec<u8>,
    batch: Vec<u8>,
}

/// A client socket, and the socket that represents it to the server.
#[derive(Debug)]
struct Flow {
    client: SocketAddr,
    back: Port,
}

/// A datagram on the link.
#[derive(Debug, Clone)]
struct Datagram {
    flow: usize,
    content: Bytes,
    ecn: Option<EcnCodepoint>,
}

impl Parcel for Datagram {
    fn is_ecn_capable(&self) -> bool {
        self.ecn.is_some()
    }

    fn mark_congestion(&mut self) {
        self.ecn = Some(EcnCodepoint::Ce);
    }
}

impl Relay {
    pub(super) fn new(
        link: &LinkHandle,
        front: UdpSocket,
        server: SocketAddr,
        config: EmulatorConfig,
        started: Instant,
    ) -> io::Result<Self> {
        let mut seed = [0; 32];
        for (place, byte) in
            seed.iter_mut().zip(config.seed.to_le_bytes().into_iter().chain(match link.client() {
                IpAddr::V4(address) => address.octets(),
                IpAddr::V6(_) => [0; 4],
            }))
        {
            *place = byte;
        }
        let mut rng = Rng::from_seed(seed);
        let now = moment(started);
        let model = link.spec().config(config.queue);
        Ok(Self {
            client: link.client(),
            server,
            front: Port::new(front)?,
            flows: Vec::new(),
            up: Link::new(now, model.clone(), rng.fork()),
            down: Link::new(now, model, rng),
            control: Arc::clone(link.control()),
            started,
            slab: vec![0; SLAB],
            batch: Vec::new(),
        })
    }

    pub(super) fn run(mut self) {
        while !self.control.is_stopped.load(Ordering::Relaxed) {
            let now = moment(self.started);
            self.switch(now);
            let foreign_up = self.receive_from_client();
            let foreign_down = self.receive_from_server();
            self.deliver(Direction::Up, foreign_up);
            self.deliver(Direction::Down, foreign_down);
            self.wait();
        }
    }

    fn switch(&mut self, now: Moment) {
        let state = if self.control.is_cut.load(Ordering::Relaxed) { LinkState::Down } else { LinkState::Up };
        for link in [&mut self.up, &mut self.down] {
            if link.state() != state {
                link.set_state(now, state);
            }
        }
    }

    /// Reads datagrams of the client; returns how many came from a wrong source.
    fn receive_from_client(&mut self) -> u64 {
        let mut foreign = 0;
        for _ in 0..RECEIVES_A_ROUND {
            let Some(meta) = self.front.receive(&mut self.slab) else { break };
            if meta.addr.ip() != self.client {
                foreign += datagrams(&meta);
                continue;
            }
            let Some(flow) = self.flow(meta.addr) else { continue };
            give(&mut self.up, moment(self.started), flow, &self.slab, &meta);
        }
        foreign
    }

    /// Reads datagrams of the server; returns how many came from a wrong source.
    fn receive_from_server(&mut self) -> u64 {
        let mut foreign = 0;
        for (index, flow) in self.flows.iter_mut().enumerate() {
            for _ in 0..RECEIVES_A_ROUND {
                let Some(meta) = flow.back.receive(&mut self.slab) else { break };
                if meta.addr != self.server {
                    foreign += datagrams(&meta);
                    continue;
                }
                give(&mut self.down, moment(self.started), index, &self.slab, &meta);
            }
        }
        foreign
    }

    /// The flow of a client socket. The oldest is evicted when there are too many: its datagrams in flight then reach
    /// the new one, which drops them.
    fn flow(&mut self, client: SocketAddr) -> Option<usize> {
        if let Some(index) = self.flows.iter().position(|f| f.client == client) {
            return Some(index);
        }
        let address = self.front.socket.local_addr().ok()?.ip();
        let back = UdpSocket::bind((address, 0)).and_then(Port::new);
        let back = back.inspect_err(|reason| debug!(%reason, "no socket for a new flow")).ok()?;
        let flow = Flow { client, back };
        if self.flows.len() < MOST_FLOWS {
            self.flows.push(flow);
            return Some(self.flows.len() - 1);
        }
        *self.flows.first_mut()? = flow;
        Some(0)
    }

    /// Sends datagrams that have left the link, equal ones of a flow in one call.
    fn deliver(&mut self, direction: Direction, foreign: u64) {
        let now = moment(self.started);
        let link = match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        };
        let mut figures = self.control.figures(direction).lock().unwrap_or_else(PoisonError::into_inner);
        figures.foreign += foreign;
        let mut run: Option<Run> = None;
        self.batch.clear();
        while let Some((at, datagram)) = next(link, now) {
            note(&mut figures, at, datagram.content.len());
            let fits = run.as_ref().is_some_and(|r| r.takes(&datagram, self.batch.len()));
            if !fits {
                if let Some(run) = run.take() {
                    run.send(direction, &self.front, &self.flows, (self.server, &self.batch));
                }
                self.batch.clear();
                run = Some(Run { flow: datagram.flow, segment: datagram.content.len(), ecn: datagram.ecn });
            }
            self.batch.extend_from_slice(&datagram.content);
        }
        if let Some(run) = run {
            run.send(direction, &self.front, &self.flows, (self.server, &self.batch));
        }
        figures.counters = *link.counters();
    }

    /// Sleeps until a datagram arrives or leaves, at most [`LONGEST_WAIT`].
    fn wait(&self) {
        let now = moment(self.started);
        let next = [self.up.next_departure(), self.down.next_departure()].into_iter().flatten().min();
        // Departures closer than a tick share a wake-up, which is most of the cost of a fast link.
        let timeout = next.map_or(LONGEST_WAIT, |at| (at - now).max(TICK)).min(LONGEST_WAIT);
        let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.subsec_nanos().into() };
        let sockets = std::iter::once(&self.front).chain(self.flows.iter().map(|f| &f.back));
        let mut waiting: Vec<_> =
            sockets.map(|port| PollFd::from_borrowed_fd(port.socket.as_fd(), PollFlags::IN)).collect();
        // An interrupted or failed wait only makes the next round come early.
        let _ = rustix::event::poll(&mut waiting, Some(&timeout));
    }
}

/// Datagrams of the same size, mark and flow that leave together.
#[derive(Debug)]
struct Run {
    flow: usize,
    segment: usize,
    ecn: Option<EcnCodepoint>,
}

impl Run {
    fn takes(&self, datagram: &Datagram, length: usize) -> bool {
        datagram.flow == self.flow
            && datagram.ecn == self.ecn
            && datagram.content.len() == self.segment
            && length + self.segment <= MOST_BATCH
            && length / self.segment.max(1) < MOST_SEGMENTS
    }

    fn send(self, direction: Direction, front: &Port, flows: &[Flow], (server, batch): (SocketAddr, &[u8])) {
        let Some(flow) = flows.get(self.flow) else { return };
        match direction {
            Direction::Up => flow.back.send(server, self.segment, self.ecn, batch),
            Direction::Down => front.send(flow.client, self.segment, self.ecn, batch),
        }
    }
}

/// A socket with its offloads.
#[derive(Debug)]
struct Port {
    socket: UdpSocket,
    state: UdpSocketState,
}

impl Port {
    fn new(socket: UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        // The system may grant less; a burst may then be lost before it enters the link.
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER);
        let _ = state.set_send_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER);
        Ok(Self { socket, state })
    }

    /// One datagram, or several of equal size from the same source.
    fn receive(&self, slab: &mut [u8]) -> Option<RecvMeta> {
        let mut meta = [RecvMeta::default()];
        let mut buffers = [IoSliceMut::new(slab)];
        // Besides "nothing there", errors are those of earlier sends (port unreachable), which a link ignores.
        let count = self.state.recv(UdpSockRef::from(&self.socket), &mut buffers, &mut meta).unwrap_or(0);
        let [meta] = meta;
        (count > 0).then_some(meta)
    }

    fn send(&self, to: SocketAddr, segment: usize, ecn: Option<EcnCodepoint>, batch: &[u8]) {
        let most = self.state.max_gso_segments().max(1).saturating_mul(segment.max(1));
        if batch.is_empty() {
            let _ = self.socket.send_to(batch, to);
        }
        for piece in batch.chunks(most) {
            let segment_size = (piece.len() > segment).then_some(segment);
            let transmit = Transmit { destination: to, ecn, contents: piece, segment_size, src_ip: None };
            // A full buffer or a closed port loses the datagram, as a link would.
            let _ = self.state.try_send(UdpSockRef::from(&self.socket), &transmit);
        }
    }
}

fn give(link: &mut Link<Datagram>, now: Moment, flow: usize, slab: &[u8], meta: &RecvMeta) {
    let content = Bytes::copy_from_slice(slab.get(..meta.len).unwrap_or_default());
    if content.is_empty() {
        link.send(now, 0, Datagram { flow, content, ecn: meta.ecn });
        return;
    }
    let stride = meta.stride.max(1);
    let mut start = 0;
    while start < content.len() {
        let end = start.saturating_add(stride).min(content.len());
        let datagram = Datagram { flow, content: content.slice(start..end), ecn: meta.ecn };
        link.send(now, end - start, datagram);
        start = end;
    }
}

/// The next datagram that has left the link by `now`, and when it did by the model.
fn next(link: &mut Link<Datagram>, now: Moment) -> Option<(Moment, Datagram)> {
    while let Some(at) = link.next_departure().filter(|at| *at <= now) {
        if let Some(datagram) = link.poll(at) {
            return Some((at, datagram));
        }
    }
    None
}

fn note(figures: &mut Figures, at: Moment, length: usize) {
    let bytes = u64::try_from(length).unwrap_or(u64::MAX);
    figures.add_delivered(at - Moment::from_nanos(0), bytes);
}

fn datagrams(meta: &RecvMeta) -> u64 {
    u64::try_from(meta.len.div_ceil(meta.stride.max(1)).max(1)).unwrap_or(u64::MAX)
}

fn moment(started: Instant) -> Moment {
    Moment::from_nanos(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

const SLAB: usize = 64 * 1024;
const SOCKET_BUFFER: usize = 4 * 1024 * 1024;
const RECEIVES_A_ROUND: usize = 16;
const MOST_FLOWS: usize = 16;
const MOST_BATCH: usize = 60_000;
const MOST_SEGMENTS: usize = 64;
const TICK: Duration = Duration::from_micros(300);
const LONGEST_WAIT: Duration = Duration::from_millis(5);
