//! Whether a path takes over that costs more than the one before.

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
    let server = lab.serve(&[]);
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
