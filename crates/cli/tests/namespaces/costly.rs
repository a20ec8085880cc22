//! Whether a costlier path takes over.

use serde_json::Value;

use super::MB;
use crate::common::lab::{Family, Lab};
use crate::common::program::{MANYWAY, Server, assert_same_content, make_file, wait_until};
use crate::common::terminal::AtTerminal;

const PRIMARY: [&str; 6] = ["--scheduler", "primary", "-I", "va1", "-I", "va2,cost=2"];
/// More than probes take, less than data.
const LITTLE: u64 = 200_000;

/// Two links of 20 Mbit/s, the second of which has a cost, and a file for the server.
fn links() -> Option<(Lab, Server)> {
    links_of(2)
}

fn links_of(count: u8) -> Option<(Lab, Server)> {
    let lab = Lab::start(count, Family::V4)?;
    (1..=count).for_each(|link| lab.limit(link, 20));
    make_file(&lab.here().join("file"), 12 * MB);
    // Its answers use the first one, too, while that works.
    let server = lab.serve(&["--scheduler", "primary"]);
    Some((lab, server))
}

#[test]
fn at_a_terminal_the_user_is_asked_while_the_transfer_waits() {
    for (answer, is_used) in [("y\n", true), ("\n", false)] {
        let Some((lab, server)) = links() else { return };
        let home = tempfile::TempDir::new().unwrap();
        let mut command = lab.client.command(MANYWAY);
        command.current_dir(lab.here()).env("MANYWAY_HOME", home.path()).args(PRIMARY);
        command.args(["send", "file", &server.ticket]);
        let mut asked = AtTerminal::start(command);
        wait_until("data", || lab.client.sent("va1") > 1_000_000);
        lab.black_holes(&[1]);
        asked.read_until("Use va2 (cost 2)? [y/N] ");
        assert!(lab.client.sent("va2") < LITTLE);
        asked.write(answer);
        if is_used {
            wait_until("data on the other", || lab.client.sent("va2") > 2_000_000);
        } else {
            // It works again, and the waiting data is sent.
            lab.release();
        }
        lab.unlimit();
        let (code, shown) = asked.end();
        assert_eq!(code, Some(0), "{shown}");
        assert_eq!(shown.matches("[y/N]").count(), 1, "{shown}");
        assert_eq!(lab.client.sent("va2") > 2_000_000, is_used, "{shown}");
        assert_same_content(&lab.here().join("file"), &lab.there().join("file"));
    }
}

#[test]
fn without_a_terminal_the_options_decide_and_waiting_is_told() {
    for (options, words) in [
        (
            &[][..],
            Some(
                "nothing cheaper than va2 (cost 2) works now: data wait for the other interfaces; --costly allow",
            ),
        ),
        (&["--costly", "never"], Some("nothing cheaper than va2 (cost 2) works now")),
        (&["--costly", "allow"], None),
    ] {
        let Some((lab, server)) = links() else { return };
        let client = lab.start_client(&[options, &PRIMARY, &["send", "file", &server.ticket]].concat());
        client.wait_until("data", || lab.client.sent("va1") > 1_000_000);
        lab.black_holes(&[1]);
        match words {
            Some(words) => {
                client.wait_for(words);
                assert!(lab.client.sent("va2") < LITTLE);
                lab.release();
            }
            None => client.wait_until("data on the other", || lab.client.sent("va2") > 2_000_000),
        }
        lab.unlimit();
        client.end().expect(0);
        assert_same_content(&lab.here().join("file"), &lab.there().join("file"));
    }
}

/// The report of a `bench` at its end on the path over an interface: whether it was used, and the reason.
fn told(summary: &Value, interface: &str) -> (bool, String) {
    let paths = summary["paths"].as_array().unwrap();
    let path =
        paths.iter().find(|path| path["interface"] == interface).unwrap_or_else(|| panic!("{summary}"));
    (path["used"] == true, path["reason"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn bench_says_that_a_dearer_path_waits_and_that_it_carries_because_the_other_fails() {
    let Some((lab, server)) = links() else { return };
    let bench = |time, options: &[&str]| {
        lab.start_client(&[&PRIMARY, options, &["bench", "--json", "-t", time, &server.ticket]].concat())
    };
    let mut documents = Vec::new();
    for _ in 0..3 {
        documents = bench("2", &[]).end().expect(0).json();
        // On a busy machine va1 may seem silent to the server for a moment, which then answers on va2.
        if told(documents.last().unwrap(), "va2").1 != "by-peer" {
            break;
        }
    }
    let (summary, lines) = documents.split_last().unwrap();
    assert_eq!(told(summary, "va1"), (true, "primary".to_owned()), "{summary}");
    assert_eq!(told(summary, "va2"), (false, "needs-consent".to_owned()), "{summary}");
    let mut events = lines.iter().chain([summary]).flat_map(|line| line["events"].as_array().unwrap());
    assert!(events.any(|event| event["event"] == "primary-path" && event["interface"] == "va1"), "{lines:?}");

    let allowed = bench("4", &["--costly", "allow"]);
    allowed.wait_until("data", || lab.client.sent("va1") > 6_000_000);
    lab.black_holes(&[1]);
    let summary = allowed.end().expect(0).summary();
    // Both directions are black holes, and either end may notice first.
    let why = told(&summary, "va1").1;
    assert!(["no-answer", "peer-receives-nothing"].contains(&why.as_str()), "{summary}");
    assert_eq!(told(&summary, "va2"), (true, "alone".to_owned()), "{summary}");
}

#[test]
fn a_free_backup_is_shown_as_used_while_the_costly_path_needs_leave() {
    let Some((lab, server)) = links_of(3) else { return };
    let with_backup = [&PRIMARY[..], &["-I", "va3,role=backup"]].concat();
    let watch = ["paths", "-w", "-i", "200ms", "--json", server.ticket.as_str()];
    let watching = lab.start_client(&[&with_backup, &watch[..]].concat());
    // The last report on each path.
    let last = || -> Option<Vec<(bool, String)>> {
        let printed = watching.printed();
        let whole = printed.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let documents = whole.lines().rev().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let pairs = documents.filter_map(|document| document["pairs"].as_array().cloned()).next()?;
        let of = |interface: &str| {
            let pair =
                pairs.iter().find(|pair| pair["interface"] == interface && pair["path"].is_number())?;
            Some((pair["used"] == true, pair["reason"].as_str()?.to_owned()))
        };
        ["va1", "va2", "va3"].into_iter().map(of).collect()
    };
    let says = |expected: [(bool, &str); 3]| {
        let matches = |told: Vec<(bool, String)>| {
            told.iter().map(|(used, reason)| (*used, reason.as_str())).eq(expected)
        };
        watching.wait_until(&format!("{expected:?}"), || last().is_some_and(matches));
    };
    says([(true, "primary"), (false, "needs-consent"), (false, "backup")]);
    // Only probes use it: the transport learns only from a firewall of its own that it does not work.
    lab.client.nft(
        "table inet wall {\nchain out { type filter hook output priority 0; oifname \"va1\" meta l4proto udp drop; }\n}",
    );
    says([(false, "denied"), (false, "needs-consent"), (true, "fallback")]);
    watching.signal("INT");
    watching.end().expect(0);
    lab.release();

    let before = ["va2", "va3"].map(|interface| lab.client.sent(interface));
    let bench = ["bench", "--json", "-t", "4", server.ticket.as_str()];
    let loaded = lab.start_client(&[&with_backup, &bench[..]].concat());
    loaded.wait_until("data", || lab.client.sent("va1") > 3_000_000);
    lab.black_holes(&[1]);
    let summary = loaded.end().expect(0).summary();
    // The server does not know the costs: its answers use the other one.
    assert_eq!(told(&summary, "va2"), (true, "by-peer".to_owned()), "{summary}");
    assert_eq!(told(&summary, "va3"), (true, "fallback".to_owned()), "{summary}");
    let sent = ["va2", "va3"].map(|interface| lab.client.sent(interface));
    assert!(sent[0] - before[0] < LITTLE && sent[1] - before[1] > 2_000_000, "{before:?} {sent:?}");
}
