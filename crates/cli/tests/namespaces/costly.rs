//! Whether a path takes over that costs more than the one before.

use serde_json::Value;

use crate::MB;
use crate::at_terminal::AtTerminal;
use crate::lab::{Family, Lab};
use crate::program::{MANYWAY, Server, assert_same_content, make_file, wait_until};

const PRIMARY: [&str; 6] = ["--scheduler", "primary", "-I", "va1", "-I", "va2,cost=2"];
/// More than probes take, less than data.
const LITTLE: u64 = 200_000;

/// Two links of 20 Mbit/s, the second of which costs something, and a file for the server.
fn links() -> Option<(Lab, Server)> {
    let lab = Lab::start(2, Family::V4)?;
    [1, 2].iter().for_each(|link| lab.limit(*link, 20));
    make_file(&lab.here().join("file"), 12 * MB);
    // What it answers goes over the first one, too, while that works.
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
        lab.swallow_all(&[1]);
        asked.read_until("Use va2 (cost 2)? [y/N] ");
        assert!(lab.client.sent("va2") < LITTLE);
        asked.write(answer);
        if is_used {
            wait_until("data on the other", || lab.client.sent("va2") > 2_000_000);
        } else {
            // It works again, and the data that waited go on.
            lab.release();
        }
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
        lab.swallow_all(&[1]);
        match words {
            Some(words) => {
                client.wait_for(words);
                assert!(lab.client.sent("va2") < LITTLE);
                lab.release();
            }
            None => client.wait_until("data on the other", || lab.client.sent("va2") > 2_000_000),
        }
        client.end().expect(0);
        assert_same_content(&lab.here().join("file"), &lab.there().join("file"));
    }
}

/// What a `bench` says at its end of the path over an interface: whether it was used, and the word for why.
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
    let documents = bench("2", &[]).end().expect(0).json();
    let (summary, lines) = documents.split_last().unwrap();
    assert_eq!(told(summary, "va1"), (true, "primary".to_owned()), "{summary}");
    assert_eq!(told(summary, "va2"), (false, "needs-leave".to_owned()), "{summary}");
    let mut events = lines.iter().chain([summary]).flat_map(|line| line["events"].as_array().unwrap());
    assert!(events.any(|event| event["event"] == "primary-path" && event["interface"] == "va1"), "{lines:?}");

    let allowed = bench("4", &["--costly", "allow"]);
    allowed.wait_until("data", || lab.client.sent("va1") > 6_000_000);
    lab.swallow_all(&[1]);
    let summary = allowed.end().expect(0).summary();
    assert_eq!(told(&summary, "va1").1, "no-answer", "{summary}");
    assert_eq!(told(&summary, "va2"), (true, "alone".to_owned()), "{summary}");
}
