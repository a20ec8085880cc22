//! Every frame of connections of other programs.

use std::time::Duration;

use manyway_egress::fuzzing::{Answer, Request};
use manyway_egress::{
    Assignment, Datagram, Destination, FlowKind, Host, Joining, Reason, Refusal, Treatment,
};
use manyway_session::Urgency;

use super::seed::Seed;

/// What an input may be, as [`crate::egress`] reads its first byte.
const REQUEST: u8 = 0;
const ANSWER: u8 = 1;
const CLIENT_S_STREAM: u8 = 2;
const SERVER_S_ANSWER: u8 = 3;
const DATAGRAM: u8 = 4;
const ASSIGNMENT: u8 = 5;
const PACKET: u8 = 6;

pub(super) fn seeds() -> Vec<Seed> {
    let mut seeds = Vec::new();
    let resolver = Destination::new(Host::Resolver, 53).unwrap();
    let name = Destination::parse("example.org", 443).unwrap();
    for (kind, address) in [("flow", None), ("name", Some(&name)), ("resolver", Some(&resolver))] {
        let message = Datagram::encode(7, address, b"payload");
        seeds.push(Seed::new("egress", format!("datagram-of-{kind}"), [&[DATAGRAM][..], &message].concat()));
        let error = Datagram::encode_error(7, address, Reason::HostUnreachable, &[0, 9]);
        seeds.push(Seed::new("egress", format!("error-of-{kind}"), [&[DATAGRAM][..], &error].concat()));
    }
    let networks = vec!["192.168.9.0/24".parse().unwrap(), "fd00:9::/64".parse().unwrap()];
    let addresses = vec!["10.99.0.2/24".parse().unwrap(), "fd00:99::2/64".parse().unwrap()];
    let mut assigned = vec![ASSIGNMENT];
    Assignment { mtu: 1400, addresses, networks: networks.clone() }.encode(&mut assigned);
    seeds.push(Seed::new("egress", "assignment".to_owned(), assigned));
    let v4 = b"\x45\0\0\x1c\0\0\0\0\x40\x11\0\0\x0a\x63\0\x02\x0a\x63\0\x01\0\x07\0\x07\0\x08\0\0";
    seeds.push(Seed::new("egress", "packet-ipv4".to_owned(), [&[PACKET][..], v4].concat()));
    let v6 = [&b"\x60\0\0\x01\0\x04\x06\x40"[..], &[0xfd; 32], b"\0\x07\0\x07"].concat();
    seeds.push(Seed::new("egress", "packet-ipv6".to_owned(), [&[PACKET][..], &v6].concat()));
    let joining = Joining { wanted: vec!["10.99.0.2".parse().unwrap()], networks };
    let mut add = |name: String, [alone, in_stream]: [u8; 2], frame: Vec<u8>| {
        seeds.push(Seed::new("egress", name.clone(), [vec![alone], frame.clone()].concat()));
        seeds.push(Seed::new("egress", format!("{name}-in-a-stream"), [vec![in_stream], frame].concat()));
    };
    let treatment = Treatment { class: Some(Urgency::Deadline), lifetime: Some(Duration::from_millis(150)) };
    let flow = |kind, to| Request::Flow(kind, Some(to));
    let connect = |host| Request::Connect(Destination::parse(host, 443).unwrap());
    for (name, request) in [
        ("connect-ipv4", connect("192.0.2.7")),
        ("connect-ipv6", connect("2001:db8::1")),
        ("connect-name", connect("example.org")),
        ("check", Request::Check),
        ("flow", Request::Flow(FlowKind::Udp, None)),
        ("listen", Request::Listen { number: 1, address: "192.0.2.7:8080".parse().unwrap() }),
        ("incoming", Request::Incoming { number: 1, peer: "[2001:db8::1]:49153".parse().unwrap() }),
        ("flow-ipv4", flow(FlowKind::Udp, Destination::parse("192.0.2.7", 443).unwrap())),
        ("flow-resolver", flow(FlowKind::Udp, resolver)),
        ("treatment", Request::Treatment(treatment)),
        ("packets", Request::Packets(joining)),
        ("echo", Request::Flow(FlowKind::Echo, None)),
        ("echo-ipv6", flow(FlowKind::Echo, Destination::parse("2001:db8::7", 7).unwrap())),
    ] {
        let mut frame = Vec::new();
        request.encode(&mut frame);
        add(name.to_owned(), [REQUEST, CLIENT_S_STREAM], frame);
    }
    let refused = |reason| Answer::Refused(Refusal::with_text(reason, "why"));
    let answers = [
        ("connected-ipv4", Answer::Done(Some("192.0.2.7:443".parse().unwrap()))),
        ("connected-ipv6", Answer::Done(Some("[2001:db8::1]:443".parse().unwrap()))),
        ("checked", Answer::Done(None)),
        ("refused", refused(Reason::Refused)),
        ("not-enabled", refused(Reason::NotEnabled)),
    ];
    for (name, answer) in answers {
        let mut frame = Vec::new();
        answer.encode(&mut frame);
        add(name.to_owned(), [ANSWER, SERVER_S_ANSWER], frame);
    }
    seeds
}
