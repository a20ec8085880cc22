//! A program with a system of its own, and a wire to the stack that may lose, double or delay packets.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use etherparse::{PacketBuilder, TcpOptionElement};
use smoltcp::iface::{Config, Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::Instant as StackInstant;
use smoltcp::wire::{HardwareAddress, IpCidr, IpEndpoint};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::super::Stack;
use super::super::machine::Output;
use super::super::segment::{Control, Segment};

/// What the wire does, of 100 packets in each direction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Faults {
    pub(super) seed: u64,
    pub(super) lost: u64,
    pub(super) doubled: u64,
    pub(super) late: u64,
}

impl Faults {
    /// The delays of the copies of the next packet.
    fn next(&mut self) -> Vec<Duration> {
        let mut dice = || {
            // The generator of Knuth's MMIX.
            self.seed =
                self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.seed >> 33) % 100
        };
        if dice() < self.lost {
            return Vec::new();
        }
        let delay = if dice() < self.late { Duration::from_millis(5) } else { Duration::ZERO };
        let copies = if dice() < self.doubled { 2 } else { 1 };
        vec![delay; copies]
    }
}

/// Pseudo-random bytes.
pub(super) fn bytes(size: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    (0..size).map(|_| next()).collect()
}

/// A packet that opens a connection.
pub(super) fn opening(program: SocketAddr, destination: SocketAddr) -> Vec<u8> {
    let (SocketAddr::V4(from), SocketAddr::V4(to)) = (program, destination) else { panic!("IPv4") };
    let options = [TcpOptionElement::MaximumSegmentSize(1460)];
    let mut packet = Vec::new();
    PacketBuilder::ipv4(from.ip().octets(), to.ip().octets(), 64)
        .tcp(from.port(), to.port(), 1000, 60_000)
        .syn()
        .options(&options)
        .unwrap()
        .write(&mut packet, &[])
        .unwrap();
    packet
}

pub(super) struct Program {
    pub(super) stack: Arc<Stack>,
    pub(super) address: SocketAddr,
    system: Arc<System>,
    task: JoinHandle<()>,
}

struct System {
    state: Mutex<SystemState>,
    work: Notify,
}

struct SystemState {
    interface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
    /// To the program, and when.
    incoming: Vec<(Instant, Vec<u8>)>,
    last: Vec<u8>,
    is_gone: bool,
}

impl System {
    /// With a socket that connects.
    fn connecting(address: SocketAddr, destination: SocketAddr, mtu: u16) -> Self {
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = 7;
        let nowhere = Output::new(|_| {});
        let mut device = Device { incoming: None, output: &nowhere, mtu };
        let mut interface = Interface::new(config, &mut device, StackInstant::ZERO);
        interface.update_ip_addrs(|all| all.push(IpCidr::new(address.ip().into(), 0)).unwrap());
        let room = || SocketBuffer::new(vec![0; 65_535]);
        let mut socket = Socket::new(room(), room());
        socket.set_nagle_enabled(false);
        let to = IpEndpoint::from(destination);
        socket.connect(interface.context(), to, IpEndpoint::from(address)).unwrap();
        let mut sockets = SocketSet::new(Vec::new());
        let socket = sockets.add(socket);
        let state = SystemState {
            interface,
            sockets,
            socket,
            incoming: Vec::new(),
            last: Vec::new(),
            is_gone: false,
        };
        Self { state: Mutex::new(state), work: Notify::new() }
    }
}

impl Program {
    /// A program that connects.
    pub(super) fn connect(destination: &str, mtu: u16, faults: Faults) -> Self {
        let destination: SocketAddr = destination.parse().unwrap();
        let source = if destination.is_ipv4() { "198.18.0.1" } else { "fd6d::1" };
        let address = SocketAddr::new(source.parse().unwrap(), 40_000);
        let begin = Instant::now();
        let system = Arc::new(System::connecting(address, destination, mtu));
        let (receiver, mut way_back) = (Arc::downgrade(&system), faults);
        let way_back = {
            way_back.seed ^= 99;
            Mutex::new(way_back)
        };
        let stack = Arc::new(Stack::new(mtu, move |packet| {
            let Some(system) = receiver.upgrade() else { return };
            let mut state = system.state.lock().unwrap();
            state.last = packet.to_vec();
            for delay in way_back.lock().unwrap().next() {
                state.incoming.push((Instant::now() + delay, packet.to_vec()));
            }
            system.work.notify_one();
        }));
        let task = tokio::spawn(drive(Arc::clone(&system), Arc::downgrade(&stack), (mtu, begin), faults));
        Self { stack, address, system, task }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Socket<'static>) -> T) -> T {
        let mut state = self.system.state.lock().unwrap();
        let socket = state.socket;
        let result = work(state.sockets.get_mut(socket));
        self.system.work.notify_one();
        result
    }

    /// Waits until the socket gives something, which has registered the waker otherwise.
    async fn until<T>(&self, mut get: impl FnMut(&mut Socket<'static>, &Waker) -> Option<T>) -> T {
        poll_fn(|context| self.with(|socket| get(socket, context.waker())).map_or(Poll::Pending, Poll::Ready))
            .await
    }

    pub(super) async fn send(&self, mut data: &[u8]) {
        while !data.is_empty() {
            let send = |socket: &mut Socket<'static>, waker: &Waker| {
                socket.register_send_waker(waker);
                socket.can_send().then(|| socket.send_slice(data).unwrap())
            };
            data = &data[self.until(send).await..];
        }
    }

    /// Ends its direction.
    pub(super) fn finish(&self) {
        self.with(Socket::close);
    }

    pub(super) fn reset(&self) {
        self.with(Socket::abort);
    }

    /// Its host loses power.
    pub(super) fn vanish(&self) {
        self.system.state.lock().unwrap().is_gone = true;
    }

    /// Drops the stack; the program's system goes on.
    pub(super) fn end_stack(&mut self) {
        self.stack = Arc::new(Stack::new(1500, |_| {}));
    }

    /// At least this many bytes, or all up to the end.
    pub(super) async fn read(&self, least: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < least {
            let receive = |socket: &mut Socket<'static>, waker: &Waker| {
                socket.register_recv_waker(waker);
                if socket.can_recv() {
                    return socket.recv(|data| (data.len(), Some(data.to_vec()))).unwrap();
                }
                assert_ne!(socket.state(), State::Closed, "it was reset");
                let has_ended = [State::CloseWait, State::LastAck, State::TimeWait, State::Closing]
                    .contains(&socket.state());
                has_ended.then(Vec::new)
            };
            let part = self.until(receive).await;
            if part.is_empty() {
                break;
            }
            all.extend(part);
        }
        all
    }

    pub(super) async fn read_to_end(&self) -> Vec<u8> {
        self.read(usize::MAX).await
    }

    pub(super) async fn until_reset(&self) {
        while self.with(|socket| socket.state()) != State::Closed {
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits until the stack has forgotten the connection.
    pub(super) async fn until_forgotten(&self) {
        while !self.stack.shared.connections().is_empty() {
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// The last packet of the stack.
    pub(super) fn last_packet(&self) -> Vec<u8> {
        self.system.state.lock().unwrap().last.clone()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves the system of the program.
async fn drive(system: Arc<System>, stack: Weak<Stack>, (mtu, begin): (u16, Instant), mut faults: Faults) {
    loop {
        let (packets, next) = step(&system, mtu, begin);
        for packet in packets {
            // smoltcp does not repeat a lost FIN in every case.
            let is_last = Segment::parse(&packet).is_some_and(|(_, segment)| segment.control == Control::End);
            let delays = if is_last { vec![Duration::ZERO] } else { faults.next() };
            delays.into_iter().for_each(|delay| deliver(&stack, packet.clone(), delay));
        }
        tokio::select! {
            () = system.work.notified() => {}
            () = tokio::time::sleep_until(next) => {}
        }
    }
}

fn deliver(stack: &Weak<Stack>, packet: Vec<u8>, delay: Duration) {
    let stack = Weak::clone(stack);
    let receive = move || {
        if let Some(stack) = stack.upgrade() {
            stack.receive(&packet);
        }
    };
    if delay.is_zero() {
        return receive();
    }
    tokio::spawn(async move {
        sleep(delay).await;
        receive();
    });
}

/// Takes what has arrived, and returns what is to be sent, and when to call again.
fn step(system: &System, mtu: u16, begin: Instant) -> (Vec<Vec<u8>>, Instant) {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let output = {
        let sent = Arc::clone(&sent);
        Output::new(move |packet| sent.lock().unwrap().push(packet.to_vec()))
    };
    let mut state = system.state.lock().unwrap();
    let now = Instant::now();
    let (due, later) = std::mem::take(&mut state.incoming).into_iter().partition(|(at, _)| *at <= now);
    state.incoming = later;
    let far = now + Duration::from_secs(3600);
    if state.is_gone {
        return (Vec::new(), far);
    }
    let SystemState { interface, sockets, incoming, .. } = &mut *state;
    let clock = StackInstant::from_micros(i64::try_from(begin.elapsed().as_micros()).unwrap());
    let due: Vec<(Instant, Vec<u8>)> = due;
    for (_, packet) in &due {
        let mut device = Device { incoming: Some(packet), output: &output, mtu };
        interface.poll_ingress_single(clock, &mut device, sockets);
    }
    let mut device = Device { incoming: None, output: &output, mtu };
    while interface.poll_egress(clock, &mut device, sockets) == PollResult::SocketStateChanged {}
    let timer = interface.poll_delay(clock, sockets).map_or(far, |delay| now + Duration::from(delay));
    let next = incoming.iter().map(|(at, _)| *at).fold(timer, Instant::min);
    drop(state);
    let packets = std::mem::take(&mut *sent.lock().unwrap());
    (packets, next.max(now + Duration::from_micros(1)))
}

/// For one call of smoltcp.
struct Device<'a> {
    incoming: Option<&'a [u8]>,
    output: &'a Output,
    mtu: u16,
}

impl phy::Device for Device<'_> {
    type RxToken<'t>
        = Incoming<'t>
    where
        Self: 't;
    type TxToken<'t>
        = Outgoing<'t>
    where
        Self: 't;

    fn receive(&mut self, _: StackInstant) -> Option<(Incoming<'_>, Outgoing<'_>)> {
        let incoming = self.incoming.take()?;
        Some((Incoming(incoming), Outgoing(self.output)))
    }

    fn transmit(&mut self, _: StackInstant) -> Option<Outgoing<'_>> {
        Some(Outgoing(self.output))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu.into();
        capabilities
    }
}

struct Incoming<'a>(&'a [u8]);

impl phy::RxToken for Incoming<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(self.0)
    }
}

struct Outgoing<'a>(&'a Output);

impl phy::TxToken for Outgoing<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, fill: F) -> R {
        let mut packet = vec![0; length];
        let result = fill(&mut packet);
        self.0.send(&packet);
        result
    }
}
