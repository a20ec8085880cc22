//! The frames that the specification shows.

use manyway_egress::Destination;
use manyway_egress::fuzzing::{Answer, Request};

const SPECIFICATION: &str = include_str!("../../../docs/specification/egress.md");

/// A row of the table of frames: hexadecimal digits, and what they are.
fn rows() -> Vec<(Vec<u8>, &'static str)> {
    let row = |line: &'static str| {
        let (digits, what) = line.strip_prefix("| `45 01")?.split_once("` |")?;
        let digits: String = format!("4501{digits}").split_whitespace().collect();
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
    let rows = rows();
    assert_eq!(rows.len(), 12);
    for (bytes, what) in rows {
        let mut written = Vec::new();
        let is_request =
            ["CONNECT", "CHECK", "FLOW", "LISTEN", "INCOMING"].iter().any(|name| what.starts_with(name));
        let read = if is_request {
            let request = Request::decode(&bytes).unwrap().unwrap();
            request.encode(&mut written);
            match request {
                Request::Connect(to) => format!("CONNECT to {}", shown(&to)),
                Request::Datagrams(Some(to)) => format!("FLOW to {}", shown(&to)),
                Request::Datagrams(None) => "FLOW".to_owned(),
                Request::Listen { number, address } => {
                    format!("LISTEN {number} at {}, port {}", address.ip(), address.port())
                }
                Request::Incoming { number, peer } => {
                    format!("INCOMING {number} from {}, port {}", peer.ip(), peer.port())
                }
                Request::Check | _ => "CHECK".to_owned(),
            }
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
