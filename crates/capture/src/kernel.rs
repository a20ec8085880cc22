//! Everything of this crate that the compiler cannot check.
#![expect(unsafe_code, reason = "calls to the kernel without a safe form in the libraries")]

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::fs::{Mode, OFlags};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::ioctl::{Setter, ioctl, opcode};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use tokio::io::unix::AsyncFd;

/// Moves this process into new user, network and mount namespaces. It must have one thread.
pub(crate) fn enter_namespaces() -> io::Result<()> {
    let flags = UnshareFlags::NEWUSER | UnshareFlags::NEWNET | UnshareFlags::NEWNS;
    // SAFETY: of the flags, only `FILES` touches anything that Rust code relies on: the table of file descriptors.
    Ok(unsafe { unshare_unsafe(flags) }?)
}

/// Creates a TUN device of this name, at most 15 letters, in the network namespace of this process. Each read and write
/// of the descriptor is one IP packet, without blocking; the device is removed with the last copy of it.
///
/// # Errors
/// The process lacks the right, there is no `/dev/net/tun`, or another process has a device of this name.
pub fn open_tun(name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let device = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
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

/// Lets a child process inherit a descriptor under the same number, and no other one: this process keeps it closed to
/// other children. The caller keeps it open until the child is started.
pub(crate) fn inherit(command: &mut Command, descriptor: BorrowedFd<'_>) {
    let number = descriptor.as_raw_fd();
    // SAFETY: the closure runs between `fork` and `exec` and makes one system call, which is allowed there. The
    // descriptor is open then, since the caller keeps it.
    unsafe {
        command.pre_exec(move || {
            let descriptor = BorrowedFd::borrow_raw(number);
            Ok(fcntl_setfd(descriptor, FdFlags::empty())?)
        });
    }
}

/// Takes a descriptor that [`inherit`] has left to this process; the command will not get it. It must be called once.
pub(crate) fn take_inherited(number: &OsStr) -> Option<OwnedFd> {
    let number: RawFd = number.to_str()?.parse().ok().filter(|number| *number > 2)?;
    // SAFETY: the number is borrowed for a system call that fails if it is not open.
    fcntl_setfd(unsafe { BorrowedFd::borrow_raw(number) }, FdFlags::CLOEXEC).ok()?;
    // SAFETY: it is open, as the call before has shown. Nothing in this process owns it: it was opened by the parent
    // process for this purpose, and this function runs once, before the program opens anything.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Registers a descriptor with the runtime.
pub(crate) fn register(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` stays the same and open until it is dropped, and nothing takes it out of the result.
    Ok(unsafe { AsyncFd::register(descriptor) }?)
}
