//! Interruptions of the real binary over 127.0.0.1: what was verified is not sent again.
#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail")]

#[path = "common/program.rs"]
mod program;

use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use program::{
    Finished, MANYWAY, PATIENCE, Running, Server, assert_same_content, make_file, names, wait_until,
};
use tempfile::TempDir;

const SIZE: usize = 400_000_000;
/// So much has arrived when something is killed.
const ENOUGH: u64 = 40_000_000;

#[test]
fn a_client_that_is_killed_goes_on_where_it_was() {
    let place = Place::new();
    let server = place.serve(&[]);
    make_file(&place.here().join("big"), SIZE);
    place.interrupt(&["send", "big", &server.ticket], &place.there().join(".big.manyway-part"), "KILL");
    // Its former connection is still open at the server.
    let sent = place.run(&["--json", "send", "big", &server.ticket]).expect(0).summary();
    assert_resumed(&sent, SIZE as u64);
    assert_same_content(&place.here().join("big"), &place.there().join("big"));
    assert_eq!(names(&place.there()), ["big"]);
}

#[test]
fn a_fetch_that_is_killed_goes_on_where_it_was() {
    let place = Place::new();
    let server = place.serve(&[]);
    make_file(&place.there().join("big"), SIZE);
    place.interrupt(&["get", &server.ticket, "big"], &place.here().join(".big.manyway-part"), "KILL");
    let fetched = place.run(&["--json", "get", &server.ticket, "big"]).expect(0).summary();
    assert_resumed(&fetched, SIZE as u64);
    assert_same_content(&place.here().join("big"), &place.there().join("big"));
    assert_eq!(names(&place.here()), ["big"]);
}

#[test]
fn a_server_that_is_killed_goes_on_where_it_was() {
    let place = Place::new();
    let server = place.serve(&[]);
    make_file(&place.here().join("big"), SIZE);
    let client = place.start(&["--json", "send", "big", &server.ticket]);
    wait_for_length(&place.there().join(".big.manyway-part"));
    server.running.signal("KILL");
    client.signal("INT");
    // What is known of it is told all the same.
    let interrupted = client.end().expect(130);
    let [told] = &interrupted.json()[..] else { panic!("not one document: {interrupted:?}") };
    assert_eq!(told["error"]["kind"], "interrupted", "{told}");
    assert_eq!((&told["complete"], told["attempts"].as_u64()), (&false.into(), Some(1)), "{told}");
    assert!(told["bytes_sent"].as_u64().unwrap() >= ENOUGH, "{told}");
    let server = place.serve(&[]);
    let sent = place.run(&["--json", "send", "big", &server.ticket]).expect(0).summary();
    assert_resumed(&sent, SIZE as u64);
    assert_same_content(&place.here().join("big"), &place.there().join("big"));
}

#[test]
fn a_connection_that_ends_in_the_middle_is_taken_up_by_the_verb_itself() {
    let place = Place::new();
    let server = place.serve(&[]);
    make_file(&place.here().join("big"), SIZE);
    let client = place.start(&["--connect-timeout", "2s", "send", "--retry", "1", "big", &server.ticket]);
    wait_for_length(&place.there().join(".big.manyway-part"));
    // It says farewell, and does not come back.
    server.stop().expect(0);
    let ended = client.end().expect(4);
    assert!(ended.took < PATIENCE, "{ended:?}");
    for text in ["what has arrived is kept; connecting again (1 of 1)", "run the same command again"] {
        assert!(ended.err.contains(text), "{text} in {ended:?}");
    }
    assert!(names(&place.there()).contains(&".big.manyway-part".to_owned()));
}

#[test]
fn files_are_offered_until_one_client_has_them_all() {
    let place = Place::new();
    let tree = place.here().join("tree");
    std::fs::create_dir_all(&tree).unwrap();
    make_file(&tree.join("a"), 1_000);
    make_file(&place.here().join("big"), SIZE);
    std::fs::write(place.here().join("secret"), "secret").unwrap();
    let offer = place.start(&["send", "big", "tree"]);
    let code = offered(&offer);
    place.run_there(&["get", &code, "secret"]).expect(1).says("no such file");
    place.run_there(&["send", "/etc/hostname", &code]).expect(1).says("only gives files away");

    place.interrupt_there(&["get", &code], &place.there().join(".big.manyway-part"), "KILL");
    let fetched = place.run_there(&["--json", "get", &code]).expect(0).summary();
    assert_resumed(&fetched, SIZE as u64 + 1_000);
    offer.end().expect(0).says("verified");
    assert_same_content(&place.here().join("big"), &place.there().join("big"));
    assert_same_content(&tree.join("a"), &place.there().join("tree/a"));
    assert_eq!(names(&place.there()), ["big", "tree"]);
}

#[test]
fn an_offer_of_what_is_not_there_and_a_code_that_is_none_are_said_plainly() {
    let place = Place::new();
    place.run(&["send", "none"]).expect(1).says("none: ");
    place.run(&["get", "mw1nonsense", "-o", "made/too/early"]).expect(2).says("ticket");
    assert!(names(&place.here()).is_empty(), "a directory was made for nothing");
}

#[test]
fn a_sparse_file_comes_back_as_sparse_as_it_was() {
    let place = Place::new();
    let server = place.serve(&[]);
    let sparse = std::fs::File::create(place.here().join("sparse")).unwrap();
    sparse.set_len(2 << 30).unwrap();
    sparse.write_all_at(b"in the middle", 1 << 30).unwrap();
    let sent = place.run(&["--json", "send", "sparse", &server.ticket]).expect(0).summary();
    assert_eq!(sent["bytes"].as_u64(), Some(2 << 30));
    assert!(sent["bytes_sent"].as_u64().unwrap() < 1 << 20, "{sent}");
    let copy = place.there().join("sparse").metadata().unwrap();
    assert!(copy.len() == 2 << 30 && copy.blocks() <= sparse.metadata().unwrap().blocks() + 64);
    // All of it is there, so nothing travels.
    let again = place.run(&["--json", "send", "sparse", &server.ticket]).expect(0).summary();
    assert_eq!((again["bytes_sent"].as_u64(), again["bytes_resumed"].as_u64()), (Some(0), Some(2 << 30)));
}

#[test]
fn two_thousand_small_files_arrive_and_are_not_sent_again() {
    let place = Place::new();
    let server = place.serve(&[]);
    let tree = place.here().join("tree");
    std::fs::create_dir(&tree).unwrap();
    for index in 0..2000_usize {
        make_file(&tree.join(format!("{index}")), index % 3000);
    }
    let sent = place.run(&["--json", "send", "tree", &server.ticket]).expect(0).summary();
    assert_eq!(sent["verified"].as_u64(), Some(2001), "{sent}");
    for name in ["1", "999", "1999"] {
        assert_same_content(&tree.join(name), &place.there().join("tree").join(name));
    }
    let again = place.run(&["--json", "send", "tree", &server.ticket]).expect(0).summary();
    assert_eq!((again["bytes_sent"].as_u64(), &again["bytes_resumed"]), (Some(0), &sent["bytes"]));
}

/// Root may write anywhere, so the server runs as somebody else.
#[test]
fn a_directory_that_may_not_be_written_is_said_plainly() {
    let place = Place::new();
    make_file(&place.here().join("file"), 1_000);
    std::fs::set_permissions(place.there(), std::fs::Permissions::from_mode(0o555)).unwrap();
    let mut command = Command::new("setpriv");
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", MANYWAY];
    command
        .args(nobody)
        .args(["serve", "--ephemeral", "--listen", "127.0.0.1:0", "--dir"])
        .arg(place.there());
    let probe = Command::new("setpriv").args(nobody).arg("--version").output();
    if !probe.as_ref().is_ok_and(|output| output.status.success()) {
        println!("skipped: no other user can run the program: {probe:?}");
        return;
    }
    std::fs::set_permissions(place.0.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let server = Server::start(command);
    let failed = place.run(&["send", "file", &server.ticket]).expect(1);
    failed.says("file: permission denied");
    assert!(names(&place.there()).is_empty());
}

fn offered(offer: &Running) -> String {
    offer.wait_for("manyway get CODE");
    let mut code = None;
    wait_until("the code", || {
        code = offer.printed().lines().find(|line| line.starts_with("mw1")).map(str::to_owned);
        code.is_some()
    });
    code.unwrap()
}

#[track_caller]
fn assert_resumed(summary: &serde_json::Value, total: u64) {
    let number = |field: &str| summary[field].as_u64().unwrap();
    assert_eq!(number("bytes"), total, "{summary}");
    assert_eq!(number("bytes_sent") + number("bytes_resumed"), total, "{summary}");
    assert!(number("bytes_resumed") >= ENOUGH, "{summary}");
}

fn wait_for_length(part: &Path) {
    wait_until("a part of the file", || part.metadata().is_ok_and(|part| part.len() >= ENOUGH));
}

/// A directory for the client and one for the server.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = TempDir::new().unwrap();
        for side in ["client", "server"] {
            std::fs::create_dir(place.path().join(side)).unwrap();
        }
        Self(place)
    }

    fn here(&self) -> PathBuf {
        self.0.path().join("client")
    }

    fn there(&self) -> PathBuf {
        self.0.path().join("server")
    }

    fn serve(&self, arguments: &[&str]) -> Server {
        let mut command = Command::new(MANYWAY);
        command.args(["serve", "--listen", "127.0.0.1:0", "--dir"]).arg(self.there()).args(arguments);
        Server::start(command)
    }

    fn start(&self, arguments: &[&str]) -> Running {
        start_in(&self.here(), arguments)
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        self.start(arguments).end()
    }

    fn run_there(&self, arguments: &[&str]) -> Finished {
        start_in(&self.there(), arguments).end()
    }

    /// Starts a client and ends it once enough has arrived.
    fn interrupt(&self, arguments: &[&str], part: &Path, signal: &str) {
        interrupt(self.start(arguments), part, signal);
    }

    fn interrupt_there(&self, arguments: &[&str], part: &Path, signal: &str) {
        interrupt(start_in(&self.there(), arguments), part, signal);
    }
}

fn start_in(directory: &Path, arguments: &[&str]) -> Running {
    let mut command = Command::new(MANYWAY);
    command.current_dir(directory).args(arguments);
    Running::start(command)
}

fn interrupt(client: Running, part: &Path, signal: &str) {
    wait_for_length(part);
    client.signal(signal);
    client.end();
    assert!(part.exists(), "it was faster than the signal");
}
