//! Several IPv6 addresses on one interface.

use serde_json::Value;

use super::MB;
use crate::common::lab::{Family, Lab};
use crate::common::program::{assert_same_content, make_file};

const PREFIXES: [&str; 2] = ["fd00:7:1", "fd00:8:1"];

/// One link with two prefixes.
fn lab() -> Option<Lab> {
    let lab = Lab::start(1, Family::V6)?;
    lab.client.ip(&format!("addr add {}::1/64 dev va1 nodad", PREFIXES[1]));
    lab.server.ip(&format!("addr add {}::2/64 dev vb1 nodad", PREFIXES[1]));
    lab.limit(1, 20);
    Some(lab)
}

/// Silently drops everything with a prefix.
fn kill(lab: &Lab, prefix: &str) {
    for end in [&lab.client, &lab.server] {
        for direction in ["saddr", "daddr"] {
            end.nft(&format!(
                "table inet dead {{\nchain {direction} {{ type filter hook input priority 0; \
                 ip6 {direction} {prefix}::/64 meta l4proto udp drop; }}\n}}"
            ));
        }
    }
}

fn paths(summary: &Value) -> Vec<(String, u64)> {
    // Pairs that were tried and given up are closed.
    let paths = summary["paths"].as_array().unwrap().iter().filter(|path| path["open"] == true);
    let facts =
        paths.map(|path| (path["local"].as_str().unwrap().to_owned(), path["bytes_sent"].as_u64().unwrap()));
    facts.collect()
}

#[test]
fn each_prefix_of_an_interface_carries_a_path_of_its_own_where_pairs_are_disjoint() {
    let Some(lab) = lab() else { return };
    let server = lab.serve(&[]);
    let send = |mode: &str, file: &str| {
        // Another file each time: an existing one takes no time.
        make_file(&lab.here().join(file), 4 * MB);
        let sent = lab.run_client(&["--json", "--pairs", mode, "send", file, &server.ticket]).expect(0);
        paths(&sent.summary())
    };
    // On a busy machine a path may be taken for dead for a moment, and another pair tried.
    let mut runs = ["first", "second", "third"].into_iter().map(|file| send("disjoint", file));
    let mut disjoint = runs.find(|paths| paths.len() == 2).expect("two paths");
    disjoint.sort();
    for ((path, bytes), prefix) in disjoint.iter().zip(PREFIXES) {
        assert!(path.contains(prefix) && *bytes > 500_000, "{disjoint:?}");
    }
    // One link needs no more than one path.
    assert_eq!(send("local-disjoint", "local").len(), 1);
    assert_eq!(send("full-mesh", "mesh").len(), 4);
    server.stop().expect(0);
}

#[test]
fn a_prefix_that_dies_in_silence_stops_nothing_in_any_mode() {
    for mode in ["local-disjoint", "disjoint", "full-mesh"] {
        let Some(lab) = lab() else { return };
        let server = lab.serve(&[]);
        make_file(&lab.here().join("big"), 16 * MB);
        let client = lab.start_client(&["-v", "--pairs", mode, "send", "big", &server.ticket]);
        let until_more = |bytes: u64| {
            let before = lab.client.sent("va1");
            client.wait_until(mode, || lab.client.sent("va1") > before + bytes);
        };
        until_more(1_000_000);
        // One of the two is in use.
        for prefix in PREFIXES {
            kill(&lab, prefix);
            until_more(1_500_000);
            lab.release();
        }
        lab.unlimit();
        client.end().expect(0).says("dead");
        assert_same_content(&lab.here().join("big"), &lab.there().join("big"));
        server.stop().expect(0);
    }
}
