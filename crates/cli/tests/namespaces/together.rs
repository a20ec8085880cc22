//! Several links at once.

use std::time::Duration;

use serde_json::Value;

use super::MB;
use crate::common::lab::{Family, Lab};
use crate::common::program::{assert_same_content, make_file};

#[test]
fn two_links_add_up_for_send_get_and_bench_over_ipv4() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    send_get_and_bench(&lab, &[]);
}

#[test]
fn two_links_add_up_for_send_get_and_bench_over_ipv6() {
    let Some(lab) = Lab::start(2, Family::V6) else { return };
    send_get_and_bench(&lab, &[]);
}

#[test]
fn a_name_with_several_addresses_is_enough_for_all_links() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    for namespace in [&lab.client, &lab.server] {
        namespace.set_hosts("127.0.0.1 localhost\n10.7.1.2 bonded.test\n10.7.2.2 bonded.test\n");
    }
    send_get_and_bench(&lab, &["--advertise", "bonded.test:4455"]);
}

/// With two links of 20 Mbit/s each, all three verbs get more than 1.3 times the rate of one, also on a busy machine.
fn send_get_and_bench(lab: &Lab, serve: &[&str]) {
    lab.limit(1, 20);
    lab.limit(2, 20);
    let server = lab.serve(serve);
    let ticket = server.ticket.as_str();
    let (here, there) = (lab.here(), lab.there());

    make_file(&here.join("up"), 10 * MB);
    let sent = lab.run_client(&["--json", "send", "up", ticket]).expect(0).summary();
    assert_same_content(&here.join("up"), &there.join("up"));
    assert_rate("send", &sent);
    assert_both_carry("send", &sent, "bytes_sent");

    make_file(&there.join("down"), 10 * MB);
    let fetched = lab.run_client(&["--json", "get", ticket, "down", "-o", "fetched/"]).expect(0).summary();
    assert_same_content(&there.join("down"), &here.join("fetched/down"));
    assert_rate("get", &fetched);
    assert_both_carry("get", &fetched, "bytes_received");

    for direction in [&[][..], &["-R"]] {
        let arguments = ["--json", "bench", "-t", "2", ticket];
        let documents = lab.run_client(&[&arguments[..], direction].concat()).expect(0).json();
        let (summary, intervals) = documents.split_last().unwrap();
        assert_rate("bench", summary);
        let paths = intervals[1]["paths"].as_array().unwrap();
        let rates: Vec<_> = paths.iter().map(|path| path["bits_per_second"].as_u64().unwrap()).collect();
        assert!(rates.len() == 2 && rates.iter().all(|rate| *rate > 5_000_000), "{intervals:?}");
    }
    server.stop().expect(0);
}

#[track_caller]
fn assert_rate(verb: &str, summary: &Value) {
    let rate = summary["bits_per_second"].as_u64().unwrap();
    assert!(rate > 26_000_000, "{verb}: {summary}");
}

#[track_caller]
fn assert_both_carry(verb: &str, summary: &Value, figure: &str) {
    for interface in ["va1", "va2"] {
        let paths = summary["paths"].as_array().unwrap().iter();
        let of_interface = paths.filter(|path| path["path"].as_str().unwrap().starts_with(interface));
        let bytes: u64 = of_interface.map(|path| path[figure].as_u64().unwrap()).sum();
        assert!(bytes > 2_500_000, "{verb} over {interface}: {summary}");
    }
}

#[test]
fn interfaces_of_weights_1_and_3_carry_bytes_one_to_three() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    // By their rates it would be the other way round: the slow one limits both.
    lab.limit(1, 30);
    lab.limit(2, 10);
    let server = lab.serve(&[]);
    let options = ["--scheduler", "weighted=fixed", "-I", "va1", "-I", "va2,weight=3", "--json"];
    let bench = lab.start_client(&[&options[..], &["bench", "-n", "8M", &server.ticket]].concat());
    let carried = || ["va1", "va2"].map(|interface| lab.client.sent(interface));
    // The first path is alone until the second is validated.
    bench.wait_until("both paths", || carried()[1] > 100_000);
    let before = carried();
    let summary = bench.end().expect(0).summary();
    let after = carried();
    let [one, three] = [after[0] - before[0], after[1] - before[1]];
    assert!(after[0] + after[1] > 8_000_000, "{summary}");
    // The overhead beside data is the same on both.
    assert!((one * 5 / 2..one * 7 / 2).contains(&three), "{one} {three} {summary}");
}

#[test]
fn two_clients_share_a_server() {
    let Some(lab) = Lab::start(2, Family::Both) else { return };
    lab.limit(1, 20);
    lab.limit(2, 20);
    let server = lab.serve(&[]);
    for name in ["one", "two"] {
        make_file(&lab.here().join(name), 4 * MB);
    }
    let clients = ["one", "two"].map(|name| lab.start_client(&["-q", "send", name, &server.ticket]));
    for client in clients {
        let took = client.end().expect(0).took;
        assert!(took < Duration::from_secs(20), "{took:?}");
    }
    for name in ["one", "two"] {
        assert_same_content(&lab.here().join(name), &lab.there().join(name));
    }
}
