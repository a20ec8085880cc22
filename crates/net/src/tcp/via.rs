//! HTTP proxies that pass TCP connections on by CONNECT (RFC 9110, section 9.3.6).

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;

use data_encoding::BASE64;
use manyway_proto::ConfigError;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::resolve::Resolver;

/// Most bytes of the answer's header.
const MOST_HEADER: usize = 16 * 1024;

/// An HTTP proxy through which TCP connections go to a server.
///
/// ```
/// use manyway::Proxy;
///
/// let proxy: Proxy = "http://anna:secret@proxy.example:3128".parse()?;
/// // A password is never printed.
/// assert_eq!(proxy.to_string(), "http://proxy.example:3128");
/// # Ok::<(), manyway::ConfigError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    host: String,
    port: u16,
    /// The value of `Proxy-Authorization`.
    authorization: Option<String>,
}

impl Proxy {
    /// The addresses of the proxy, of the family of `local`.
    ///
    /// # Errors
    /// Its name has none.
    pub(super) async fn resolve(&self, local: SocketAddr, resolver: &Resolver) -> io::Result<SocketAddr> {
        let found = resolver.look_up(&self.host, self.port).await?;
        let mut fitting = found.into_iter().filter(|address| address.is_ipv4() == local.is_ipv4());
        let family = if local.is_ipv4() { "IPv4" } else { "IPv6" };
        fitting.next().ok_or_else(|| io::Error::other(format!("the proxy {self} has no {family} address")))
    }

    /// Asks the proxy behind `stream` for a connection to `remote`. Returns what came behind its answer.
    ///
    /// # Errors
    /// The proxy refuses, or its answer is none of HTTP.
    pub(super) async fn pass(&self, stream: &mut TcpStream, remote: SocketAddr) -> io::Result<Vec<u8>> {
        let mut request = format!("CONNECT {remote} HTTP/1.1\r\nHost: {remote}\r\n");
        if let Some(authorization) = &self.authorization {
            request += &format!("Proxy-Authorization: {authorization}\r\n");
        }
        request += "\r\n";
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        let end = loop {
            if let Some(at) = answer.windows(4).position(|four| four == b"\r\n\r\n") {
                break at;
            }
            if answer.len() >= MOST_HEADER {
                return Err(self.wrong("its header has no end"));
            }
            if stream.read_buf(&mut answer).await? == 0 {
                return Err(self.wrong("it ended the connection without an answer"));
            }
        };
        let rest = answer.split_off(end + 4);
        let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line).into_owned();
        let code = line.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1));
        match code.and_then(|code| code.parse::<u16>().ok()) {
            Some(200..300) => Ok(rest),
            Some(407) => {
                Err(self
                    .wrong("it wants a name and a password: put http://NAME:PASSWORD@ before its address"))
            }
            Some(_) => Err(self.wrong(&format!("it refuses with \"{}\"", printable(&line)))),
            None => Err(self.wrong("it does not answer as an HTTP proxy does")),
        }
    }

    /// The error that says what is wrong with this proxy.
    pub(super) fn wrong(&self, what: &str) -> io::Error {
        io::Error::other(format!("the proxy {self}: {what}"))
    }
}

/// A line of a stranger, safe for a terminal.
fn printable(line: &str) -> String {
    line.chars().filter(|letter| !letter.is_control()).take(80).collect()
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, port) = (&self.host, self.port);
        if host.contains(':') {
            write!(f, "http://[{host}]:{port}")
        } else {
            write!(f, "http://{host}:{port}")
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

impl FromStr for Proxy {
    type Err = ConfigError;

    /// Reads `http://[NAME:PASSWORD@]HOST[:PORT]`; `http://` may be left out, and the port is 80 then as well.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let wrong = |what: &str| ConfigError { field: "via", reason: what.to_owned() };
        let rest = match text.split_once("://") {
            Some(("http", rest)) => rest,
            Some((scheme, _)) => {
                return Err(wrong(&format!("must be http://HOST:PORT: {scheme} proxies are not supported")));
            }
            None => text,
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (user, place) = rest.rsplit_once('@').map_or((None, rest), |(user, place)| (Some(user), place));
        let (host, port) = split_port(place).ok_or_else(|| wrong("must be http://HOST:PORT"))?;
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-._:".contains(letter);
        if host.is_empty() || !host.chars().all(is_name) {
            return Err(wrong("must be http://HOST:PORT"));
        }
        let authorization = user.map(|user| format!("Basic {}", BASE64.encode(&decoded(user))));
        Ok(Self { host: host.to_owned(), port, authorization })
    }
}

fn split_port(place: &str) -> Option<(&str, u16)> {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
        }
        None => place.rsplit_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map_or(Some(80), |port| port.parse().ok().filter(|port| *port > 0))?;
    Some((host, port))
}

/// Decodes percent-encoding (RFC 3986, section 2.1); invalid escapes are kept as they are.
fn decoded(text: &str) -> Vec<u8> {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
    while let Some(byte) = bytes.get(at) {
        let pair = bytes.get(at + 1..at + 3).filter(|_| *byte == b'%');
        let value = pair.and_then(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        out.push(value.unwrap_or(*byte));
        at += if value.is_some() { 3 } else { 1 };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_read_with_and_without_its_parts_and_never_prints_its_password() {
        for (text, printed) in [
            ("http://proxy:3128", "http://proxy:3128"),
            ("proxy:3128", "http://proxy:3128"),
            ("http://proxy", "http://proxy:80"),
            ("http://[2001:db8::1]:8080/", "http://[2001:db8::1]:8080"),
            ("http://anna:p%40ss@10.0.0.1:3128", "http://10.0.0.1:3128"),
        ] {
            assert_eq!(text.parse::<Proxy>().unwrap().to_string(), printed);
        }
        let proxy: Proxy = "http://anna:p%40ss@10.0.0.1:3128".parse().unwrap();
        assert_eq!(proxy.authorization.as_deref(), Some("Basic YW5uYTpwQHNz"));
        assert!(!format!("{proxy:?}").contains("YW5u"));
        for text in [
            "",
            "https://proxy:3128",
            "socks5://x:1",
            "http://proxy:0",
            "http://pro xy",
            "http://[::1",
            "http://a\r\nb",
        ] {
            assert!(text.parse::<Proxy>().is_err(), "{text:?}");
        }
    }

    /// What the client makes of a proxy that answers so, a byte at a time.
    async fn answered(answer: &[u8]) -> io::Result<Vec<u8>> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answer = answer.to_vec();
        let proxy = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 1000];
            let length = stream.read(&mut request).await.unwrap();
            for byte in answer {
                if stream.write_all(&[byte]).await.is_err() {
                    break;
                }
            }
            request.truncate(length);
            String::from_utf8(request).unwrap()
        });
        let mut stream = TcpStream::connect(address).await.unwrap();
        let via: Proxy = "http://anna:secret@127.0.0.1:1".parse().unwrap();
        let passed = via.pass(&mut stream, "192.0.2.1:4455".parse().unwrap()).await;
        drop(stream);
        let request = proxy.await.unwrap();
        assert!(
            request.starts_with("CONNECT 192.0.2.1:4455 HTTP/1.1\r\nHost: 192.0.2.1:4455\r\n"),
            "{request}"
        );
        assert!(request.contains("\r\nProxy-Authorization: Basic YW5uYTpzZWNyZXQ=\r\n"), "{request}");
        passed
    }

    #[tokio::test]
    async fn a_proxy_that_passes_the_connection_on_keeps_what_comes_behind_its_answer() {
        assert_eq!(answered(b"HTTP/1.1 200 OK\r\nVia: x\r\n\r\nabc").await.unwrap(), b"abc");
        assert_eq!(answered(b"HTTP/1.0 200 Connection established\r\n\r\n").await.unwrap(), b"");
    }

    #[tokio::test]
    async fn a_refusing_or_invalid_proxy_is_reported_with_advice() {
        for (answer, said) in [
            (&b"HTTP/1.1 403 Forbidden\r\n\r\n"[..], "refuses with \"HTTP/1.1 403 Forbidden\""),
            (b"HTTP/1.1 407 Authentication Required\r\n\r\n", "NAME:PASSWORD@"),
            (b"SSH-2.0-OpenSSH_9\r\n\r\n", "not answer as an HTTP proxy"),
            (b"HTTP/1.1 \x1b[31m\r\n\r\n", "not answer as an HTTP proxy"),
            (b"HTTP/1.1 500 \x1b[31mx\r\n\r\n", "[31mx\""),
            (b"", "without an answer"),
            (b"HTTP/1.1 200 OK\r\n", "without an answer"),
        ] {
            let error = answered(answer).await.unwrap_err().to_string();
            assert!(
                error.contains(said) && error.contains("127.0.0.1") && !error.contains('\x1b'),
                "{error}"
            );
        }
        let endless = [b"HTTP/1.1 200 OK\r\n".to_vec(), vec![b'x'; 2 * MOST_HEADER]].concat();
        assert!(answered(&endless).await.unwrap_err().to_string().contains("no end"));
    }
}
