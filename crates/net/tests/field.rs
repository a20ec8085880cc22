//! Cases from the field that need no privilege.

use std::time::{Duration, Instant};

use crate::common::{Relay, address, client, client_from, lasting_server, soon, ticket};
use bytes::Bytes;
use manyway::{ConnectionConfig, ConnectionError};

/// The server is killed and restarted with its keys: it cannot close its connections, but a client that still sends
/// learns at once by a stateless reset.
#[tokio::test]
async fn a_server_restarted_with_its_keys_ends_old_connections_within_a_second() {
    let before = lasting_server("127.0.0.1:0".parse().unwrap());
    let relay = Relay::new(address(&before)).await;
    let client = client(ConnectionConfig::default());
    let ticket = ticket(&[relay.address]);
    let (connected, accepted) = soon(async { tokio::join!(client.connect(&ticket), before.accept()) }).await;
    let (connected, accepted) = (connected.unwrap(), accepted.unwrap());
    let (mut send, _receive) = soon(connected.open()).await.unwrap();
    let writer = tokio::spawn(async move {
        let chunk = Bytes::from_static(&[7; 50_000]);
        while send.write_chunk(chunk.clone()).await.is_ok() {}
    });
    let (_send, mut receive) = soon(accepted.accept()).await.unwrap();
    let mut read = 0;
    while read < 3_000_000 {
        read += soon(receive.read_chunk(usize::MAX)).await.unwrap().unwrap().len();
    }
    let after = lasting_server("127.0.0.1:0".parse().unwrap());
    relay.redirect(address(&after));
    let restarted_at = Instant::now();
    assert_eq!(soon(connected.closed()).await, ConnectionError::Reset);
    assert!(restarted_at.elapsed() < Duration::from_secs(1), "{:?}", restarted_at.elapsed());
    soon(writer).await.unwrap();
    // The same ticket still works.
    let (connected, accepted) = soon(async { tokio::join!(client.connect(&ticket), after.accept()) }).await;
    assert!(connected.is_ok() && accepted.is_some());
}

/// Nothing is in flight when the server is restarted: the client's next packet is answered by the reset.
#[tokio::test]
async fn an_idle_client_learns_of_the_restart_with_its_next_packet() {
    let before = lasting_server("127.0.0.1:0".parse().unwrap());
    let relay = Relay::new(address(&before)).await;
    let client = client_from(ConnectionConfig::default(), &[[127, 0, 0, 1]]);
    let ticket = ticket(&[relay.address]);
    let (connected, accepted) = soon(async { tokio::join!(client.connect(&ticket), before.accept()) }).await;
    let (connected, _accepted) = (connected.unwrap(), accepted.unwrap());
    let after = lasting_server("127.0.0.1:0".parse().unwrap());
    relay.redirect(address(&after));
    let spoke_at = Instant::now();
    // On a busy machine the last packets of the handshake may leave only now, and be answered before these.
    if let Ok((mut send, _receive)) = soon(connected.open()).await {
        drop(soon(send.write_chunk(Bytes::from_static(b"still there?"))).await);
    }
    assert_eq!(soon(connected.closed()).await, ConnectionError::Reset);
    assert!(spoke_at.elapsed() < Duration::from_secs(1), "{:?}", spoke_at.elapsed());
}
