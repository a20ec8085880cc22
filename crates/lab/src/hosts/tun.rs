//! Opens TUN devices: the only place that passes a raw pointer to the kernel.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{Setter, ioctl, opcode};

/// Creates a TUN device of this name, at most 15 letters, in the network namespace of the calling thread. Each read and
/// write of the descriptor is one non-blocking IP packet; the device is removed with the last copy of it.
pub(super) fn open(name: &str) -> io::Result<OwnedFd> {
    let device =
        rustix::fs::open("/dev/net/tun", OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    let mut request = InterfaceRequest { name: [0; 16], flags: IFF_TUN | IFF_NO_PI, rest: [0; 22] };
    let (_, place) = request.name.split_last_mut().ok_or(io::ErrorKind::InvalidInput)?;
    if name.len() > place.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    place.iter_mut().zip(name.bytes()).for_each(|(place, byte)| *place = byte);
    // SAFETY: TUNSETIFF reads a `struct ifreq` (40 bytes, the name terminated by a zero) and keeps no pointer to it;
    // `InterfaceRequest` has that size and layout.
    unsafe {
        let set = Setter::<TUNSETIFF, InterfaceRequest>::new(request);
        ioctl(&device, set)?;
    }
    Ok(device)
}

/// `struct ifreq` of the kernel with its flags, from `linux/if.h`.
#[derive(Debug)]
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

const _: () = assert!(size_of::<InterfaceRequest>() == 40);

/// From `linux/if_tun.h`.
const TUNSETIFF: rustix::ioctl::Opcode = opcode::write::<i32>(b'T', 202);
const IFF_TUN: u16 = 0x0001;
/// No bytes before the IP header.
const IFF_NO_PI: u16 = 0x1000;
