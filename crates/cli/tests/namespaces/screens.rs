//! Messages about links that fail and return.

use std::collections::BTreeSet;

use super::MB;
use crate::common::lab::{Family, Lab};
use crate::common::program::{MANYWAY, Running, make_file};

/// Three answers in one turn of the driver once had the time of that turn.
#[test]
fn each_path_answers_a_ping_at_a_moment_of_its_own() {
    let Some(lab) = Lab::start(3, Family::V4) else { return };
    let server = lab.serve(&[]);
    let documents =
        lab.run_client(&["--json", "ping", "-c", "8", "-i", "200ms", &server.ticket]).expect(0).json();
    let with_three = (0..8).filter_map(|sequence| {
        let answers = documents.iter().filter(|line| line["seq"] == sequence && line["rtt"].is_number());
        let times: Vec<_> = answers.map(|line| line["rtt"].to_string()).collect();
        (times.len() == 3).then_some(times)
    });
    let with_three: Vec<_> = with_three.collect();
    assert!(!with_three.is_empty(), "{documents:?}");
    for times in with_three {
        let different: BTreeSet<_> = times.iter().collect();
        assert_eq!(different.len(), 3, "{times:?}");
    }
    server.stop().expect(0);
}

#[test]
fn a_link_that_goes_and_returns_is_told_of_with_times_and_stays_in_the_table() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    lab.limit(1, 20);
    lab.limit(2, 20);
    let server = lab.serve(&[]);
    make_file(&lab.here().join("big"), 40 * MB);
    let client = lab.start_client(&["send", "big", &server.ticket]);
    client.wait_until("both to carry data", || {
        lab.client.sent("va1") > 2_000_000 && lab.client.sent("va2") > 2_000_000
    });
    lab.client.ip("link set va2 down");
    client.wait_for("va2 closed: ");
    lab.client.ip("link set va2 up");
    client.wait_for("va2 active: ");
    let told = client.messages();
    let moments = told.lines().filter(|line| line.contains(" s  va2 ")).count();
    assert!(moments >= 2, "each with its time: {told}");
    lab.unlimit();
    let sent = client.end().expect(0).out;
    let rows: Vec<_> = sent.lines().filter(|line| line.starts_with("va")).collect();
    assert_eq!(rows.len(), 2, "one row a link, also if it was away: {sent}");
    assert!(rows[0].starts_with("va1") && rows[1].starts_with("va2"), "{sent}");
    server.stop().expect(0);
}

#[test]
fn without_a_path_the_user_is_told_when_the_transfer_is_given_up() {
    let Some(lab) = Lab::start(1, Family::V4) else { return };
    lab.limit(1, 20);
    let server = lab.serve(&[]);
    make_file(&lab.here().join("big"), 30 * MB);
    let client = lab.start_client(&["send", "big", &server.ticket]);
    client.wait_until("data", || lab.client.sent("va1") > 2_000_000);
    lab.client.ip("link set va1 down");
    client.wait_for("no working path; giving up in ");
    lab.client.ip("link set va1 up");
    lab.unlimit();
    client.end().expect(0);
    server.stop().expect(0);
}

#[test]
fn an_offer_ends_with_the_traffic_of_each_path_and_no_word_of_its_last_client() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    make_file(&lab.there().join("big"), 20 * MB);
    let mut command = lab.server.command(MANYWAY);
    command.current_dir(lab.there()).args(["--json", "send", "--carrier", "udp", "big"]);
    let offer = Running::start(command);
    let mut code = None;
    offer.wait_until("the code", || {
        let line = offer.printed().lines().next().and_then(|line| serde_json::from_str(line).ok());
        code = line.map(|line: serde_json::Value| line["code"].as_str().unwrap().to_owned());
        code.is_some()
    });
    lab.run_client(&["get", &code.unwrap()]).expect(0);
    let offered = offer.end().expect(0);
    assert!(!offered.err.contains("the other side is gone"), "{offered:?}");
    let summary = &offered.json()[1];
    let sent = |path: &serde_json::Value| path["bytes_sent"].as_u64().unwrap();
    let rows: Vec<_> = summary["paths"].as_array().unwrap().iter().map(sent).collect();
    assert_eq!(rows.len(), 2, "one row a path: {summary}");
    assert!(rows.iter().sum::<u64>() > 20 * MB as u64, "headers included: {summary}");
}
