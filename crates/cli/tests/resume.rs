//! Interruptions of the real binary over 127.0.0.1: verified data is not sent again.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may fail")]

#[cfg(target_os = "linux")]
use std::net::UdpSocket;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use manyway_sim::skipped::skip_optional;

use crate::common::place::Place;
use crate::common::program::{
    MANYWAY, PATIENCE, Running, Server, assert_same_content, make_file, names, wait_until,
};

const SIZE: usize = 150_000_000;
/// A process is killed after this many bytes have arrived.
const ENOUGH: u64 = 10_000_000;

#[test]
fn a_killed_client_is_resumed() {
    let place = Place::new();
    let server = place.serve(&[]);
    make_file(&place.here().join("big"), SIZE);
    interrupt(
        place.start(&["send", "big", &server.ticket]),
        &place.there().join(".big.manyway-part"),
        "KILL",
    );
    // Its former connection is still open at the server.
    let sent = place.run(&["--json", "send", "big", &server.ticket]).expect(0).summary();
    assert_resumed(&sent, SIZE as u64);
    assert_same_content(&place.here().join("big"), &place.there().join("big"));
    assert_eq!(names(&place.there()), ["big"]);
}

#[test]
fn a_killed_fetch_is_resumed() {
    let place = Place::new();
    let server = place.serve(&[]);
    make_file(&place.there().join("big"), SIZE);
    interrupt(place.start(&["get", &server.ticket, "big"]), &place.here().join(".big.manyway-part"), "KILL");
    let fetched = place.run(&["--json", "get", &server.ticket, "big"]).expect(0).summary();
    assert_resumed(&fetched, SIZE as u64);
    assert_same_content(&place.here().join("big"), &place.there().join("big"));
    assert_eq!(names(&place.here()), ["big"]);
}

#[test]
fn a_transfer_to_a_killed_server_is_resumed() {
    let place = Place::new();
    let server = place.serve(&[]);
    make_file(&place.here().join("big"), SIZE);
    let client = place.start(&["--json", "send", "big", &server.ticket]);
    wait_for_length(&place.there().join(".big.manyway-part"));
    server.running.signal("KILL");
    client.signal("INT");
    // The known progress is reported all the same.
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
fn a_verb_resumes_by_itself_after_a_connection_ends() {
    let place = Place::new();
    let server = place.serve(&[]);
    make_file(&place.here().join("big"), SIZE);
    let client = place.start(&["--connect-timeout", "2s", "send", "--retry", "1", "big", &server.ticket]);
    wait_for_length(&place.there().join(".big.manyway-part"));
    // It closes its connections, and does not come back.
    server.stop().expect(0);
    let ended = client.end().expect(4);
    assert!(ended.took < PATIENCE, "{ended:?}");
    for text in ["connection lost", "reconnecting, attempt 1 of 1", "gave up after 1 attempt"] {
        assert!(ended.err.contains(text), "{text} in {ended:?}");
    }
    assert_eq!(
        ended.err.matches("run the same command again").count(),
        1,
        "only once it is given up: {ended:?}"
    );
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
    start_there(&place, &["get", &code, "secret"]).end().expect(1).says("not offered");
    start_there(&place, &["send", "/etc/hostname", &code]).end().expect(1).says("only gives files away");

    interrupt(start_there(&place, &["get", &code]), &place.there().join(".big.manyway-part"), "KILL");
    let fetched = start_there(&place, &["--json", "get", &code]).end().expect(0).summary();
    assert_resumed(&fetched, SIZE as u64 + 1_000);
    let offered = offer.end().expect(0).says("verified");
    assert!(offered.out.contains("rtt ms"), "the paths to those who fetched: {}", offered.out);
    assert_same_content(&place.here().join("big"), &place.there().join("big"));
    assert_same_content(&tree.join("a"), &place.there().join("tree/a"));
    assert_eq!(names(&place.there()), ["big", "tree"]);
}

/// Where another program has the usual port, both families are offered all the same.
#[cfg(target_os = "linux")]
#[test]
fn an_offer_whose_port_is_taken_is_reached_by_both_families() {
    let place = Place::new();
    make_file(&place.here().join("file"), 10);
    let holders = [UdpSocket::bind("0.0.0.0:4455"), UdpSocket::bind("[::]:4455")];
    let offer = place.start(&["send", "file"]);
    offered(&offer);
    // The kernel lists the sockets of a program by their inodes.
    let families = udp_families(offer.id());
    let has_v6 = UdpSocket::bind("[::1]:0").is_ok();
    assert_eq!(families, if has_v6 { vec!["udp", "udp6"] } else { vec!["udp"] }, "{holders:?}");
    offer.signal("INT");
    offer.end().expect(130);
}

#[cfg(target_os = "linux")]
/// Which tables of the kernel have a bound UDP socket of a process.
fn udp_families(process: u32) -> Vec<&'static str> {
    let files = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let links = files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
    let inodes: Vec<_> = links
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let has = |table: &&str| {
        let text = std::fs::read_to_string(format!("/proc/{process}/net/{table}")).unwrap_or_default();
        text.lines().any(|line| inodes.iter().any(|inode| line.split_whitespace().any(|word| word == inode)))
    };
    ["udp", "udp6"].into_iter().filter(has).collect()
}

#[test]
fn missing_files_and_invalid_codes_have_plain_messages() {
    let place = Place::new();
    place.run(&["send", "none"]).expect(1).says("error: no such file or directory: none\n");
    place.run(&["get", "mw1nonsense", "-o", "made/too/early"]).expect(2).says("ticket");
    assert!(names(&place.here()).is_empty(), "a directory was made for nothing");
}

#[test]
fn a_sparse_file_comes_back_as_sparse() {
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
    // All of it exists, so nothing is sent.
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

/// Root may write anywhere, so the server runs as another user.
#[test]
fn an_unwritable_directory_has_a_plain_message() {
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
        skip_optional(format!("no other user can run the program: {probe:?}"));
        return;
    }
    std::fs::set_permissions(place.there().parent().unwrap(), std::fs::Permissions::from_mode(0o755))
        .unwrap();
    let server = Server::start(command);
    let failed = place.run(&["send", "file", &server.ticket]).expect(1);
    failed.says("permission denied: file");
    assert!(names(&place.there()).is_empty());
}

fn offered(offer: &Running) -> String {
    offer.wait_for("On the other computer run:\n\nmanyway get mw1");
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

/// A client that runs in the directory of the server.
fn start_there(place: &Place, arguments: &[&str]) -> Running {
    let mut command = place.command(arguments);
    command.current_dir(place.there());
    Running::start(command)
}

fn interrupt(client: Running, part: &Path, signal: &str) {
    wait_for_length(part);
    client.signal(signal);
    client.end();
    assert!(part.exists(), "it was faster than the signal");
}
