//! A server of one file that does what a test tells it to do.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::thread::{sleep, spawn};
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) peer: IpAddr,
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
}

impl Ask {
    /// The number of the interface.
    pub(crate) fn interface(&self) -> u8 {
        match self.peer {
            IpAddr::V4(v4) => v4.octets()[3],
            IpAddr::V6(_) => 0,
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub(crate) fn range(&self) -> Option<Range<usize>> {
        let (first, last) = self.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some(first.parse().unwrap()..last.parse::<usize>().unwrap() + 1)
    }

    /// Whether it is the question with which a download begins.
    pub(crate) fn is_first_byte(&self) -> bool {
        self.range() == Some(0..1)
    }
}

/// What the server does.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// As HTTP has it, with this tag.
    Serve { tag: &'static str },
    /// The same with so many bytes a second.
    Slowly { tag: &'static str, rate: usize },
    /// The same, but the connection ends after so many bytes of the body.
    CloseAfter { tag: &'static str, bytes: usize },
    /// The whole file, with these headers.
    Whole { headers: &'static str },
    /// The bytes that were asked for, with other headers.
    Part { headers: String },
    /// Only a head, and no body.
    Head(String),
    /// Any bytes, over and over again.
    Flood(&'static [u8]),
    /// Nothing, without an end.
    Silence,
}

type Rule = dyn Fn(&Ask) -> Act + Send + Sync;

/// A file on a server.
#[derive(Clone)]
pub(crate) struct Site(Arc<Inner>);

struct Inner {
    address: SocketAddr,
    rule: Box<Rule>,
    content: Mutex<Arc<Vec<u8>>>,
    asked: Mutex<Vec<Ask>>,
    tls: Option<Arc<ServerConfig>>,
}

impl Site {
    pub(crate) fn start(content: Vec<u8>, rule: impl Fn(&Ask) -> Act + Send + Sync + 'static) -> Self {
        Self::listen("127.0.0.1:0", content, None, rule)
    }

    pub(crate) fn listen(
        at: &str,
        content: Vec<u8>,
        tls: Option<Arc<ServerConfig>>,
        rule: impl Fn(&Ask) -> Act + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(at).unwrap();
        let inner = Inner {
            address: listener.local_addr().unwrap(),
            rule: Box::new(rule),
            content: Mutex::new(Arc::new(content)),
            asked: Mutex::default(),
            tls,
        };
        let site = Self(Arc::new(inner));
        let own = site.clone();
        spawn(move || {
            while let Ok((stream, peer)) = listener.accept() {
                let own = own.clone();
                // A client that leaves is no failure of the test.
                spawn(move || drop(own.serve(stream, peer.ip())));
            }
        });
        site
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.0.address)
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.address.port()
    }

    pub(crate) fn set_content(&self, content: Vec<u8>) {
        *self.0.content.lock().unwrap() = Arc::new(content);
    }

    pub(crate) fn content(&self) -> Arc<Vec<u8>> {
        Arc::clone(&self.0.content.lock().unwrap())
    }

    /// All requests so far.
    pub(crate) fn asked(&self) -> Vec<Ask> {
        self.0.asked.lock().unwrap().clone()
    }

    fn note(&self, ask: &Ask) {
        self.0.asked.lock().unwrap().push(ask.clone());
    }

    fn serve(&self, stream: TcpStream, peer: IpAddr) -> io::Result<()> {
        stream.set_nodelay(true)?;
        match &self.0.tls {
            None => self.answer_all(BufReader::new(stream), peer),
            Some(config) => {
                let connection = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
                self.answer_all(BufReader::new(StreamOwned::new(connection, stream)), peer)
            }
        }
    }

    fn answer_all<S: Read + Write>(&self, mut stream: BufReader<S>, peer: IpAddr) -> io::Result<()> {
        while let Some(ask) = read_request(&mut stream, peer)? {
            self.note(&ask);
            let act = (self.0.rule)(&ask);
            self.answer(stream.get_mut(), &ask, act)?;
        }
        Ok(())
    }

    fn answer(&self, out: &mut impl Write, ask: &Ask, act: Act) -> io::Result<()> {
        let content = self.content();
        match act {
            Act::Serve { tag } => serve(out, ask, &content, tag, |out, body| out.write_all(body)),
            Act::Slowly { tag, rate } => serve(out, ask, &content, tag, |out, body| {
                for piece in body.chunks((rate / 100).max(1)) {
                    out.write_all(piece)?;
                    out.flush()?;
                    sleep(Duration::from_millis(10));
                }
                Ok(())
            }),
            Act::CloseAfter { tag, bytes } => {
                serve(out, ask, &content, tag, |out, body| out.write_all(&body[..bytes.min(body.len())]))?;
                Err(io::ErrorKind::ConnectionAborted.into())
            }
            Act::Whole { headers } => {
                write!(out, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{headers}\r\n", content.len())?;
                out.write_all(&content)
            }
            Act::Part { headers } => {
                let range = ask.range().unwrap();
                write!(out, "HTTP/1.1 206 Partial Content\r\n{headers}\r\n")?;
                out.write_all(&content[range])
            }
            Act::Head(head) => write!(out, "HTTP/1.1 {head}\r\n\r\n"),
            Act::Flood(bytes) => loop {
                out.write_all(bytes)?;
            },
            Act::Silence => loop {
                sleep(Duration::from_secs(60));
            },
        }?;
        out.flush()
    }
}

fn serve<W: Write>(
    out: &mut W,
    ask: &Ask,
    content: &[u8],
    tag: &str,
    write: impl FnOnce(&mut W, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let has_condition = ask.header("if-range").is_none_or(|wanted| wanted == tag);
    let tag = if tag.is_empty() { String::new() } else { format!("ETag: {tag}\r\n") };
    match ask.range().filter(|_| has_condition) {
        Some(range) if range.end <= content.len() => {
            let (first, last, length) = (range.start, range.end - 1, content.len());
            write!(out, "HTTP/1.1 206 Partial Content\r\n{tag}Content-Length: {}\r\n", range.len())?;
            write!(out, "Content-Range: bytes {first}-{last}/{length}\r\n\r\n")?;
            write(out, &content[range])
        }
        Some(_) => write!(
            out,
            "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */{}\r\nContent-Length: 0\r\n\r\n",
            content.len()
        ),
        None => {
            write!(out, "HTTP/1.1 200 OK\r\n{tag}Content-Length: {}\r\n\r\n", content.len())?;
            write(out, content)
        }
    }
}

/// Reads the head of a request; `None` at the end of the connection.
fn read_request(stream: &mut impl BufRead, peer: IpAddr) -> io::Result<Option<Ask>> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers = BTreeMap::new();
    loop {
        line.clear();
        stream.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    Ok(Some(Ask { peer, path, headers }))
}
