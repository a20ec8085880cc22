//! Packets between sites at the server's end, in memory. Tests carry the rules of the specification.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use ipnet::IpNet;
use manyway_egress::fuzzing::Request;
use manyway_egress::{
    Assignment, Hub, HubConfig, Joining, Member, Port, Reason, Refusal, RequestError, SiteLog, Tally,
    Treatment, Verdict, Volume, answer_messages,
};
use manyway_session::{Delivery, Message, MessageHalves, Urgency};
use tokio::task::JoinHandle;

use crate::common::{Deliveries, MessageSession, in_time, noted_messages, reason, until};

const FRAME: u32 = 0x45;

/// What came for the server's host, and what was logged.
#[derive(Clone, Default)]
struct Host {
    packets: Arc<Mutex<Vec<Vec<u8>>>>,
    log: Arc<Mutex<Vec<String>>>,
    /// How messages were sent, by both ends.
    deliveries: Deliveries,
}

impl Host {
    fn say(&self, text: String) {
        self.log.lock().unwrap().push(text);
    }
}

impl Port for Host {
    fn put(&self, packet: &[u8]) -> bool {
        self.packets.lock().unwrap().push(packet.to_vec());
        true
    }
}

impl SiteLog for Host {
    fn joined(&self, addresses: &[IpNet], networks: &[IpNet]) {
        self.say(format!("joined {} {}", addresses[0], networks.len()));
    }

    fn spoofed(&self, source: IpAddr) {
        self.say(format!("spoofed {source}"));
    }

    fn left(&self, from: Tally, to: Tally) {
        self.say(format!("from: {from}; to: {to}"));
    }
}

type Ended = JoinHandle<Result<Volume, RequestError>>;

fn hub(host: &Host) -> Hub {
    let config = HubConfig {
        networks: vec!["10.99.0.0/24".parse().unwrap()],
        announced: vec!["192.168.9.0/24".parse().unwrap()],
        behind: vec![("branch".to_owned(), "192.168.5.0/24".parse().unwrap())],
        ..HubConfig::default()
    };
    Hub::new(config, host.clone()).unwrap()
}

/// A client named `branch` asks for a place, with 192.168.5.0/24 behind it.
async fn ask(hub: Option<&Hub>, host: &Host) -> (MessageHalves, Result<Assignment, Refusal>, Ended) {
    let (mut near, far) = noted_messages(&host.deliveries);
    let (hub, host) = (hub.cloned(), host.clone());
    let ended = tokio::spawn(async move {
        let member = hub.as_ref().map(|hub| Member { hub, name: "branch", log: &host });
        answer_messages::<MessageSession>(None, member, far).await
    });
    let networks = vec!["192.168.5.0/24".parse().unwrap()];
    send_request(&mut near, &Request::Packets(Joining { wanted: Vec::new(), networks })).await;
    let answer = in_time(near.1.receive()).await.unwrap().unwrap();
    assert_eq!(answer.protocol, FRAME);
    let answer = Assignment::decode(&answer.data).unwrap();
    (near, answer, ended)
}

async fn send_request((sender, _): &mut MessageHalves, request: &Request) {
    let mut frame = Vec::new();
    request.encode(&mut frame);
    let delivery = Delivery { protocol: FRAME, is_ordered: true, ..Delivery::default() };
    sender.send(frame.into(), delivery).await.unwrap();
}

/// A packet of IPv4 with 8 bytes of a protocol without ports.
fn packet(source: [u8; 4], destination: [u8; 4], last: u8) -> Vec<u8> {
    let start = [0x45, 0, 0, 28, 0, 0, 0, 0, 64, 253, 0, 0];
    [&start[..], &source, &destination, &[0; 7], &[last]].concat()
}

fn send((sender, _): &mut MessageHalves, lane: u16, number: u32, packet: &[u8]) {
    let message: Bytes = [&lane.to_be_bytes()[..], &number.to_be_bytes(), packet].concat().into();
    sender.try_send(message, Delivery::default()).unwrap();
}

// egress 11.2, 11.4, 11.5, 11.15
#[tokio::test]
async fn packets_from_others_or_to_others_are_dropped_and_counted_and_those_between_both_networks_pass() {
    let host = Host::default();
    let hub = hub(&host);
    let (mut client, answer, ended) = ask(Some(&hub), &host).await;
    let networks = vec!["192.168.9.0/24".parse().unwrap()];
    let expected = Assignment { mtu: 1400, addresses: vec!["10.99.0.2/24".parse().unwrap()], networks };
    assert_eq!(answer, Ok(expected));
    let (own, behind, server, remote) = ([10, 99, 0, 2], [192, 168, 5, 7], [10, 99, 0, 1], [192, 168, 9, 7]);
    let good = [packet(own, server, 1), packet(behind, remote, 2), packet(behind, server, 3)];
    let mut large = packet(own, server, 0);
    large.resize(1401, 0);
    large[2..4].copy_from_slice(&1401_u16.to_be_bytes());
    let bad = [
        packet([10, 99, 0, 3], server, 0),
        packet([192, 168, 6, 7], server, 0),
        packet(own, [127, 0, 0, 1], 0),
        packet(own, [8, 8, 8, 8], 0),
        large,
        b"no packet".to_vec(),
    ];
    for (number, packet) in (0..).zip(bad.iter().chain(&good)) {
        send(&mut client, 7, number, packet);
    }
    until(|| host.packets.lock().unwrap().len() == good.len()).await;
    assert_eq!(*host.packets.lock().unwrap(), good);

    let answer = packet(server, behind, 4);
    assert_eq!(hub.deliver(&answer, Treatment::default()), Verdict::Passed);
    let Message { data, protocol } = in_time(client.1.receive()).await.unwrap().unwrap();
    assert_eq!((protocol, &data[2..6], &data[6..]), (0, &[0; 4][..], &answer[..]));
    let treatment = Treatment { class: Some(Urgency::Bulk), lifetime: Some(Duration::from_secs(2)) };
    assert_eq!(hub.deliver(&answer, treatment), Verdict::Passed);
    in_time(client.1.receive()).await.unwrap().unwrap();
    let last = *host.deliveries.lock().unwrap().last().unwrap();
    assert_eq!((last.urgency, last.lifetime), (Urgency::Bulk, Some(Duration::from_secs(2))));
    let unassigned = [10, 99, 0, 9];
    assert_eq!(
        hub.deliver(&packet(server, unassigned, 0), Treatment::default()),
        Verdict::Destination(unassigned.into())
    );
    client.0.finish();
    in_time(ended).await.unwrap().unwrap();
    assert_eq!(hub.deliver(&answer, Treatment::default()), Verdict::Destination(behind.into()));
    let told = "from: 3 packets passed, 2 dropped for a source that is not its own, 2 dropped for a destination that it \
                may not reach, 2 dropped for their size or form; to: 2 packets passed";
    assert_eq!(*host.log.lock().unwrap(), ["joined 10.99.0.2/24 1", "spoofed 10.99.0.3", told]);
}

// egress 11.6
#[tokio::test]
async fn a_late_packet_is_waited_for_in_its_lane_alone() {
    let host = Host::default();
    let hub = hub(&host);
    let (mut client, answer, _ended) = ask(Some(&hub), &host).await;
    assert!(answer.is_ok());
    let of = |last| packet([10, 99, 0, 2], [10, 99, 0, 1], last);
    send(&mut client, 1, 1, &of(12));
    send(&mut client, 2, 0, &of(21));
    until(|| host.packets.lock().unwrap().len() == 1).await;
    send(&mut client, 1, 0, &of(11));
    until(|| host.packets.lock().unwrap().len() == 3).await;
    assert_eq!(*host.packets.lock().unwrap(), [of(21), of(11), of(12)]);
    // One that never comes is not waited for any longer than the limit.
    send(&mut client, 1, 3, &of(14));
    until(|| host.packets.lock().unwrap().len() == 4).await;
}

// egress 11.5, 11.14
#[tokio::test]
async fn what_makes_no_sense_ends_the_stream_and_a_second_client_of_the_ticket_takes_the_place() {
    let host = Host::default();
    let (_, refused, ended) = ask(None, &host).await;
    assert!(refused.unwrap_err().text.contains("serve --tun NET"));
    assert_eq!(reason(in_time(ended).await.unwrap().map_err(|it| it.error)), Reason::Forbidden);

    let hub = hub(&host);
    let (mut client, _, ended) = ask(Some(&hub), &host).await;
    send(&mut client, 1024, 0, &packet([10, 99, 0, 2], [10, 99, 0, 1], 0));
    assert!(in_time(ended).await.unwrap().is_err(), "an unknown lane");
    let (mut client, _, ended) = ask(Some(&hub), &host).await;
    send_request(&mut client, &Request::Packets(Joining::default())).await;
    assert_eq!(reason(in_time(ended).await.unwrap().map_err(|it| it.error)), Reason::Malformed);

    let (mut first, _, ended) = ask(Some(&hub), &host).await;
    let (_second, answer, _) = ask(Some(&hub), &host).await;
    assert!(answer.is_ok());
    let told = in_time(first.1.receive()).await.unwrap().unwrap();
    assert!(Assignment::decode(&told.data).unwrap().unwrap_err().text.contains("joined in its place"));
    assert!(in_time(ended).await.unwrap().is_err());
}
