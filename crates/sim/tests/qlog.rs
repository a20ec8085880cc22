//! The log of a connection in virtual time: well-formed, complete, and without secrets.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use manyway_proto::observe::Observers;
use manyway_proto::observe::qlog::{Qlog, Sink};
use manyway_proto::{ConnectionConfig, Instant};
use manyway_sim::pair::Direction;
use manyway_sim::scenario::{MINUTE, MS, SECOND, connected_with, mbit, megabytes};
use manyway_sim::traffic::Exchange;
use manyway_sim::{PairBuilder, Side};
use serde_json::Value;

/// The logs of both ends.
#[derive(Debug, Clone, Default)]
struct Logs(Arc<Mutex<BTreeMap<&'static str, String>>>);

#[derive(Debug)]
struct Memory {
    logs: Logs,
    end: &'static str,
    /// One in this many records is accepted; 1: all.
    takes_one_of: usize,
    offered: usize,
}

impl Sink for Memory {
    fn take(&mut self, _now: Instant, record: &str) -> bool {
        self.offered += 1;
        let takes = self.offered.is_multiple_of(self.takes_one_of);
        if takes {
            self.logs.0.lock().unwrap().entry(self.end).or_default().push_str(record);
        }
        takes
    }
}

/// A connection over two paths, the first of which fails and returns during a transfer; then it is closed.
fn failover(takes_one_of: usize) -> BTreeMap<&'static str, Vec<Value>> {
    let logs = Logs::default();
    let mut config = ConnectionConfig::default();
    config.key_limits.update_after_packets = 1000;
    let for_sinks = logs.clone();
    config.set_observers(Observers::new(move |beginning| {
        let end = match beginning.side {
            Side::Client => "client",
            Side::Server => "server",
        };
        let sink = Memory { logs: for_sinks.clone(), end, takes_one_of, offered: 0 };
        Some(Box::new(Qlog::new(beginning, Some("2026-01-01T00:00:00.000Z"), Box::new(sink))))
    }));
    let builder = PairBuilder::new().seed(5).path(mbit(20), 10 * MS).path(mbit(20), 20 * MS);
    let mut pair = connected_with(builder, &config).unwrap();
    let host = pair.host(Side::Client);
    pair.start(Side::Client, Box::new(Exchange::new(host, megabytes(8))));
    pair.run_for(SECOND).unwrap();
    pair.cut(0, Direction::Both);
    pair.run_for(SECOND).unwrap();
    pair.restore(0, Direction::Both);
    pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
    pair.run_for(3 * SECOND).unwrap();
    let now = pair.now();
    pair.peer(Side::Client).unwrap().connection().unwrap().close(now, 7, "done");
    pair.run_for(SECOND).unwrap();
    let logs = logs.0.lock().unwrap();
    logs.iter().map(|(end, text)| (*end, records(text))).collect()
}

/// Every record, each between its separator and the end of its line.
fn records(text: &str) -> Vec<Value> {
    let lines = text.strip_suffix('\n').unwrap().split('\n');
    lines.map(|line| serde_json::from_str(line.strip_prefix('\u{1e}').unwrap()).unwrap()).collect()
}

#[test]
fn every_record_has_what_the_schema_asks_for() {
    let logs = failover(1);
    let mut groups = BTreeSet::new();
    for (end, records) in &logs {
        let head = &records[0];
        assert_eq!(head["file_schema"], "urn:ietf:params:qlog:file:sequential");
        assert_eq!(head["serialization_format"], "application/qlog+json-seq");
        assert_eq!(head["trace"]["vantage_point"]["type"], *end);
        assert!(head["trace"]["event_schemas"].as_array().is_some_and(|schemas| schemas.len() == 2));
        let common = &head["trace"]["common_fields"];
        assert_eq!(common["reference_time"]["wall_clock_time"], "2026-01-01T00:00:00.000Z");
        groups.insert(common["group_id"].as_str().unwrap().to_owned());
        let mut last = 0.0;
        for record in &records[1..] {
            let time = record["time"].as_f64().unwrap();
            assert!(time >= last, "{record}");
            last = time;
            let name = record["name"].as_str().unwrap();
            assert!(name.starts_with("quic:") || name.starts_with("mmsp:"), "{record}");
            assert!(record["data"].is_object(), "{record}");
            if name.starts_with("quic:packet_") {
                let header = &record["data"]["header"];
                assert!(header["packet_number"].is_u64() && header["packet_type"].is_string(), "{record}");
                assert!(record["tuple"].is_string(), "{record}");
            }
        }
    }
    assert_eq!(groups.len(), 1, "both ends name the connection alike");
}

#[test]
fn every_packet_sent_at_one_end_is_received_or_lost_at_the_other() {
    let logs = failover(1);
    let packets = |end: &str, name: &str| -> BTreeSet<(String, String, u64)> {
        let of_name = logs[end].iter().filter(|record| record["name"] == name);
        let key = |record: &Value| {
            let header = &record["data"]["header"];
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            (text(&header["packet_type"]), text(&record["tuple"]), header["packet_number"].as_u64().unwrap())
        };
        of_name.map(key).collect()
    };
    for (from, to) in [("client", "server"), ("server", "client")] {
        let (sent, received) = (packets(from, "quic:packet_sent"), packets(to, "quic:packet_received"));
        assert!(received.is_subset(&sent), "{:?}", received.difference(&sent).next());
        let lost = packets(from, "quic:packet_lost");
        assert!(lost.is_subset(&sent), "{:?}", lost.difference(&sent).next());
    }
    assert!(!packets("client", "quic:packet_lost").is_empty());
}

#[test]
fn a_failover_reads_as_a_story() {
    let logs = failover(1);
    let mut story = String::new();
    for (end, records) in &logs {
        for record in &records[1..] {
            let name = record["name"].as_str().unwrap();
            if name.starts_with("quic:packet_") || name == "quic:recovery_metrics_updated" {
                continue;
            }
            let path = record["tuple"].as_str().unwrap_or("-");
            story += &format!("{end} {:>9} {path} {name} {}\n", record["time"], record["data"]);
        }
    }
    insta::assert_snapshot!(story);
}

#[test]
fn no_secret_is_in_a_log() {
    for records in failover(1).values() {
        for record in records {
            let text = record.to_string();
            for word in ["token", "\"info\"", "secret\":", "\"data_hex", "\"payload\""] {
                assert!(!text.contains(word), "{word} in {text}");
            }
        }
    }
}

#[test]
fn dropped_records_are_counted() {
    let (all, some) = (failover(1), failover(3));
    for (end, records) in &some {
        let missing = all[end].len() - records.len();
        let told = records.iter().filter(|record| record["name"] == "mmsp:records_dropped");
        let counted: u64 = told.clone().map(|record| record["data"]["count"].as_u64().unwrap()).sum();
        assert!(told.count() > 10, "{end}");
        // The records with the counts are not among the missing ones; the last missing ones are not counted.
        let notes = records.iter().filter(|record| record["name"] == "mmsp:records_dropped").count();
        let missing = (missing + notes) as u64;
        assert!(counted <= missing && missing <= counted + 10, "{end}: {counted} of {missing}");
    }
}
