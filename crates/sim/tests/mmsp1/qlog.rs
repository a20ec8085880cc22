//! The log of a connection over MMSP/1.

use std::sync::{Arc, Mutex};

use manyway_proto::observe::Observers;
use manyway_proto::observe::qlog::{Qlog, Sink};
use manyway_proto::{ConnectionConfig, Instant};
use manyway_sim::scenario::{MINUTE, MS, SECOND, mbit, megabytes};
use manyway_sim::{PairBuilder, Side};
use serde_json::Value;

use super::connected_with;

#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Sink for Log {
    fn take(&mut self, _now: Instant, record: &str) -> bool {
        self.0.lock().unwrap().push_str(record);
        true
    }
}

#[test]
fn the_log_shows_every_block_and_no_byte_of_the_application() {
    let log = Log::default();
    let mut config = ConnectionConfig::mmsp1();
    let sink = log.clone();
    config.set_observers(Observers::new(move |beginning| {
        (beginning.side == Side::Client).then(|| -> Box<dyn manyway_proto::observe::Observer> {
            Box::new(Qlog::new(beginning, None, Box::new(sink.clone())))
        })
    }));
    let mut pair = connected_with(PairBuilder::new().path(mbit(20), 10 * MS), &config);
    pair.transfer(Side::Client, megabytes(1), MINUTE).unwrap();
    let now = pair.now();
    pair.peer(Side::Client).unwrap().connection().unwrap().close(now, 0, "");
    pair.run_for(SECOND).unwrap();
    let text = log.0.lock().unwrap().clone();
    let records: Vec<Value> = text
        .split('\u{1e}')
        .filter(|record| !record.is_empty())
        .map(|record| serde_json::from_str(record).unwrap())
        .collect();
    let frames = |event: &str| -> Vec<String> {
        let of_event = records.iter().filter(|record| record["name"] == event);
        let frames = of_event.flat_map(|record| record["data"]["frames"].as_array().unwrap().clone());
        frames.map(|frame| frame["frame_type"].as_str().unwrap().to_owned()).collect()
    };
    let (sent, received) = (frames("quic:packet_sent"), frames("quic:packet_received"));
    let has = |list: &[String], name: &str| list.iter().any(|frame| frame == name);
    for name in ["syn", "ping", "probe", "data", "fin", "fin_done"] {
        assert!(has(&sent, &format!("mmsp1_{name}")), "{name}");
    }
    for name in ["syn_ack", "pong", "probe_ack", "sack", "fin_ack"] {
        assert!(has(&received, &format!("mmsp1_{name}")), "{name}");
    }
    let data = sent.iter().filter(|frame| *frame == "mmsp1_data").count();
    assert!(data > 800, "{data}");
    assert!(text.len() < 900_000, "a log with the bytes of the application would be larger");
}
