//! Relays over TCP, on loopback.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_proto::{
    ByteCount, CodeReceiver, CodeReceiverEvent, CodeSender, CodeSenderEvent, ForwardLimits, Rate, RelayKey,
    RelayLimits,
};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::over_tcp::relayed;
use super::post::Post;
use super::{Access, random};
use crate::tcp::RecordStream;
use crate::{Clock, Endpoint, EndpointOptions, RendezvousServer};

/// Far more than anything takes here.
const LONG: Duration = Duration::from_secs(20);
const RECORD: usize = 60_000;
/// Two zero bytes would make it a message to the server.
static PACKET: [u8; RECORD] = [0x40; RECORD];

/// A rendezvous server that relays so many bytes for a pair.
fn serve(bytes: ByteCount) -> (SocketAddr, JoinHandle<()>) {
    let mut forwarding = ForwardLimits::default();
    (forwarding.rate, forwarding.bytes) = (Rate::from_bytes_per_second(10_000_000_000), bytes);
    let mut limits = RelayLimits::default();
    limits.forwarding = Some(forwarding);
    let mut server = RendezvousServer::bind(&["127.0.0.1:0".parse().unwrap()], limits).unwrap();
    let address = server.local_addresses()[0];
    (address, tokio::spawn(async move { server.run().await.unwrap() }))
}

/// Exchanges a code, and returns the keys of both ends.
async fn keys(access: &Access, server: SocketAddr) -> [RelayKey; 2] {
    let (servers, clock) = ([server], Clock::new());
    let mut posts = [Post::new(access.clone(), clock), Post::new(access.clone(), clock)];
    let mut sender = CodeSender::new(clock.now(), &servers, random().unwrap());
    let code = loop {
        match sender.poll_event() {
            Some(CodeSenderEvent::Opened(code)) => break code,
            event => assert_eq!(event, None),
        }
        posts[0].turn(&mut sender).await;
    };
    assert!(sender.set_content(clock.now(), b"content"));
    let mut receiver = CodeReceiver::new(clock.now(), &code, &servers, random().unwrap());
    let [offering, fetching] = &mut posts;
    while !matches!(receiver.poll_event(), Some(CodeReceiverEvent::Content(_))) {
        tokio::select! {
            () = offering.turn(&mut sender) => {}
            () = fetching.turn(&mut receiver) => {}
        }
    }
    [sender.relay_key(), receiver.relay_key()]
}

/// Two ends between which the server relays.
async fn ends(server: SocketAddr) -> [RecordStream; 2] {
    let endpoint = Endpoint::bind(EndpointOptions::default()).unwrap();
    let access = &endpoint.access().unwrap();
    let [offering, fetching] = timeout(LONG, keys(access, server)).await.unwrap();
    let both = async { tokio::join!(relayed(access, server, offering), relayed(access, server, fetching)) };
    let (offering, fetching) = timeout(LONG, both).await.unwrap();
    [offering.unwrap(), fetching.unwrap()]
}

async fn flush(stream: &mut RecordStream) {
    poll_fn(|context| stream.poll_flush(context)).await.unwrap();
}

/// The next packet; `None` when the connection has ended.
async fn packet(stream: &mut RecordStream) -> Option<usize> {
    let mut buffer = vec![0; RECORD];
    loop {
        while let Some(record) = stream.next_record() {
            // A late answer of the server may be among them.
            if record.first() == Some(&0x40) {
                return Some(record.len());
            }
        }
        let read = poll_fn(|context| stream.poll_read(context, &mut buffer)).await;
        if !read.is_ok_and(|length| length > 0) {
            return None;
        }
    }
}

// spec 10.50
#[tokio::test(flavor = "multi_thread")]
async fn a_direction_of_a_relay_that_is_full_does_not_hold_up_the_other() {
    let (server, serving) = serve(ByteCount(10_000_000_000));
    let [mut one, mut other] = ends(server).await;
    other.set_receive_window(Some(ByteCount(100_000)));
    // Until neither the other end nor the server takes more.
    loop {
        one.write(&PACKET).unwrap();
        if timeout(Duration::from_millis(500), flush(&mut one)).await.is_err() {
            break;
        }
    }
    other.write(&PACKET[..100]).unwrap();
    flush(&mut other).await;
    assert_eq!(timeout(LONG, packet(&mut one)).await.unwrap(), Some(100));
    // What waited comes once the other end reads.
    for _ in 0..3 {
        assert_eq!(timeout(LONG, packet(&mut other)).await.unwrap(), Some(RECORD));
    }
    serving.abort();
}

// spec 10.51
#[tokio::test(flavor = "multi_thread")]
async fn a_relayed_connection_ends_with_its_other_end_although_nothing_was_sent() {
    let (server, serving) = serve(ByteCount(1_000_000));
    for end in [0, 1] {
        let mut both = Vec::from(ends(server).await);
        drop(both.remove(end));
        assert_eq!(timeout(LONG, packet(&mut both[0])).await.unwrap(), None);
    }
    serving.abort();
}

// spec 10.55
#[tokio::test(flavor = "multi_thread")]
async fn a_pair_beyond_its_bytes_loses_both_connections() {
    let (server, serving) = serve(ByteCount(3 * RECORD as u64 + 100));
    let [mut one, mut other] = ends(server).await;
    for _ in 0..4 {
        one.write(&PACKET).unwrap();
        flush(&mut one).await;
    }
    let mut came = 0;
    while let Some(length) = timeout(LONG, packet(&mut other)).await.unwrap() {
        assert_eq!(length, RECORD);
        came += 1;
    }
    assert_eq!(came, 3);
    assert_eq!(timeout(LONG, packet(&mut one)).await.unwrap(), None);
    serving.abort();
}
