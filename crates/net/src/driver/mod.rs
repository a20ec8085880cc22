//! One thread that owns its sockets and its connections: no locks and no channel for a packet.
//!
//! Each turn does some of everything that waits (commands, datagrams, timers, news of interfaces), then sends what the
//! protocol machine has ready and tells applications what happened.

mod commands;
mod connections;
mod sockets;

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use manyway_proto::{EndpointConfig, LocalAddress, Rng, ServerConfig, identity};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant as TokioInstant, Sleep};

pub(crate) use commands::Command;
use connections::Connections;
use sockets::Sockets;

use crate::clock::Clock;
use crate::connection::Connection;
use crate::endpoint::{EndpointOptions, Locals, reachable_addresses};
use crate::error::BindFailure;
use crate::interfaces::InterfaceWatcher;
use crate::udp::{ReceiveBuffer, UdpSocket};

/// Commands taken in one turn.
const COMMANDS: usize = 64;
/// Receive calls on one socket in one turn, each of up to 256 KiB.
const RECEIVES: usize = 4;
/// Batches sent in one turn, each of up to 64 KiB.
const BATCHES: usize = 64;
/// The longest that an endpoint takes to close.
const CLOSE_TIME: Duration = Duration::from_secs(35);

/// What the driver starts with.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) options: EndpointOptions,
    pub(crate) commands: mpsc::WeakUnboundedSender<Command>,
    pub(crate) command_receiver: mpsc::UnboundedReceiver<Command>,
    pub(crate) incoming: mpsc::UnboundedSender<Connection>,
}

/// Starts the thread; returns the addresses it listens on.
pub(crate) fn spawn(start: Start) -> Result<(Vec<LocalAddress>, std::thread::JoinHandle<()>), BindFailure> {
    let (ready, answer) = std::sync::mpsc::sync_channel(1);
    let thread = std::thread::Builder::new()
        .name("manyway-driver".into())
        .spawn(move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => {
                    let _ = ready.send(Err(BindFailure::System(error)));
                    return;
                }
            };
            runtime.block_on(async move {
                match Driver::new(start) {
                    Ok(mut driver) => {
                        let _ = ready.send(Ok(driver.sockets.listening()));
                        driver.run().await;
                    }
                    Err(error) => {
                        let _ = ready.send(Err(error));
                    }
                }
            });
        })
        .map_err(BindFailure::System)?;
    match answer.recv() {
        Ok(Ok(listening)) => Ok((listening, thread)),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(BindFailure::System(io::Error::other("the driver thread ended at its start"))),
    }
}

struct Driver {
    endpoint: manyway_proto::Endpoint,
    sockets: Sockets,
    connections: Connections,
    clock: Clock,
    locals: Locals,
    /// Which interfaces there are; `None` where only fixed addresses are used.
    watcher: Option<InterfaceWatcher>,
    /// Whether the server names its addresses by itself.
    advertises: bool,
    commands: mpsc::UnboundedReceiver<Command>,
    buffer: Vec<u8>,
    receive_buffer: ReceiveBuffer,
    sleep: Pin<Box<Sleep>>,
    closing: Option<Closing>,
}

struct Closing {
    until: TokioInstant,
    reply: Option<oneshot::Sender<()>>,
}

impl Driver {
    fn new(start: Start) -> Result<Self, BindFailure> {
        let Start { options, commands, command_receiver, incoming } = start;
        let mut seed = [0; 32];
        ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut seed)
            .map_err(|_| BindFailure::System(io::Error::other("the system gives no random numbers")))?;
        let mut sockets = Sockets::default();
        let mut config = EndpointConfig::default();
        config.reset_key = options.reset_key;
        let mut advertises = false;
        let watches = options.server.is_some() || matches!(options.locals, Locals::Interfaces(_));
        let watcher =
            if watches { Some(InterfaceWatcher::new().map_err(BindFailure::System)?) } else { None };
        if let Some(server) = &options.server {
            for address in &server.listen {
                sockets.listen(*address).map_err(BindFailure::Socket)?;
            }
            let mut connection = options.connection.clone();
            connection.advertised.clone_from(&server.advertise);
            advertises = connection.advertised.is_empty();
            if let Some(watcher) = watcher.as_ref().filter(|_| advertises) {
                connection.advertised = reachable_addresses(&sockets.listening(), watcher.snapshot());
                connection.advertised.truncate(8);
            }
            config.server = Some(ServerConfig {
                tls: identity::server_config(&server.identity, Arc::clone(&server.authoriser)),
                connection: Arc::new(connection),
            });
        }
        Ok(Self {
            endpoint: manyway_proto::Endpoint::new(config, Rng::from_seed(seed)),
            sockets,
            connections: Connections::new(commands, incoming),
            clock: Clock::new(),
            locals: options.locals,
            watcher,
            advertises,
            commands: command_receiver,
            buffer: Vec::with_capacity(64 * 1024),
            receive_buffer: ReceiveBuffer::new(),
            sleep: Box::pin(tokio::time::sleep(Duration::ZERO)),
            closing: None,
        })
    }

    async fn run(&mut self) {
        poll_fn(|context| self.poll(context)).await;
        if let Some(reply) = self.closing.take().and_then(|closing| closing.reply) {
            let _ = reply.send(());
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut more = self.poll_commands(context);
        self.poll_interfaces(context);
        more |= self.poll_sockets(context);
        self.endpoint.handle_timeout(self.clock.now());
        self.connections.tell_events(&mut self.endpoint, self.clock.now());
        more |= self.transmit(context);
        self.connections.tell_events(&mut self.endpoint, self.clock.now());
        if self.is_done() {
            return Poll::Ready(());
        }
        if more {
            context.waker().wake_by_ref();
        } else {
            self.arm_timer(context);
        }
        Poll::Pending
    }

    /// True if more commands wait.
    fn poll_commands(&mut self, context: &mut Context<'_>) -> bool {
        for _ in 0..COMMANDS {
            match self.commands.poll_recv(context) {
                Poll::Ready(Some(command)) => self.execute(command),
                Poll::Ready(None) => {
                    // Every handle is gone: nobody waits for anything but the farewells.
                    self.start_closing(0, "", None);
                    return false;
                }
                Poll::Pending => return false,
            }
        }
        true
    }

    fn poll_interfaces(&mut self, context: &mut Context<'_>) {
        let Some(watcher) = &mut self.watcher else { return };
        let changed = {
            let mut changed = std::pin::pin!(watcher.changed());
            changed.as_mut().poll(context).is_ready()
        };
        if changed {
            self.follow_interfaces();
            // Polled again, so that the next news wake this task.
            context.waker().wake_by_ref();
        }
    }

    /// True if datagrams still wait.
    fn poll_sockets(&mut self, context: &mut Context<'_>) -> bool {
        let mut more = false;
        let now = self.clock.now();
        let Self { sockets, endpoint, receive_buffer, .. } = self;
        for socket in sockets.iter_mut() {
            let mut calls = 0;
            while calls < RECEIVES && matches!(socket.udp.poll_readable(context), Poll::Ready(Ok(()))) {
                calls += 1;
                receive(&socket.udp, receive_buffer, endpoint, now);
            }
            more |= calls == RECEIVES;
        }
        more
    }

    /// True if more could be sent at once.
    fn transmit(&mut self, context: &mut Context<'_>) -> bool {
        let now = self.clock.now();
        if !self.sockets.flush(context) {
            return false;
        }
        for _ in 0..BATCHES {
            let Some(transmit) = self.endpoint.poll_transmit(now, &mut self.buffer) else { return false };
            if let Some(failed) = self.sockets.send(context, &transmit, &self.buffer) {
                self.send_refused(now, failed);
            }
            if self.sockets.is_blocked() {
                return false;
            }
        }
        true
    }

    fn send_refused(&mut self, now: manyway_proto::Instant, tuple: manyway_proto::FourTuple) {
        for handle in self.endpoint.handles() {
            if let Some(connection) = self.endpoint.connection(handle) {
                connection.on_send_refused(now, tuple);
            }
        }
    }

    fn arm_timer(&mut self, context: &mut Context<'_>) {
        let deadline = self.endpoint.poll_timeout().map(|at| TokioInstant::from_std(self.clock.to_std(at)));
        let closing = self.closing.as_ref().map(|closing| closing.until);
        if let Some(at) = deadline.into_iter().chain(closing).min() {
            self.sleep.as_mut().reset(at);
            if self.sleep.as_mut().poll(context).is_ready() {
                context.waker().wake_by_ref();
            }
        }
    }

    fn start_closing(&mut self, code: u64, reason: &str, reply: Option<oneshot::Sender<()>>) {
        if self.closing.is_some() {
            return;
        }
        let now = self.clock.now();
        for handle in self.endpoint.handles() {
            if let Some(connection) = self.endpoint.connection(handle) {
                connection.close(now, code, reason);
            }
        }
        self.connections.refuse_more();
        self.closing = Some(Closing { until: TokioInstant::now() + CLOSE_TIME, reply });
    }

    fn is_done(&self) -> bool {
        let Some(closing) = &self.closing else { return false };
        closing.until <= TokioInstant::now() || (self.connections.all_ended() && !self.sockets.is_blocked())
    }

    /// Interfaces changed: tells every client connection which addresses it may use now, and every server connection
    /// where the server can be reached.
    fn follow_interfaces(&mut self) {
        let now = self.clock.now();
        for handle in self.connections.clients() {
            let Some(remotes) = self.connections.remotes(handle) else { continue };
            let (locals, _) = self.local_candidates(&remotes);
            if let Some(connection) = self.endpoint.connection(handle) {
                connection.set_local_addresses(now, &locals);
            }
        }
        if let Some(watcher) = self.watcher.as_ref().filter(|_| self.advertises) {
            let mut addresses = reachable_addresses(&self.sockets.listening(), watcher.snapshot());
            addresses.truncate(8);
            for handle in self.connections.servers() {
                if let Some(connection) = self.endpoint.connection(handle) {
                    connection.set_advertised_addresses(&addresses);
                }
            }
        }
        if let Some(watcher) = &self.watcher {
            self.sockets.drop_gone(watcher.snapshot());
        }
    }

    /// The addresses that lead to `remotes`, each with a socket; and why others do not.
    fn local_candidates(
        &mut self,
        remotes: &[std::net::SocketAddr],
    ) -> (Vec<manyway_proto::LocalCandidate>, Vec<crate::interfaces::Excluded>) {
        match (&self.locals, &self.watcher) {
            (Locals::Fixed(fixed), _) => {
                let wanted = fixed.clone();
                (self.sockets.candidates(wanted), Vec::new())
            }
            (Locals::Interfaces(policy), Some(watcher)) => {
                let selection = watcher.usable(policy, remotes);
                let wanted = selection.candidates.iter().map(|c| (c.local, c.role)).collect();
                (self.sockets.candidates(wanted), selection.excluded)
            }
            (Locals::Interfaces(_), None) => (Vec::new(), Vec::new()),
        }
    }

    fn interface_name(&self, index: u32) -> Option<String> {
        let interface = self.watcher.as_ref()?.snapshot().interface(index)?;
        Some(interface.name.clone())
    }
}

/// Takes what one receive call gives.
fn receive(
    socket: &UdpSocket,
    buffer: &mut ReceiveBuffer,
    endpoint: &mut manyway_proto::Endpoint,
    now: manyway_proto::Instant,
) {
    match socket.try_receive(buffer) {
        Ok(datagrams) => {
            for datagram in datagrams {
                endpoint.handle_datagram(now, datagram.tuple, datagram.ecn, datagram.payload);
            }
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        // An error of an earlier datagram, such as ICMP's: it raises at most suspicion.
        Err(error) => tracing::debug!(local = %socket.local(), %error, "receive"),
    }
}
