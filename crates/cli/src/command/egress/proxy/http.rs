//! HTTP CONNECT (RFC 9110, section 9.3.6).

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_egress::{Destination, EgressError, Reason};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::super::bond::EgressBond;
use super::super::listening::{PATIENCE, carry};
use super::users::Users;
use crate::output::address as shown;

/// Most bytes of a request, and of its header fields.
const MOST: usize = 16 << 10;
const MOST_FIELDS: usize = 100;
/// Where browsers find their settings.
const SETTINGS: &str = "/proxy.pac";
/// How long data from the program is read after a refusal, so that the refusal arrives.
const LINGER: Duration = Duration::from_secs(1);

/// Serves one program.
pub(super) async fn attend(mut socket: TcpStream, bond: &EgressBond, users: &Users) {
    let (destination, behind) = match tokio::time::timeout(PATIENCE, read_request(&mut socket, users)).await {
        Ok(Ok(Ok(Request::Connect(destination, behind)))) => (destination, behind),
        Ok(Ok(Ok(Request::Settings))) => return answer_settings(socket, users).await,
        Ok(Ok(Err(status))) => return refuse(socket, status, "").await,
        Ok(Err(_)) => return,
        Err(_) => return refuse(socket, Status::Late, "").await,
    };
    let mut opened = match bond.connect(&destination).await {
        Ok(opened) => opened,
        Err(error) => return refuse(socket, status_of(&error), &error.to_string()).await,
    };
    // The bytes after the request belong to the program's data.
    let is_sent = opened.send.write_all(&behind).await.is_ok();
    if is_sent && socket.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.is_ok() {
        carry(socket, opened).await;
    }
}

/// What a program asks for.
#[derive(Debug, PartialEq, Eq)]
enum Request {
    /// A connection to this destination. The bytes came after the request.
    Connect(Destination, Vec<u8>),
    /// The settings for browsers.
    Settings,
}

/// Reads the head of a request.
async fn read_request(socket: &mut TcpStream, users: &Users) -> io::Result<Result<Request, Status>> {
    let mut bytes = Vec::new();
    loop {
        if socket.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(request) = parse(&bytes, users) {
            return Ok(request);
        }
        if bytes.len() > MOST {
            return Ok(Err(Status::TooLarge));
        }
    }
}

/// Parses the first part of a request; `None` if it is incomplete.
fn parse(bytes: &[u8], users: &Users) -> Option<Result<Request, Status>> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return None,
        Err(httparse::Error::TooManyHeaders) => return Some(Err(Status::TooLarge)),
        Err(_) => return Some(Err(Status::Malformed)),
    };
    // No secret, and browsers ask without one.
    if (request.method, request.path) == (Some("GET"), Some(SETTINGS)) {
        return Some(Ok(Request::Settings));
    }
    let authorises = |field: &httparse::Header<'_>| {
        field.name.eq_ignore_ascii_case("proxy-authorization") && users.authorise(field.value)
    };
    if !users.is_empty() && !request.headers.iter().any(authorises) {
        return Some(Err(Status::Unauthorised));
    }
    if request.method != Some("CONNECT") {
        return Some(Err(Status::NotConnect));
    }
    let destination = request.path.and_then(|path| Destination::parse_pair(path).ok());
    let behind = bytes.get(length..).unwrap_or_default().to_vec();
    Some(destination.map(|destination| Request::Connect(destination, behind)).ok_or(Status::Malformed))
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Malformed,
    Forbidden,
    NotConnect,
    Unauthorised,
    Late,
    TooLarge,
    BadGateway,
    Unavailable,
    GatewayLate,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Self::Malformed => "400 Bad Request",
            Self::Forbidden => "403 Forbidden",
            Self::NotConnect => "405 Method Not Allowed",
            Self::Unauthorised => "407 Proxy Authentication Required",
            Self::Late => "408 Request Timeout",
            Self::TooLarge => "431 Request Header Fields Too Large",
            Self::BadGateway => "502 Bad Gateway",
            Self::Unavailable => "503 Service Unavailable",
            Self::GatewayLate => "504 Gateway Timeout",
        }
    }

    /// The field of the header that belongs to it.
    fn field(self) -> &'static str {
        match self {
            Self::NotConnect => "Allow: CONNECT\r\n",
            Self::Unauthorised => "Proxy-Authenticate: Basic realm=\"manyway\"\r\n",
            Self::Malformed
            | Self::Forbidden
            | Self::Late
            | Self::TooLarge
            | Self::BadGateway
            | Self::Unavailable
            | Self::GatewayLate => "",
        }
    }

    /// The hint for people if there is no other.
    fn hint(self) -> &'static str {
        match self {
            Self::NotConnect => {
                "this proxy knows CONNECT alone; for http:// addresses use it as SOCKS5 (curl: -x socks5h://…)"
            }
            Self::Malformed => "this is no request that the proxy understands",
            Self::TooLarge => "the head of the request is too large",
            Self::Unauthorised => "this proxy asks for name and password",
            Self::Late => "the request did not come",
            Self::Forbidden | Self::BadGateway | Self::Unavailable | Self::GatewayLate => "",
        }
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the list is open")]
fn status_of(error: &EgressError) -> Status {
    let EgressError::Refused(refusal) = error else { return Status::Unavailable };
    match refusal.reason {
        Reason::Forbidden | Reason::NotEnabled => Status::Forbidden,
        Reason::TimedOut | Reason::LookupFailed => Status::GatewayLate,
        Reason::TooMany => Status::Unavailable,
        _ => Status::BadGateway,
    }
}

/// Answers and closes; errors have no effect any more.
async fn refuse(socket: TcpStream, status: Status, text: &str) {
    let text = if text.is_empty() { status.hint() } else { text };
    let field = status.field();
    say(
        socket,
        &format!("{}\r\n{field}Content-Type: text/plain; charset=utf-8", status.line()),
        &format!("{text}\n"),
    )
    .await;
}

async fn answer_settings(socket: TcpStream, users: &Users) {
    let Ok(address) = socket.local_addr() else { return };
    let text = settings(SocketAddr::new(address.ip().to_canonical(), address.port()), users);
    say(socket, "200 OK\r\nContent-Type: application/x-ns-proxy-autoconfig", &text).await;
}

/// The settings for browsers: SOCKS5 first, which knows `http://`, too; but HTTP first where a password is required,
/// since browsers send none over SOCKS5.
fn settings(address: SocketAddr, users: &Users) -> String {
    let (first, second) = if users.is_empty() { ("SOCKS5", "PROXY") } else { ("PROXY", "SOCKS5") };
    let address = shown(address);
    format!(
        "function FindProxyForURL(url, host) {{\n  if (isPlainHostName(host)) return \"DIRECT\";\n  \
         return \"{first} {address}; {second} {address}\";\n}}\n"
    )
}

/// Answers and closes; errors have no effect any more.
async fn say(mut socket: TcpStream, head: &str, text: &str) {
    let answer =
        format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}", text.len());
    let _ = tokio::time::timeout(LINGER, async {
        socket.write_all(answer.as_bytes()).await?;
        socket.shutdown().await?;
        // A socket that is closed with unread bytes is reset, and the answer may be lost.
        tokio::io::copy(&mut socket, &mut tokio::io::sink()).await
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For every client.
    fn open() -> Users {
        Users::default()
    }

    #[track_caller]
    fn connect(text: &[u8]) -> (Destination, Vec<u8>) {
        match parse(text, &open()) {
            Some(Ok(Request::Connect(destination, behind))) => (destination, behind),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_request_is_read_once_it_is_complete_and_bytes_after_it_are_kept() {
        let text = b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\nbehind";
        let length = text.len() - "behind".len();
        assert!((1..length).all(|end| parse(&text[..end], &open()).is_none()));
        let (destination, behind) = connect(text);
        assert_eq!(
            (destination.to_string().as_str(), behind.as_slice()),
            ("example.org:443", &b"behind"[..])
        );
        let (destination, _) = connect(b"CONNECT [2001:db8::7]:80 HTTP/1.0\r\n\r\n");
        assert_eq!(destination.to_string(), "[2001:db8::7]:80");
        let text = "CONNECT bücher.example:443 HTTP/1.1\r\n\r\n";
        let (destination, _) = connect(text.as_bytes());
        assert_eq!(destination.to_string(), "xn--bcher-kva.example:443");
    }

    #[test]
    fn other_requests_are_refused_with_their_status() {
        let many = format!("CONNECT a:1 HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(MOST_FIELDS + 1));
        for (text, status) in [
            ("GET http://example.org/ HTTP/1.1\r\n\r\n", Status::NotConnect),
            ("CONNECT example.org HTTP/1.1\r\n\r\n", Status::Malformed),
            ("CONNECT example.org:0 HTTP/1.1\r\n\r\n", Status::Malformed),
            ("\u{4}\u{1}nonsense\r\n\r\n", Status::Malformed),
            (many.as_str(), Status::TooLarge),
        ] {
            assert_eq!(parse(text.as_bytes(), &open()).unwrap().unwrap_err(), status, "{text:?}");
        }
    }

    #[test]
    fn a_proxy_with_users_asks_for_one_and_gives_its_settings_to_every_client() {
        let users = Users::parse("ann:secret").unwrap();
        let ask =
            |field: &str| parse(format!("CONNECT a:1 HTTP/1.1\r\n{field}\r\n").as_bytes(), &users).unwrap();
        assert_eq!(ask(""), Err(Status::Unauthorised));
        assert_eq!(ask("Proxy-Authorization: Basic YW5uOndyb25n\r\n"), Err(Status::Unauthorised));
        assert!(ask("proxy-authorization: Basic YW5uOnNlY3JldA==\r\n").is_ok());
        assert_eq!(parse(b"GET /proxy.pac HTTP/1.1\r\n\r\n", &users), Some(Ok(Request::Settings)));
    }

    #[test]
    fn browsers_use_the_protocol_over_which_they_send_a_password() {
        let of = |users: &Users| settings("192.0.2.7:1080".parse().unwrap(), users);
        assert!(of(&open()).contains("return \"SOCKS5 192.0.2.7:1080; PROXY 192.0.2.7:1080\";"));
        let users = Users::parse("ann:secret").unwrap();
        assert!(of(&users).contains("return \"PROXY 192.0.2.7:1080; SOCKS5 192.0.2.7:1080\";"));
    }
}
