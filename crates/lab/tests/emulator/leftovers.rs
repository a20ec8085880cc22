//! Leftovers of a killed program.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use manyway_lab::hosts::Hosts;
use manyway_lab::scenario::Side;

use crate::common::{MS, Turn, open, single};

/// Set for the run of this test program that is to be killed.
const INSIDE: &str = "MANYWAY_TEST_LEFTOVERS";

#[test]
fn leftovers_of_a_killed_process_are_removed_and_nothing_else() {
    let scenario = single(&open(MS));
    if std::env::var_os(INSIDE).is_some() {
        let hosts = Hosts::make(&scenario).unwrap();
        let mut sleeper = hosts.command(Side::Server, "sleep".as_ref());
        let mut sleeper = sleeper.arg("1000").spawn().unwrap();
        println!("\nmade {} {} {}", hosts.name(Side::Client), hosts.name(Side::Server), sleeper.id());
        sleeper.wait().unwrap();
        return;
    }
    let Some(_turn) = Turn::alone() else { return };
    let stranger = Namespace::new(format!("mwlabel{}-0c", std::process::id()));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "leftovers::leftovers_of_a_killed_process_are_removed_and_nothing_else",
            "--nocapture",
        ])
        .env(INSIDE, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let made = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("made ").map(str::to_owned));
    let made = made.unwrap();
    let [client, server, sleeper] = made.split(' ').collect::<Vec<_>>()[..] else { panic!("{made}") };

    // As long as the program lives, its hosts stay.
    drop(Hosts::make(&scenario).unwrap());
    assert!(exists(client) && exists(server) && is_running(sleeper));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(exists(client) && exists(server));
    let hosts = Hosts::make(&scenario).unwrap();
    assert!(!exists(client) && !exists(server));
    assert!(exists(&stranger.0));
    for _ in 0..200 {
        if !is_running(sleeper) {
            break;
        }
        std::thread::sleep(10 * MS);
    }
    assert!(!is_running(sleeper));
    let own = [Side::Client, Side::Server].map(|side| hosts.name(side).to_owned());
    drop(hosts);
    assert!(!own.iter().any(|name| exists(name)));
}

#[test]
fn leftovers_of_a_process_whose_id_was_reused_are_removed() {
    let Some(_turn) = Turn::alone() else { return };
    let me = std::process::id();
    // Of another process with this ID; of none; and of an unknown one, without a start time.
    let [reused, gone, strange] =
        [format!("mwlab{me}.1-0c"), "mwlab1073741824.1-0s".into(), format!("mwlab{me}-99c")]
            .map(Namespace::new);
    drop(Hosts::make(&single(&open(MS))).unwrap());
    assert_eq!([&reused, &gone, &strange].map(|namespace| exists(&namespace.0)), [false, false, true]);
}

fn exists(namespace: &str) -> bool {
    std::path::Path::new("/var/run/netns").join(namespace).exists()
}

/// A zombie counts as ended.
fn is_running(process: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// A namespace with a name like ours.
struct Namespace(String);

impl Namespace {
    fn new(name: String) -> Self {
        assert!(Command::new("ip").args(["netns", "add", &name]).status().unwrap().success());
        Self(name)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.0]).status();
    }
}
