//! Streams between two endpoints over loopback sockets.

use std::time::Duration;

use crate::common::{Pair, pattern, read_all, soon, within};
use bytes::Bytes;
use manyway::scheduler::Binding;
use manyway::{ConnectionConfig, ConnectionError, PathId, ReadError, WriteError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn bytes_arrive_in_order_in_both_directions_at_once() {
    let pair = Pair::new().await;
    let ((mut send, mut receive), (mut peer_send, mut peer_receive)) = pair.stream().await;
    let (there, back) = (pattern(5_000_000), pattern(3_000_000));
    let write = |data: Vec<u8>| async move {
        let mut data = Bytes::from(data);
        while !data.is_empty() {
            let chunk = data.split_to(data.len().min(70_001));
            send.write_all(&chunk).await.unwrap();
        }
        send.finish().unwrap();
        send.delivered().await.unwrap();
    };
    let write_back = |data: Vec<u8>| async move {
        peer_send.write_chunk(data.into()).await.unwrap();
        peer_send.shutdown().await.unwrap();
    };
    let ((), (), got, got_back) = within(30, async {
        tokio::join!(
            write(there.clone()),
            write_back(back.clone()),
            read_all(&mut peer_receive),
            read_all(&mut receive)
        )
    })
    .await;
    assert!(got == there && got_back == back);
}

#[tokio::test]
async fn a_thousand_streams_share_one_connection() {
    let pair = Pair::new().await;
    let accepted = pair.accepted.clone();
    let echo = tokio::spawn(async move {
        let mut echoes = tokio::task::JoinSet::new();
        while let Ok((mut send, mut receive)) = accepted.accept().await {
            echoes.spawn(async move {
                send.write_chunk(read_all(&mut receive).await.into()).await.unwrap();
                send.finish().unwrap();
            });
        }
        echoes.join_all().await.len()
    });
    let mut callers = tokio::task::JoinSet::new();
    for number in 0..1000_u32 {
        let connection = pair.connected.clone();
        callers.spawn(async move {
            let (mut send, mut receive) = connection.open().await.unwrap();
            send.write_all(&number.to_be_bytes()).await.unwrap();
            send.finish().unwrap();
            assert_eq!(read_all(&mut receive).await, number.to_be_bytes());
        });
    }
    assert_eq!(within(30, callers.join_all()).await.len(), 1000);
    soon(pair.connected.close(0, "")).await;
    assert_eq!(soon(echo).await.unwrap(), 1000);
}

fn small_windows() -> ConnectionConfig {
    let mut config = ConnectionConfig::default();
    config.streams.max_window = 64 * 1024;
    config.streams.stream_receive_window = 64 * 1024;
    config.streams.connection_receive_window = 64 * 1024;
    config.streams.send_buffer = 64 * 1024;
    config.streams.max_send_buffer = 64 * 1024;
    config
}

/// What the writer can write before it is stopped: its own queue, the send buffer, the windows and the reader's queue.
#[tokio::test]
async fn a_reader_that_does_not_read_stops_the_writer() {
    let pair = Pair::with(small_windows(), small_windows()).await;
    let ((mut send, _keep), (_peer_send, mut peer_receive)) = pair.stream().await;
    let mut written = 0;
    let chunk = Bytes::from(vec![5; 16 * 1024]);
    while let Ok(result) =
        tokio::time::timeout(Duration::from_millis(400), send.write_chunk(chunk.clone())).await
    {
        result.unwrap();
        written += chunk.len();
        assert!(written < 400_000, "nothing stops the writer");
    }
    // At least the send buffer and the window: a writer that was stopped before goes on only once half of its own queue
    // is free.
    assert!(written >= 128 * 1024, "{written}");
    let reader = async {
        let mut read = 0;
        while read < written + chunk.len() {
            read += peer_receive.read_chunk(100_000).await.unwrap().unwrap().len();
        }
    };
    soon(async { tokio::join!(reader, async { send.write_chunk(chunk.clone()).await.unwrap() }) }).await;
}

/// What waits at both ends for a reader that does not read, with the windows of streams of programs: 105 KiB at its end, and
/// at most 246 KiB at the writer's.
#[tokio::test]
async fn small_first_windows_bound_what_waits_until_the_reader_reads() {
    const FIRST: usize = 76 << 10;
    let mut config = ConnectionConfig::default();
    config.streams.stream_receive_window = FIRST as u64;
    config.streams.send_buffer = FIRST as u64;
    let pair = Pair::with(config.clone(), config).await;
    let ((mut send, _keep), (_peer_send, mut peer_receive)) = pair.stream().await;
    let chunk = Bytes::from(vec![5; 4096]);
    let mut written = 0;
    while let Ok(result) =
        tokio::time::timeout(Duration::from_millis(400), send.write_chunk(chunk.clone())).await
    {
        result.unwrap();
        written += chunk.len();
    }
    assert!((2 * FIRST..=351 << 10).contains(&written), "{written}");
    // A reader that reads gets all of it, and more.
    let writer = tokio::spawn(async move { while send.write_all(&[5; 65_536]).await.is_ok() {} });
    within(30, async {
        let mut read = 0;
        while read < 64 << 20 {
            read += peer_receive.read_chunk(1 << 20).await.unwrap().unwrap().len();
        }
    })
    .await;
    writer.abort();
}

#[tokio::test]
async fn an_unread_stream_does_not_stop_the_others() {
    let pair = Pair::new().await;
    let ((mut blocked, _a), (_b, _unread)) = pair.stream().await;
    let fill = tokio::spawn(async move { while blocked.write_all(&[1; 65_536]).await.is_ok() {} });
    let ((mut send, _c), (_d, mut receive)) = pair.stream().await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let data = pattern(8_000_000);
    let sent = data.clone();
    let writer = tokio::spawn(async move {
        send.write_all(&sent).await.unwrap();
        send.finish().unwrap();
    });
    assert!(within(30, read_all(&mut receive)).await == data);
    soon(writer).await.unwrap();
    fill.abort();
}

#[tokio::test]
async fn delivered_means_that_the_peer_has_everything() {
    let pair = Pair::new().await;
    let ((mut send, _r), (_s, mut receive)) = pair.stream().await;
    let early = tokio::time::timeout(Duration::from_millis(50), send.delivered()).await;
    assert!(early.is_err(), "an open stream is not delivered");
    send.write_all(b"all of it").await.unwrap();
    send.finish().unwrap();
    assert_eq!(send.finish(), Err(WriteError::Finished));
    assert_eq!(send.write_chunk("more".into()).await, Err(WriteError::Finished));
    soon(send.delivered()).await.unwrap();
    soon(send.delivered()).await.unwrap();
    assert_eq!(soon(read_all(&mut receive)).await, b"all of it");
    assert_eq!(soon(receive.read_chunk(1)).await, Ok(None));
}

#[tokio::test]
async fn a_reset_reaches_the_reader_with_its_code() {
    let pair = Pair::new().await;
    let ((mut send, _r), (_s, mut receive)) = pair.stream().await;
    send.write_chunk("never mind".into()).await.unwrap();
    send.reset(42);
    let mut end = receive.read_chunk(100).await;
    while let Ok(Some(_)) = end {
        end = soon(receive.read_chunk(100)).await;
    }
    assert_eq!(end, Err(ReadError::Reset(42)));
    assert_eq!(soon(send.delivered()).await, Err(WriteError::Reset));
    assert_eq!(soon(send.write_chunk("x".into())).await, Err(WriteError::Reset));
}

#[tokio::test]
async fn a_reset_by_a_writer_that_waits_for_credit_reaches_the_reader() {
    let pair = Pair::with(small_windows(), small_windows()).await;
    let ((mut send, _r), (_s, mut receive)) = pair.stream().await;
    send.write_chunk(vec![0; 1_000_000].into()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(send);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut end = receive.read_chunk(1_000_000).await;
    let mut read = 0;
    while let Ok(Some(chunk)) = end {
        read += chunk.len();
        assert!(read < 200_000, "it goes on although it was reset");
        end = soon(receive.read_chunk(1_000_000)).await;
    }
    assert_eq!(end, Err(ReadError::Reset(0)));
}

#[tokio::test]
async fn a_stop_reaches_the_writer_with_its_code() {
    let pair = Pair::new().await;
    let ((mut send, _r), (_s, mut receive)) = pair.stream().await;
    receive.stop(17);
    assert_eq!(soon(receive.read_chunk(1)).await, Err(ReadError::Stopped));
    assert_eq!(soon(send.delivered()).await, Err(WriteError::Stopped(17)));
    assert_eq!(soon(send.write_chunk("x".into())).await, Err(WriteError::Stopped(17)));
    assert_eq!(send.finish(), Err(WriteError::Stopped(17)));
}

#[tokio::test]
async fn an_unfinished_half_that_is_dropped_is_reset_and_an_unread_one_stopped() {
    let pair = Pair::new().await;
    let ((send, mut receive), (mut peer_send, mut peer_receive)) = pair.stream().await;
    drop(send);
    assert_eq!(soon(peer_receive.read_chunk(1)).await, Err(ReadError::Reset(0)));
    peer_send.write_chunk("for you".into()).await.unwrap();
    assert_eq!(soon(receive.read_chunk(100)).await.unwrap().unwrap(), "for you");
    drop(receive);
    assert_eq!(soon(peer_send.delivered()).await, Err(WriteError::Stopped(0)));
}

#[tokio::test]
async fn a_finished_half_that_is_dropped_arrives_whole() {
    let pair = Pair::new().await;
    let ((mut send, _r), (_s, mut receive)) = pair.stream().await;
    let data = pattern(3_000_000);
    send.write_chunk(data.clone().into()).await.unwrap();
    send.finish().unwrap();
    drop(send);
    assert!(soon(read_all(&mut receive)).await == data);
}

/// The peer allows this many streams at a time; a caller that waits for one may give up.
#[tokio::test]
async fn callers_that_give_up_waiting_for_a_stream_leave_nothing_behind() {
    let mut few = ConnectionConfig::default();
    few.streams.peer_streams = 1;
    let Pair { server, client, accepted, connected } = Pair::with(few, ConnectionConfig::default()).await;
    let (mut send, receive) = soon(connected.open()).await.unwrap();
    for _ in 0..100 {
        assert!(tokio::time::timeout(Duration::from_millis(1), connected.open()).await.is_err());
    }
    send.write_chunk("!".into()).await.unwrap();
    send.finish().unwrap();
    let waiting = tokio::spawn({
        let connected = connected.clone();
        async move { connected.open().await.map(|_| ()) }
    });
    let (mut peer_send, mut peer_receive) = soon(accepted.accept()).await.unwrap();
    assert_eq!(soon(read_all(&mut peer_receive)).await, b"!");
    peer_send.finish().unwrap();
    let mut receive = receive;
    assert!(soon(read_all(&mut receive)).await.is_empty());
    soon(waiting).await.unwrap().unwrap();
    drop((send, receive, connected));
    // The client's end has no handle any more, so it closes.
    assert!(matches!(soon(accepted.closed()).await, ConnectionError::Closed { .. }));
    drop((server, client));
}

#[tokio::test]
async fn thousands_of_stopped_streams_cost_nothing() {
    let pair = Pair::new().await;
    let accepted = pair.accepted.clone();
    let refuse = tokio::spawn(async move { while accepted.accept().await.is_ok() {} });
    for _ in 0..20_000 {
        let (mut send, _) = soon(pair.connected.open()).await.unwrap();
        let _ = send.write_chunk("unwanted".into()).await;
    }
    soon(pair.connected.close(0, "")).await;
    soon(refuse).await.unwrap();
}

#[tokio::test]
async fn a_stream_is_a_tokio_stream() {
    let pair = Pair::new().await;
    let ((mut send, mut receive), (mut peer_send, mut peer_receive)) = pair.stream().await;
    let copied = tokio::spawn(async move {
        let copied = tokio::io::copy(&mut peer_receive, &mut peer_send).await.unwrap();
        peer_send.shutdown().await.unwrap();
        copied
    });
    send.write_all(b"tokio").await.unwrap();
    send.flush().await.unwrap();
    send.shutdown().await.unwrap();
    let mut text = String::new();
    soon(receive.read_to_string(&mut text)).await.unwrap();
    assert_eq!((text.as_str(), soon(copied).await.unwrap()), ("tokio", 5));
    let _ = soon(pair.connected.info()).await.unwrap();
}

#[tokio::test]
async fn unaccepted_streams_use_up_the_credit_of_the_peer() {
    let pair = Pair::new().await;
    let (client, server) = (pair.connected.clone(), pair.accepted.clone());
    // Dropping both halves resets and stops the stream, so that it ends without the application of the server.
    let mut opened = 0;
    while let Ok(stream) = tokio::time::timeout(Duration::from_millis(500), client.open()).await {
        drop(stream.unwrap());
        opened += 1;
        assert!(opened < 2000, "none is accepted");
    }
    for _ in 0..opened {
        server.accept().await.unwrap();
    }
    let (mut send, _receive) = client.open().await.unwrap();
    send.write_chunk(Bytes::from_static(b"last")).await.unwrap();
    let (_send, mut receive) = server.accept().await.unwrap();
    assert_eq!(receive.read_chunk(9).await.unwrap().unwrap(), "last");
}

#[tokio::test]
async fn an_application_binds_a_stream_if_the_scheduler_binds_streams() {
    for (scheduler, binds) in [("stream-bound", true), ("earliest", false)] {
        let mut config = ConnectionConfig::default();
        config.set_scheduler(scheduler).unwrap();
        let pair = Pair::with(ConnectionConfig::default(), config).await;
        // Halves that were dropped would stop the stream.
        let ((mut send, _receive), _accepted) = pair.stream().await;
        for place in [Some(Binding::Path(PathId(0))), Some(Binding::Interface(1)), None] {
            assert_eq!(soon(send.bind(place)).await.unwrap(), binds, "{scheduler}: {place:?}");
        }
        assert!(!soon(send.bind(Some(Binding::Path(PathId(7))))).await.unwrap());
    }
}
