//! A carried connection as its program sees it.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use manyway_egress::{
    Access, Destination, GatewayConfig, Quota, Reason, Refusal, Treatment, check, connect, connect_as,
    decline, relay, relay_tcp,
};
use manyway_session::{Session as _, Urgency};
use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::common::{
    MemorySession, Names, gateway, in_time, listen, pair, read_all, reason, serve, serve_with, sockets, until,
};

/// A program's socket that is carried to `destination` over `session`, with the server's socket behind it.
async fn carried(
    session: &MemorySession,
    listener: &TcpListener,
    to: &Destination,
) -> (TcpStream, TcpStream) {
    let (program, local) = sockets().await;
    let (opened, accepted) = tokio::join!(in_time(connect(session, to)), in_time(listener.accept()));
    let opened = opened.unwrap();
    tokio::spawn(async move {
        drop(relay_tcp(local, (opened.send, opened.receive), &Quota::unlimited()).await);
    });
    (program, accepted.unwrap().0)
}

#[tokio::test]
async fn written_data_arrives_complete_in_both_directions_and_the_address_is_reported() {
    let (session, quota) = serve(&["127.0.0.1"]);
    let (listener, to) = listen().await;
    let opened = in_time(connect(&session, &to)).await.unwrap();
    assert_eq!(opened.address, listener.local_addr().unwrap());
    drop(opened);
    drop(listener.accept().await);
    let (mut program, mut destination) = carried(&session, &listener, &to).await;
    let data: Vec<u8> = (0..3_000_000_u32).map(|i| i.to_le_bytes()[1]).collect();
    for (from, into) in [(&mut program, &mut destination)] {
        let writing = async {
            from.write_all(&data).await.unwrap();
            from.shutdown().await.unwrap();
        };
        let ((), got) = tokio::join!(writing, read_all(into));
        assert!(got.unwrap() == data);
    }
    // The other direction goes on after the end of the first.
    let writing = async {
        destination.write_all(&data).await.unwrap();
        destination.shutdown().await.unwrap();
    };
    let ((), got) = tokio::join!(writing, read_all(&mut program));
    assert!(got.unwrap() == data);
    until(|| quota.free_connections() == 512 && quota.free_bytes() == 16 << 20).await;
}

// egress 4.2
#[tokio::test]
async fn the_end_of_one_direction_leaves_the_other_open() {
    let (session, _) = serve(&["127.0.0.1"]);
    let (listener, to) = listen().await;
    let (mut program, mut destination) = carried(&session, &listener, &to).await;
    program.write_all(b"question").await.unwrap();
    program.shutdown().await.unwrap();
    assert_eq!(read_all(&mut destination).await.unwrap(), b"question");
    destination.write_all(b"answer").await.unwrap();
    drop(destination);
    assert_eq!(read_all(&mut program).await.unwrap(), b"answer");
}

fn reset(socket: TcpStream) {
    SockRef::from(&socket).set_linger(Some(Duration::ZERO)).unwrap();
    drop(socket);
}

// egress 4.3
#[tokio::test]
async fn a_reset_at_either_end_is_a_reset_at_the_other() {
    let (session, quota) = serve(&["127.0.0.1"]);
    let (listener, to) = listen().await;
    let (program, mut destination) = carried(&session, &listener, &to).await;
    reset(program);
    assert_eq!(read_all(&mut destination).await, Err(ErrorKind::ConnectionReset));
    let (mut program, destination) = carried(&session, &listener, &to).await;
    reset(destination);
    assert_eq!(read_all(&mut program).await, Err(ErrorKind::ConnectionReset));
    until(|| quota.free_connections() == 512).await;
}

// egress 4.4
#[tokio::test]
async fn a_reset_after_a_half_close_is_detected_without_a_read() {
    let (session, quota) = serve(&["127.0.0.1"]);
    let (listener, to) = listen().await;
    let (mut program, mut destination) = carried(&session, &listener, &to).await;
    program.shutdown().await.unwrap();
    assert_eq!(read_all(&mut destination).await.unwrap(), b"");
    reset(program);
    // Without the reset it could write until buffers are full, and then wait for ever.
    let failed = async {
        while destination.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    in_time(failed).await;
    until(|| quota.free_connections() == 512).await;
}

// egress 4.3
#[tokio::test]
async fn a_broken_connection_resets_both_programs() {
    let (near, far) = pair();
    let gateway = gateway(&["127.0.0.1"], GatewayConfig::default(), Names::default());
    let quota = gateway.quota();
    let server = tokio::spawn(async move {
        let (send, receive) = far.accept().await.unwrap();
        let client = Access { session: &far, quota: &quota, listen: &[] };
        drop(gateway.answer(&client, send, receive).await);
    });
    let (listener, to) = listen().await;
    let (mut program, mut destination) = carried(&near, &listener, &to).await;
    program.write_all(b"the beginning").await.unwrap();
    let mut beginning = [0; 13];
    in_time(destination.read_exact(&mut beginning)).await.unwrap();
    server.abort();
    assert_eq!(read_all(&mut destination).await, Err(ErrorKind::ConnectionReset));
    assert_eq!(read_all(&mut program).await, Err(ErrorKind::ConnectionReset));
}

// egress 4.1
#[tokio::test]
async fn a_destination_that_does_not_read_stops_the_program() {
    let (session, _) = serve(&["127.0.0.1"]);
    let (listener, to) = listen().await;
    let (program, mut destination) = carried(&session, &listener, &to).await;
    let chunk = vec![7; 64 << 10];
    let mut written = 0;
    // Until nothing is accepted for a while: sockets, buffers and the stream are full.
    loop {
        let taken = tokio::time::timeout(Duration::from_millis(500), async {
            program.writable().await.unwrap();
            program.try_write(&chunk)
        });
        match taken.await {
            Ok(Ok(length)) => written += length,
            Ok(Err(error)) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            Err(_) => break,
        }
        assert!(written < 64 << 20, "the program is not stopped");
    }
    drop(program);
    assert_eq!(read_all(&mut destination).await.unwrap().len(), written);
}

#[tokio::test]
async fn each_failure_of_the_destination_has_its_own_reason() {
    let names = Names::of("here.test", &[&["127.0.0.1"]]);
    let (session, _) = serve_with(gateway(&["127.0.0.0/8"], GatewayConfig::default(), names));
    let (listener, to) = listen().await;
    drop(listener);
    assert_eq!(reason(in_time(connect(&session, &to)).await), Reason::Refused);
    let nowhere = Destination::parse("nowhere.test", 80).unwrap();
    assert_eq!(reason(in_time(connect(&session, &nowhere)).await), Reason::NameNotFound);
    let (listener, to) = listen().await;
    let by_name = Destination::parse("here.test", to.port()).unwrap();
    let opened = in_time(connect(&session, &by_name)).await.unwrap();
    assert_eq!(opened.address, listener.local_addr().unwrap());
}

// egress 2.3, 2.4
#[tokio::test]
async fn a_server_without_egress_says_how_it_must_be_started() {
    let (near, far) = pair();
    let declining = tokio::spawn(async move {
        let mut told = Vec::new();
        while let Some((send, receive)) = far.accept().await {
            told.push(decline(send, receive).await);
        }
        told
    });
    let error = in_time(check(&near)).await.unwrap_err();
    assert!(error.to_string().contains("manyway serve --egress"), "{error}");
    let to = Destination::parse("example.org", 80).unwrap();
    assert_eq!(reason(in_time(connect(&near, &to)).await), Reason::NotEnabled);
    drop(near);
    let told = in_time(declining).await.unwrap();
    let told: Vec<_> = told.iter().map(|error| (error.destination.clone(), error.to_string())).collect();
    let refusal = Refusal::new(Reason::NotEnabled);
    let of_destination = format!("example.org:80: {refusal}");
    assert_eq!(told, [(None, refusal.to_string()), (Some(to), of_destination)]);
    let (session, _) = serve(&[]);
    in_time(check(&session)).await.unwrap();
}

// egress 2.5
#[tokio::test]
async fn data_sent_right_after_the_request_arrives() {
    let (session, _) = serve(&["127.0.0.1"]);
    let (listener, to) = listen().await;
    let (mut send, mut receive) = session.open().await.unwrap();
    let port = to.port().to_be_bytes();
    let request = [&[0x45, 1, 1, 0, 7][..], &port, &[1, 127, 0, 0, 1], b"at once"].concat();
    send.write_all(&request).await.unwrap();
    let (mut destination, _) = in_time(listener.accept()).await.unwrap();
    let mut got = [0; 7];
    in_time(destination.read_exact(&mut got)).await.unwrap();
    assert_eq!(&got, b"at once");
    let mut answer = [0; 12];
    in_time(receive.read_exact(&mut answer)).await.unwrap();
    assert_eq!(answer[..10], [0x45, 1, 0, 0, 7, 1, 127, 0, 0, 1]);
}

#[tokio::test]
async fn pipes_are_carried_as_sockets_are() {
    let (session, _) = serve(&["127.0.0.1"]);
    let (listener, to) = listen().await;
    let opened = in_time(connect(&session, &to)).await.unwrap();
    let (mut destination, _) = in_time(listener.accept()).await.unwrap();
    let (mut output, local) = tokio::io::duplex(1024);
    let (_, local) = tokio::io::split(local);
    let input: &[u8] = b"from standard input";
    let relaying = tokio::spawn(async move {
        relay((input, local), (opened.send, opened.receive), &Quota::unlimited()).await
    });
    assert_eq!(read_all(&mut destination).await.unwrap(), b"from standard input");
    destination.write_all(b"to standard output").await.unwrap();
    drop(destination);
    let volume = in_time(relaying).await.unwrap().unwrap();
    assert_eq!((volume.sent, volume.received), (19, 18));
    assert_eq!(read_all(&mut output).await.unwrap(), b"to standard output");
}

// egress 4.6
#[tokio::test]
async fn a_connection_that_moves_much_becomes_bulk_in_each_direction_by_itself() {
    let (session, _) = serve(&["127.0.0.1"]);
    let (listener, to) = listen().await;
    let (mut program, mut destination) = carried(&session, &listener, &to).await;
    let much = vec![7; 3_000_000];
    let classes = |of: &MemorySession| of.urgencies.lock().unwrap().clone();
    program.write_all(b"question").await.unwrap();
    destination.read_exact(&mut [0; 8]).await.unwrap();
    assert_eq!(classes(&session), [Urgency::Interactive]);
    let mut read = vec![0; much.len()];
    for is_back in [false, true] {
        let (from, into) =
            if is_back { (&mut destination, &mut program) } else { (&mut program, &mut destination) };
        let (written, arrived) = tokio::join!(from.write_all(&much), into.read_exact(&mut read));
        written.unwrap();
        arrived.unwrap();
        let [near, far] = [classes(&session), session.others()];
        assert_eq!(near[..2], [Urgency::Interactive, Urgency::Bulk]);
        assert_eq!((far[0], far.contains(&Urgency::Bulk)), (Urgency::Interactive, is_back));
    }
}

// egress 2.6
#[tokio::test]
async fn both_directions_of_a_connection_have_the_class_that_the_opener_asks_for() {
    let (near, far) = pair();
    let far = Arc::new(far);
    let gateway = gateway(&["127.0.0.1"], GatewayConfig::default(), Names::default());
    let serving = Arc::clone(&far);
    tokio::spawn(async move {
        let quota = gateway.quota();
        while let Some((send, receive)) = serving.accept().await {
            let client = Access { session: &*serving, quota: &quota, listen: &[] };
            drop(gateway.answer(&client, send, receive).await);
        }
    });
    let (_listener, to) = listen().await;
    let class = Some(Urgency::Bulk);
    drop(in_time(connect_as(&near, &to, Treatment { class, lifetime: None })).await.unwrap());
    in_time(connect(&near, &to)).await.unwrap();
    for session in [&near, &far] {
        let classes = session.urgencies.lock().unwrap();
        assert_eq!(*classes, [Urgency::Bulk, Urgency::Interactive], "by default it begins as interactive");
    }
    // A second treatment is one too many.
    let treatment = [0x45, 1, 7, 0, 3, 1, 0, 0];
    let (mut send, mut receive) = near.open().await.unwrap();
    send.write_all(&[treatment, treatment].concat()).await.unwrap();
    assert_eq!(read_all(&mut receive).await.unwrap()[..3], [0x45, 1, 11], "unsupported");
}
