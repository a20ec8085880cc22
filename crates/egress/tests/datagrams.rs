//! Flows of datagrams. Tests carry the rules of the specification.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use manyway_egress::{
    Access, Datagram, Destination, EgressError, FlowKind, FlowReceiver, Gateway, GatewayConfig, Host, Reason,
    Treatment, answer_messages, can_send_echo_requests, open_flow,
};
use manyway_session::{Delivery, Message, MessageHalves, Urgency};
use tokio::net::UdpSocket;

use crate::common::{
    MessageSession, Names, gateway, gateway_of, in_time, message_pair, messages, reason, serve_flows, until,
};

/// The payload protocols of frames and of datagrams.
const FRAME: u32 = 0x45;
const DATAGRAM: u32 = 0;

/// A socket on loopback, and the destination that leads there.
async fn socket(address: &str) -> (UdpSocket, Destination) {
    let socket = UdpSocket::bind((address, 0)).await.unwrap();
    let destination = Destination::parse(address, socket.local_addr().unwrap().port()).unwrap();
    (socket, destination)
}

async fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = [0; 2000];
    let (length, source) = in_time(socket.recv_from(&mut buffer)).await.unwrap();
    (buffer[..length].to_vec(), source)
}

/// The text of the next datagram, and where it came from.
async fn next(flow: &mut FlowReceiver) -> (String, Option<String>) {
    let Datagram { address, payload, .. } = in_time(flow.receive()).await.unwrap().unwrap();
    (String::from_utf8(payload.to_vec()).unwrap(), address.map(|it| it.to_string()))
}

fn open_to_loopback(config: GatewayConfig) -> Gateway {
    gateway(&["127.0.0.0/8", "::1"], config, Names::default())
}

// egress 8.3, 8.4, 8.7
#[tokio::test]
async fn one_flow_reaches_several_destinations_of_both_families_from_one_socket() {
    let (client, _, _) = serve_flows(open_to_loopback(GatewayConfig::default()));
    let (first, to_first) = socket("127.0.0.1").await;
    let (second, to_second) = socket("127.0.0.1").await;
    let (third, to_third) = socket("::1").await;
    let (mut sender, mut receiver) =
        open_flow(&client, FlowKind::Udp, Some(&to_first), Treatment::default()).await.unwrap();
    for (to, socket, text) in
        [(None, &first, "one"), (Some(&to_second), &second, "two"), (Some(&to_third), &third, "three")]
    {
        assert!(sender.send(to, text.as_bytes()).unwrap());
        let (payload, source) = receive(socket).await;
        assert_eq!(payload, text.as_bytes());
        socket.send_to(format!("{text} back").as_bytes(), source).await.unwrap();
        assert_eq!(next(&mut receiver).await, (format!("{text} back"), to.map(Destination::to_string)));
    }
    assert_eq!(receiver.peer(), Some(first.local_addr().unwrap()));
    sender.send(None, b"again").unwrap();
    let (_, from) = receive(&first).await;
    sender.send(Some(&to_second), b"again").unwrap();
    assert_eq!(receive(&second).await.1, from, "a flow keeps its port for all destinations");
}

// egress 8.7
#[tokio::test]
async fn only_destinations_that_the_client_sent_to_may_answer() {
    let (client, _, _) = serve_flows(open_to_loopback(GatewayConfig::default()));
    let (server, to_server) = socket("127.0.0.1").await;
    let (stranger, _) = socket("127.0.0.1").await;
    let (mut sender, mut receiver) =
        open_flow(&client, FlowKind::Udp, Some(&to_server), Treatment::default()).await.unwrap();
    sender.send(None, b"question").unwrap();
    let (_, source) = receive(&server).await;
    stranger.send_to(b"unasked", source).await.unwrap();
    server.send_to(b"answer", source).await.unwrap();
    assert_eq!(next(&mut receiver).await, ("answer".to_owned(), None));
}

// egress 5.1, 5.10, 8.3
#[tokio::test]
async fn forbidden_destinations_are_refused_and_datagrams_to_them_are_dropped() {
    let (secret, to_secret) = socket("127.0.0.1").await;
    let (allowed, to_allowed) = socket("::1").await;
    // One gateway opened too little, the other denies what it opened; loopback is otherwise forbidden.
    let closed = gateway(&["::1"], GatewayConfig::default(), Names::default());
    let denying =
        gateway_of(&["127.0.0.0/8", "::1"], &["127.0.0.1"], GatewayConfig::default(), Names::default());
    for gateway in [closed, denying] {
        let (client, _, mut ends) = serve_flows(gateway);
        let (_sender, mut receiver) =
            open_flow(&client, FlowKind::Udp, Some(&to_secret), Treatment::default()).await.unwrap();
        assert_eq!(reason(in_time(receiver.receive()).await), Reason::Forbidden);
        let end = in_time(ends.recv()).await.unwrap().unwrap_err();
        assert_eq!(end.destination, Some(to_secret.clone()));
        let (mut sender, _receiver) =
            open_flow(&client, FlowKind::Udp, Some(&to_allowed), Treatment::default()).await.unwrap();
        let mapped = Destination::parse("::ffff:127.0.0.1", to_secret.port()).unwrap();
        for forbidden in [&to_secret, &mapped] {
            sender.send(Some(forbidden), b"secret").unwrap();
        }
        sender.send(None, b"after").unwrap();
        receive(&allowed).await;
        assert!(secret.try_recv(&mut [0; 10]).is_err());
    }
}

// egress 5.6, 8.3
#[tokio::test]
async fn a_name_whose_answer_changes_is_looked_up_once() {
    let (first, to_first) = socket("127.0.0.1").await;
    let names = Names::of("rebinding.test", &[&["127.0.0.1"], &["169.254.169.254"]]);
    let asked = std::sync::Arc::clone(&names.asked);
    let (client, _, _) = serve_flows(gateway(&["127.0.0.0/8"], GatewayConfig::default(), names));
    let name = Destination::parse("rebinding.test", to_first.port()).unwrap();
    let (mut sender, _receiver) =
        open_flow(&client, FlowKind::Udp, None, Treatment::default()).await.unwrap();
    for _ in 0..3 {
        sender.send(Some(&name), b"to a name").unwrap();
        receive(&first).await;
    }
    assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 1);
}

// egress 2.6, 8.5
#[tokio::test]
async fn both_directions_of_a_flow_have_the_class_and_the_lifetime_that_the_opener_asks_for() {
    let (client, _, _) = serve_flows(open_to_loopback(GatewayConfig::default()));
    let (server, to_server) = socket("127.0.0.1").await;
    let ms = |count| Some(Duration::from_millis(count));
    for (class, lifetime, expected) in [
        (Some(Urgency::Deadline), ms(150), (Urgency::Deadline, ms(150))),
        (Some(Urgency::Bulk), None, (Urgency::Bulk, ms(250))),
        (None, ms(2000), (Urgency::Interactive, ms(2000))),
        (None, None, (Urgency::Interactive, ms(500))),
    ] {
        client.deliveries.lock().unwrap().clear();
        let treatment = Treatment { class, lifetime };
        let opened = open_flow(&client, FlowKind::Udp, Some(&to_server), treatment).await;
        let (mut sender, mut receiver) = opened.unwrap();
        sender.send(None, b"question").unwrap();
        let (_, source) = receive(&server).await;
        server.send_to(b"answer", source).await.unwrap();
        next(&mut receiver).await;
        let deliveries = client.deliveries.lock().unwrap();
        let of_datagrams = deliveries.iter().filter(|delivery| delivery.protocol == DATAGRAM);
        let sent: Vec<_> = of_datagrams.map(|delivery| (delivery.urgency, delivery.lifetime)).collect();
        assert_eq!(sent, [expected; 2], "{treatment:?}");
    }
}

// egress 5.9
#[tokio::test]
async fn the_resolver_is_reached_on_its_port_alone() {
    let (client, _, _) = serve_flows(open_to_loopback(GatewayConfig::default()));
    let ssh = Destination::new(Host::Resolver, 22).unwrap();
    let (_sender, mut receiver) =
        open_flow(&client, FlowKind::Udp, Some(&ssh), Treatment::default()).await.unwrap();
    assert_eq!(reason(in_time(receiver.receive()).await), Reason::Forbidden);
}

// egress 5.9, 8.8
#[tokio::test]
async fn the_resolver_answers_under_its_own_name_however_it_was_asked_and_another_is_asked_when_it_is_silent()
{
    let (first, _) = socket("127.0.0.1").await;
    let (second, _) = socket("127.0.0.1").await;
    let (other, to_other) = socket("127.0.0.1").await;
    let servers = vec![first.local_addr().unwrap(), second.local_addr().unwrap()];
    let names = Names { servers, ..Names::default() };
    let (client, _, _) =
        serve_flows(gateway(&["127.0.0.1:1-1", &to_other.to_string()], GatewayConfig::default(), names));
    let resolver = Destination::new(Host::Resolver, 53).unwrap();

    let (mut sender, mut receiver) =
        open_flow(&client, FlowKind::Udp, Some(&resolver), Treatment::default()).await.unwrap();
    for asked in [&first, &first, &second] {
        sender.send(None, b"question").unwrap();
        receive(asked).await;
    }
    sender.send(None, b"question").unwrap();
    let (_, source) = receive(&second).await;
    second.send_to(b"answer", source).await.unwrap();
    assert_eq!(next(&mut receiver).await, ("answer".to_owned(), None));
    assert_eq!(receiver.peer(), None, "its address is not told");

    // In a flow for something else, too.
    let (mut sender, mut receiver) =
        open_flow(&client, FlowKind::Udp, Some(&to_other), Treatment::default()).await.unwrap();
    sender.send(None, b"hello").unwrap();
    receive(&other).await;
    sender.send(Some(&resolver), b"question").unwrap();
    let (_, source) = receive(&first).await;
    first.send_to(b"answer", source).await.unwrap();
    assert_eq!(next(&mut receiver).await, ("answer".to_owned(), Some(resolver.to_string())));
}

// egress 8.8
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_new_flow_is_answered_at_once_though_the_first_name_server_is_dead_and_hears_of_it_when_all_are() {
    let (second, _) = socket("127.0.0.1").await;
    let dead = async || socket("127.0.0.1").await.0.local_addr().unwrap();
    let serve = |servers: Vec<SocketAddr>| {
        let names = Names { servers, ..Names::default() };
        serve_flows(gateway(&[], GatewayConfig::default(), names)).0
    };
    let resolver = Destination::new(Host::Resolver, 53).unwrap();
    // ICMP tells of the first kind, sending itself of the other: without the right to broadcast it is forbidden.
    for first in [dead().await, SocketAddr::from(([255, 255, 255, 255], 53))] {
        let servers = vec![first, second.local_addr().unwrap()];
        let client = serve(servers);
        for _ in 0..2 {
            let (mut sender, mut receiver) =
                open_flow(&client, FlowKind::Udp, Some(&resolver), Treatment::default()).await.unwrap();
            sender.send(None, b"\x00\x01question").unwrap();
            let (question, source) = receive(&second).await;
            assert_eq!(question, b"\x00\x01question");
            second.send_to(b"\x00\x01answer", source).await.unwrap();
            assert_eq!(next(&mut receiver).await, ("\0\x01answer".to_owned(), None));
        }
    }
    let client = serve(vec![dead().await, dead().await]);
    let (mut sender, mut receiver) =
        open_flow(&client, FlowKind::Udp, Some(&resolver), Treatment::default()).await.unwrap();
    sender.send(None, b"\x00\x01question").unwrap();
    assert_eq!(next_error(&mut receiver).await, (Reason::Refused, None));
}

// egress 8.11, 8.13
#[tokio::test]
async fn a_program_hears_why_its_datagrams_do_not_reach_a_name() {
    let names = Names::of("private.test", &[&["10.1.2.3"]]);
    let (client, _, _) = serve_flows(gateway(&[], GatewayConfig::default(), names));
    let (mut sender, mut receiver) =
        open_flow(&client, FlowKind::Udp, None, Treatment::default()).await.unwrap();
    for (name, expected) in [("private.test", Reason::Forbidden), ("unknown.test", Reason::NameNotFound)] {
        let name = Destination::parse(name, 80).unwrap();
        // The first waits for the look-up, the other does not.
        for _ in 0..2 {
            sender.send(Some(&name), b"lost").unwrap();
            assert_eq!(next_error(&mut receiver).await, (expected, Some(name.to_string())));
        }
    }
}

// egress 8.12
#[tokio::test]
async fn a_look_up_that_takes_long_stops_no_other_datagrams_of_its_flow() {
    let (server, to_server) = socket("127.0.0.1").await;
    let names = Names { is_mute: true, ..Names::default() };
    let (client, _, _) = serve_flows(gateway(&["127.0.0.0/8"], GatewayConfig::default(), names));
    let (mut sender, mut receiver) =
        open_flow(&client, FlowKind::Udp, Some(&to_server), Treatment::default()).await.unwrap();
    let silent = Destination::parse("silent.test", 80).unwrap();
    sender.send(Some(&silent), b"lost").unwrap();
    sender.send(None, b"question").unwrap();
    let (_, source) = receive(&server).await;
    server.send_to(b"answer", source).await.unwrap();
    assert_eq!(next(&mut receiver).await, ("answer".to_owned(), None));
}

// egress 6.5
#[tokio::test]
async fn flows_are_limited_and_end_when_they_are_idle() {
    let mut config = GatewayConfig::default();
    config.client_flows = 1;
    config.flow_idle = Duration::from_millis(300);
    let (_server, to_server) = socket("127.0.0.1").await;
    let (client, quota, mut ends) = serve_flows(open_to_loopback(config));
    let (mut sender, mut receiver) =
        open_flow(&client, FlowKind::Udp, Some(&to_server), Treatment::default()).await.unwrap();
    sender.send(None, b"begin").unwrap();
    until(|| quota.free_flows() == 0).await;
    let (_other, mut refused) =
        open_flow(&client, FlowKind::Udp, Some(&to_server), Treatment::default()).await.unwrap();
    assert_eq!(reason(in_time(refused.receive()).await), Reason::TooMany);
    assert!(in_time(ends.recv()).await.unwrap().is_err());

    assert!(in_time(receiver.receive()).await.unwrap().is_none(), "the server ends an idle flow");
    assert_eq!(in_time(ends.recv()).await.unwrap().unwrap().received, 5);
    assert_eq!(quota.free_flows(), 1);
}

/// The next error: its reason, and what it is about.
async fn next_error(flow: &mut FlowReceiver) -> (Reason, Option<String>) {
    let Datagram { address, error, .. } = in_time(flow.receive()).await.unwrap().unwrap();
    (error.unwrap(), address.map(|it| it.to_string()))
}

/// A destination on loopback where nothing listens.
async fn closed_port(address: &str) -> Destination {
    socket(address).await.1
}

// egress 8.9
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_error_names_its_destination_and_loses_no_datagram_to_another() {
    let (client, _, _) = serve_flows(open_to_loopback(GatewayConfig::default()));
    let (server, to_server) = socket("127.0.0.1").await;
    let (v4, v6, usual) =
        (closed_port("127.0.0.1").await, closed_port("::1").await, closed_port("127.0.0.1").await);
    let (mut sender, mut receiver) =
        open_flow(&client, FlowKind::Udp, Some(&usual), Treatment::default()).await.unwrap();
    for to in [None, Some(&v4), Some(&v6)] {
        sender.send(to, b"lost").unwrap();
        let about = to.map(Destination::to_string);
        assert_eq!(next_error(&mut receiver).await, (Reason::Refused, about));
        // The error of the socket is still to be taken.
        sender.send(to, b"lost").unwrap();
        sender.send(Some(&to_server), b"question").unwrap();
        let (_, source) = receive(&server).await;
        server.send_to(b"answer", source).await.unwrap();
        let mut seen = Vec::new();
        while !seen.contains(&None) {
            seen.push(in_time(receiver.receive()).await.unwrap().unwrap().error);
        }
    }
    // A forbidden destination earns an error, too.
    let forbidden = Destination::parse("10.1.2.3", 80).unwrap();
    sender.send(Some(&forbidden), b"lost").unwrap();
    assert_eq!(next_error(&mut receiver).await, (Reason::Forbidden, Some(forbidden.to_string())));
}

// egress 8.15
#[cfg(target_os = "linux")]
#[tokio::test]
async fn errors_of_a_flow_are_few_however_many_datagrams_do_not_arrive() {
    let (client, _, _) = serve_flows(open_to_loopback(GatewayConfig::default()));
    let (server, to_server) = socket("127.0.0.1").await;
    let (mut sender, mut receiver) =
        open_flow(&client, FlowKind::Udp, Some(&to_server), Treatment::default()).await.unwrap();
    let begin = std::time::Instant::now();
    let closed = closed_port("127.0.0.1").await;
    for _ in 0..500 {
        sender.send(Some(&closed), b"lost").unwrap();
    }
    sender.send(None, b"question").unwrap();
    let (_, source) = receive(&server).await;
    server.send_to(b"answer", source).await.unwrap();
    let mut errors = 0;
    while in_time(receiver.receive()).await.unwrap().unwrap().error.is_some() {
        errors += 1;
    }
    // 8, and 4 for each second that it took.
    let most = 8 + 4 * (begin.elapsed().as_secs() + 1);
    assert!((1..=most).contains(&errors), "{errors}");
}

// egress 8.16, 10.2
#[tokio::test]
async fn errors_of_a_client_are_dropped() {
    let (server, to_server) = socket("127.0.0.1").await;
    let frame = [&[0x45, 1, 3, 0, 7][..], &to_server.port().to_be_bytes(), &[1, 127, 0, 0, 1]].concat();
    let sent = [(FRAME, &frame[..]), (DATAGRAM, &[2, 0, 0, 0, 0, 2]), (DATAGRAM, b"\0\0\0\0\x01hello")];
    assert!(raw(&sent).await.is_ok());
    assert_eq!(receive(&server).await.0, b"hello");
}

// egress 10
#[tokio::test]
async fn a_host_answers_echo_requests_where_the_system_lets_the_server_send_them() {
    let refused = can_send_echo_requests();
    let (client, quota, _) =
        serve_flows(gateway(&["127.0.0.2", "::1"], GatewayConfig::default(), Names::default()));
    for host in ["127.0.0.2", "::1"] {
        let to = Destination::parse(host, FlowKind::ECHO_PORT).unwrap();
        let (mut sender, mut receiver) =
            open_flow(&client, FlowKind::Echo, Some(&to), Treatment::default()).await.unwrap();
        sender.send(None, b"\x12\x34content").unwrap();
        sender.send(None, b"1").unwrap();
        if let Err(why) = &refused {
            let error = in_time(receiver.receive()).await.unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
            assert_eq!(reason::<()>(Err(error)), Reason::Forbidden);
            continue;
        }
        let reply = in_time(receiver.receive()).await.unwrap().unwrap();
        assert_eq!((reply.address, &reply.payload[..]), (None, &b"\x12\x34content"[..]));
        assert_eq!(quota.free_flows(), 1023);
        drop((sender, receiver));
        until(|| quota.free_flows() == 1024).await;
    }
}

// egress 10.2, 10.3
#[tokio::test]
async fn echo_requests_go_only_where_all_ports_are_allowed() {
    let opened = ["127.0.0.1:7", "127.0.0.3"];
    let gateway = gateway_of(&opened, &["127.0.0.3"], GatewayConfig::default(), Names::default());
    let (client, _, _) = serve_flows(gateway);
    for host in ["127.0.0.1", "127.0.0.3", "::ffff:127.0.0.1", "::1", "10.1.2.3", "localhost"] {
        let to = Destination::parse(host, FlowKind::ECHO_PORT).unwrap();
        let (_sender, mut receiver) =
            open_flow(&client, FlowKind::Echo, Some(&to), Treatment::default()).await.unwrap();
        let error = in_time(receiver.receive()).await.unwrap_err();
        assert!(!error.to_string().contains("ping_group_range"), "{host}");
        let expected = if host == "localhost" { Reason::NameNotFound } else { Reason::Forbidden };
        assert_eq!(reason::<()>(Err(error)), expected, "{host}");
    }
    let resolver = Destination::new(Host::Resolver, 53).unwrap();
    let (_sender, mut receiver) =
        open_flow(&client, FlowKind::Echo, Some(&resolver), Treatment::default()).await.unwrap();
    assert_eq!(reason(in_time(receiver.receive()).await), Reason::Forbidden);
}

/// Passes raw messages to a gateway; returns the end of the flow.
async fn raw(sent: &[(u32, &[u8])]) -> Result<(), EgressError> {
    let gateway = open_to_loopback(GatewayConfig::default());
    let ((mut sender, _receiver), far) = messages();
    for (protocol, data) in sent {
        let delivery =
            Delivery { protocol: *protocol, is_ordered: *protocol == FRAME, ..Delivery::default() };
        sender.send(Bytes::copy_from_slice(data), delivery).await.unwrap();
    }
    sender.finish();
    let (quota, (session, _other)) = (gateway.quota(), message_pair());
    let client = Access { session: &session, quota: &quota, listen: &[] };
    in_time(answer_messages(Some((&gateway, &client)), None, far)).await.map(drop).map_err(|end| end.error)
}

// egress 1.4, 8.1, 8.4
#[tokio::test]
async fn what_makes_no_sense_ends_the_flow_with_its_reason() {
    const FLOW: (u32, &[u8]) = (FRAME, &[0x45, 1, 3, 0, 0]);
    assert!(raw(&[FLOW]).await.is_ok());
    assert!(
        raw(&[(DATAGRAM, &[0, 0, 0, 0, 0, 1]), FLOW]).await.is_ok(),
        "a datagram may overtake the request"
    );
    assert_eq!(reason(raw(&[(FRAME, &[0x45, 1, 2, 0, 0])]).await), Reason::Unsupported);
    assert_eq!(reason(raw(&[(FRAME, &[0x45, 9, 3, 0, 0])]).await), Reason::Unsupported);
    assert_eq!(reason(raw(&[FLOW, FLOW]).await), Reason::Malformed);
    const TREATMENT: (u32, &[u8]) = (FRAME, &[0x45, 1, 7, 0, 3, 2, 0, 150]);
    assert!(raw(&[TREATMENT, FLOW]).await.is_ok());
    assert_eq!(reason(raw(&[TREATMENT, TREATMENT, FLOW]).await), Reason::Unsupported);
    assert!(matches!(raw(&[(FRAME, &[0x45, 1, 7, 0, 3, 4, 0, 0])]).await, Err(EgressError::Codec(_))));
    assert!(matches!(raw(&[(FRAME, &[0x45, 1])]).await, Err(EgressError::Codec(_))));
    assert!(matches!(raw(&[FLOW, (DATAGRAM, &[7, 0, 0, 0, 0])]).await, Err(EgressError::Codec(_))));
    assert!(matches!(raw(&[(DATAGRAM, &[0, 0, 0, 0, 0])]).await, Err(EgressError::Stream(_))));
}

// egress 2.4
#[tokio::test]
async fn a_server_without_egress_says_so() {
    let (near, far): (MessageHalves, MessageHalves) = messages();
    let (mut sender, mut receiver) = near;
    let frame = Delivery { protocol: FRAME, is_ordered: true, ..Delivery::default() };
    sender.send(Bytes::from_static(&[0x45, 1, 3, 0, 0]), frame).await.unwrap();
    let declined = in_time(answer_messages::<MessageSession>(None, None, far)).await;
    assert_eq!(reason(declined.map_err(|end| end.error)), Reason::NotEnabled);
    let Message { data, .. } = in_time(receiver.receive()).await.unwrap().unwrap();
    assert_eq!(data[..3], [0x45, 1, 9]);
}
