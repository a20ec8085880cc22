//! Connections of other programs: bytes as a request, as an answer, as a datagram, as a client's stream for a server,
//! as a server's answer for a client, and as a server's answer about packets, and a packet. Decoded frames encode to the same bytes; no end writes more than one frame.

use std::io;
use std::sync::{LazyLock, Mutex};

use bytes::Bytes;
use manyway_egress::fuzzing::{Answer, Request};
use manyway_egress::{Assignment, Datagram, Destination, Header, check, connect, decline};
use manyway_session::Session;
use tokio::io::{AsyncReadExt as _, DuplexStream, ReadHalf, WriteHalf};

use crate::script::Script;

/// The longest frame.
const MOST: usize = 5 + 1024;

static RUNTIME: LazyLock<Mutex<tokio::runtime::Runtime>> = LazyLock::new(|| {
    Mutex::new(tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap())
});

/// The first byte selects the use of the rest.
pub fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let (what, bytes) = (script.u8() % 7, script.rest());
    match what {
        0 => as_request(bytes),
        1 => as_answer(bytes),
        4 => as_datagram(bytes),
        5 => as_assignment(bytes),
        6 => as_packet(bytes),
        _ => {
            let runtime = RUNTIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            runtime.block_on(async {
                if what == 2 { as_client_s_stream(bytes).await } else { as_server_s_answer(bytes).await }
            });
        }
    }
}

fn as_request(bytes: &[u8]) {
    let Ok(Ok(request)) = Request::decode(bytes) else { return };
    let mut written = Vec::new();
    request.encode(&mut written);
    // Names are written in lower case.
    assert!(written.eq_ignore_ascii_case(bytes));
    assert_eq!(Request::decode(&written), Ok(Ok(request)));
}

fn as_answer(bytes: &[u8]) {
    let Ok(answer) = Answer::decode(bytes) else { return };
    let mut written = Vec::new();
    answer.encode(&mut written);
    assert!(written.len() <= MOST);
    assert_eq!(Answer::decode(&written), Ok(answer));
}

fn as_datagram(bytes: &[u8]) {
    let message = Bytes::copy_from_slice(bytes);
    let Ok(datagram) = Datagram::decode(&message) else { return };
    let Datagram { number, address, error, payload } = &datagram;
    let written = match error {
        Some(reason) => Datagram::encode_error(*number, address.as_ref(), *reason, payload),
        None => Datagram::encode(*number, address.as_ref(), payload),
    };
    assert_eq!(written.len(), bytes.len());
    assert_eq!(Datagram::decode(&written), Ok(datagram));
}

fn as_assignment(bytes: &[u8]) {
    let Ok(Ok(assignment)) = Assignment::decode(bytes) else { return };
    let mut written = Vec::new();
    assignment.encode(&mut written);
    assert_eq!(written, bytes);
}

fn as_packet(bytes: &[u8]) {
    if let Some(header) = Header::parse(bytes) {
        assert_eq!(header.source.is_ipv4(), header.destination.is_ipv4());
        assert_eq!(header.source.is_ipv4(), bytes.first().map(|first| first >> 4) == Some(4));
    }
}

async fn as_client_s_stream(bytes: &[u8]) {
    let (session, mut written) = Single::new(bytes);
    let (send, receive) = session.open().await.unwrap();
    drop(decline(send, receive).await);
    drop(session);
    let mut answer = Vec::new();
    written.read_to_end(&mut answer).await.unwrap();
    assert!(answer.is_empty() || Answer::decode(&answer).is_ok(), "one frame and nothing else");
}

async fn as_server_s_answer(bytes: &[u8]) {
    let to = Destination::parse("example.org", 80).unwrap();
    let (session, mut written) = Single::new(bytes);
    drop(connect(&session, &to).await);
    drop(session);
    let mut request = Vec::new();
    written.read_to_end(&mut request).await.unwrap();
    assert_eq!(Request::decode(&request), Ok(Ok(Request::Connect(to))));
    let (session, _written) = Single::new(bytes);
    drop(check(&session).await);
}

/// A session with one stream, whose other end has sent everything in advance.
struct Single {
    stream: Mutex<Option<Halves>>,
}

type Halves = (WriteHalf<DuplexStream>, io::Cursor<Vec<u8>>);

impl Single {
    fn new(input: &[u8]) -> (Self, ReadHalf<DuplexStream>) {
        let (near, far) = tokio::io::duplex(2 * MOST);
        let (_, send) = tokio::io::split(near);
        let (written, _) = tokio::io::split(far);
        let stream = Mutex::new(Some((send, io::Cursor::new(input.to_vec()))));
        (Self { stream }, written)
    }
}

impl Session for Single {
    type Send = WriteHalf<DuplexStream>;
    type Receive = io::Cursor<Vec<u8>>;

    async fn open(&self) -> io::Result<(Self::Send, Self::Receive)> {
        self.stream.lock().unwrap().take().ok_or_else(|| io::ErrorKind::ConnectionReset.into())
    }

    async fn accept(&self) -> Option<(Self::Send, Self::Receive)> {
        self.stream.lock().unwrap().take()
    }
}
