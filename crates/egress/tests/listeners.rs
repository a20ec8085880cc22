//! Ports at the server. Tests carry the rules of the specification.

use std::net::SocketAddr;
use std::sync::Arc;

use manyway_egress::{Access, GatewayConfig, Incoming, Listening, Reason, Treatment, accept, listen};
use manyway_session::{Session as _, Urgency};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::common::{
    MemoryReceive, MemorySend, MemorySession, Names, gateway, in_time, pair, read_all, reason,
    serve_listening, until,
};

const USUAL: Treatment = Treatment { class: None, lifetime: None };

/// A client that may listen on loopback.
fn client() -> (MemorySession, manyway_egress::Quota) {
    serve_listening(gateway(&[], GatewayConfig::default(), Names::default()), &["127.0.0.1", "::1"])
}

async fn listening(client: &MemorySession, number: u16) -> Listening {
    let at = (number, "127.0.0.1:0".parse().unwrap());
    in_time(listen(client, at, USUAL)).await.unwrap()
}

async fn next(client: &MemorySession) -> Incoming<MemorySend, MemoryReceive> {
    let (send, receive) = in_time(client.accept()).await.unwrap();
    in_time(accept(send, receive)).await.unwrap()
}

// egress 9.1, 9.2
#[tokio::test]
async fn connections_to_a_listener_come_to_the_client_with_its_number_and_their_peer() {
    let (client, _) = client();
    let (first, second) = (listening(&client, 7).await, listening(&client, 8).await);
    for (listener, number) in [(&second, 8), (&first, 7)] {
        let mut program = TcpStream::connect(listener.address).await.unwrap();
        let incoming = next(&client).await;
        assert_eq!((incoming.number, incoming.peer), (number, program.local_addr().unwrap()));
        let (mut send, mut receive) = incoming.accept().await.unwrap();
        program.write_all(b"question").await.unwrap();
        program.shutdown().await.unwrap();
        assert_eq!(read_all(&mut receive).await.unwrap(), b"question");
        send.write_all(b"answer").await.unwrap();
        send.shutdown().await.unwrap();
        assert_eq!(read_all(&mut program).await.unwrap(), b"answer");
    }
}

// egress 2.6, 9.2
#[tokio::test]
async fn the_server_sends_connections_of_a_listener_in_the_class_that_the_client_asks_for() {
    let (near, far) = pair();
    let far = Arc::new(far);
    let gateway = gateway(&[], GatewayConfig::default(), Names::default());
    let serving = Arc::clone(&far);
    tokio::spawn(async move {
        let (quota, may) = (gateway.quota(), ["127.0.0.1".parse().unwrap()]);
        let client = Access { session: &*serving, quota: &quota, listen: &may };
        while let Some((send, receive)) = serving.accept().await {
            drop(gateway.answer(&client, send, receive).await);
        }
    });
    let treatment = Treatment { class: Some(Urgency::Bulk), lifetime: None };
    let classes = [Urgency::Interactive, Urgency::Bulk];
    for (treatment, expected) in [(USUAL, &classes[..1]), (treatment, &classes[..])] {
        let at = (1, "127.0.0.1:0".parse().unwrap());
        let listener = in_time(listen(&near, at, treatment)).await.unwrap();
        let _program = TcpStream::connect(listener.address).await.unwrap();
        next(&near).await.accept().await.unwrap();
        assert_eq!(*far.urgencies.lock().unwrap(), expected);
    }
}

// egress 9.6
#[tokio::test]
async fn a_connection_that_the_client_refuses_is_reset() {
    let (client, quota) = client();
    let listener = listening(&client, 1).await;
    let free = quota.free_connections();
    let mut program = TcpStream::connect(listener.address).await.unwrap();
    next(&client).await.refuse(Reason::Refused).await.unwrap();
    assert_eq!(read_all(&mut program).await, Err(std::io::ErrorKind::ConnectionReset));
    until(|| quota.free_connections() == free).await;
}

// egress 9.3
#[tokio::test]
async fn a_listener_and_its_connections_end_with_the_request() {
    let (client, quota) = client();
    let free = quota.free_connections();
    let listener = listening(&client, 1).await;
    let mut program = TcpStream::connect(listener.address).await.unwrap();
    let (_send, _receive) = next(&client).await.accept().await.unwrap();
    let address = listener.address;
    drop(listener);
    assert_eq!(
        in_time(program.read(&mut [0])).await.unwrap_err().kind(),
        std::io::ErrorKind::ConnectionReset
    );
    until(|| quota.free_connections() == free).await;
    assert!(TcpStream::connect(address).await.is_err());
}

// egress 9.4
#[tokio::test]
async fn a_client_listens_only_where_it_may() {
    let held = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let taken = held.local_addr().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let may = [format!("127.0.0.1:{}", taken.port()), format!("127.0.0.1:{}", free.port())];
    let other =
        SocketAddr::from(([127, 0, 0, 1], if free.port() == 65_535 { 1024 } else { free.port() + 1 }));
    let openings: Vec<_> = may.iter().map(String::as_str).collect();
    let (client, _) = serve_listening(gateway(&[], GatewayConfig::default(), Names::default()), &openings);
    for forbidden in [other, SocketAddr::from(([0, 0, 0, 0], free.port())), "[::1]:0".parse().unwrap()] {
        assert_eq!(
            reason(in_time(listen(&client, (1, forbidden), USUAL)).await),
            Reason::Forbidden,
            "{forbidden}"
        );
    }
    assert_eq!(reason(in_time(listen(&client, (1, taken), USUAL)).await), Reason::Other, "the port is taken");
    drop(held);
    assert_eq!(in_time(listen(&client, (1, free), USUAL)).await.unwrap().address, free);
}

// egress 9.1
#[tokio::test]
async fn a_client_without_the_right_listens_nowhere() {
    let (client, _) =
        serve_listening(gateway(&["0.0.0.0/0"], GatewayConfig::default(), Names::default()), &[]);
    let address = "127.0.0.1:0".parse().unwrap();
    assert_eq!(reason(in_time(listen(&client, (1, address), USUAL)).await), Reason::Forbidden);
}
