//! Reports the state of a server or a tunnel to a service manager, as `sd_notify(3)` describes it.

use std::ffi::OsStr;
use std::os::unix::net::UnixDatagram;

/// The reported state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// Clients can connect, or the tunnel carries traffic.
    Ready,
    /// The server is ending in order.
    Stopping,
}

/// Reports to the manager that started this process, if it set `NOTIFY_SOCKET`.
pub fn tell(notice: Notice) {
    if let Some(socket) = std::env::var_os("NOTIFY_SOCKET")
        && let Err(error) = send(&socket, notice)
    {
        tracing::warn!(reason = %error, "the service manager was not told");
    }
}

fn send(socket: &OsStr, notice: Notice) -> std::io::Result<()> {
    let text: &[u8] = match notice {
        Notice::Ready => b"READY=1",
        Notice::Stopping => b"STOPPING=1",
    };
    let sender = UnixDatagram::unbound()?;
    #[cfg(target_os = "linux")]
    if let Some(name) = socket.as_encoded_bytes().strip_prefix(b"@") {
        use std::os::linux::net::SocketAddrExt as _;
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
        return sender.send_to_addr(text, &address).map(drop);
    }
    sender.send_to(text, socket).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_arrives_at_the_socket_of_the_manager() {
        let place = tempfile::TempDir::new().unwrap();
        let path = place.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str(), Notice::Ready).unwrap();
        send(path.as_os_str(), Notice::Stopping).unwrap();
        let mut buffer = [0; 64];
        for expected in [&b"READY=1"[..], b"STOPPING=1"] {
            let length = manager.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], expected);
        }
        assert!(send(OsStr::new("/no/such/socket"), Notice::Ready).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_abstract_socket_works_too() {
        use std::os::linux::net::SocketAddrExt as _;
        let name = format!("manyway-test-{}", std::process::id());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        send(OsStr::new(&format!("@{name}")), Notice::Ready).unwrap();
        let mut buffer = [0; 64];
        assert_eq!(manager.recv(&mut buffer).unwrap(), 7);
    }
}
