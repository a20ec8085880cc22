//! Interfaces with a cap.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use super::MB;
use crate::common::lab::{Family, Lab, Namespace};
use crate::common::program::{Finished, MANYWAY, Running, Server, assert_same_content, make_file};

/// `manyway` at the client, with the counts of `home`.
fn start(lab: &Lab, home: &Path, arguments: &[&str]) -> Running {
    let mut command = lab.client.command(MANYWAY);
    command.current_dir(lab.here()).args(arguments).env("MANYWAY_HOME", home);
    Running::start(command)
}

fn run(lab: &Lab, home: &Path, arguments: &[&str]) -> Finished {
    start(lab, home, arguments).end()
}

/// The count of an interface with this cap.
fn counted(lab: &Lab, home: &Path, cap: &str) -> Value {
    let listed = run(lab, home, &["--json", "--cap", cap, "caps"]).expect(0).summary();
    let interface = cap.split('=').next().unwrap();
    let caps = listed["caps"].as_array().unwrap().clone();
    caps.into_iter().find(|row| row["interface"] == interface).unwrap()
}

/// Bytes of IP packets that the kernel counted at an interface, in both directions.
fn passed(namespace: &Namespace, interface: &str) -> u64 {
    const ETHERNET: u64 = 14;
    let figures = |name: &str| {
        let path = format!("/sys/class/net/{interface}/statistics/{name}");
        namespace.run("cat", &path).trim().parse::<u64>().unwrap()
    };
    // Read first, so that packets in between cannot make the result negative.
    let packets = figures("tx_packets") + figures("rx_packets");
    figures("tx_bytes") + figures("rx_bytes") - ETHERNET * packets
}

/// Two links of 20 Mbit/s without offload, so that the kernel counts the headers of each datagram. Their queues are
/// long: a packet that the host's own queue drops was counted but did not pass.
fn links() -> Option<Lab> {
    let lab = Lab::start(2, Family::V4)?;
    for link in [1, 2] {
        for (namespace, interface) in [(&lab.client, format!("va{link}")), (&lab.server, format!("vb{link}"))]
        {
            namespace.ip(&format!("link set {interface} gso_max_segs 1"));
            let queue = format!("qdisc replace dev {interface} root tbf rate 20mbit burst 16k latency 200ms");
            namespace.run("tc", &queue);
        }
    }
    Some(lab)
}

/// The content of such a queue, and 64 KiB that were not reported.
const OVER: u64 = 570_000;

#[test]
fn traffic_beyond_a_cap_uses_other_interfaces_and_matches_the_kernel_count() {
    let Some(lab) = links() else { return };
    let home = TempDir::new().unwrap();
    let server = lab.serve(&[]);
    make_file(&lab.here().join("up"), 8 * MB);
    make_file(&lab.there().join("down"), 8 * MB);
    let mut before = passed(&lab.client, "va2");
    for (command, cap) in [(["send", "up"], 2), (["get", "down"], 4)] {
        let rule = format!("va2={cap}MB");
        let words: Vec<&str> = match command {
            ["get", file] => vec!["get", &server.ticket, file],
            [verb, file] => vec![verb, file, &server.ticket],
        };
        let limit = cap * MB as u64;
        let finished = run(&lab, home.path(), &[&["--cap", &rule], &words[..]].concat()).expect(0);
        let finished = finished.says("va2").says("cap reached, again from 2").says("used (8");
        let state = counted(&lab, home.path(), &rule);
        let used = state["used"].as_u64().unwrap();
        assert_eq!(state["reached"], true, "{state} {finished:?}");
        assert!((limit..limit + OVER).contains(&used), "{state}");
        let kernel = passed(&lab.client, "va2") - before;
        assert!(used.abs_diff(kernel) * 100 <= used, "{used} counted, {kernel} passed");
        before = passed(&lab.client, "va2") - used;
        // Packets that arrive at an excluded interface.
        let late = passed(&lab.client, "va2");
        run(&lab, home.path(), &["-q", "--cap", &rule, "bench", "-n", "2M", &server.ticket]).expect(0);
        assert!(passed(&lab.client, "va2") - late < 20_000);
    }
    for name in ["up", "down"] {
        assert_same_content(&lab.here().join(name), &lab.there().join(name));
    }
}

#[test]
fn an_interface_whose_cap_is_reached_is_not_used_and_paths_says_until_when() {
    let Some(lab) = links() else { return };
    let home = TempDir::new().unwrap();
    let server = lab.serve(&[]);
    std::fs::write(home.path().join("config.toml"), "[caps.va2]\ncap = \"3 MB\"\nreset-day = 31\n").unwrap();
    let set = |size: &str| run(&lab, home.path(), &["caps", "set", "va2", size]).expect(0);
    set("2 MB");
    let watching = start(&lab, home.path(), &["--json", "paths", "-w", "-i", "200ms", &server.ticket]);
    let last = || {
        let printed = watching.printed();
        let whole = printed.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let documents = whole.lines().rev().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let pairs = documents.filter_map(|document| document["pairs"].as_array().cloned()).next()?;
        pairs.into_iter().find(|pair| pair["interface"] == "va2" && pair["local"] == "10.7.2.1")
    };
    watching.wait_until("the second path", || last().is_some_and(|row| row["path"].is_number()));
    assert!(last().unwrap()["cap"]["used"].as_u64().unwrap() >= 2_000_000);
    set("3 MB");
    let is_reached = || last().is_some_and(|row| row["reason"] == "cap-reached");
    watching.wait_until("the cap", is_reached);
    let why = last().unwrap()["why"].as_str().unwrap().to_owned();
    assert!(why.starts_with("cap of 3 MB reached, again from 2"), "{why}");
    assert!(watching.printed().contains(r#""reason":"cap reached, again from 2"#), "{}", watching.printed());
    let own = run(&lab, home.path(), &["paths"]).expect(0);
    own.says("3 MB of 3 MB").says("cap of 3 MB reached, again from 2");
    // Without a restart, once there is quota again.
    run(&lab, home.path(), &["caps", "clear", "va2"]).expect(0).says("counter reset");
    watching.wait_until("the path again", || last().is_some_and(|row| row["used"] == true));
    watching.signal("INT");
    watching.end().expect(0);
}

#[test]
fn a_transfer_without_another_interface_ends_with_the_cap_and_goes_on_when_that_is_raised() {
    let Some(lab) = links() else { return };
    let home = TempDir::new().unwrap();
    let server = lab.serve(&[]);
    make_file(&lab.here().join("file"), 6 * MB);
    let send = ["-I", "va2,cap=2MB", "send", "file", &server.ticket];
    let broken = run(&lab, home.path(), &send).expect(5);
    let broken = broken.says("va2: cap of 2 MB reached, again from 2").says("no other interface leads");
    assert!(broken.took.as_secs() < 20, "{broken:?}");
    let refused = run(&lab, home.path(), &send).expect(5).says("va2: cap of 2 MB reached, again from 2");
    assert!(refused.took.as_secs() < 5, "{refused:?}");
    let resumed = run(&lab, home.path(), &["--json", "-I", "va2,cap=20MB", "send", "file", &server.ticket]);
    let summary = resumed.expect(0).summary();
    assert!(summary["bytes_sent"].as_u64().unwrap() < 5 * MB as u64, "{summary}");
    assert_same_content(&lab.here().join("file"), &lab.there().join("file"));
}

#[test]
fn a_server_counts_too_and_leaves_an_interface_alone_whose_cap_is_reached() {
    let Some(lab) = links() else { return };
    let home = TempDir::new().unwrap();
    let mut command = lab.serving(&lab.there(), &["--cap", "vb2=2MB"]);
    command.env("MANYWAY_HOME", home.path());
    let server = Server::start(command);
    make_file(&lab.there().join("file"), 8 * MB);
    let before = passed(&lab.server, "vb2");
    lab.run_client(&["get", &server.ticket, "file"]).expect(0);
    assert_same_content(&lab.here().join("file"), &lab.there().join("file"));
    server.stop().expect(0);
    let kernel = passed(&lab.server, "vb2") - before;
    assert!((2_000_000..2_000_000 + OVER).contains(&kernel), "{kernel}");
    let text = std::fs::read_to_string(home.path().join("usage/vb2")).unwrap();
    let used: u64 = text.trim().rsplit_once(' ').unwrap().1.parse().unwrap();
    assert!(used.abs_diff(kernel) * 100 <= used, "{used} counted, {kernel} passed");
}

#[test]
fn bytes_of_a_failed_attempt_count_against_the_cap() {
    let Some(lab) = links() else { return };
    let home = TempDir::new().unwrap();
    let server = lab.serve(&[]);
    let ticket = server.ticket.clone();
    server.stop().expect(0);
    let words = ["--cap", "va2=2MB", "-I", "va2", "--connect-timeout", "500ms", "ping", &ticket];
    run(&lab, home.path(), &words).expect(7);
    let state = counted(&lab, home.path(), "va2=2MB");
    let used = state["used"].as_u64().unwrap();
    assert!(used > 1000 && used <= passed(&lab.client, "va2"), "{state}");
}

#[test]
fn a_cap_that_is_reached_while_the_other_link_is_down_waits_for_that_link() {
    let Some(lab) = links() else { return };
    let home = TempDir::new().unwrap();
    let server = lab.serve(&[]);
    make_file(&lab.here().join("file"), 8 * MB);
    let sending = start(&lab, home.path(), &["--cap", "va2=3MB", "send", "file", &server.ticket]);
    sending.wait_until("data over both", || {
        ["va1", "va2"].iter().all(|interface| passed(&lab.client, interface) > 400_000)
    });
    lab.client.ip("link set va1 down");
    sending.wait_until("the cap", || passed(&lab.client, "va2") > 3_000_000);
    std::thread::sleep(std::time::Duration::from_secs(1));
    lab.client.ip("link set va1 up");
    lab.wait_for_carrier(1);
    sending.end().expect(0);
    assert_same_content(&lab.here().join("file"), &lab.there().join("file"));
}

#[test]
fn a_rendezvous_server_says_that_caps_do_not_hold_for_it() {
    let Some(lab) = Lab::start(1, Family::V4) else { return };
    let home = TempDir::new().unwrap();
    let answering = start(&lab, home.path(), &["--cap", "va1=5MB", "rendezvous"]);
    answering.wait_for("caps do not hold");
    answering.signal("INT");
    answering.end().expect(0);
}
