//! quinn, over tokio and rustls with aws-lc-rs.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::rustls::crypto::{CryptoProvider, aws_lc_rs};
use quinn::rustls::pki_types::pem::PemObject as _;
use quinn::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use quinn::rustls::version::TLS13;
use quinn::rustls::{self, RootCertStore};
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, MtuDiscoveryConfig, ServerConfig,
    TokioRuntime, TransportConfig, WriteError,
};
use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::flow::{
    Announcement, Arrivals, CONFIRMATION, Departures, Failure, Fetched, Identity, NAME, Received, Sent,
    Served,
};
use crate::network::{IDLE, LARGE_WINDOW, WINDOW, any_socket, payload, socket};
use crate::order::Order;

pub fn receive(address: SocketAddr, identity: &Identity) -> Result<Received, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = server(address, identity, None)?;
        let connection = server.accept().await.ok_or("the endpoint is closed")?.await?;
        take(&connection).await
    })
}

pub fn send(to: &Announcement, duration: Duration) -> Result<Sent, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let endpoint = endpoint(any_socket(to.address)?, None)?;
        let config = client(to, transport(to.address)?)?;
        let connection = endpoint.connect_with(config, to.address, NAME)?.await?;
        let sent = give(&connection, duration).await;
        endpoint.wait_idle().await;
        sent
    })
}

/// As a server sends a download over any links, until the client closes: the MTU is searched for, and the windows are no limit.
pub fn serve(address: SocketAddr, identity: &Identity, duration: Duration) -> Result<Served, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = server(address, identity, Some(duration))?;
        let connection = server.accept().await.ok_or("the endpoint is closed")?.await?;
        let mut stream = connection.open_uni().await?;
        let departures = Departures::begin(duration + IDLE)?;
        let mut path = connection.stats().path;
        while let Some(piece) = departures.piece() {
            match stream.write_chunk(piece).await {
                Ok(()) => path = connection.stats().path,
                Err(WriteError::ConnectionLost(ConnectionError::ApplicationClosed(_))) => {
                    return Ok(Served { packets: path.sent_packets, lost: path.lost_packets });
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err("the client has not closed".into())
    })
}

/// Fetches what [`serve`] sends for the time that it announces, at another address if something in between has its own.
pub fn fetch(from: &Announcement, at: Option<SocketAddr>) -> Result<Fetched, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let duration = Duration::try_from_secs_f64(from.seconds.ok_or("this is no line of `serve`")?)?;
        let address = at.unwrap_or(from.address);
        let endpoint = endpoint(any_socket(address)?, None)?;
        let (order, mut transport) = (Order::default(), transport_over_links()?);
        transport.qlog_stream(order.log());
        let config = client(from, transport.into())?;
        let connection = endpoint.connect_with(config, address, NAME)?.await?;
        let mut stream = connection.accept_uni().await?;
        let mut arrivals = Arrivals::begin();
        let mut pieces: [Bytes; PIECES] = std::array::from_fn(|_| Bytes::new());
        let reading = async {
            while let Some(count) = stream.read_chunks(&mut pieces).await? {
                arrivals.add(pieces.iter().take(count).map(Bytes::len).sum());
            }
            Ok::<_, Failure>(())
        };
        if let Ok(ended) = timeout(duration, reading).await {
            ended?;
            return Err("the server has ended the stream".into());
        }
        let fetched = Fetched { received: arrivals.report(), packets: order.packets() };
        connection.close(0u32.into(), &[]);
        endpoint.wait_idle().await;
        Ok(fetched)
    })
}

/// Listens, and announces where; `serves` is how long it will send, if it does.
fn server(address: SocketAddr, identity: &Identity, serves: Option<Duration>) -> Result<Endpoint, Failure> {
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes())?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?;
    let tls = rustls::ServerConfig::builder_with_provider(crypto())
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(if serves.is_some() {
        transport_over_links()?.into()
    } else {
        transport(address)?
    });
    let endpoint = endpoint(socket(address)?, Some(config))?;
    Announcement::make(endpoint.local_addr()?, identity, serves)?;
    Ok(endpoint)
}

fn client(to: &Announcement, transport: Arc<TransportConfig>) -> Result<ClientConfig, Failure> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(to.certificate.as_bytes())?)?;
    let tls = rustls::ClientConfig::builder_with_provider(crypto())
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(transport);
    Ok(config)
}

/// Receives the stream of the peer, until the peer has closed.
async fn take(connection: &Connection) -> Result<Received, Failure> {
    let mut arrivals = Arrivals::begin();
    let (mut back, mut stream) = connection.accept_bi().await?;
    let mut pieces: [Bytes; PIECES] = std::array::from_fn(|_| Bytes::new());
    while let Some(count) = stream.read_chunks(&mut pieces).await? {
        arrivals.add(pieces.iter().take(count).map(Bytes::len).sum());
    }
    let report = arrivals.report();
    back.write_chunk(arrivals.confirmation()).await?;
    back.finish()?;
    // The sender closes once it has the confirmation.
    connection.closed().await;
    Ok(report)
}

/// Sends a stream for a time, and closes.
async fn give(connection: &Connection, duration: Duration) -> Result<Sent, Failure> {
    let (mut stream, mut back) = connection.open_bi().await?;
    let mut departures = Departures::begin(duration)?;
    while let Some(piece) = departures.piece() {
        departures.add(piece.len());
        stream.write_chunk(piece).await?;
    }
    stream.finish()?;
    let report = departures.report(&back.read_to_end(CONFIRMATION).await?);
    connection.close(0u32.into(), &[]);
    report
}

fn endpoint(socket: UdpSocket, config: Option<ServerConfig>) -> Result<Endpoint, Failure> {
    Ok(Endpoint::new(EndpointConfig::default(), config, socket, Arc::new(TokioRuntime))?)
}

/// AES-128 before AES-256, as Manyway has it, and s2n-quic by itself.
fn crypto() -> Arc<CryptoProvider> {
    use aws_lc_rs::cipher_suite::{TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384};
    let cipher_suites = vec![TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384];
    Arc::new(CryptoProvider { cipher_suites, ..aws_lc_rs::default_provider() })
}

/// GSO is on by default.
fn transport(address: SocketAddr) -> Result<Arc<TransportConfig>, Failure> {
    let mut search = MtuDiscoveryConfig::default();
    search.upper_bound(payload(address));
    let mut transport = TransportConfig::default();
    transport
        .initial_mtu(payload(address))
        .mtu_discovery_config(Some(search))
        .stream_receive_window(WINDOW.into())
        .receive_window(WINDOW.into())
        .send_window(WINDOW.into())
        .max_idle_timeout(Some(IDLE.try_into()?));
    Ok(Arc::new(transport))
}

/// The defaults, with more room than any of the links has in flight.
fn transport_over_links() -> Result<TransportConfig, Failure> {
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(LARGE_WINDOW.into())
        .receive_window(LARGE_WINDOW.into())
        .send_window(LARGE_WINDOW.into())
        .max_idle_timeout(Some(IDLE.try_into()?));
    Ok(transport)
}

/// Most chunks of one read.
const PIECES: usize = 64;
