//! Connections whose packets are sealed and sent by threads of their own, over loopback.

use manyway::{ClosedBy, ConnectionConfig, ConnectionError, Endpoint, EndpointOptions, Lanes, ServerOptions};

use crate::common::{
    Pair, SECRET, address, client_with, identity, pattern, read_all, server_with, soon, ticket, within,
};

/// A server and a client with two addresses.
async fn pair() -> Pair {
    let config = ConnectionConfig::default();
    let client = client_with(config.clone(), &[[127, 0, 0, 1], [127, 0, 0, 2]], Lanes::Always);
    Pair::of(server_with(config, Lanes::Always), client).await
}

/// Much in both directions at once, and little at the end: the close follows what was written.
#[tokio::test]
async fn what_was_written_before_a_close_arrives_in_both_directions() {
    let pair = pair().await;
    let data = pattern(20_000_000);
    let ((mut send, mut receive), (mut peer_send, mut peer_receive)) = pair.stream().await;
    for send in [&mut send, &mut peer_send] {
        send.write_chunk(data.clone().into()).await.unwrap();
        send.finish().unwrap();
    }
    let both = async { tokio::join!(read_all(&mut receive), read_all(&mut peer_receive)) };
    let (here, there) = within(60, both).await;
    assert!(here == data && there == data);
    let (mut last, _receive) = soon(pair.connected.open()).await.unwrap();
    last.write_chunk("the last words".into()).await.unwrap();
    last.finish().unwrap();
    let closed = |by| ConnectionError::Closed { by, code: 7, reason: "enough".into() };
    assert_eq!(soon(pair.connected.close(7, "enough")).await, closed(ClosedBy::Us));
    let (_send, mut receive) = soon(pair.accepted.accept()).await.unwrap();
    assert_eq!(soon(read_all(&mut receive)).await, b"the last words");
    assert_eq!(soon(pair.accepted.closed()).await, closed(ClosedBy::Peer));
}

#[tokio::test]
async fn a_closed_endpoint_has_told_its_peers_and_frees_its_port() {
    for round in 0..5 {
        let pair = pair().await;
        let ((mut send, _receive), _peer) = pair.stream().await;
        send.write_chunk(pattern(1_000_000).into()).await.unwrap();
        let listened = address(&pair.server);
        soon(pair.server.close(round, "")).await;
        let error = ConnectionError::Closed { by: ClosedBy::Peer, code: round, reason: String::new() };
        assert_eq!(soon(pair.connected.closed()).await, error);
        let mut again = ServerOptions::new(identity(), &SECRET);
        again.listen = vec![listened];
        let mut options = EndpointOptions::default();
        (options.server, options.lanes) = (Some(again), Lanes::Always);
        let again = Endpoint::bind(options).unwrap();
        let ticket = ticket(&[address(&again)]);
        let (connected, _) = soon(async { tokio::join!(pair.client.connect(&ticket), again.accept()) }).await;
        soon(connected.unwrap().close(0, "")).await;
    }
}
