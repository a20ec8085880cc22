//! Opens a socket, and reports what the system granted.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::task::{Context, Poll};

use manyway_proto::LocalAddress;
use quinn_udp::{UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::share;
use super::unreachable::{self, Entry, Unreachable};
use crate::device::{DeviceBinding, bind_device, set_mark};

/// How to open a [`UdpSocket`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BindOptions {
    /// Address and port; port 0 lets the system choose one. The socket is bound to an interface other than 0, so that
    /// its packets leave through that regardless of the routes; if the system refuses, only the address is bound.
    pub local: LocalAddress,
    /// Sizes of its buffers.
    pub buffers: BufferSizes,
    /// Whether the kernel may segment large buffers. Default: where it can.
    pub segmentation: Segmentation,
    /// Mark of its packets (`SO_MARK`), which needs Linux with `CAP_NET_ADMIN`. Default `None`.
    pub mark: Option<u32>,
    /// How many sockets share the port, at most [`Shard::MOST`](manyway_proto::Shard::MOST): the system gives each
    /// datagram to the one whose index, in the order in which they are bound, its connection ID has
    /// ([`Shard`](manyway_proto::Shard)). Others of the same user can join them. Needs Linux. Default 1.
    pub shared_by: usize,
}

impl BindOptions {
    /// The defaults for an address.
    pub fn new(local: LocalAddress) -> Self {
        Self {
            local,
            buffers: BufferSizes::default(),
            segmentation: Segmentation::WherePossible,
            mark: None,
            shared_by: 1,
        }
    }
}

/// Sizes of a socket's buffers to request from the system, in bytes. It may grant less: above its limit only root gets
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferSizes {
    /// For packets that arrive faster than they are read. Default 4 MiB.
    pub receive: usize,
    /// For packets that are sent faster than the interface takes them. Default 4 MiB.
    pub send: usize,
}

impl Default for BufferSizes {
    fn default() -> Self {
        const SIZE: usize = 4 * 1024 * 1024;
        Self { receive: SIZE, send: SIZE }
    }
}

/// Whether the kernel may segment one large buffer into many datagrams (generic segmentation offload).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segmentation {
    /// If it can; a socket on which it fails goes on without.
    WherePossible,
    /// Never: one call for each datagram.
    Off,
}

/// What the system granted to a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Most datagrams that one call sends; 1 without segmentation offload. It falls to 1 if the network device turns
    /// out not to support it.
    pub send_segments: usize,
    /// Most datagrams that one receive buffer may hold; 1 without receive offload.
    pub receive_segments: usize,
    /// Usable bytes of the receive buffer. A small one loses packets in bursts.
    pub receive_buffer: usize,
    /// Usable bytes of the send buffer.
    pub send_buffer: usize,
    /// Whether the socket is bound to its interface.
    pub device: DeviceBinding,
    /// Whether datagrams above the path MTU may be fragmented; if so, the search for the path MTU finds nothing.
    pub may_fragment: bool,
}

/// Most ICMP errors that are kept until they are taken.
const MOST_UNREACHABLE: usize = 8;
/// Most entries of the error queue that are read at once.
const MOST_ERRORS: usize = 256;

/// A UDP socket that sends and receives many datagrams a call. One thread may send while another receives.
#[derive(Debug)]
pub struct UdpSocket {
    pub(super) io: tokio::net::UdpSocket,
    /// Replaced once segmentation fails.
    pub(super) state: RwLock<UdpSocketState>,
    pub(super) local: LocalAddress,
    /// Whether the kernel segments batches.
    pub(super) segments: AtomicBool,
    device: DeviceBinding,
    /// Entries read from the error queue and not taken yet.
    unreachable: Mutex<Vec<Unreachable>>,
}

impl UdpSocket {
    /// Opens a socket.
    ///
    /// # Errors
    /// [`BindError`] says at which step: the address may be gone or its port taken.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn bind(options: &BindOptions) -> Result<Self, BindError> {
        let local = options.local;
        let failed = |step| move |source| BindError { local, step, source };
        let domain = Domain::for_address(local.address);
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP)).map_err(failed(BindStep::Open))?;
        socket.set_nonblocking(true).map_err(failed(BindStep::Configure))?;
        if local.address.is_ipv6() {
            socket.set_only_v6(true).map_err(failed(BindStep::Configure))?;
        }
        set_mark(&socket, options.mark).map_err(failed(BindStep::Configure))?;
        if options.shared_by > 1 {
            share::permit(&socket).map_err(failed(BindStep::Configure))?;
        }
        let device = bind_device(&socket, local);
        socket.bind(&local.address.into()).map_err(failed(BindStep::Bind))?;
        if options.shared_by > 1 {
            share::divide(&socket, options.shared_by).map_err(failed(BindStep::Configure))?;
        }
        enlarge_buffers(&socket, options);

        unreachable::keep(&socket, local.address.is_ipv4());
        let socket = std::net::UdpSocket::from(socket);
        let state = offload_state(&socket).map_err(failed(BindStep::Configure))?;
        let bound = socket.local_addr().map_err(failed(BindStep::Configure))?;
        let io = tokio::net::UdpSocket::from_std(socket).map_err(failed(BindStep::Register))?;
        // The port may be new; the rest, above all the scope of a link-local address, stays as requested.
        let address = SocketAddr::new(local.address.ip(), bound.port());
        let address = match local.address {
            SocketAddr::V6(mut v6) => {
                v6.set_port(bound.port());
                SocketAddr::V6(v6)
            }
            SocketAddr::V4(_) => address,
        };
        let local = LocalAddress { interface: local.interface, address };
        let segments = !cfg!(manyway_portable) && options.segmentation == Segmentation::WherePossible;
        let (state, segments) = (RwLock::new(state), AtomicBool::new(segments));
        let socket = Self { io, state, local, segments, device, unreachable: Mutex::default() };
        tracing::debug!(capabilities = ?socket.capabilities(), "UDP socket opened");
        Ok(socket)
    }

    /// The address with its port, and the requested interface.
    pub fn local(&self) -> LocalAddress {
        self.local
    }

    /// Whether the socket receives for all addresses of the host.
    pub fn is_wildcard(&self) -> bool {
        self.local.address.ip().is_unspecified()
    }

    /// What the system granted. Costs two system calls.
    pub fn capabilities(&self) -> Capabilities {
        // Linux reports twice the usable size, to count its own bookkeeping (socket(7)).
        let divisor = if cfg!(target_os = "linux") { 2 } else { 1 };
        let socket = SockRef::from(&self.io);
        Capabilities {
            send_segments: self.send_segments(),
            receive_segments: if cfg!(manyway_portable) { 1 } else { self.state().gro_segments() },
            receive_buffer: socket.recv_buffer_size().unwrap_or(0) / divisor,
            send_buffer: socket.send_buffer_size().unwrap_or(0) / divisor,
            device: self.device.clone(),
            may_fragment: self.state().may_fragment(),
        }
    }

    /// Takes the ICMP errors for undelivered datagrams of this socket, each path once; costs a system call. Only Linux
    /// reports them.
    pub fn take_unreachable(&self) -> impl Iterator<Item = Unreachable> + use<> {
        self.read_errors();
        std::mem::take(&mut *self.lock_unreachable()).into_iter()
    }

    /// Empties the error queue, which occupies the receive buffer; returns true if it held an error of another host.
    pub(super) fn read_errors(&self) -> bool {
        let mut any = false;
        for _ in 0..MOST_ERRORS {
            match unreachable::read(&self.io) {
                Ok(Entry::Unreachable(new)) => {
                    any = true;
                    let mut unreachable = self.lock_unreachable();
                    let is_known = unreachable.iter().any(|known| known.is_like(&new));
                    if !is_known && unreachable.len() < MOST_UNREACHABLE {
                        unreachable.push(new);
                    }
                }
                Ok(Entry::Foreign) => any = true,
                Ok(Entry::Own) => {}
                Err(_) => break,
            }
        }
        any
    }

    fn lock_unreachable(&self) -> MutexGuard<'_, Vec<Unreachable>> {
        self.unreachable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What quinn-udp knows of the socket.
    pub(super) fn state(&self) -> RwLockReadGuard<'_, UdpSocketState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is something to receive.
    ///
    /// # Errors
    /// If the runtime is shutting down.
    pub async fn readable(&self) -> io::Result<()> {
        self.io.readable().await
    }

    /// Waits until the socket is writable, after [`try_send`](Self::try_send) returned that it would block.
    ///
    /// # Errors
    /// If the runtime is shutting down.
    pub async fn writable(&self) -> io::Result<()> {
        self.io.writable().await
    }

    /// As [`readable`](Self::readable), for one task that polls many sockets; the last waker is woken.
    ///
    /// # Errors
    /// If the runtime is shutting down.
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_recv_ready(context)
    }

    /// As [`writable`](Self::writable), for one task that polls many sockets; the last waker is woken.
    ///
    /// # Errors
    /// If the runtime is shutting down.
    pub fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_send_ready(context)
    }
}

/// Enables what the system offers for large batches.
#[cfg(all(target_os = "linux", not(manyway_portable)))]
pub(super) fn offload_state(socket: &impl std::os::fd::AsFd) -> io::Result<UdpSocketState> {
    let state = UdpSocketState::new(UdpSockRef::from(socket))?;
    // quinn-udp 0.6.3 also requests a timestamp for each datagram. Together with the segment size it fills the room for
    // control messages (96 bytes), the kernel drops the last one, and that is the ECN mark.
    nix::sys::socket::setsockopt(socket, nix::sys::socket::sockopt::ReceiveTimestampns, &false)?;
    Ok(state)
}

/// Linux without receive offload.
#[cfg(all(target_os = "linux", manyway_portable))]
pub(super) fn offload_state(socket: &impl std::os::fd::AsFd) -> io::Result<UdpSocketState> {
    use nix::sys::socket::{setsockopt, sockopt};
    let state = UdpSocketState::new(UdpSockRef::from(socket))?;
    setsockopt(socket, sockopt::ReceiveTimestampns, &false)?;
    setsockopt(socket, sockopt::UdpGroSegment, &false)?;
    Ok(state)
}

/// Enables what the system offers for large batches.
#[cfg(not(target_os = "linux"))]
pub(super) fn offload_state<'s, S>(socket: &'s S) -> io::Result<UdpSocketState>
where
    UdpSockRef<'s>: From<&'s S>,
{
    UdpSocketState::new(UdpSockRef::from(socket))
}

/// Requests large buffers; above the system's limit only root gets them, others get the limit.
fn enlarge_buffers(socket: &Socket, options: &BindOptions) {
    #[cfg(target_os = "linux")]
    let (receive_done, send_done) = {
        use nix::sys::socket::{setsockopt, sockopt};
        (
            setsockopt(socket, sockopt::RcvBufForce, &options.buffers.receive).is_ok(),
            setsockopt(socket, sockopt::SndBufForce, &options.buffers.send).is_ok(),
        )
    };
    #[cfg(not(target_os = "linux"))]
    let (receive_done, send_done) = (false, false);
    // Refusal is no failure: the capabilities report the granted size.
    if !receive_done && let Err(error) = socket.set_recv_buffer_size(options.buffers.receive) {
        tracing::debug!(reason = %error, "receive buffer not enlarged");
    }
    if !send_done && let Err(error) = socket.set_send_buffer_size(options.buffers.send) {
        tracing::debug!(reason = %error, "send buffer not enlarged");
    }
}

/// The step at which opening a socket failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindStep {
    /// Creating the socket: the family may be disabled, or too many files are open.
    Open,
    /// Binding the address and port.
    Bind,
    /// Setting or reading an option.
    Configure,
    /// Registering the socket with the runtime.
    Register,
}

/// A socket could not be opened.
#[derive(Debug)]
pub struct BindError {
    /// The address to bind.
    pub local: LocalAddress,
    /// The step that failed.
    pub step: BindStep,
    /// The system's reason.
    pub source: io::Error,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (local, source) = (self.local, &self.source);
        match (self.step, source.kind()) {
            (BindStep::Bind, io::ErrorKind::AddrInUse) => {
                write!(f, "the UDP port of {local} is taken: another program has it")
            }
            (BindStep::Bind, io::ErrorKind::AddrNotAvailable) => {
                write!(
                    f,
                    "this host does not have the address of {local}; `ip -brief address` lists those it has"
                )
            }
            (BindStep::Bind, io::ErrorKind::PermissionDenied) => {
                write!(
                    f,
                    "cannot bind {local}: {source}; ports below 1024 require root or CAP_NET_BIND_SERVICE"
                )
            }
            (BindStep::Bind, _) => write!(f, "{local} could not be bound: {source}"),
            (BindStep::Open, _) => write!(f, "no UDP socket for {local}: {source}"),
            (BindStep::Configure, _) => {
                write!(f, "the UDP socket for {local} could not be configured: {source}")
            }
            (BindStep::Register, _) => write!(f, "the UDP socket for {local} could not be watched: {source}"),
        }
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}
