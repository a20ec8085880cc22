//! Answers to requests of players.

use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, StatusCode, Uri};
use manyway_transfer::{Entry, Reason, RelativePath, TransferError, list};
use percent_encoding::percent_decode_str;
use tokio::sync::mpsc;

use crate::body::{Body, PartBody};
use crate::buffer::{Gathered, Waiting};
use crate::content_type::content_type;
use crate::feed::{Feed, Opened, open};
use crate::page::{page, url_path};
use crate::presentation::is_list;
use crate::range::ByteRange;
use crate::shared::Shared;
use crate::source::Source;

/// Most bytes of a playlist or manifest that is read here.
const LONGEST_LIST: u64 = 4 << 20;
/// What pages, and files that are no media, may do: nothing but show themselves, lead on and be saved.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; \
                           sandbox allow-top-navigation-by-user-activation allow-downloads";
/// What media may do: a browser that opens their URL makes a page with a player of the same URL.
const MEDIA_POLICY: &str = "default-src 'none'; media-src 'self'; img-src 'self'; style-src 'unsafe-inline'; \
                            frame-ancestors 'none'";

/// Answers one request.
pub(crate) async fn answer<S: Source, B>(shared: &Arc<Shared<S>>, request: &Request<B>) -> Response<Body> {
    let mut answer = match respond(shared, request).await {
        Ok(answer) => answer,
        Err(refusal) => refusal.answer(),
    };
    let kind = answer.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let policy = if kind.is_some_and(is_media) { MEDIA_POLICY } else { PAGE_POLICY };
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, policy),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::CACHE_CONTROL, "no-cache"),
    ] {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

async fn respond<S: Source, B>(
    shared: &Arc<Shared<S>>,
    request: &Request<B>,
) -> Result<Response<Body>, Refusal> {
    check_host(request.uri(), request.headers())?;
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are known here"));
    }
    let path = percent_decode_str(request.uri().path().trim_start_matches('/')).decode_utf8();
    let path = path.map_err(|_| Refusal::not_found())?;
    if path.is_empty() {
        return directory(shared, None).await;
    }
    match path.strip_suffix('/') {
        Some(name) => directory(shared, Some(parse(name)?)).await,
        None => file(shared, request, parse(&path)?).await,
    }
}

fn parse(path: &str) -> Result<RelativePath, Refusal> {
    RelativePath::parse(path).map_err(|_| Refusal::not_found())
}

/// Checks that a request names this host by an address or `localhost`. A page of another site that lets its own name
/// lead to this host (DNS rebinding) sends that name. The host of a whole URL as the target counts more than the field
/// `Host`, which there must be once (RFC 9112, section 3.2).
fn check_host(target: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    let wrong = || Refusal::new(StatusCode::BAD_REQUEST, "one field Host with a host and a port is needed");
    let mut fields = headers.get_all(header::HOST).iter();
    let (Some(field), None) = (fields.next(), fields.next()) else { return Err(wrong()) };
    let field = Authority::try_from(field.as_bytes()).map_err(|_| wrong())?;
    let named = target.authority().unwrap_or(&field);
    let name = named.host();
    let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    if named.as_str().contains('@') {
        return Err(wrong());
    }
    if name.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok() {
        return Ok(());
    }
    Err(Refusal::new(StatusCode::MISDIRECTED_REQUEST, "use an IP address or localhost as the host"))
}

/// Whether a browser plays or shows a file of this type by a page of its own.
fn is_media(kind: &str) -> bool {
    let is = |prefix| kind.starts_with(prefix);
    is("video/") || is("audio/") || is("image/") || is("application/vnd.apple.mpegurl")
}

async fn directory<S: Source>(
    shared: &Arc<Shared<S>>,
    path: Option<RelativePath>,
) -> Result<Response<Body>, Refusal> {
    let mut is_last = false;
    let entries = loop {
        let session = shared.source.session().await.ok_or_else(Refusal::away)?;
        match list(&session, path.clone()).await {
            Ok(entries) => break entries,
            Err(error) if error.is_resumable() && !is_last => is_last = true,
            Err(error) => return Err(Refusal::of(&error)),
        }
    };
    let mut answer = Response::new(Body::Whole(page(path.as_ref(), &entries).into()));
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    Ok(answer)
}

/// Answers with a file or a part of it.
async fn file<S: Source, B>(
    shared: &Arc<Shared<S>>,
    request: &Request<B>,
    path: RelativePath,
) -> Result<Response<Body>, Refusal> {
    let is_head = request.method() == Method::HEAD;
    let field = |name: HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok());
    let wanted = field(header::RANGE).filter(|_| !is_head).and_then(ByteRange::parse);
    let condition = field(header::IF_RANGE);
    let is_conditional =
        [header::IF_MATCH, header::IF_NONE_MATCH].iter().any(|name| request.headers().contains_key(name));
    let first = match (wanted, condition) {
        _ if is_conditional => 0..0,
        (None, _) if is_head => 0..0,
        (None, _) => 0..u64::MAX,
        (Some(ByteRange::FromTo(from, to)), None) => from..to.saturating_add(1),
        // The size of the file, or its version, decides.
        (Some(_), _) => 0..0,
    };
    let opened = match open(&*shared.source, &path, first.clone()).await.ok_or_else(Refusal::away)? {
        Err(TransferError::Refused(failure)) if failure.reason == Reason::NotFile => {
            return Ok(to_directory(&path));
        }
        opened => opened.map_err(|error| Refusal::of(&error))?,
    };
    let entry = opened.part.entry().clone();
    let tag = tag(&entry);
    if !is_first_condition_true(request.headers(), &tag) {
        return Err(Refusal::new(StatusCode::PRECONDITION_FAILED, "the file has another version"));
    }
    if fits_any(request.headers(), &header::IF_NONE_MATCH, &tag, |listed| listed.trim_start_matches("W/")) {
        return Ok(unchanged(&tag));
    }
    let wanted = wanted.filter(|_| condition.is_none_or(|condition| condition == tag));
    let range = match wanted {
        None => 0..entry.size,
        Some(wanted) => wanted.of(entry.size).ok_or_else(|| Refusal::range(entry.size))?,
    };
    let body = if is_head {
        None
    } else if first.start == range.start && opened.part.length() == range.end - range.start {
        Some(opened)
    } else {
        let again = open(&*shared.source, &path, range.clone()).await.ok_or_else(Refusal::away)?;
        let again = again.map_err(|error| Refusal::of(&error))?;
        if *again.part.entry() != entry {
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the file has just changed"));
        }
        Some(again)
    };
    let length = range.end - range.start;
    let is_part = wanted.is_some();
    let mut answer = Response::new(match body {
        Some(opened) if is_list(path.as_str()) && range == (0..entry.size) && entry.size <= LONGEST_LIST => {
            Body::Whole(list_of(shared, &path, opened).await?)
        }
        Some(opened) => body_of(shared, request.headers(), (path, range.clone()), opened),
        None => Body::Whole(Bytes::new()),
    });
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type(entry.path.as_str())));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    insert(headers, header::ETAG, &tag);
    if is_part {
        let text = format!("bytes {}-{}/{}", range.start, range.end - 1, entry.size);
        insert(headers, header::CONTENT_RANGE, &text);
        *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(answer)
}

/// Reads a playlist or manifest before the player does, so that the files that it names are known.
async fn list_of<S: Source>(
    shared: &Arc<Shared<S>>,
    path: &RelativePath,
    mut opened: Opened<S>,
) -> Result<Bytes, Refusal> {
    let mut bytes = Vec::new();
    while let Some(piece) = opened.part.next().await.map_err(|error| Refusal::of(&error))? {
        bytes.extend_from_slice(&piece);
    }
    shared.on_list(path, &String::from_utf8_lossy(&bytes));
    Ok(bytes.into())
}

/// Starts to carry a part to the player.
fn body_of<S: Source>(
    shared: &Arc<Shared<S>>,
    headers: &HeaderMap,
    (path, range): (RelativePath, Range<u64>),
    opened: Opened<S>,
) -> Body {
    let viewing = shared.viewing(headers, (&path, opened.part.entry()), range.start);
    let (sender, queue) = mpsc::unbounded_channel();
    let waiting = Arc::new(Waiting::default());
    let body = PartBody {
        queue,
        waiting: Arc::clone(&waiting),
        left: range.end - range.start,
        viewing: viewing.clone(),
    };
    let feed = Feed {
        source: Arc::clone(&shared.source),
        path,
        position: range.start,
        end: range.end,
        buffer: shared.config.buffer,
        waiting,
        gathered: Gathered::default(),
        queue: sender,
        viewing: viewing.map(|(viewing, _)| viewing),
    };
    tokio::spawn(feed.run(opened));
    Body::Part(body)
}

/// Sends the player to the page of a directory.
fn to_directory(path: &RelativePath) -> Response<Body> {
    let mut answer = Response::new(Body::Whole(Bytes::new()));
    *answer.status_mut() = StatusCode::MOVED_PERMANENTLY;
    insert(answer.headers_mut(), header::LOCATION, &format!("{}/", url_path(path.as_str())));
    answer
}

/// Whether `If-Match` lists the tag of the file, or is not there (RFC 9110, section 13.1.1).
fn is_first_condition_true(headers: &HeaderMap, tag: &str) -> bool {
    !headers.contains_key(header::IF_MATCH) || fits_any(headers, &header::IF_MATCH, tag, |listed| listed)
}

/// Whether a field lists this tag, or any by `*`.
fn fits_any(headers: &HeaderMap, name: &HeaderName, tag: &str, strip: fn(&str) -> &str) -> bool {
    let fields = headers.get_all(name).iter().filter_map(|field| field.to_str().ok());
    fields
        .flat_map(|field| field.split(','))
        .map(str::trim)
        .any(|listed| listed == "*" || strip(listed) == tag)
}

/// Tells that the player has this version of the file.
fn unchanged(tag: &str) -> Response<Body> {
    let mut answer = Response::new(Body::Whole(Bytes::new()));
    *answer.status_mut() = StatusCode::NOT_MODIFIED;
    insert(answer.headers_mut(), header::ETAG, tag);
    answer
}

/// The strong entity tag of a file: its size and when it last changed.
fn tag(entry: &Entry) -> String {
    format!("\"{:x}-{:x}-{:x}\"", entry.size, entry.modified.seconds, entry.modified.nanos)
}

/// Inserts a value that consists of visible ASCII characters; anything else is left out.
fn insert(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}

/// Why a request is not answered with what it asks for.
#[derive(Debug)]
struct Refusal {
    status: StatusCode,
    text: String,
    /// The size of the file whose range does not exist.
    size: Option<u64>,
}

impl Refusal {
    fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), size: None }
    }

    fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "there is no such file")
    }

    fn away() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the connection to the server is lost; reconnecting")
    }

    fn range(size: u64) -> Self {
        let text = format!("the file has {size} bytes");
        Self { size: Some(size), ..Self::new(StatusCode::RANGE_NOT_SATISFIABLE, text) }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the list is open")]
    fn of(error: &TransferError) -> Self {
        let TransferError::Refused(failure) = error else {
            return Self::new(StatusCode::BAD_GATEWAY, error.to_string());
        };
        let status = match failure.reason {
            Reason::NotFound | Reason::NotFile | Reason::NotDirectory | Reason::Name => StatusCode::NOT_FOUND,
            Reason::PermissionDenied => StatusCode::FORBIDDEN,
            Reason::Limit | Reason::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Reason::Unsupported => {
                let text = "the server is too old to send parts of files; install the newest version there";
                return Self::new(StatusCode::BAD_GATEWAY, text);
            }
            _ => StatusCode::BAD_GATEWAY,
        };
        Self::new(status, failure.refusal())
    }

    fn answer(self) -> Response<Body> {
        let mut answer = Response::new(Body::Whole(format!("{}\n", self.text).into()));
        *answer.status_mut() = self.status;
        let headers = answer.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        if let Some(size) = self.size {
            insert(headers, header::CONTENT_RANGE, &format!("bytes */{size}"));
        }
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_names_of_this_host() {
        let status = |target: &'static str, hosts: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(header::HOST, HeaderValue::from_static(host));
            }
            check_host(&Uri::from_static(target), &headers)
                .err()
                .map_or(200, |refusal| refusal.status.as_u16())
        };
        for host in ["127.0.0.1:80", "localhost", "LOCALHOST:8080", "[::1]:80", "[::1]", "192.0.2.7"] {
            assert_eq!(status("/", &[host]), 200, "{host}");
        }
        for host in
            ["example.org", "127.0.0.1.example.org", "localhost.example.org:80", "127.0.0.1x", "evil[::1]"]
        {
            assert!([400, 421].contains(&status("/", &[host])), "{host}");
        }
        for hosts in [&[][..], &["localhost", "localhost"], &[""], &["user@localhost"], &["[x]:1"], &["a b"]]
        {
            assert!([400, 421].contains(&status("/", hosts)), "{hosts:?}");
        }
        assert_eq!([status("/", &[]), status("/", &["localhost", "localhost"])], [400, 400]);
        assert_eq!(status("http://example.org/", &["localhost"]), 421);
        assert_eq!(status("http://localhost:80/", &["example.org"]), 200);
    }
}
