//! Ports of UDP at the server. Tests carry the rules of the specification.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_egress::{
    EgressError, FlowReceiver, FlowSender, GatewayConfig, IncomingFlow, Listening, Quota, Reason, Treatment,
    accept_flow, listen_datagrams,
};
use manyway_session::{Session as _, Urgency};
use tokio::net::UdpSocket;

use crate::common::{
    Ends, MessageSession, Names, gateway, in_time, noted_messages, reason, serve_datagrams, until,
};

const USUAL: Treatment = Treatment { class: None, lifetime: None };

/// A client that may listen on loopback.
fn client(config: GatewayConfig) -> (MessageSession, Quota, Ends) {
    serve_datagrams(gateway(&[], config, Names::default()), &["127.0.0.1", "::1"])
}

async fn listening(client: &MessageSession, number: u16) -> Listening {
    let at = (number, "127.0.0.1:0".parse().unwrap());
    in_time(listen_datagrams(client, at, USUAL)).await.unwrap()
}

async fn next(client: &MessageSession) -> IncomingFlow {
    let (send, receive) = in_time(client.accept()).await.unwrap();
    in_time(accept_flow(MessageSession::messages(send, receive).unwrap())).await.unwrap()
}

async fn program(to: &Listening) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(to.address).await.unwrap();
    socket
}

/// Accepts the flow of a program that has sent "first".
async fn accepted(client: &MessageSession, program: &UdpSocket) -> (FlowSender, FlowReceiver) {
    program.send(b"first").await.unwrap();
    let incoming = next(client).await;
    assert_eq!(incoming.peer, program.local_addr().unwrap());
    let (sender, mut receiver) = incoming.accept(USUAL).await.unwrap();
    assert_eq!(text(&mut receiver).await, "first");
    (sender, receiver)
}

async fn text(receiver: &mut FlowReceiver) -> String {
    let datagram = in_time(receiver.receive()).await.unwrap().unwrap();
    assert_eq!((datagram.address, datagram.error), (None, None));
    String::from_utf8(datagram.payload.to_vec()).unwrap()
}

async fn answer(program: &UdpSocket) -> String {
    let mut buffer = [0; 100];
    let length = in_time(program.recv(&mut buffer)).await.unwrap();
    String::from_utf8(buffer[..length].to_vec()).unwrap()
}

// egress 9.7, 9.8
#[tokio::test]
async fn each_peer_of_a_listener_is_a_flow_with_its_number_and_is_answered_from_the_port() {
    let (client, _, _) = client(GatewayConfig::default());
    let (first, second) = (listening(&client, 7).await, listening(&client, 8).await);
    for (listener, number) in [(&second, 8), (&first, 7), (&first, 7)] {
        let program = program(listener).await;
        program.send(b"one").await.unwrap();
        let incoming = next(&client).await;
        assert_eq!((incoming.number, incoming.peer), (number, program.local_addr().unwrap()));
        program.send(b"two").await.unwrap();
        let (mut sender, mut receiver) = incoming.accept(USUAL).await.unwrap();
        assert_eq!([text(&mut receiver).await, text(&mut receiver).await], ["one", "two"]);
        assert!(sender.send(None, b"back").unwrap());
        assert_eq!(answer(&program).await, "back", "its socket takes nothing from another address");
    }
}

// egress 9.8
#[tokio::test]
async fn a_flow_to_a_listener_answers_its_peer_alone() {
    let (client, _, _) = client(GatewayConfig::default());
    let listener = listening(&client, 1).await;
    let (one, other) = (program(&listener).await, UdpSocket::bind("127.0.0.1:0").await.unwrap());
    let (mut sender, _receiver) = accepted(&client, &one).await;
    let elsewhere = other.local_addr().unwrap();
    let to = manyway_egress::Destination::parse("127.0.0.1", elsewhere.port()).unwrap();
    assert!(sender.send(Some(&to), b"not sent").unwrap());
    assert!(sender.send(None, b"sent").unwrap());
    assert_eq!(answer(&one).await, "sent");
    assert_eq!(other.try_recv(&mut [0; 10]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

// egress 2.6, 9.8
#[tokio::test]
async fn both_directions_of_a_listener_have_the_treatment_that_the_client_asks_for() {
    let (client, _, _) = client(GatewayConfig::default());
    let treatment = Treatment { class: Some(Urgency::Deadline), lifetime: Some(Duration::from_millis(150)) };
    let at = (1, "127.0.0.1:0".parse().unwrap());
    let listener = in_time(listen_datagrams(&client, at, treatment)).await.unwrap();
    let program = program(&listener).await;
    program.send(b"there").await.unwrap();
    let (mut sender, mut receiver) = next(&client).await.accept(treatment).await.unwrap();
    text(&mut receiver).await;
    sender.send(None, b"back").unwrap();
    answer(&program).await;
    let deliveries = client.deliveries.lock().unwrap();
    let datagrams: Vec<_> = deliveries.iter().filter(|it| it.protocol == 0).collect();
    assert_eq!(datagrams.len(), 2);
    for delivery in datagrams {
        assert_eq!((delivery.urgency, delivery.lifetime), (Urgency::Deadline, treatment.lifetime));
    }
}

// egress 9.3, 9.6, 9.9
#[tokio::test]
async fn a_listener_and_its_flows_count_as_flows_and_end_with_the_request() {
    let (client, quota, _) = client(GatewayConfig::default());
    let free = quota.free_flows();
    let listener = listening(&client, 1).await;
    let (one, two) = (program(&listener).await, program(&listener).await);
    let (_sender, mut receiver) = accepted(&client, &one).await;
    two.send(b"first").await.unwrap();
    let refused = next(&client).await;
    assert_eq!(quota.free_flows(), free - 3);
    refused.refuse(Reason::Refused).await.unwrap();
    until(|| quota.free_flows() == free - 2).await;
    let address = listener.address;
    drop(listener);
    assert!(in_time(receiver.receive()).await.unwrap().is_none());
    until(|| quota.free_flows() == free).await;
    UdpSocket::bind(address).await.unwrap();
}

// egress 9.9
#[tokio::test]
async fn a_silent_flow_of_a_listener_ends() {
    let mut config = GatewayConfig::default();
    config.flow_idle = Duration::from_millis(200);
    let (client, quota, _) = client(config);
    let listener = listening(&client, 1).await;
    let free = quota.free_flows();
    let program = program(&listener).await;
    let (_sender, mut receiver) = accepted(&client, &program).await;
    assert!(in_time(receiver.receive()).await.unwrap().is_none());
    until(|| quota.free_flows() == free).await;
    accepted(&client, &program).await;
}

// egress 9.10
#[tokio::test]
async fn a_flood_of_peers_opens_few_flows_and_ends_none_that_was_answered() {
    const FLOOD: usize = 300;
    let (client, quota, _) = client(GatewayConfig::default());
    let listener = listening(&client, 1).await;
    let free = quota.free_flows();
    let kept = program(&listener).await;
    let (mut sender, mut receiver) = accepted(&client, &kept).await;
    sender.send(None, b"back").unwrap();
    assert_eq!(answer(&kept).await, "back");
    let begin = tokio::time::Instant::now();
    let mut peers = Vec::new();
    for _ in 0..FLOOD {
        let program = program(&listener).await;
        program.send(b"flood").await.unwrap();
        peers.push(program);
    }
    kept.send(b"second").await.unwrap();
    assert_eq!(text(&mut receiver).await, "second");
    let opened = free - quota.free_flows();
    // 64 at once and 32 a second.
    let permitted = 65.0 + 32.0 * begin.elapsed().as_secs_f64();
    assert!(opened > 2 && (opened as f64) <= permitted, "{opened} of {permitted}");
}

// egress 9.4
#[tokio::test]
async fn a_client_listens_for_datagrams_only_where_it_may() {
    let held = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let taken = held.local_addr().unwrap();
    let (client, quota, _) = serve_datagrams(
        gateway(&["0.0.0.0/0"], GatewayConfig::default(), Names::default()),
        &[&format!("127.0.0.1:{}", taken.port())],
    );
    let free = quota.free_flows();
    for (address, expected) in [
        (SocketAddr::from(([0, 0, 0, 0], taken.port())), Reason::Forbidden),
        ("127.0.0.1:0".parse().unwrap(), Reason::Forbidden),
        ("[::1]:0".parse().unwrap(), Reason::Forbidden),
        (taken, Reason::Other),
    ] {
        let refused = in_time(listen_datagrams(&client, (1, address), USUAL)).await;
        assert_eq!(reason(refused), expected, "{address}");
    }
    drop(held);
    until(|| quota.free_flows() == free).await;
    assert_eq!(in_time(listen_datagrams(&client, (1, taken), USUAL)).await.unwrap().address, taken);
}

// egress 9.2
#[tokio::test]
async fn a_client_takes_nothing_but_flows_to_its_listeners() {
    let ((mut sender, _receiver), far) = noted_messages(&std::sync::Arc::default());
    let frame = manyway_session::Delivery {
        protocol: 0x45,
        is_ordered: true,
        ..manyway_session::Delivery::default()
    };
    sender.send(bytes::Bytes::from_static(&[0x45, 1, 3, 0, 0]), frame).await.unwrap();
    assert_eq!(reason(in_time(accept_flow(far)).await), Reason::Unsupported);
    let ((mut sender, _receiver), far) = noted_messages(&std::sync::Arc::default());
    sender.send(bytes::Bytes::from_static(&[0x45, 1, 5, 0, 0]), frame).await.unwrap();
    assert!(matches!(in_time(accept_flow(far)).await, Err(EgressError::Codec(_))));
}
