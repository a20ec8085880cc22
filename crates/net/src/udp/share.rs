//! Several sockets on one port, among which the system divides datagrams by their connection IDs.

use std::io;

#[cfg(all(target_os = "linux", not(manyway_portable)))]
use manyway_proto::Shard;
use socket2::Socket;

/// Whether the system can divide the datagrams of a port among sockets.
///
/// # Errors
/// Why it cannot.
pub(crate) fn check() -> io::Result<()> {
    let socket = Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, Some(socket2::Protocol::UDP))?;
    permit(&socket)?;
    divide(&socket, 2)
}

/// Lets other sockets of this user share the port that the socket is about to be bound to.
#[cfg(all(target_os = "linux", not(manyway_portable)))]
pub(super) fn permit(socket: &Socket) -> io::Result<()> {
    socket.set_reuse_port(true)
}

/// Divides the datagrams of a port among the `count` sockets that share it, in the order in which they are bound; this is
/// one of them. A socket that does so before it is bound could not join others.
#[cfg(all(target_os = "linux", not(manyway_portable)))]
pub(super) fn divide(socket: &Socket, count: usize) -> io::Result<()> {
    use nix::libc;
    use nix::sys::socket::{setsockopt, sockopt};

    let mut program = filter(count);
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).unwrap_or(u16::MAX),
        filter: program.as_mut_ptr(),
    };
    Ok(setsockopt(socket, sockopt::AttachReusePortCbpf, &program)?)
}

#[cfg(not(all(target_os = "linux", not(manyway_portable))))]
pub(super) fn permit(_: &Socket) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(all(target_os = "linux", not(manyway_portable))))]
pub(super) fn divide(_: &Socket, _: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The same as [`Shard::of_datagram`] as a classic BPF program: it returns the index of the socket. A load beyond the end
/// of the datagram ends it with 0.
#[cfg(all(target_os = "linux", not(manyway_portable)))]
fn filter(count: usize) -> [nix::libc::sock_filter; 11] {
    use nix::libc;

    const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
    const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
    const IF_GREATER_OR_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
    const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const GO_TO: u32 = libc::BPF_JMP | libc::BPF_JA;
    const MODULO: u32 = libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_A;
    let step = |code: u32, (jt, jf): (u8, u8), k: usize| libc::sock_filter {
        code: u16::try_from(code).unwrap_or_default(),
        jt,
        jf,
        k: u32::try_from(k).unwrap_or_default(),
    };
    [
        step(LOAD_BYTE, (0, 0), 0),
        step(IF_GREATER_OR_EQUAL, (0, 2), 0x80),
        step(LOAD_BYTE, (0, 0), Shard::IN_LONG_HEADER),
        step(GO_TO, (0, 0), 5),
        step(LOAD_HALF, (0, 0), 0),
        step(IF_EQUAL, (2, 0), 0),
        step(LOAD_BYTE, (0, 0), Shard::IN_SHORT_HEADER),
        step(GO_TO, (0, 0), 1),
        step(LOAD_BYTE, (0, 0), Shard::IN_RENDEZVOUS),
        step(MODULO, (0, 0), count),
        step(RETURN, (0, 0), 0),
    ]
}
