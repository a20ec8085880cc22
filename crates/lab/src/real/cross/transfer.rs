//! What a flow sends, and what arrives.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener, TcpStream as StdStream, UdpSocket as StdUdp};
use std::time::Duration;

use manyway_proto::Rate;
use manyway_sim::pair::Direction;
use socket2::{SockRef, Socket};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, UdpSocket};
use tokio::time::{Instant, sleep, sleep_until};

/// Bytes of one write, and most of one read.
const WRITE: usize = 64 << 10;
const READ: usize = 256 << 10;
/// Pause between two greetings of a client that is to receive datagrams.
const GREETING: Duration = Duration::from_secs(1);

/// Datagrams at a constant rate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// Of whole IP packets.
    pub(super) rate: Rate,
    /// Bytes of an IP packet.
    pub(super) packet: u16,
}

/// Connects and sends over TCP without end; `note` gets the lengths of what arrives. Dropping it resets the connection,
/// so that the system sends nothing of its buffers afterwards.
pub(super) async fn stream(
    (client, listener, server): (Socket, StdListener, SocketAddr),
    direction: Direction,
    note: impl Fn(usize),
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let client = TcpSocket::from_std_stream(StdStream::from(client));
    let ((server, _), client) = tokio::try_join!(listener.accept(), client.connect(server))?;
    for stream in [&client, &server] {
        SockRef::from(stream).set_linger(Some(Duration::ZERO))?;
    }
    let (mut from, mut to) = if direction == Direction::Down { (server, client) } else { (client, server) };
    let send = async {
        let filler = vec![0; WRITE];
        loop {
            from.write_all(&filler).await?;
        }
    };
    let receive = async {
        let mut buffer = vec![0; READ];
        loop {
            match to.read(&mut buffer).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length => note(length),
            }
        }
    };
    tokio::select! {
        result = send => result,
        result = receive => result,
    }
}

/// Sends datagrams without end; `note` gets the lengths of those that arrive.
pub(super) async fn datagrams(
    (client, server, address): (StdUdp, StdUdp, SocketAddr),
    direction: Direction,
    load: Load,
    note: impl Fn(usize),
) -> io::Result<()> {
    let (client, server) = (UdpSocket::from_std(client)?, UdpSocket::from_std(server)?);
    client.connect(address).await?;
    let (from, to) = if direction == Direction::Down {
        // The server learns the client's address, behind a NAT, too.
        let greet = async {
            loop {
                let _ = client.send(&[]).await;
                sleep(GREETING).await;
            }
        };
        let (_, peer) = tokio::select! {
            found = server.recv_from(&mut []) => found?,
            never = greet => never,
        };
        server.connect(peer).await?;
        (server, client)
    } else {
        (client, server)
    };
    let headers = if address.is_ipv4() { 28 } else { 48 };
    let payload = vec![0; usize::from(load.packet).saturating_sub(headers)];
    let send = async {
        let (begin, mut number) = (Instant::now(), 0);
        loop {
            sleep_until(begin + load.after(number)).await;
            // A datagram that the system refuses is a lost one.
            let _ = from.send(&payload).await;
            number += 1;
        }
    };
    let receive = async {
        let mut buffer = vec![0; READ];
        loop {
            match to.recv(&mut buffer).await {
                Ok(length) => note(length),
                // The answer to an earlier datagram.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error),
            }
        }
    };
    tokio::select! {
        () = send => Ok(()),
        result = receive => result,
    }
}

impl Load {
    /// When a datagram leaves after the first, by its number.
    fn after(&self, number: u64) -> Duration {
        let nanos = u128::from(number) * u128::from(self.packet) * 1_000_000_000;
        let nanos = nanos / u128::from(self.rate.bytes_per_second().max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}
