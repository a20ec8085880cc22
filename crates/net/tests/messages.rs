//! Messages between two endpoints over loopback sockets.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use crate::common::{Pair, pattern, soon, within};
use bytes::Bytes;
use manyway::{
    Class, ConnectionConfig, Event, MessageOptions, Order, ReadError, ReceiveStream, SendStream, WriteError,
};
use tokio::task::JoinSet;

type Halves = (SendStream, ReceiveStream);

/// A stream that the client opened, with its first message received.
async fn stream(pair: &Pair) -> (Halves, Halves) {
    let (mut send, receive) = soon(pair.connected.open()).await.unwrap();
    soon(send.send_message("!".into(), MessageOptions::default())).await.unwrap();
    let (peer_send, mut peer_receive) = soon(pair.accepted.accept()).await.unwrap();
    assert_eq!(soon(peer_receive.receive_message()).await.unwrap().unwrap().data, "!");
    ((send, receive), (peer_send, peer_receive))
}

#[tokio::test]
async fn messages_keep_their_boundaries_their_order_and_their_protocol() {
    let pair = Pair::new().await;
    let ((mut send, _receive), (_peer_send, mut peer_receive)) = stream(&pair).await;
    let most = usize::try_from(pair.connected.max_message().unwrap()).unwrap();
    let sizes = [1, 0, 1_200, 70_000, most, 5];
    let sending = async {
        for size in sizes {
            let options = MessageOptions::default().protocol(u32::try_from(size).unwrap());
            send.send_message(pattern(size).into(), options).await.unwrap();
        }
        send.finish().unwrap();
        send.delivered().await.unwrap();
    };
    let receiving = async {
        let mut seen = Vec::new();
        while let Some(message) = peer_receive.receive_message().await.unwrap() {
            assert!(message.data == pattern(message.data.len()));
            assert_eq!((message.protocol as usize, message.order), (message.data.len(), Order::Ordered));
            seen.push(message.data.len());
        }
        seen
    };
    let ((), seen) = within(30, async { tokio::join!(sending, receiving) }).await;
    assert_eq!(seen, sizes);
}

#[tokio::test]
async fn a_hundred_thousand_small_messages_arrive_while_the_reader_is_slow() {
    let pair = Pair::new().await;
    let ((mut send, _receive), (_peer_send, mut peer_receive)) = stream(&pair).await;
    send.set_class(Class::Interactive);
    let options = MessageOptions::default().order(Order::Unordered);
    let sending = async {
        for number in 0..100_000_u32 {
            send.send_message(Bytes::copy_from_slice(&number.to_be_bytes()), options).await.unwrap();
        }
        send.finish().unwrap();
    };
    let receiving = async {
        let mut sum = 0_u64;
        let mut count = 0_u32;
        while let Some(message) = peer_receive.receive_message().await.unwrap() {
            sum += u64::from(u32::from_be_bytes(message.data[..].try_into().unwrap()));
            count += 1;
            if count.is_multiple_of(20_000) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        (count, sum)
    };
    let ((), received) = within(60, async { tokio::join!(sending, receiving) }).await;
    assert_eq!(received, (100_000, 99_999 * 100_000 / 2));
}

async fn send_five((mut send, _receive): Halves, size: usize) {
    for _ in 0..5 {
        send.send_message(pattern(size).into(), MessageOptions::default()).await.unwrap();
    }
    send.finish().unwrap();
    send.delivered().await.unwrap();
}

async fn receive_five_late((_send, mut receive): Halves, size: usize) {
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut seen = 0;
    while let Some(message) = receive.receive_message().await.unwrap() {
        assert!(message.data == pattern(size));
        seen += 1;
    }
    assert_eq!(seen, 5);
}

#[tokio::test]
async fn a_small_connection_delivers_its_largest_messages_to_waiting_readers() {
    let pair = Pair::with(ConnectionConfig::small(), ConnectionConfig::small()).await;
    let most = usize::try_from(pair.connected.max_message().unwrap()).unwrap();
    let mut ends = JoinSet::new();
    for _ in 0..8 {
        let (ours, theirs) = stream(&pair).await;
        ends.spawn(send_five(ours, most));
        ends.spawn(receive_five_late(theirs, most));
    }
    within(30, ends.join_all()).await;
}

#[tokio::test]
async fn misuse_is_reported_at_once() {
    let pair = Pair::new().await;
    let ((mut send, _receive), (mut peer_send, mut peer_receive)) = stream(&pair).await;
    let most = pair.connected.max_message().unwrap();
    let large = Bytes::from(vec![0; usize::try_from(most).unwrap() + 1]);
    let refused = send.send_message(large, MessageOptions::default()).await;
    assert_eq!(refused, Err(WriteError::TooLarge { size: most + 1, most }));
    send.send_message("message".into(), MessageOptions::default()).await.unwrap();
    assert_eq!(send.write_chunk("bytes".into()).await, Err(WriteError::CarriesMessages));
    assert_eq!(peer_receive.read_chunk(100).await, Err(ReadError::CarriesMessages));
    assert_eq!(peer_receive.receive_message().await.unwrap().unwrap().data, "message");
    // The other direction may carry the other kind.
    peer_send.write_chunk("bytes".into()).await.unwrap();
    let refused = peer_send.send_message("message".into(), MessageOptions::default()).await;
    assert_eq!(refused, Err(WriteError::CarriesBytes));
}

#[tokio::test]
async fn an_abandoned_message_is_reported_by_its_token() {
    let pair = Pair::new().await;
    let ((mut send, _receive), _peer) = stream(&pair).await;
    let mut events = pair.connected.events();
    let gone = MessageOptions::default().lifetime(Duration::ZERO);
    let token = send.send_message("late".into(), gone).await.unwrap();
    let told = within(10, async {
        loop {
            if let Event::MessageAbandoned { stream, message } = events.recv().await.unwrap() {
                return (stream, message);
            }
        }
    })
    .await;
    assert_eq!(told, (send.id(), token));
    assert_eq!(pair.connected.info().await.unwrap().statistics.messages.dropped, 1);
}
