//! MMSP/1 over several interfaces, and the primary path of either wire.

use std::process::Command;

use tempfile::TempDir;

use crate::common::lab::{Family, Lab};
use crate::common::program::{MANYWAY, Running, as_user};

/// More than probes and retransmissions take while the other path carries the data.
const LITTLE: u64 = MUCH / 3;
const MUCH: u64 = 3_000_000;

/// Two links of 40 Mbit/s, and a home of the commands' own.
struct Place {
    lab: Lab,
    home: TempDir,
}

impl Place {
    fn start() -> Option<Self> {
        let lab = Lab::start(2, Family::V4)?;
        // A client names the addresses from which it can reach the server.
        for link in 1..=2 {
            lab.client.ip(&format!("route add default via 10.7.{link}.2 dev va{link} metric {link}00"));
        }
        lab.limit(1, 40);
        lab.limit(2, 40);
        Some(Self { lab, home: TempDir::new().unwrap() })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.lab.client.command(MANYWAY);
        command.current_dir(self.lab.here()).args(arguments);
        self.at_home(command)
    }

    fn at_home(&self, mut command: Command) -> Command {
        as_user(&mut command, self.home.path());
        command
    }

    /// A server of MMSP/1.
    fn serve(&self) -> Running {
        let serving = ["--wire", "mmsp1", "--from", "10.7.0.0/16", "--listen", "10.7.1.2:4433"];
        let serving = [&serving[..], &["--listen", "10.7.2.2:4433"]].concat();
        let server = Running::start(self.at_home(self.lab.serving(&self.lab.there(), &serving)));
        server.wait_until("the address", || server.printed().contains("10.7.1.2:4433"));
        server
    }

    fn sent(&self) -> [u64; 2] {
        ["va1", "va2"].map(|interface| self.lab.client.sent(interface))
    }

    /// Waits until data is sent. The handshake, and what the kernel itself sends, is less.
    fn until_data_is_sent(&self, sending: &Running) {
        sending.wait_until("data", || self.sent().iter().sum::<u64>() > 1_000_000);
    }

    /// Waits until this much more went over one of the links; returns what went over the other meanwhile.
    fn until_more_over(&self, sending: &Running, link: usize, bytes: u64) -> u64 {
        let before = self.sent();
        let grown = |at: usize| self.sent()[at] - before[at];
        sending.wait_until("data on the path", || grown(link) > bytes);
        grown(1 - link)
    }

    /// Waits until new data goes over one of the links alone. On a busy machine a path may seem dead for a moment.
    fn until_only_over(&self, sending: &Running, link: usize) {
        let mut others = (0..5).map(|_| self.until_more_over(sending, link, MUCH));
        assert!(others.any(|other| other < LITTLE), "the other carries, too: {}", sending.messages());
    }

    /// Makes each of the interfaces the primary one in turn while data is sent.
    fn switch(&self, sending: Running) {
        let pid = sending.id().to_string();
        self.until_data_is_sent(&sending);
        for (interface, link) in [("va2", 1), ("va1", 0), ("va2", 1)] {
            let change = self.command(&["paths", "--primary", interface, "--pid", &pid]);
            Running::start(change).end().expect(0).says("is the primary path");
            // What is in flight on the other path may still be sent again there.
            self.until_more_over(&sending, link, 1_000_000);
            self.until_only_over(&sending, link);
        }
        sending.signal("INT");
        sending.end();
    }
}

#[test]
fn paths_primary_moves_the_traffic_of_a_running_transfer_over_mmsp1() {
    let Some(place) = Place::start() else { return };
    let server = place.serve();
    let sending = place.command(&["--wire", "mmsp1", "bench", "-t", "60", "10.7.1.2:4433"]);
    place.switch(Running::start(sending));
    drop(server);
}

#[test]
fn a_transfer_over_mmsp1_sends_on_the_primary_path_that_it_names() {
    for (named, at) in [("va2", 1), ("10.7.2.1", 1), ("va1", 0)] {
        let Some(place) = Place::start() else { return };
        let server = place.serve();
        let sending = ["--wire", "mmsp1", "bench", "-t", "60", "10.7.1.2:4433", "--primary", named];
        let sending = Running::start(place.command(&sending));
        place.until_data_is_sent(&sending);
        place.until_more_over(&sending, at, 1_000_000);
        place.until_only_over(&sending, at);
        drop((sending, server));
    }
    let Some(place) = Place::start() else { return };
    let refused = ["bench", "10.7.1.2:4433", "--primary", "va1"];
    Running::start(place.command(&refused)).end().expect(2).says("no primary path");
}

#[test]
fn paths_primary_moves_the_traffic_of_a_running_transfer_over_mmsp2() {
    let Some(place) = Place::start() else { return };
    let server = place.lab.serve(&[]);
    let sending = place.command(&["--scheduler", "primary", "bench", "-t", "60", &server.ticket]);
    place.switch(Running::start(sending));
    drop(server);
}
