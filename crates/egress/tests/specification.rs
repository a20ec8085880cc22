//! The frames that the specification shows.

use manyway_egress::fuzzing::{Answer, Request};
use manyway_egress::{Assignment, Datagram, Destination, FlowKind, Treatment};

const SPECIFICATION: &str = include_str!("../../../docs/specification/egress.md");

/// The rows of the tables of frames: hexadecimal digits with this beginning, and what they are.
fn rows(start: &str) -> Vec<(Vec<u8>, &'static str)> {
    let row = |line: &'static str| {
        let (digits, what) = line.strip_prefix("| `")?.split_once("` |")?;
        let digits: String = digits.starts_with(start).then(|| digits.split_whitespace().collect())?;
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        Some(((0..digits.len()).step_by(2).map(byte).collect(), what.trim().trim_end_matches(" |")))
    };
    SPECIFICATION.lines().filter_map(row).collect()
}

fn shown(to: &Destination) -> String {
    format!("{}, port {}", to.host().to_string().trim_matches(['[', ']']), to.port())
}

// egress 2.2, 3.1, 3.2
#[test]
fn every_frame_of_the_specification_decodes_and_encodes_as_shown() {
    let rows = rows("45 01 ");
    assert_eq!(rows.len(), 17);
    for (bytes, what) in rows {
        let mut written = Vec::new();
        let is_request = ["CONNECT", "CHECK", "FLOW", "ECHO", "TREATMENT", "LISTEN", "INCOMING", "PACKETS"]
            .iter()
            .any(|name| what.starts_with(name));
        let read = if is_request {
            let request = Request::decode(&bytes).unwrap().unwrap();
            request.encode(&mut written);
            match request {
                Request::Connect(to) => format!("CONNECT to {}", shown(&to)),
                Request::Flow(kind, to) => {
                    let name = if kind == FlowKind::Udp { "FLOW" } else { "ECHO" };
                    to.map_or_else(|| name.to_owned(), |to| format!("{name} to {}", shown(&to)))
                }
                Request::Listen { number, address } => {
                    format!("LISTEN {number} at {}, port {}", address.ip(), address.port())
                }
                Request::Incoming { number, peer } => {
                    format!("INCOMING {number} from {}, port {}", peer.ip(), peer.port())
                }
                Request::Treatment(Treatment { class, lifetime }) => {
                    let lifetime = lifetime.unwrap().as_millis();
                    format!("TREATMENT {}, {lifetime} ms", format!("{:?}", class.unwrap()).to_lowercase())
                }
                Request::Packets(joining) => {
                    let wanted =
                        joining.wanted.iter().map(|it| format!(", with {it} wanted")).collect::<String>();
                    let with = if wanted.is_empty() { ", with" } else { "," };
                    format!("PACKETS{wanted}{with} {} behind the opener", joining.networks[0])
                }
                Request::Check | _ => "CHECK".to_owned(),
            }
        } else if what.starts_with("the answer to PACKETS") {
            let Assignment { mtu, addresses, networks } = Assignment::decode(&bytes).unwrap().unwrap();
            let text = format!("the answer to PACKETS: MTU {mtu}, {}, to {}", addresses[0], networks[0]);
            Assignment { mtu, addresses, networks }.encode(&mut written);
            text
        } else {
            let answer = Answer::decode(&bytes).unwrap();
            answer.encode(&mut written);
            match answer {
                Answer::Done(Some(address)) => {
                    format!("connected to {}, port {}", address.ip(), address.port())
                }
                Answer::Done(None) => "the answer to CHECK".to_owned(),
                Answer::Refused(refusal) => {
                    format!("{}, with the text {:?}", &refusal.reason.to_string()[..9], refusal.text)
                }
            }
        };
        assert_eq!((read.as_str(), &written), (what, &bytes));
    }
}

// egress 8.4, 8.9, 10.2
#[test]
fn every_datagram_of_the_specification_decodes_and_encodes_as_shown() {
    let rows: Vec<_> = ["00 ", "01 ", "02 ", "03 "].into_iter().flat_map(rows).collect();
    assert_eq!(rows.len(), 5);
    for (bytes, what) in rows {
        let message = bytes.clone().into();
        let Datagram { number, address, error, payload } = Datagram::decode(&message).unwrap();
        let written = match error {
            Some(reason) => Datagram::encode_error(number, address.as_ref(), reason, &payload),
            None => Datagram::encode(number, address.as_ref(), &payload),
        };
        assert_eq!(written, message);
        let place = address.map_or_else(|| "the usual destination".to_owned(), |it| shown(&it));
        let read = match (error, &payload[..]) {
            (None, b"hi") => format!("\"hi\" to or from {place}, number {number}"),
            (None, [0, sequence, ..]) => format!("echo {sequence} to or from {place}, number {number}"),
            (Some(reason), []) => format!("{reason}: what went to {place}, number {number}"),
            (Some(reason), [0, sequence]) => format!("{reason}: echo {sequence} to {place}, number {number}"),
            other => panic!("{other:?}"),
        };
        assert_eq!(read, what);
    }
}
