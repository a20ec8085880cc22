//! Binds a socket to an interface, so that its packets leave there whatever the routes say.

use std::io;

use manyway_proto::LocalAddress;
use socket2::Socket;

/// Whether a socket is bound to its interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceBinding {
    /// No interface was named.
    NotRequested,
    /// All packets leave through the interface.
    Bound,
    /// Only the address is bound: the system's routes choose the interface.
    Refused {
        /// The system's reason.
        reason: String,
    },
}

/// Marks the packets of a socket, so that rules of this machine tell them from others.
///
/// # Errors
/// That needs Linux with `CAP_NET_ADMIN`.
#[cfg(all(target_os = "linux", not(manyway_portable)))]
pub(crate) fn set_mark(socket: &Socket, mark: Option<u32>) -> io::Result<()> {
    mark.map_or(Ok(()), |mark| socket.set_mark(mark))
}

#[cfg(any(manyway_portable, not(target_os = "linux")))]
pub(crate) fn set_mark(_: &Socket, mark: Option<u32>) -> io::Result<()> {
    mark.map_or(Ok(()), |_| Err(io::ErrorKind::Unsupported.into()))
}

/// Binds the socket to the interface. Since Linux 5.7 that needs no privilege.
pub(crate) fn bind_device(socket: &Socket, local: LocalAddress) -> DeviceBinding {
    if local.interface == 0 {
        return DeviceBinding::NotRequested;
    }
    match bind_device_by_index(socket, local) {
        Ok(()) => DeviceBinding::Bound,
        Err(error) => DeviceBinding::Refused { reason: error.to_string() },
    }
}

#[cfg(all(target_os = "linux", not(manyway_portable)))]
fn bind_device_by_index(socket: &Socket, local: LocalAddress) -> io::Result<()> {
    let name = nix::net::if_::if_indextoname(local.interface)?;
    if name.is_empty() {
        // nix does not notice that there is no such interface, and the empty name would mean "any".
        return Err(nix::errno::Errno::ENODEV.into());
    }
    socket.bind_device(Some(name.to_bytes()))
}

#[cfg(all(target_vendor = "apple", not(manyway_portable)))]
fn bind_device_by_index(socket: &Socket, local: LocalAddress) -> io::Result<()> {
    let index = std::num::NonZeroU32::new(local.interface);
    if local.address.is_ipv4() {
        socket.bind_device_by_index_v4(index)
    } else {
        socket.bind_device_by_index_v6(index)
    }
}

#[cfg(any(manyway_portable, not(any(target_os = "linux", target_vendor = "apple"))))]
fn bind_device_by_index(_: &Socket, _: LocalAddress) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "not possible on this system"))
}
