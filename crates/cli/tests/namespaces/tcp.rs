//! Links that carry no UDP, or not any more.

use serde_json::Value;

use super::MB;
use crate::common::lab::{Family, Lab};
use crate::common::program::{assert_same_content, make_file, wait_until};

#[test]
fn a_file_goes_by_tcp_where_udp_is_blocked_and_paths_tells_so() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    lab.drop_udp(Family::V4);
    let server = lab.serve(&["--carrier", "auto"]);
    make_file(&lab.here().join("small"), 2 * MB);
    lab.run_client(&["send", "small", &server.ticket]).expect(0);
    assert_same_content(&lab.here().join("small"), &lab.there().join("small"));
    let paths = lab.run_client(&["paths", "--json", &server.ticket]);
    paths.expect(0);
    let table = lab.run_client(&["paths", &server.ticket]);
    assert!(table.out.contains("10.7.1.2:4455 tcp"), "{}", table.out);
    lab.run_client(&["send", "small", &server.ticket, "--carrier", "udp", "--connect-timeout", "1s"])
        .expect(7);
    lab.release();
    server.stop().expect(0);
}

#[test]
fn a_transfer_goes_on_by_tcp_when_udp_is_blocked_in_the_middle() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    lab.limit(1, 20);
    lab.limit(2, 20);
    let server = lab.serve(&["--carrier", "auto"]);
    make_file(&lab.here().join("big"), 30 * MB);
    let client = lab.start_client(&["send", "big", &server.ticket]);
    wait_until("data over UDP", || lab.client.sent("va1") > 1_000_000 && lab.client.sent("va2") > 1_000_000);
    lab.drop_udp(Family::V4);
    let sent = |interface: &str| lab.client.sent(interface);
    let (one, two) = (sent("va1"), sent("va2"));
    wait_until("data over TCP", || sent("va1") > one + 2_000_000 && sent("va2") > two + 2_000_000);
    lab.unlimit();
    client.end().expect(0);
    assert_same_content(&lab.here().join("big"), &lab.there().join("big"));
    lab.release();
    server.stop().expect(0);
}

#[test]
fn a_measurement_holds_its_target_rate_over_ten_tcp_connections_of_one_interface() {
    let Some(lab) = Lab::start(1, Family::V4) else { return };
    let server = lab.serve(&["--carrier", "auto"]);
    let options = ["-R", "-J", "-t", "3", "--carrier", "tcp", "--connections", "10", "--target-rate", "20M"];
    let run = lab.run_client(&[&["bench"], &options[..], &[&server.ticket]].concat());
    let document: Value = serde_json::from_str(&run.expect(0).out).unwrap();
    let events = document["events"].as_array().unwrap();
    let mut reports = events.iter().filter(|event| event["event"] == "target-rate");
    // On a busy machine the last report may come while a connection is replaced.
    let is_whole = |report: &Value| {
        (&report["connections"], &report["paths"], &report["target"])
            == (&10.into(), &10.into(), &20_000_000.into())
    };
    assert!(reports.any(is_whole), "{document}");
    assert_eq!(document["end"]["target"]["connections"]["most"], 10);
    lab.run_client(&["bench", "--target-rate", "20M", &server.ticket]).expect(2).says("add -R");
    lab.run_client(&["bench", "--carrier", "udp", "--connections", "2", &server.ticket])
        .expect(2)
        .says("--carrier udp leaves that out");
    server.stop().expect(0);
}
