//! One connection to the server: TCP through an interface, TLS, and requests of HTTP/1.1.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::{self, HeaderName};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use crate::counted::Counted;
use crate::error::Fault;
use crate::figures::{Figures, InterfaceState};
use crate::network::{Interface, Network};
use crate::tag::StrongTag;
use crate::target::WebAddress;

/// Most bytes of the head of a response, and of a read.
const BUFFER: usize = 128 * 1024;
/// A further pair of addresses is tried after this time (RFC 8305, section 5).
const STAGGER: Duration = Duration::from_millis(250);
/// Most pairs of addresses of an interface that are tried.
const MOST_PAIRS: usize = 6;
const USER_AGENT: &str = concat!("manyway/", env!("CARGO_PKG_VERSION"));

/// How connections to a server are made.
#[derive(Debug)]
pub(crate) struct Dialler<N> {
    pub(crate) network: Arc<N>,
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) figures: Figures,
    /// How long a connection, and then the head of a response, may take.
    pub(crate) patience: Duration,
}

/// A connection that can carry one request after another.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: SendRequest<Empty<Bytes>>,
    task: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<N: Network> Dialler<N> {
    /// Connects to the server through an interface, to whichever of its addresses answers first.
    pub(crate) async fn open(
        &self,
        interface: &Interface,
        address: &WebAddress,
        remotes: &[SocketAddr],
    ) -> Result<Connection, Fault> {
        self.figures.set_state(&interface.name, InterfaceState::Connecting);
        let opening = async {
            let stream = self.connect(interface, remotes).await?;
            let stream = Counted::new(stream, self.figures.counter(&interface.name));
            if !address.is_encrypted() {
                return start(stream).await;
            }
            let name = ServerName::try_from(address.host().to_owned())
                .map_err(|_| Fault::Unfit(format!("{} is no name for a certificate", address.host())))?;
            let encrypted = TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await;
            start(encrypted.map_err(of_tls)?).await
        };
        let patience = self.patience;
        timeout(patience, opening).await.unwrap_or_else(|_| Err(no_answer(patience)))
    }

    async fn connect(&self, interface: &Interface, remotes: &[SocketAddr]) -> Result<TcpStream, Fault> {
        let mut pairs = pairs(interface, remotes).into_iter();
        let mut attempts = JoinSet::new();
        let mut last = None;
        loop {
            if let Some((local, remote)) = pairs.next() {
                let (network, name) = (Arc::clone(&self.network), interface.name.clone());
                self.figures.attempts(&name, (local, remote));
                attempts.spawn(async move {
                    let begun = Instant::now();
                    let stream = network.connect(&name, local, remote).await;
                    (stream, (local, remote), begun.elapsed())
                });
            }
            let next = if pairs.len() > 0 { STAGGER } else { self.patience };
            match timeout(next, attempts.join_next()).await {
                Ok(Some(Ok((Ok(stream), addresses, rtt)))) => {
                    self.figures.connected(&interface.name, addresses, rtt);
                    return Ok(stream);
                }
                Ok(Some(Ok((Err(error), ..)))) => last = Some(of_io("connecting", &error)),
                Ok(Some(Err(_))) => {}
                Ok(None) if pairs.len() == 0 => {
                    return Err(last.unwrap_or_else(|| Fault::Network("no address fits".to_owned())));
                }
                Ok(None) | Err(_) => {}
            }
        }
    }
}

/// The pairs of addresses of the same family, in the order of the server's, each with the interface's best one.
fn pairs(interface: &Interface, remotes: &[SocketAddr]) -> Vec<(IpAddr, SocketAddr)> {
    let local_for = |remote: &SocketAddr| {
        interface.addresses.iter().copied().find(|local| local.is_ipv4() == remote.is_ipv4())
    };
    let pairs = remotes.iter().filter_map(|remote| Some((local_for(remote)?, *remote)));
    pairs.take(MOST_PAIRS).collect()
}

async fn start(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Result<Connection, Fault> {
    let mut builder = Builder::new();
    builder.max_buf_size(BUFFER);
    let (sender, connection) = builder.handshake(TokioIo::new(io)).await.map_err(|error| of_http(&error))?;
    // A request that waits for its response gets the error of the connection.
    let task = tokio::spawn(async move { drop(connection.await) }).abort_handle();
    Ok(Connection { sender, task })
}

impl Connection {
    /// Whether it can carry no further request.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Asks for the file or some of its bytes, and waits for the head of the response.
    pub(crate) async fn get(
        &mut self,
        address: &WebAddress,
        bytes: Option<&Range<u64>>,
        only_if: Option<&StrongTag>,
        patience: Duration,
    ) -> Result<Response<Incoming>, Fault> {
        let request = request(address, bytes, only_if)?;
        let answering = async {
            self.sender.ready().await.map_err(|error| of_http(&error))?;
            self.sender.send_request(request).await.map_err(|error| of_http(&error))
        };
        timeout(patience, answering).await.unwrap_or_else(|_| Err(no_answer(patience)))
    }
}

fn request(
    address: &WebAddress,
    bytes: Option<&Range<u64>>,
    only_if: Option<&StrongTag>,
) -> Result<Request<Empty<Bytes>>, Fault> {
    let mut builder = Request::get(address.path_and_query())
        .header(header::HOST, address.authority())
        .header(header::USER_AGENT, USER_AGENT)
        .header(header::ACCEPT, "*/*")
        // Bytes of a compressed form would not be bytes of the file.
        .header(header::ACCEPT_ENCODING, "identity");
    let mut add = |name: HeaderName, value: Option<String>| {
        if let (Some(headers), Some(value)) =
            (builder.headers_mut(), value.and_then(|value| value.parse().ok()))
        {
            headers.insert(name, value);
        }
    };
    add(header::AUTHORIZATION, address.authorization());
    add(header::RANGE, bytes.map(|bytes| format!("bytes={}-{}", bytes.start, bytes.end.saturating_sub(1))));
    add(header::IF_RANGE, only_if.map(|tag| tag.as_str().to_owned()));
    builder.body(Empty::new()).map_err(|error| Fault::Unfit(format!("the request can not be made: {error}")))
}

/// A failure of the system in few words.
pub(crate) fn of_io(doing: &str, error: &io::Error) -> Fault {
    Fault::Network(format!("{doing}: {}", words(error)))
}

fn words(error: &io::Error) -> String {
    let text = error.to_string();
    // The system's number says nothing to people.
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

fn of_tls(error: io::Error) -> Fault {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(reason)) => Fault::Untrusted(reason.to_string()),
        Some(other) => Fault::Unfit(format!("TLS: {other}")),
        None => of_io("TLS", &error),
    }
}

/// A failure of a request or of its response.
pub(crate) fn of_http(error: &hyper::Error) -> Fault {
    if error.is_parse() {
        return Fault::Unfit(format!("the answer is not HTTP/1.1, or its head is too long: {error}"));
    }
    if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
        return Fault::Network("the server closed the connection early".to_owned());
    }
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    match source {
        Some(source) => Fault::Network(words(source)),
        None => Fault::Network(error.to_string()),
    }
}

fn no_answer(patience: Duration) -> Fault {
    Fault::Network(format!("no answer for {} s", patience.as_secs().max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_the_last_byte_and_the_version() {
        let address = WebAddress::parse("http://me:x@h:81/f?q").unwrap();
        let tag = StrongTag::parse("\"1\"").unwrap();
        let request = request(&address, Some(&(5..10)), Some(&tag)).unwrap();
        let header = |name: &str| request.headers().get(name).unwrap().to_str().unwrap().to_owned();
        assert_eq!(request.uri(), "/f?q");
        assert_eq!((header("range").as_str(), header("if-range").as_str()), ("bytes=5-9", "\"1\""));
        assert_eq!((header("host").as_str(), header("authorization").as_str()), ("h:81", "Basic bWU6eA=="));
    }

    #[test]
    fn addresses_are_paired_by_family() {
        let interface = Interface {
            name: "a".to_owned(),
            addresses: vec!["10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()],
            is_backup: false,
        };
        let remotes = ["[::1]:1", "192.0.2.1:1"].map(|text| text.parse().unwrap());
        assert_eq!(pairs(&interface, &remotes), [("10.0.0.1".parse().unwrap(), remotes[1])]);
    }
}
