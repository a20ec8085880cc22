//! A web server of one file, with ranges and a strong entity tag.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use rustls::crypto::ring::default_provider;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The server; it ends with the test program.
pub(crate) struct Web {
    shown: Arc<Mutex<Shown>>,
    port: u16,
}

#[derive(Clone)]
struct Shown {
    content: Arc<Vec<u8>>,
    tag: String,
}

impl Web {
    /// Serves `content` as version 1 under every name.
    pub(crate) fn start(listener: TcpListener, content: Vec<u8>) -> Self {
        Self::serve(listener, content, answer)
    }

    /// The same by TLS, with a certificate for this name, which is returned, too.
    pub(crate) fn start_encrypted(listener: TcpListener, content: Vec<u8>, name: &str) -> (Self, String) {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let config = Arc::new(config);
        let web = Self::serve(listener, content, move |stream, shown| {
            let connection = ServerConnection::new(Arc::clone(&config)).map_err(io::Error::other)?;
            answer(StreamOwned::new(connection, stream), shown)
        });
        (web, made.cert.pem())
    }

    fn serve(
        listener: TcpListener,
        content: Vec<u8>,
        answer: impl Fn(TcpStream, &Mutex<Shown>) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let port = listener.local_addr().unwrap().port();
        let shown = Shown { content: Arc::new(content), tag: "\"1\"".to_owned() };
        let (shown, answer) = (Arc::new(Mutex::new(shown)), Arc::new(answer));
        let own = Arc::clone(&shown);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (own, answer) = (Arc::clone(&own), Arc::clone(&answer));
                // A client that leaves is no failure of the test.
                std::thread::spawn(move || drop(answer(stream, &own)));
            }
        });
        Self { shown, port }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Shows another version from now on.
    pub(crate) fn change(&self, content: Vec<u8>, tag: &str) {
        *self.shown.lock().unwrap() = Shown { content: Arc::new(content), tag: tag.to_owned() };
    }

    /// The SHA-256 sum of the content in hexadecimal digits.
    pub(crate) fn sum(&self) -> String {
        let content = Arc::clone(&self.shown.lock().unwrap().content);
        data_encoding::HEXLOWER.encode(ring::digest::digest(&ring::digest::SHA256, &content).as_ref())
    }
}

/// Bytes that a compressor would keep.
pub(crate) fn content(length: usize, seed: u8) -> Vec<u8> {
    let mut content = vec![0; length];
    blake3::Hasher::new().update(&[seed]).finalize_xof().fill(&mut content);
    content
}

fn answer(stream: impl Read + Write, shown: &Mutex<Shown>) -> io::Result<()> {
    let mut input = BufReader::new(stream);
    loop {
        let (mut range, mut condition, mut line) = (None, None, String::new());
        if input.read_line(&mut line)? == 0 {
            return Ok(());
        }
        while !line.trim_end().is_empty() {
            line.clear();
            input.read_line(&mut line)?;
            match line.trim_end().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("range") => range = range_of(value),
                Some((name, value)) if name.eq_ignore_ascii_case("if-range") => {
                    condition = Some(value.to_owned());
                }
                _ => {}
            }
        }
        let Shown { content, tag } = shown.lock().map_err(|_| io::ErrorKind::Other)?.clone();
        let holds = condition.is_none_or(|wanted| wanted == tag);
        let (status, bytes) = match range
            .filter(|_| holds)
            .and_then(|range| Some((content.get(range.clone())?, range)))
        {
            Some((bytes, Range { start, end })) => {
                let length = content.len();
                (format!("206 Partial Content\r\nContent-Range: bytes {start}-{}/{length}", end - 1), bytes)
            }
            None => ("200 OK".to_owned(), content.as_slice()),
        };
        let output = input.get_mut();
        write!(output, "HTTP/1.1 {status}\r\nETag: {tag}\r\nContent-Length: {}\r\n\r\n", bytes.len())?;
        output.write_all(bytes)?;
        output.flush()?;
    }
}

fn range_of(value: &str) -> Option<Range<usize>> {
    let (first, last) = value.strip_prefix("bytes=")?.split_once('-')?;
    Some(first.parse().ok()?..last.parse::<usize>().ok()? + 1)
}
