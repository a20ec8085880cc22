//! A socket that sends to a service here, and takes nothing from others.

use std::cell::RefCell;
use std::io;
use std::iter::Cycle;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::vec::IntoIter;

use bytes::Bytes;
use manyway_egress::enlarge_receive_buffer;
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::super::listening::MAX_DATAGRAM;

/// A service that may have several addresses. Until it has answered, each error that nothing listens at one leads to the next
/// one, and from the last to the first.
#[derive(Debug)]
pub(super) struct Service {
    socket: UdpSocket,
    address: SocketAddr,
    /// As long as it has not answered.
    trial: Option<Trial>,
}

/// Addresses that are tried in turn.
#[derive(Debug)]
struct Trial {
    addresses: Cycle<IntoIter<SocketAddr>>,
    /// How many there are.
    number: usize,
    /// At how many more the last datagram is tried, so that each address gets it at most once.
    left: usize,
    last: Bytes,
}

impl Service {
    /// Takes the first address to which the system has a route.
    ///
    /// # Errors
    /// That of the last address.
    pub(super) async fn connect(addresses: Vec<SocketAddr>) -> io::Result<Self> {
        let number = addresses.len();
        let addresses = addresses.into_iter().cycle();
        let mut trial = Trial { addresses, number, left: number, last: Bytes::new() };
        let (socket, address) = trial.next().await?;
        Ok(Self { socket, address, trial: Some(trial) })
    }

    /// Where it is.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a datagram. What the system has no room for is lost.
    pub(super) async fn send(&mut self, payload: Bytes) {
        if let Some(trial) = &mut self.trial {
            trial.last = payload.clone();
            trial.left = trial.number.saturating_sub(1);
        }
        if let Err(error) = self.socket.send(&payload).await
            && !self.follow(&error).await
        {
            // The error is about an earlier datagram, and this one was not sent.
            let _ = self.socket.send(&payload).await;
        }
    }

    /// Takes the next datagram. May be cancelled; nothing is lost.
    pub(super) async fn receive(&mut self) -> Bytes {
        loop {
            // An error is not readable as a datagram is.
            let ready = self.socket.ready(Interest::READABLE | Interest::ERROR).await;
            if ready.is_ok_and(|ready| ready.is_error())
                && let Some(error) = take_error(&self.socket)
                && self.follow(&error).await
            {
                continue;
            }
            match take(&self.socket) {
                Ok(payload) => {
                    self.trial = None;
                    return payload;
                }
                Err(error) => drop(self.follow(&error).await),
            }
        }
    }

    /// Goes to the next address if an error tells that nothing listens at this one, and sends the last datagram there; returns
    /// whether it did.
    async fn follow(&mut self, error: &io::Error) -> bool {
        let is_away = matches!(
            error.kind(),
            io::ErrorKind::ConnectionRefused
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable
        );
        let Some(trial) = self.trial.as_mut().filter(|_| is_away) else { return false };
        let Ok((socket, address)) = trial.next().await else { return false };
        (self.socket, self.address) = (socket, address);
        let _ = self.socket.send(&trial.last).await;
        true
    }
}

impl Trial {
    /// A socket for the next address to which the system has a route.
    async fn next(&mut self) -> io::Result<(UdpSocket, SocketAddr)> {
        let mut failure = io::ErrorKind::NotFound.into();
        while let Some(left) = self.left.checked_sub(1)
            && let Some(address) = self.addresses.next()
        {
            self.left = left;
            match connected(address).await {
                Ok(socket) => return Ok((socket, address)),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }
}

async fn connected(address: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    enlarge_receive_buffer(&socket);
    socket.connect(address).await?;
    Ok(socket)
}

/// Takes the pending error, if there is one.
fn take_error(socket: &UdpSocket) -> Option<io::Error> {
    let taken = socket.try_io(Interest::ERROR, || match socket.take_error()? {
        Some(error) => Ok(error),
        None => Err(io::ErrorKind::WouldBlock.into()),
    });
    taken.ok()
}

/// Takes a datagram that has arrived.
fn take(socket: &UdpSocket) -> io::Result<Bytes> {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(MAX_DATAGRAM, 0);
        let length = socket.try_recv(buffer)?;
        Ok(Bytes::copy_from_slice(buffer.get(..length).unwrap_or_default()))
    })
}

thread_local! {
    /// One for all flows of a thread: few of them receive at the same time.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    /// An address at which nothing listens, and a service.
    fn both() -> ([SocketAddr; 2], UdpSocket) {
        let [gone, there] = [0; 2].map(|_| std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        let addresses = [&gone, &there].map(|socket| socket.local_addr().unwrap());
        there.set_nonblocking(true).unwrap();
        drop(gone);
        (addresses, UdpSocket::from_std(there).unwrap())
    }

    #[tokio::test]
    async fn a_service_at_the_second_address_gets_what_the_first_one_refused() {
        let (addresses, there) = both();
        let mut service = Service::connect(addresses.to_vec()).await.unwrap();
        service.send(Bytes::from_static(b"hello")).await;
        let mut buffer = [0; 9];
        let answering = async {
            let (length, peer) = there.recv_from(&mut buffer).await.unwrap();
            there.send_to(&buffer[..length], peer).await.unwrap();
        };
        let (payload, ()) = tokio::join!(service.receive(), answering);
        assert_eq!((&payload[..], service.address()), (&b"hello"[..], addresses[1]));
    }

    #[tokio::test]
    async fn a_service_that_starts_after_all_addresses_refused_gets_the_next_datagram() {
        let (addresses, there) = both();
        drop(there);
        let mut service = Service::connect(addresses.to_vec()).await.unwrap();
        service.send(Bytes::from_static(b"early")).await;
        while service.address() != addresses[1] {
            let _ = timeout(Duration::from_millis(10), service.receive()).await;
        }
        let there = UdpSocket::bind(addresses[0]).await.unwrap();
        service.send(Bytes::from_static(b"late")).await;
        let mut buffer = [0; 9];
        let answering = async {
            let (length, peer) = there.recv_from(&mut buffer).await.unwrap();
            there.send_to(&buffer[..length], peer).await.unwrap();
        };
        let both = timeout(Duration::from_secs(10), async { tokio::join!(service.receive(), answering) });
        let (payload, ()) = both.await.expect("the service gets the datagram");
        assert_eq!((&payload[..], service.address()), (&b"late"[..], addresses[0]));
    }

    #[tokio::test]
    async fn a_service_that_has_answered_keeps_its_address_when_it_restarts() {
        let ([gone, there], socket) = both();
        let mut service = Service::connect(vec![there, gone]).await.unwrap();
        service.send(Bytes::from_static(b"one")).await;
        let mut buffer = [0; 9];
        let (_, peer) = socket.recv_from(&mut buffer).await.unwrap();
        socket.send_to(b"two", peer).await.unwrap();
        assert_eq!(&service.receive().await[..], b"two");
        drop(socket);
        for _ in 0..3 {
            service.send(Bytes::from_static(b"three")).await;
        }
        let socket = UdpSocket::bind(there).await.unwrap();
        service.send(Bytes::from_static(b"four")).await;
        let (length, _) = socket.recv_from(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..length], b"four");
        assert_eq!(service.address(), there);
    }
}
