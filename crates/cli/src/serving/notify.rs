//! Tells a service manager how the server is, as `sd_notify(3)` describes it.

use std::ffi::OsStr;
use std::os::unix::net::UnixDatagram;

/// What the manager is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// Clients can connect.
    Ready,
    /// The server is ending in order.
    Stopping,
}

/// Tells the manager that started this process, if it asked for that by `NOTIFY_SOCKET`.
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
    fn a_manager_hears_of_it_at_its_socket() {
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
    fn a_socket_without_a_file_is_found_too() {
        use std::os::linux::net::SocketAddrExt as _;
        let name = format!("manyway-test-{}", std::process::id());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        send(OsStr::new(&format!("@{name}")), Notice::Ready).unwrap();
        let mut buffer = [0; 64];
        assert_eq!(manager.recv(&mut buffer).unwrap(), 7);
    }
}
