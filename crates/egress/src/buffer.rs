//! The receive buffer of a socket for datagrams of other programs.

use socket2::SockRef;

/// Asks the system for a receive buffer of 1 MiB: a program, or a network, sends datagrams in bursts, and a burst that finds
/// no room is lost before it has begun its way. Above the system's limit (`net.core.rmem_max`) only a privileged process
/// gets it, others get the limit. It costs memory only while datagrams wait.
pub fn enlarge_receive_buffer<'s, S>(socket: &'s S)
where
    SockRef<'s>: From<&'s S>,
{
    let socket = SockRef::from(socket);
    #[cfg(target_os = "linux")]
    if nix::sys::socket::setsockopt(&*socket, nix::sys::socket::sockopt::RcvBufForce, &BUFFER).is_ok() {
        return;
    }
    if let Err(error) = socket.set_recv_buffer_size(BUFFER) {
        tracing::debug!(%error, "the system enlarges no receive buffer");
    }
}

/// In bytes: 300 Mbit/s for 28 ms, which Linux counts with the overhead of packets as about half.
const BUFFER: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn a_socket_has_more_room_than_by_default() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let size = || SockRef::from(&socket).recv_buffer_size().unwrap();
        let before = size();
        enlarge_receive_buffer(&socket);
        assert!(size() > before, "{before} bytes before, {} after", size());
    }
}
