//! What a download needs from the host: interfaces, and connections that leave through one of them.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpStream;

/// An interface that leads to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name, by which it is known.
    pub name: String,
    /// Its addresses, best first.
    pub addresses: Vec<IpAddr>,
    /// Whether it is used only when no other delivers.
    pub is_backup: bool,
}

/// The interfaces of this host.
pub trait Network: fmt::Debug + Send + Sync + 'static {
    /// The interfaces that lead to at least one of these addresses at the moment.
    fn interfaces(&self, remotes: &[SocketAddr]) -> Vec<Interface>;

    /// Why an interface does not lead there, for an error; empty if there is nothing to say.
    fn explain(&self, remotes: &[SocketAddr]) -> String;

    /// Waits until the interfaces may have changed.
    fn changed(&self) -> impl Future<Output = ()> + Send;

    /// Connects through the interface from one of its addresses.
    ///
    /// # Errors
    /// The system's.
    fn connect(
        &self,
        interface: &str,
        local: IpAddr,
        remote: SocketAddr,
    ) -> impl Future<Output = io::Result<TcpStream>> + Send;
}

/// A rate limit of all interfaces together.
pub trait Limit: fmt::Debug + Send + Sync {
    /// How long to wait before the next bytes are read; `None` if they may be read now.
    fn wait(&self) -> Option<Duration>;
    /// So many bytes were read.
    fn spend(&self, bytes: usize);
}
