//! Disks, permissions and foreign packets.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use manyway_sim::skipped::skip;

use super::MB;
use crate::common::lab::{Family, Lab};
use crate::common::program::{MANYWAY, Running, Server, assert_same_content, make_file, names, wait_until};

#[test]
fn a_full_disk_at_the_server_is_told_plainly() {
    let Some(lab) = Lab::start(1, Family::V4) else { return };
    // `ip netns exec` gives the program mounts of its own, which are removed with it.
    let mut command = lab.server.command("sh");
    command.arg("-c").arg("mount -t tmpfs -o size=4m none \"$1\" && exec \"$0\" serve --dir \"$1\"");
    command.arg(MANYWAY).arg(lab.there());
    let server = Server::start(command);
    make_file(&lab.here().join("small"), MB);
    make_file(&lab.here().join("big"), 8 * MB);
    let sent = lab.run_client(&["--json", "send", "small", "big", &server.ticket]).expect(4);
    let summary = sent.says("disk is full").summary();
    assert_eq!((summary["verified"].as_u64(), summary["failures"].as_u64()), (Some(1), Some(1)), "{summary}");
    assert_eq!(summary["failed"][0]["name"], "big");
    // The part that arrived is kept, and the server goes on: existing data needs no space.
    lab.run_client(&["-q", "send", "small", &server.ticket]).expect(0);
    lab.run_client(&["-q", "send", "big", &server.ticket]).expect(4).says("disk is full");
}

#[test]
fn a_full_disk_at_the_client_is_told_plainly() {
    let Some(lab) = Lab::start(1, Family::V4) else { return };
    let server = lab.serve(&[]);
    make_file(&lab.there().join("big"), 8 * MB);
    let mut command = lab.client.command("sh");
    command.arg("-c").arg(
        "mount -t tmpfs -o size=4m none \"$1\" && \"$0\" get \"$2\" big -o \"$1\"; \
         code=$?; ls -A \"$1\" >&2; exit $code",
    );
    command.arg(MANYWAY).arg(lab.here()).arg(&server.ticket);
    let finished = Running::start(command).end().expect(4).says("disk is full");
    // A file that cannot fit is not begun.
    assert!(!finished.err.contains(".big.manyway-part"), "{finished:?}");
}

#[test]
fn a_directory_that_can_not_be_written_is_told_plainly() {
    let Some(lab) = Lab::start(1, Family::V4) else { return };
    make_file(&lab.here().join("file"), MB);
    let server = Server::start(lab.serving(Path::new("/sys"), &[]));
    let finished = lab.run_client(&["send", "file", &server.ticket]).expect(1);
    let told = ["permission", "read-only"].iter().any(|word| finished.err.contains(word));
    assert!(told, "{finished:?}");
    make_file(&lab.there().join("file"), MB);
    let server = lab.serve(&["--listen", "0.0.0.0:4456"]);
    let finished = lab.run_client(&["get", &server.ticket, "file", "-o", "/sys"]).expect(1);
    let told = ["permission", "read-only"].iter().any(|word| finished.err.contains(word));
    assert!(told, "{finished:?}");
}

/// Root may read everything, unless it drops that capability.
#[test]
fn a_directory_that_can_not_be_read_fails_alone() {
    let Some(lab) = Lab::start(1, Family::V4) else { return };
    if Command::new("setpriv").arg("--version").output().is_err() {
        skip("there is no setpriv");
        return;
    }
    let server = lab.serve(&[]);
    let tree = lab.here().join("tree");
    std::fs::create_dir_all(tree.join("closed")).unwrap();
    make_file(&tree.join("closed/inside"), 1000);
    make_file(&tree.join("open"), 1000);
    set_mode(&tree.join("closed"), 0);
    let mut command = lab.client.command("setpriv");
    command.args(["--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search", MANYWAY, "--json"]);
    command.current_dir(lab.here()).args(["send", "tree", &server.ticket]);
    let summary = Running::start(command).end().expect(1).summary();
    set_mode(&tree.join("closed"), 0o700);
    assert!(summary["failed"].to_string().contains("closed"), "{summary}");
    assert_same_content(&tree.join("open"), &lab.there().join("tree/open"));
}

#[test]
fn garbage_at_the_port_harms_no_transfer() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    lab.limit(1, 20);
    let server = lab.serve(&[]);
    make_file(&lab.here().join("big"), 12 * MB);
    make_file(&lab.there().join("down"), 4 * MB);
    let garbage = Running::start(spray(&lab, "10.7.2.2"));
    let client = lab.start_client(&["-q", "-I", "va1", "send", "big", &server.ticket]);
    wait_until("garbage and data", || lab.client.sent("va2") > 500_000 && lab.client.sent("va1") > 3_000_000);
    // New connections are established meanwhile.
    lab.run_client(&["-q", "get", &server.ticket, "down"]).expect(0);
    client.end().expect(0);
    drop(garbage);
    assert_same_content(&lab.here().join("big"), &lab.there().join("big"));
    assert_same_content(&lab.there().join("down"), &lab.here().join("down"));
    assert_eq!(names(&lab.there()), ["big", "down"]);
    let finished = server.stop().expect(0);
    for word in ["panicked", "ERROR"] {
        assert!(!finished.err.contains(word), "{}", finished.err);
    }
}

/// Noise of any length; half of it begins like the first packet of a client, as far as an outsider can know.
fn spray(lab: &Lab, server: &str) -> Command {
    let mut command = lab.client.command("bash");
    command.arg("-c").arg(
        r#"while :; do
             { head -c $((RANDOM % 1400 + 1)) /dev/urandom >/dev/udp/$0/4455
               { printf '\xc0\x4d\x4d\x53\x01\x08'; head -c $((RANDOM % 1300 + 1)) /dev/urandom; } >"$1"
               cat "$1" >/dev/udp/$0/4455; } 2>/dev/null
           done"#,
    );
    command.arg(server).arg(lab.here().join(".noise"));
    command
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}
