//! s2n-quic, over tokio and its default TLS, which is s2n-tls with aws-lc.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use bytes::Bytes;
use s2n_quic::client::Connect;
use s2n_quic::provider::{io, limits};
use s2n_quic::{Client, Server};
use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::flow::{Announcement, Arrivals, Departures, Failure, Identity, NAME, Received, Sent};
use crate::network::{IDLE, MTU, WINDOW, any_socket, socket};

pub fn receive(address: SocketAddr, identity: &Identity) -> Result<Received, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut server = Server::builder()
            .with_tls((identity.certificate.as_str(), identity.key.as_str()))?
            .with_io(sockets(socket(address)?)?)?
            .with_limits(limits()?)?
            .start()?;
        Announcement::make(server.local_addr()?, identity, None)?;
        let mut connection = server.accept().await.ok_or("the server is closed")?;
        let mut arrivals = Arrivals::begin();
        let stream = connection.accept_bidirectional_stream().await?.ok_or("no stream came")?;
        let (mut stream, mut back) = stream.split();
        let mut pieces: [Bytes; PIECES] = std::array::from_fn(|_| Bytes::new());
        loop {
            let (count, is_open) = stream.receive_vectored(&mut pieces).await?;
            let bytes = pieces.iter_mut().take(count).map(|piece| std::mem::take(piece).len()).sum();
            if bytes > 0 {
                arrivals.add(bytes);
            }
            if !is_open {
                break;
            }
        }
        let report = arrivals.report();
        back.send(arrivals.confirmation()).await?;
        back.finish()?;
        // The sender closes once it has the confirmation; an error here is that end.
        drop(timeout(IDLE, connection.accept_bidirectional_stream()).await);
        Ok(report)
    })
}

pub fn send(to: &Announcement, duration: Duration) -> Result<Sent, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut client = Client::builder()
            .with_tls(to.certificate.as_str())?
            .with_io(sockets(any_socket(to.address)?)?)?
            .with_limits(limits()?)?
            .start()?;
        let mut connection = client.connect(Connect::new(to.address).with_server_name(NAME)).await?;
        let (mut back, mut stream) = connection.open_bidirectional_stream().await?.split();
        let mut departures = Departures::begin(duration)?;
        while let Some(piece) = departures.piece() {
            departures.add(piece.len());
            stream.send(piece).await?;
        }
        stream.finish()?;
        let mut confirmation = Vec::new();
        while let Some(bytes) = back.receive().await? {
            confirmation.extend_from_slice(&bytes);
        }
        let report = departures.report(&confirmation);
        connection.close(0u32.into());
        drop(timeout(IDLE, client.wait_idle()).await);
        report
    })
}

/// GSO and GRO are on by default.
fn sockets(socket: UdpSocket) -> Result<io::tokio::Provider, Failure> {
    let builder = io::tokio::Builder::default().with_rx_socket(socket)?;
    Ok(builder.with_max_mtu(MTU)?.with_initial_mtu(MTU)?.build()?)
}

fn limits() -> Result<limits::Limits, Failure> {
    Ok(limits::Limits::new()
        .with_data_window(WINDOW.into())?
        .with_bidirectional_local_data_window(WINDOW.into())?
        .with_bidirectional_remote_data_window(WINDOW.into())?
        .with_max_send_buffer_size(WINDOW)?
        .with_max_idle_timeout(IDLE)?)
}

/// Most chunks of one read.
const PIECES: usize = 64;
