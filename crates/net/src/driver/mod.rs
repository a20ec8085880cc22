//! One thread that owns its sockets and its connections: no lock and no channel per packet.
//!
//! Each turn handles some of everything that is pending (commands, datagrams, timers, interface changes), then sends
//! what the protocol machine has ready and passes its events to the applications.

mod addresses;
mod advise;
mod alarm;
mod attempts;
mod closing;
mod commands;
mod connections;
mod dial;
mod dialling;
#[cfg(test)]
#[cfg(all(target_os = "linux", not(manyway_portable)))]
mod field_tests;
#[cfg(test)]
#[cfg(all(target_os = "linux", not(manyway_portable)))]
mod full_in_namespace;
mod group;
mod handshakes;
mod lane;
mod lane_choice;
mod links;
mod moderation;
mod neighbours;
mod pair_attempts;
mod peer;
mod pings;
mod rendezvous;
mod reresolver;
mod serving;
#[cfg(test)]
#[cfg(all(target_os = "linux", not(manyway_portable)))]
mod sizes_in_namespace;
mod sockets;
mod start;
mod stop_detector;
mod streams;
mod tcp;
#[cfg(test)]
#[cfg(all(target_os = "linux", not(manyway_portable)))]
mod tcp_in_namespace;
mod tcp_paths;
mod terms;
#[cfg(test)]
#[cfg(all(target_os = "linux", not(manyway_portable)))]
mod tests_in_namespace;
pub(crate) mod threads;
mod traffic;
mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};
use std::time::Duration;

use manyway_proto::{FourTuple, Instant, Observed, PathState, Rng, Undelivered};
use tokio::sync::mpsc;
use tokio::time::Instant as TokioInstant;

use alarm::Alarm;
pub(crate) use closing::CLOSE_TIME;
use closing::Closing;
use connections::Connections;
use dial::Tcp;
use group::{DELIVERIES, Delivery, Group};
use lane::Batch;
use links::Links;
use moderation::Moderation;
use reresolver::Reresolver;
use serving::Serving;
pub(crate) use serving::is_missing;
use sockets::{Flushed, Refusal, Sent, Socket, Sockets};
use start::{Listening, Start, fill_with_random};
use stop_detector::StopDetector;
use usage::Usage;

use crate::advice::AdviceBoard;
use crate::clock::{Clock, SuspendWatch};
use crate::error::BindFailure;
use crate::interfaces::{InterfaceWatcher, NeighbourWatch};
use crate::link::Command;
use crate::options::Locals;
use crate::udp::{ReceiveBuffer, Unreachable};

/// Commands handled in one turn.
const COMMANDS: usize = 64;
/// Receive calls on one socket in one turn, each of up to 256 KiB.
const RECEIVES: usize = 4;
/// Batches sent in one turn, each of up to 64 KiB.
const BATCHES: usize = 64;
/// Interval of retries for an address that could not be bound.
const BIND_RETRY: Duration = Duration::from_secs(5);
/// Least interval between two reports of the same send error to the connections.
const REFUSAL_REPEAT: Duration = Duration::from_millis(100);
/// Most send errors that are remembered.
const REFUSALS: usize = 256;
/// Successive receive errors after which a socket stops waking the driver at once.
const RECEIVE_ERRORS: u32 = 64;
/// Successive turns with nothing to do although one was due, after which the driver pauses.
const IDLE_TURNS: u32 = 16;

struct Driver {
    endpoint: manyway_proto::Endpoint,
    sockets: Sockets,
    tcp: Tcp,
    connections: Connections,
    clock: Clock,
    /// The interface MTUs as last given to the protocol machine.
    mtus: Vec<(IpAddr, u32)>,
    links: Links,
    locals: Locals,
    /// Reports the interfaces and their MTUs.
    watcher: InterfaceWatcher,
    neighbours: NeighbourWatch,
    /// Whether the server advertises its addresses by itself.
    advertises: bool,
    commands: mpsc::UnboundedReceiver<Command>,
    /// The packets that are sent next.
    batch: Batch,
    receive_buffer: ReceiveBuffer,
    alarm: Alarm,
    closing: Option<Closing>,
    reresolver: Reresolver,
    suspend: SuspendWatch,
    advice: AdviceBoard,
    stop_detector: StopDetector,
    moderation: Moderation,
    /// The send errors, and when each was last reported.
    refusals: BTreeMap<Refusal, Instant>,
    /// When addresses that could not be bound are tried again.
    bind_retry: Option<TokioInstant>,
    /// Successive turns in which a deadline had passed but nothing happened.
    idle_turns: u32,
    usage: Usage,
    group: Group,
    /// Where the application wants to hear what rendezvous servers answer.
    observed: Option<mpsc::Sender<Observed>>,
}

impl Driver {
    fn new(start: Start) -> Result<Self, BindFailure> {
        let Start { options, key_log, commands, command_receiver, incoming, advice, group, first } = start;
        let mut seed = [0; 32];
        fill_with_random(&mut seed)?;
        let streams = options.connection.streams.clone();
        let resolver = options.resolver();
        let mut sockets =
            Sockets::new(options.buffers, options.mark, options.ledger.is_some(), options.lanes);
        let mut tcp = Tcp::new(&options);
        let mut connections = Connections::new(streams, commands, incoming);
        let watcher = InterfaceWatcher::new().map_err(BindFailure::System)?;
        let (config, advertises) = Serving {
            options: &options,
            key_log: &key_log,
            snapshot: watcher.snapshot(),
            sockets: &mut sockets,
            tcp: &mut tcp.streams,
            connections: &mut connections,
            group: &group,
            first: first.as_ref(),
        }
        .start()?;
        let clock = Clock::new();
        let mut endpoint = manyway_proto::Endpoint::new(config, Rng::from_seed(seed));
        let mtus = watcher.snapshot().mtus();
        endpoint.set_interface_mtus(clock.now(), &mtus);
        let mut driver = Self {
            endpoint,
            sockets,
            tcp,
            connections,
            clock,
            mtus,
            links: Links::new(watcher.snapshot()),
            locals: options.locals,
            watcher,
            neighbours: NeighbourWatch::default(),
            advertises,
            commands: command_receiver,
            batch: Batch::new(),
            receive_buffer: ReceiveBuffer::new(),
            alarm: Alarm::new(),
            closing: None,
            reresolver: Reresolver::new(resolver),
            suspend: SuspendWatch::new(),
            advice,
            stop_detector: StopDetector::default(),
            moderation: Moderation::default(),
            refusals: BTreeMap::new(),
            bind_retry: None,
            idle_turns: 0,
            usage: Usage::new(options.ledger),
            group,
            observed: None,
        };
        driver.follow_accounts();
        driver.block_exhausted();
        driver.note_granted();
        Ok(driver)
    }

    /// Where it listens.
    fn listening(&self) -> Listening {
        Listening { udp: self.sockets.listening(), tcp: self.tcp.streams.listening().collect() }
    }

    async fn run(&mut self) {
        poll_fn(|context| self.poll(context)).await;
        self.usage.finish();
        if let Some(closing) = self.closing.take() {
            closing.tell();
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.moderate();
        let now = self.clock.now();
        let mut more = self.poll_commands(now, context);
        self.poll_surroundings(now, context);
        more |= self.poll_neighbours(now, context);
        more |= self.poll_group(now, context);
        more |= self.poll_sockets(context);
        more |= self.poll_tcp(now, context);
        self.hand_over();
        self.tell_observed();
        let now = self.clock.now();
        self.endpoint.handle_timeout(now);
        self.connections.on_timeout(&mut self.endpoint, now);
        self.connections.poll_abandoned(&mut self.endpoint, now, context);
        self.tell_events(now);
        for handle in self.connections.take_address_news() {
            self.follow_addresses(now, handle);
        }
        self.set_windows();
        self.poll_dialler(now, context);
        if self.is_stopped(context) {
            // All paths are probed before anything else is sent.
            return Poll::Pending;
        }
        let unsent = self.transmit(context);
        let now = self.clock.now();
        self.tell_events(now);
        self.group.note_load(self.endpoint.connections());
        self.poll_reresolver(now, context);
        more |= self.poll_usage(now, unsent) || unsent || self.connections.has_client_news();
        if self.drive_closing(now, context) {
            return Poll::Ready(());
        }
        if more {
            self.idle_turns = 0;
            let at_once = TokioInstant::now();
            self.stop_detector.expect([Some(at_once)], at_once);
            context.waker().wake_by_ref();
        } else {
            self.arm_timer(now, context);
        }
        self.is_stopped(context);
        Poll::Pending
    }

    /// Waits a moment for more packets, unless an application wants something.
    fn moderate(&mut self) {
        let mut now = TokioInstant::now();
        if self.commands.is_empty()
            && !self.tcp.streams.are_used()
            && let Some(wait) = self.moderation.wait(now)
        {
            // A wait of the runtime would end with the next packet.
            std::thread::sleep(wait);
            now = TokioInstant::now();
        }
        self.moderation.begin(now);
        self.moderation.look_at(now, &self.endpoint, self.connections.entries.keys().copied());
    }

    /// Whether the process was stopped in the middle of this turn; then the next one comes at once and handles that.
    fn is_stopped(&mut self, context: &Context<'_>) -> bool {
        let is_stopped = self.stop_detector.is_stopped(TokioInstant::now());
        if is_stopped {
            context.waker().wake_by_ref();
        }
        is_stopped
    }

    /// Returns true if more commands are pending.
    fn poll_commands(&mut self, now: Instant, context: &mut Context<'_>) -> bool {
        for _ in 0..COMMANDS {
            match self.commands.poll_recv(context) {
                Poll::Ready(Some(command)) => self.execute(now, command),
                Poll::Ready(None) => {
                    // Every handle is gone: only the closes have to finish.
                    let until = TokioInstant::now() + CLOSE_TIME;
                    self.start_closing(now, Closing::new(0, String::new(), until, None));
                    return false;
                }
                Poll::Pending => return false,
            }
        }
        true
    }

    /// Detects changes around the process: interfaces that come and go, and time that passed while the system was
    /// suspended or the process stopped.
    fn poll_surroundings(&mut self, now: Instant, context: &mut Context<'_>) {
        let begun = TokioInstant::now();
        let was_stopped = self.stop_detector.begin_turn(begun);
        let woke = self.suspend.has_slept(now) || was_stopped;
        let mut changed = woke;
        if woke {
            self.watcher.refresh();
        }
        while self.watcher.poll_changed(context).is_ready() {
            changed = true;
        }
        let retry = self.bind_retry.is_some_and(|at| at <= TokioInstant::now());
        if changed || retry {
            self.bind_retry = None;
            self.follow_interfaces(now);
            self.block_exhausted();
        }
        if woke {
            tracing::info!("this host slept: challenging every path");
            for handle in self.endpoint.handles() {
                if let Some(connection) = self.endpoint.connection(handle) {
                    connection.on_wake(now);
                }
            }
        }
        self.stop_detector.measure(begun, woke);
    }

    /// Returns true if datagrams are pending. Each batch has its own timestamp: datagrams that arrive on several paths
    /// at once must not look older on the one that is read first.
    fn poll_sockets(&mut self, context: &mut Context<'_>) -> bool {
        let mut more = false;
        let Self { sockets, endpoint, receive_buffer, clock, group, moderation, watcher, .. } = self;
        let (exhausted, sockets) = sockets.split();
        for socket in sockets {
            let mut calls = 0;
            while calls < RECEIVES && matches!(socket.udp.poll_readable(context), Poll::Ready(Ok(()))) {
                calls += 1;
                moderation.on_moved(receive(socket, exhausted, receive_buffer, endpoint, *clock));
            }
            more |= calls == RECEIVES && socket.errors < RECEIVE_ERRORS;
            let now = clock.now();
            let (local, listens) = (socket.udp.local(), socket.listens);
            for Unreachable { remote, quoted, mut undelivered, lacks_neighbour } in
                socket.take_unreachable(now)
            {
                let tuple = FourTuple::udp(local, remote);
                if lacks_neighbour.is_some_and(|host| watcher.snapshot().is_own(host)) {
                    undelivered = Undelivered::NoNeighbour;
                }
                endpoint.on_unreachable(now, tuple, &quoted, undelivered);
                if listens {
                    group.deliver_to_others(|| Delivery::Unreachable(tuple, quoted.clone(), undelivered));
                }
            }
        }
        self.sort_out_arrivals();
        more
    }

    /// Takes what other drivers hand over. Returns true if more is pending.
    fn poll_group(&mut self, now: Instant, context: &mut Context<'_>) -> bool {
        for _ in 0..DELIVERIES {
            match self.group.poll_delivery(context) {
                Poll::Ready(Some(Delivery::Datagram(datagram))) => self.endpoint.take_over(now, datagram),
                Poll::Ready(Some(Delivery::Unreachable(tuple, quoted, undelivered))) => {
                    self.endpoint.on_unreachable(now, tuple, &quoted, undelivered);
                }
                Poll::Ready(Some(Delivery::Stream(stream, first))) => {
                    self.tcp.streams.take_over(now, &mut self.endpoint, stream, first);
                }
                Poll::Ready(None) | Poll::Pending => return false,
            }
        }
        true
    }

    /// Hands over what belongs to other drivers.
    fn hand_over(&mut self) {
        while let Some(datagram) = self.endpoint.poll_hand_over() {
            self.group.deliver(datagram.shard, Delivery::Datagram(datagram));
        }
        for (shard, stream, first) in self.tcp.streams.take_misplaced() {
            self.group.deliver(shard, Delivery::Stream(stream, first));
        }
    }

    /// Keeps the arrival interfaces of the pairs that connections use, and drops those of unknown senders.
    fn sort_out_arrivals(&mut self) {
        if !self.sockets.split().1.any(|socket| socket.traffic.is_crowded()) {
            return;
        }
        let mut used = BTreeSet::new();
        for handle in self.connections.servers() {
            if let Some(connection) = self.endpoint.connection(handle) {
                used.extend(connection.statistics().paths.iter().map(|path| path.tuple));
            }
        }
        let (_, sockets) = self.sockets.split();
        sockets.filter(|socket| socket.traffic.is_crowded()).for_each(|socket| socket.traffic.keep(&used));
    }

    /// Returns true if more could be sent at once. Each batch has its own timestamp: a round trip begins when its
    /// packet leaves.
    fn transmit(&mut self, context: &mut Context<'_>) -> bool {
        let now = self.clock.now();
        self.sockets.choose_lanes(now);
        let Flushed { refused, writable } = self.sockets.flush(context);
        refused.iter().for_each(|refusal| self.send_refused(now, refusal));
        writable.into_iter().for_each(|tuple| self.endpoint.on_writable(tuple));
        let Self { tcp, endpoint, .. } = self;
        tcp.streams.flush(now, context, endpoint);
        tcp.streams.report(now, endpoint);
        for _ in 0..BATCHES {
            let now = self.clock.now();
            let Self { endpoint, batch, tcp, .. } = self;
            let next = endpoint.poll_transmit_unsealed(now, &mut batch.bytes, &mut batch.jobs);
            let Some(transmit) = next else { return false };
            self.moderation.on_moved(transmit.length);
            if !transmit.tuple.is_datagram() {
                if batch.seal() {
                    tcp.streams.send(now, context, endpoint, (&transmit, &batch.bytes));
                }
                continue;
            }
            match self.sockets.send(context, &transmit, batch) {
                Sent::Done => {}
                Sent::Waits => self.endpoint.on_blocked(now, transmit.tuple),
                Sent::Refused(refusal) => self.send_refused(now, &refusal),
            }
        }
        true
    }

    /// Reports a send error to the connections. Every connection checks whether the path is its own, so the reports are
    /// rate-limited.
    fn send_refused(&mut self, now: Instant, refusal: &Refusal) {
        self.refusals.retain(|_, told_at| now - *told_at < REFUSAL_REPEAT);
        if self.refusals.len() >= REFUSALS || self.refusals.contains_key(refusal) {
            return;
        }
        self.refusals.insert(*refusal, now);
        match *refusal {
            Refusal::Addresses(tuple, refusal) => self.endpoint.on_send_refused(now, tuple, refusal),
            Refusal::TooLarge(tuple, size) => self.endpoint.on_datagram_too_large(now, tuple, size),
        }
    }

    fn start_closing(&mut self, now: Instant, closing: Closing) {
        if let Some(known) = &mut self.closing {
            known.join(closing);
            return;
        }
        self.tcp.streams.stop_listening();
        self.connections.close_all(&mut self.endpoint, now, closing.code_and_reason());
        self.closing = Some(closing);
    }

    /// Advances the close of the endpoint, if one is under way. Returns whether it is finished.
    fn drive_closing(&mut self, now: Instant, context: &mut Context<'_>) -> bool {
        let Some(closing) = &mut self.closing else { return false };
        let has_pending = self.sockets.has_pending() || self.tcp.streams.has_pending();
        let is_done = self.connections.all_ended(&self.endpoint) && !has_pending;
        if !is_done && !closing.poll(&mut self.endpoint, now, context) {
            return false;
        }
        closing.end();
        self.group.poll_others_ended(context).is_ready()
    }

    fn poll_reresolver(&mut self, now: Instant, context: &mut Context<'_>) {
        let Self { endpoint, connections, reresolver, .. } = self;
        for handle in connections.take_path_news() {
            // Over MMSP/1 the addresses of the peer do not change.
            let connection = endpoint.connection(handle).filter(|connection| !connection.is_mmsp1());
            let statistics = connection.map(|connection| connection.statistics());
            let pathless = statistics.is_some_and(|s| !s.paths.iter().any(|path| works(path.state)));
            reresolver.update(handle, pathless);
        }
        let hosts_of =
            |connections: &mut Connections, handle| connections.peer(handle).map(|p| p.hosts.clone());
        while let Some((handle, addresses)) =
            self.reresolver.poll(context, |handle| hosts_of(&mut self.connections, handle))
        {
            self.add_remotes(now, handle, addresses);
            // Packets that become due by this are sent in the next turn.
            context.waker().wake_by_ref();
        }
    }

    /// Handles new addresses of a server that were resolved while no path to it works.
    fn add_remotes(
        &mut self,
        now: Instant,
        handle: manyway_proto::ConnectionHandle,
        mut addresses: Vec<SocketAddr>,
    ) {
        addresses.retain(|address| self.allows(address));
        addresses = self.watcher.snapshot().with_scopes(&addresses);
        let Some(peer) = self.connections.peer(handle) else { return };
        if addresses.iter().all(|address| peer.remotes.contains(address)) {
            return;
        }
        tracing::info!(?addresses, "the server has new addresses");
        // The earlier addresses may still be right, but come last.
        let before = std::mem::replace(&mut peer.remotes, addresses.clone());
        peer.remotes.extend(before.into_iter().filter(|address| !addresses.contains(address)));
        peer.remotes.truncate(crate::resolve::MAX_ADDRESSES);
        let Some(connection) = self.endpoint.connection(handle) else { return };
        connection.add_remote_addresses(now, &addresses);
        self.connections.note_addresses(handle);
    }

    fn arm_timer(&mut self, now: Instant, context: &mut Context<'_>) {
        let mut deadline = self.endpoint.poll_timeout().into_iter().chain(self.tcp.deadline()).min();
        match deadline {
            Some(at) if at <= now => {
                // The deadline is due again right after it was served: only a bug repeats that for ever.
                self.idle_turns = self.idle_turns.saturating_add(1);
                if self.idle_turns > IDLE_TURNS {
                    deadline = Some(now + Duration::from_millis(1));
                }
            }
            Some(_) | None => self.idle_turns = 0,
        }
        let deadline = deadline.map(|at| TokioInstant::from_std(self.clock.to_std(at)));
        let closing = self.closing.as_ref().and_then(Closing::deadline);
        let others = [
            closing,
            self.bind_retry,
            self.reresolver.deadline(),
            self.connections.deadline(),
            self.connections.attempts.deadline(),
            self.usage.deadline(),
        ];
        let due_at = self.stop_detector.expect(others.into_iter().chain([deadline]), TokioInstant::now());
        if let Some(at) = due_at
            && self.alarm.poll_at(context, at).is_ready()
        {
            context.waker().wake_by_ref();
        }
    }
}

/// Whether data may still arrive over a path in that state.
fn works(state: PathState) -> bool {
    state.carries_data() || state == PathState::Suspect
}

/// Handles the datagrams of one receive call; returns how many bytes they have.
fn receive(
    socket: &mut Socket,
    exhausted: &[u32],
    buffer: &mut ReceiveBuffer,
    endpoint: &mut manyway_proto::Endpoint,
    clock: Clock,
) -> usize {
    let mut received = 0;
    match socket.udp.try_receive(buffer) {
        Ok(rows) => {
            let now = clock.now();
            socket.errors = 0;
            for mut row in rows {
                if !socket.listens {
                    // A client without a bound address uses the address with which it opened the path, whatever the
                    // system reports.
                    row.tuple.local = socket.udp.local();
                }
                received += row.payload.len();
                socket.traffic.on_received(&row.tuple, (row.payload.len(), row.size), row.interface);
                if socket.traffic.is_over(&row.tuple, exhausted) {
                    continue;
                }
                endpoint.handle_datagrams(now, row.tuple, row.ecn, row.payload, row.size);
            }
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        // An error of an earlier datagram, such as ICMP's: `take_unreachable` reports which.
        Err(error) => {
            socket.errors = socket.errors.saturating_add(1);
            tracing::debug!(local = %socket.udp.local(), %error, "receive");
        }
    }
    received
}
