//! Finds the file: follows redirects, and learns its length, version and name from a request for its first byte.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{self, HeaderName};
use hyper::{Response, StatusCode};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::content_range::ContentRange;
use crate::error::{Fault, FetchError};
use crate::figures::InterfaceState;
use crate::http::{Connection, Dialler};
use crate::name::local_name;
use crate::network::{Interface, Network};
use crate::tag::{StrongTag, Tag};
use crate::target::WebAddress;

/// Most redirects that are followed.
const MOST_REDIRECTS: usize = 10;
/// After this time without an answer the next interface is asked, too.
const STAGGER: Duration = Duration::from_millis(300);
/// Most seconds for which a server is left alone because it says so.
const MOST_RETRY_AFTER: u64 = 60;

/// The file on the server.
#[derive(Debug)]
pub(crate) struct Located {
    /// Its address after all redirects.
    pub(crate) address: WebAddress,
    /// The addresses of its host.
    pub(crate) remotes: Vec<SocketAddr>,
    /// A name for it.
    pub(crate) name: String,
    /// How it can be fetched.
    pub(crate) way: Way,
    /// The interface that was first, and its connection.
    pub(crate) interface: Interface,
    pub(crate) connection: Connection,
}

/// How a file can be fetched.
#[derive(Debug)]
pub(crate) enum Way {
    /// In pieces that are certain to belong together.
    Pieces { tag: StrongTag, length: u64 },
    /// All at once, and why.
    Whole {
        reason: WholeReason,
        /// Its length, if the server tells it.
        length: Option<u64>,
        /// The answer, if it is the file already.
        response: Option<Response<Incoming>>,
    },
}

impl Way {
    /// The length of the file, if the server tells it.
    pub(crate) fn length(&self) -> Option<u64> {
        match self {
            Self::Pieces { length, .. } => Some(*length),
            Self::Whole { length, .. } => *length,
        }
    }
}

/// Why a file is fetched over one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WholeReason {
    NoRanges,
    NoTag,
    WeakTag,
}

impl WholeReason {
    /// In plain words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::NoRanges => {
                "over one connection, and not resumable: the server does not serve parts of this file"
            }
            Self::NoTag => {
                "over one connection, and not resumable: the server names no version of this file (no ETag), so pieces \
                 could belong to different ones"
            }
            Self::WeakTag => {
                "over one connection, and not resumable: the server's ETag of this file is weak, so pieces could belong \
                 to different versions"
            }
        }
    }
}

/// An answer of the server over the interface that was first.
struct Answer {
    interface: Interface,
    connection: Connection,
    response: Response<Incoming>,
}

impl<N: Network> Dialler<N> {
    /// Finds the file at an address.
    pub(crate) async fn locate(
        self: &Arc<Self>,
        address: &WebAddress,
        say: &(dyn Fn(&str) + Sync),
    ) -> Result<Located, FetchError> {
        let mut address = address.clone();
        for _ in 0..=MOST_REDIRECTS {
            let remotes = self.resolve(&address).await?;
            let interfaces = self.network.interfaces(&remotes);
            if interfaces.is_empty() {
                let reason = self.network.explain(&remotes);
                return Err(FetchError::NoInterface { host: address.host().to_owned(), reason });
            }
            let Answer { interface, connection, response } =
                self.race(&address, &remotes, interfaces).await?;
            if let Some(location) = redirect_of(&response) {
                let next = address.follow(&location)?;
                say(&format!("redirected to {next}"));
                address = next;
                continue;
            }
            let disposition = response.headers().get(header::CONTENT_DISPOSITION);
            let name = local_name(disposition.map(header::HeaderValue::as_bytes), address.url());
            let way = way_of(response).map_err(|fault| of_fault(&address, fault))?;
            return Ok(Located { address, remotes, name, way, interface, connection });
        }
        let reason = format!("more than {MOST_REDIRECTS} redirects, the last to {address}");
        Err(FetchError::Redirect { reason })
    }

    /// All addresses of the host, IPv6 and IPv4 in turn.
    pub(crate) async fn resolve(&self, address: &WebAddress) -> Result<Vec<SocketAddr>, FetchError> {
        let failed = |source| FetchError::Resolve { host: address.host().to_owned(), source };
        let late = || failed(std::io::Error::new(std::io::ErrorKind::TimedOut, "no name server answered"));
        let looking = tokio::net::lookup_host((address.host(), address.port()));
        let found = timeout(self.patience, looking).await.map_err(|_| late())?.map_err(failed)?;
        let (one, other): (Vec<_>, Vec<_>) = found.partition(SocketAddr::is_ipv6);
        let mut remotes = Vec::new();
        for turn in 0..one.len().max(other.len()) {
            remotes.extend(one.get(turn).into_iter().chain(other.get(turn)).copied());
        }
        Ok(remotes)
    }

    /// Asks for the first byte over one interface after another, without waiting for those before.
    async fn race(
        self: &Arc<Self>,
        address: &WebAddress,
        remotes: &[SocketAddr],
        interfaces: Vec<Interface>,
    ) -> Result<Answer, FetchError> {
        let (first, reserve): (Vec<_>, Vec<_>) = interfaces.into_iter().partition(|it| !it.is_backup);
        let mut waiting = first.into_iter().chain(reserve);
        let mut asking = JoinSet::new();
        let mut faults: Vec<(String, Fault)> = Vec::new();
        loop {
            let next = waiting.next();
            let is_last = next.is_none();
            if let Some(interface) = next {
                let (dialler, address, remotes) = (Arc::clone(self), address.clone(), remotes.to_vec());
                asking.spawn(async move {
                    let answer = dialler.ask(&interface, &address, &remotes).await;
                    (interface, answer)
                });
            }
            let patience = if is_last { self.patience * 3 } else { STAGGER };
            match timeout(patience, asking.join_next()).await {
                Ok(Some(Ok((interface, Ok((connection, response)))))) => {
                    return Ok(Answer { interface, connection, response });
                }
                Ok(Some(Ok((interface, Err(fault))))) => {
                    self.figures.set_state(&interface.name, InterfaceState::Failed);
                    if matches!(fault, Fault::Status { code, .. } if code < 500) {
                        return Err(of_fault(address, fault));
                    }
                    faults.push((interface.name, fault));
                }
                Ok(Some(Err(_))) | Err(_) => {}
                Ok(None) if is_last => return Err(unreached(address, faults)),
                Ok(None) => {}
            }
        }
    }

    async fn ask(
        &self,
        interface: &Interface,
        address: &WebAddress,
        remotes: &[SocketAddr],
    ) -> Result<(Connection, Response<Incoming>), Fault> {
        let mut connection = self.open(interface, address, remotes).await?;
        let response = connection.get(address, Some(&(0..1)), None, self.patience).await?;
        self.figures.set_state(&interface.name, InterfaceState::Connected);
        match response.status() {
            // An empty file has no first byte.
            StatusCode::OK | StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {}
            status if status.is_redirection() => {}
            _ => return Err(of_status(&response)),
        }
        Ok((connection, response))
    }
}

/// Where the answer leads instead.
fn redirect_of(response: &Response<Incoming>) -> Option<String> {
    response.status().is_redirection().then(|| text_of(response, &header::LOCATION)).flatten()
}

/// How to fetch the file of which this is the first byte, or all.
fn way_of(response: Response<Incoming>) -> Result<Way, Fault> {
    let whole = |reason, length, response| Ok(Way::Whole { reason, length, response });
    match response.status() {
        StatusCode::OK => {
            let length = text_of(&response, &header::CONTENT_LENGTH).and_then(|text| text.parse().ok());
            whole(WholeReason::NoRanges, length, Some(response))
        }
        StatusCode::PARTIAL_CONTENT => {
            let range =
                text_of(&response, &header::CONTENT_RANGE).and_then(|text| ContentRange::parse(&text));
            let Some(ContentRange { bytes, length: Some(length) }) = range else {
                return whole(WholeReason::NoRanges, None, None);
            };
            if bytes != (0..1) {
                return whole(WholeReason::NoRanges, None, None);
            }
            match tag_of(&response) {
                Tag::Strong(tag) => Ok(Way::Pieces { tag, length }),
                Tag::Weak => whole(WholeReason::WeakTag, Some(length), None),
                Tag::Missing => whole(WholeReason::NoTag, Some(length), None),
            }
        }
        StatusCode::RANGE_NOT_SATISFIABLE => whole(WholeReason::NoRanges, None, None),
        _ => Err(of_status(&response)),
    }
}

/// The version that a response names.
pub(crate) fn tag_of(response: &Response<Incoming>) -> Tag {
    Tag::parse(response.headers().get(header::ETAG).map(header::HeaderValue::as_bytes))
}

/// A header as text, if it is there and is text.
pub(crate) fn text_of(response: &Response<Incoming>, name: &HeaderName) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}

/// An error of HTTP.
pub(crate) fn of_status(response: &Response<Incoming>) -> Fault {
    let status = response.status();
    let retry_after =
        text_of(response, &header::RETRY_AFTER).and_then(|text| text.trim().parse::<u64>().ok());
    Fault::Status {
        code: status.as_u16(),
        reason: status.canonical_reason().unwrap_or("(unknown)").to_owned(),
        retry_after: retry_after.map(|seconds| Duration::from_secs(seconds.min(MOST_RETRY_AFTER))),
    }
}

/// The failure of a download that a fault at one interface ends.
pub(crate) fn of_fault(address: &WebAddress, fault: Fault) -> FetchError {
    match fault {
        Fault::Status { code, reason, .. } => {
            FetchError::Status { code, reason, address: address.to_string() }
        }
        Fault::Untrusted(reason) => FetchError::Untrusted { host: address.host().to_owned(), reason },
        Fault::Changed => FetchError::Changed,
        Fault::Unfit(reason) => FetchError::Protocol { reason },
        Fault::Network(reason) => FetchError::Unreachable { host: address.host().to_owned(), reason },
    }
}

/// No interface got an answer: what is not the network's fault says most.
fn unreached(address: &WebAddress, faults: Vec<(String, Fault)>) -> FetchError {
    if let Some((_, fault)) = faults.iter().find(|(_, fault)| !fault.is_of_network()) {
        return of_fault(address, fault.clone());
    }
    let reason = by_interface(faults.iter().map(|(name, fault)| (name.as_str(), fault)));
    FetchError::Unreachable { host: address.host().to_owned(), reason }
}

/// The faults of interfaces in one line.
pub(crate) fn by_interface<'a>(faults: impl Iterator<Item = (&'a str, &'a Fault)>) -> String {
    faults.map(|(name, fault)| format!("{name}: {fault}")).collect::<Vec<_>>().join("; ")
}
