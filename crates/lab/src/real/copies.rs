//! The copies of datagrams that an end sent while a path failed, from its log in qlog.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::path::Path;

use serde_json::Value;

/// Datagrams that were sent more than once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Copies {
    /// Those whose earlier packets were all in flight on the path that failed.
    pub(super) of_failed: u64,
    /// The others.
    pub(super) others: u64,
}

/// A packet: its path and its number there.
type Packet = (String, usize);
/// A part of a datagram: its flow, its number, where it begins, and whether its flow has an order, which has numbers of its
/// own.
type Part = ([u64; 3], bool);

/// What became of a packet.
#[derive(Debug, Clone, Copy)]
struct Fate {
    sent_at: f64,
    is_acknowledged: bool,
}

/// A part that was sent again.
#[derive(Debug)]
struct Copy {
    at: f64,
    is_of_failed: bool,
}

/// What a log tells up to a record.
#[derive(Debug, Default)]
struct Log {
    /// The paths from the address that fails.
    failed: BTreeSet<String>,
    carriers: BTreeMap<Part, Vec<Packet>>,
    /// Of each path, the packets by their numbers.
    packets: BTreeMap<String, Vec<Fate>>,
    copies: Vec<Copy>,
    /// When the last packet was sent of those that arrived over the failed path.
    worked_until: f64,
}

/// Counts the copies in the only log of a directory, where the paths from this local address failed.
///
/// # Errors
/// The log is missing, or records are missing in it.
pub(super) fn copies(directory: &Path, failed: IpAddr) -> Result<Copies, String> {
    let mut files = fs::read_dir(directory).into_iter().flatten().flatten();
    let (Some(file), None) = (files.next(), files.next()) else {
        return Err("manyway has not written one log".to_owned());
    };
    let text = fs::read_to_string(file.path()).map_err(|error| format!("the log of manyway: {error}"))?;
    of_text(&text, failed)
}

fn of_text(text: &str, failed: IpAddr) -> Result<Copies, String> {
    let mut log = Log::default();
    for line in text.lines() {
        // The last record is cut where the process was killed.
        let Ok(record) = serde_json::from_str::<Value>(line.trim_start_matches('\u{1e}')) else { continue };
        let Some(name) = record.get("name").and_then(Value::as_str) else { continue };
        match name {
            "quic:tuple_assigned" => log.on_path(&record, failed),
            "quic:packet_sent" if is_of_data(&record) => log.on_sent(&record),
            "quic:packet_received" if is_of_data(&record) => log.on_received(&record),
            "mmsp:records_dropped" => return Err("records are missing in the log of manyway".to_owned()),
            _ => {}
        }
    }
    if log.failed.is_empty() {
        return Err("no path of the log of manyway is the one that failed".to_owned());
    }
    // Before the last packet that still arrives there nothing has failed.
    let is_of_failed = |copy: &&Copy| copy.is_of_failed && copy.at > log.worked_until;
    let of_failed = log.copies.iter().filter(is_of_failed).count();
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    Ok(Copies { of_failed: count(of_failed), others: count(log.copies.len() - of_failed) })
}

impl Log {
    fn on_path(&mut self, record: &Value, failed: IpAddr) {
        let local = record.pointer("/data/tuple_local/ip_v4").and_then(Value::as_str);
        if let Some(path) = record.pointer("/data/tuple_id").and_then(Value::as_str)
            && local == Some(failed.to_string().as_str())
        {
            self.failed.insert(path.to_owned());
        }
    }

    fn on_sent(&mut self, record: &Value) {
        let (Some(path), Some(number)) = (
            record.get("tuple").and_then(Value::as_str),
            record.pointer("/data/header/packet_number").and_then(Value::as_u64),
        ) else {
            return;
        };
        let at = time(record);
        let packets = self.packets.entry(path.to_owned()).or_default();
        let place = usize::try_from(number).unwrap_or(usize::MAX);
        if (packets.len()..packets.len() + MOST_SKIPPED).contains(&place) {
            packets.resize(place + 1, Fate { sent_at: at, is_acknowledged: false });
        }
        for frame in frames(record, "mmsp_message") {
            let field = |name| frame.get(name).and_then(Value::as_u64).unwrap_or_default();
            let has_order = frame.get("unordered") != Some(&Value::Bool(true));
            let part = (["stream_id", "message", "offset"].map(field), has_order);
            let carriers = self.carriers.remove(&part).unwrap_or_default();
            if !carriers.is_empty() {
                self.copies
                    .push(Copy { at, is_of_failed: carriers.iter().all(|one| self.is_in_flight(one)) });
            }
            let now = (path.to_owned(), place);
            self.carriers.insert(part, carriers.into_iter().chain([now]).collect());
        }
    }

    /// Whether a packet is on the path that fails, without an acknowledgement yet.
    fn is_in_flight(&self, (path, place): &Packet) -> bool {
        let fate = self.packets.get(path).and_then(|packets| packets.get(*place));
        self.failed.contains(path) && fate.is_some_and(|fate| !fate.is_acknowledged)
    }

    fn on_received(&mut self, record: &Value) {
        for frame in frames(record, "ack") {
            let path = frame.get("path_id").map(ToString::to_string).unwrap_or_default();
            let Some(packets) = self.packets.get_mut(&path) else { continue };
            let mut latest = 0.0_f64;
            for range in frame.get("acked_ranges").and_then(Value::as_array).into_iter().flatten() {
                for packet in among(packets, range) {
                    packet.is_acknowledged = true;
                    latest = latest.max(packet.sent_at);
                }
            }
            if self.failed.contains(&path) {
                self.worked_until = self.worked_until.max(latest);
            }
        }
    }
}

/// The packets in a range of numbers with both ends.
fn among<'a>(packets: &'a mut [Fate], range: &Value) -> impl Iterator<Item = &'a mut Fate> {
    let place = |end: usize| usize::try_from(range.get(end)?.as_u64()?).ok();
    let last = place(1).map(|last| last.min(packets.len().saturating_sub(1)));
    let ends = place(0).zip(last);
    ends.and_then(|(first, last)| packets.get_mut(first..=last)).into_iter().flatten()
}

/// When it was, in ms.
fn time(record: &Value) -> f64 {
    record.get("time").and_then(Value::as_f64).unwrap_or_default()
}

/// The frames of a packet with this name.
fn frames<'a>(record: &'a Value, name: &'a str) -> impl Iterator<Item = &'a Value> {
    let frames = record.pointer("/data/frames").and_then(Value::as_array).into_iter().flatten();
    frames.filter(move |frame| frame.get("frame_type").and_then(Value::as_str) == Some(name))
}

/// Packets of the handshake have numbers of their own.
fn is_of_data(record: &Value) -> bool {
    record.pointer("/data/header/packet_type").and_then(Value::as_str) == Some("1RTT")
}

/// A sender leaves few numbers out.
const MOST_SKIPPED: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: &str = "\u{1e}{\"time\":0,\"name\":\"quic:tuple_assigned\",\"data\":{\"tuple_id\":\"0\",\"tuple_local\":{\"ip_v4\":\"10.0.0.1\"}}}\n\
        \u{1e}{\"time\":0,\"name\":\"quic:tuple_assigned\",\"data\":{\"tuple_id\":\"1\",\"tuple_local\":{\"ip_v4\":\"10.0.1.1\"}}}\n";

    /// A packet with a datagram.
    fn sent(time: u32, path: u32, number: u32, message: u32) -> String {
        format!(
            r#"{{"time":{time},"name":"quic:packet_sent","tuple":"{path}","data":{{"header":{{"packet_type":"1RTT","packet_number":{number}}},"frames":[{{"frame_type":"mmsp_message","stream_id":2,"message":{message},"offset":0}}]}}}}"#
        ) + "\n"
    }

    /// An acknowledgement of packets of a path.
    fn acknowledged(time: u32, path: u32, first: u32, last: u32) -> String {
        format!(
            r#"{{"time":{time},"name":"quic:packet_received","data":{{"header":{{"packet_type":"1RTT"}},"frames":[{{"frame_type":"ack","path_id":{path},"acked_ranges":[[{first},{last}]]}}]}}}}"#
        ) + "\n"
    }

    fn counted(records: &[String]) -> Copies {
        of_text(&(PATHS.to_owned() + &records.concat()), "10.0.0.1".parse().unwrap()).unwrap()
    }

    #[test]
    fn a_copy_of_what_is_in_flight_on_the_failed_path_is_told_from_others() {
        let begin = [sent(1, 0, 0, 7), sent(2, 0, 1, 8), sent(3, 1, 0, 9), acknowledged(4, 0, 0, 0)];
        let after = |copy: String| counted(&[begin.concat(), copy]);
        assert_eq!(after(sent(5, 1, 1, 8)), Copies { of_failed: 1, others: 0 });
        // It had arrived, and it was on the other path.
        assert_eq!(after(sent(5, 1, 1, 7)), Copies { of_failed: 0, others: 1 });
        assert_eq!(after(sent(5, 0, 2, 9)), Copies { of_failed: 0, others: 1 });
        assert_eq!(after(sent(5, 1, 1, 10)), Copies::default());
    }

    #[test]
    fn a_copy_is_an_early_one_while_packets_arrive_over_the_path() {
        let copy = [sent(1, 0, 0, 7), sent(2, 1, 0, 7)];
        let later = [sent(3, 0, 1, 8), acknowledged(4, 0, 1, 1)];
        assert_eq!(counted(&copy), Copies { of_failed: 1, others: 0 });
        assert_eq!(counted(&[copy, later].concat()), Copies { of_failed: 0, others: 1 });
        // An acknowledgement of what arrived before the copy was made may come late.
        let late = [sent(1, 0, 0, 7), sent(2, 1, 0, 7), acknowledged(3, 0, 0, 0)];
        assert_eq!(counted(&late), Copies { of_failed: 1, others: 0 });
    }

    #[test]
    fn a_log_of_other_paths_and_one_with_gaps_are_errors() {
        let address = "10.0.9.1".parse().unwrap();
        assert!(of_text(PATHS, address).unwrap_err().contains("no path"));
        let gap = r#"{"time":1,"name":"mmsp:records_dropped","data":{"count":3}}"#;
        assert!(of_text(gap, address).unwrap_err().contains("missing"));
    }
}
