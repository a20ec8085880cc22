//! Links that fail, return, change and appear while a file is sent.

use std::time::Duration;

use super::MB;
use crate::common::lab::{Family, Hole, Lab, Namespace};
use crate::common::program::{Finished, Running, Server, assert_same_content, make_file, wait_until};

#[test]
fn a_black_hole_is_left_by_the_data_and_used_again_when_it_ends() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    let sending = Sending::start(&lab, 40, &[]);
    sending.until_both_carry();
    lab.black_hole(1, Hole::Both);
    sending.client.wait_for("va1 suspect");
    sending.client.wait_for("va1 dead");
    sending.until_more_over("va2", 2 * MB);
    lab.release();
    sending.client.wait_for("va1 probation");
    sending.until_more_over("va1", MB);
    sending.end();
}

#[test]
fn a_link_whose_way_back_is_black_is_left_and_used_again() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    let sending = Sending::start(&lab, 36, &[]);
    sending.until_both_carry();
    lab.black_hole(1, Hole::Back);
    sending.client.wait_for("va1 suspect");
    sending.client.wait_for("va1 dead");
    sending.until_more_over("va2", 2 * MB);
    lab.release();
    sending.until_more_over("va1", MB);
    sending.end();
}

#[test]
fn a_black_hole_is_left_by_what_is_fetched() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    lab.limit(1, 20);
    lab.limit(2, 20);
    make_file(&lab.there().join("big"), 30 * MB);
    let server = lab.serve(&[]);
    let client = lab.start_client(&["get", &server.ticket, "big"]);
    let until_more_over = |interface: &str, bytes: usize| {
        let before = lab.server.sent(interface);
        let bytes = u64::try_from(bytes).unwrap();
        client.wait_until(interface, || lab.server.sent(interface) > before + bytes);
    };
    until_more_over("vb1", MB);
    until_more_over("vb2", MB);
    lab.black_hole(2, Hole::Both);
    until_more_over("vb1", 4 * MB);
    lab.release();
    until_more_over("vb2", MB);
    lab.unlimit();
    client.end().expect(0);
    assert_same_content(&lab.there().join("big"), &lab.here().join("big"));
    server.stop().expect(0);
}

#[test]
fn a_link_that_goes_down_and_up_is_used_again() {
    let Some(lab) = Lab::start(2, Family::Both) else { return };
    let sending = Sending::start(&lab, 36, &[]);
    sending.until_both_carry();
    lab.client.ip("link set va1 down");
    sending.until_more_over("va2", 2 * MB);
    // The system removes the IPv6 addresses of an interface that goes down.
    lab.client.ip("link set va1 up");
    lab.wait_for_carrier(1);
    sending.until_more_over("va1", MB);
    sending.end();
}

#[test]
fn a_link_that_goes_down_at_the_server_is_used_again() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    let sending = Sending::start(&lab, 36, &[]);
    sending.until_both_carry();
    lab.server.ip("link set vb1 down");
    sending.until_more_over("va2", 2 * MB);
    lab.server.ip("link set vb1 up");
    lab.wait_for_carrier(1);
    sending.until_more_over("va1", MB);
    sending.end();
}

/// The client's system does not learn that the server's bridge lost its port, and the server's refuses nothing. It
/// reports that a second later, so nothing is sent here, or silence would be detected first.
#[test]
fn a_server_hears_of_the_system_that_a_link_of_its_own_is_lost_and_back() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    for command in [
        "link add br1 type bridge",
        "link set br1 up",
        "addr del 10.7.1.2/24 dev vb1",
        "link set vb1 master br1",
        "addr add 10.7.1.2/24 dev br1",
    ] {
        lab.server.ip(command);
    }
    let server = lab.serve(&["-vv"]);
    let client = lab.start_client(&["ping", "-i", "60s", &server.ticket]);
    server.running.wait_for("path=1 state=active");
    until_quiet(&lab.server, "vb1");
    lab.server.run("bridge", "link set dev vb1 state 0");
    server.running.wait_for("state=dead reason=one of its addresses is gone");
    lab.server.run("bridge", "link set dev vb1 state 3");
    server.running.wait_for("state=active reason=stable again");
    client.signal("INT");
    client.end();
    server.stop().expect(0);
}

/// Waits until nothing is sent on an interface any more: what is on its way when a link is lost shows the loss sooner
/// than the system.
fn until_quiet(host: &Namespace, interface: &str) {
    let mut before = host.sent(interface);
    wait_until("silence", || {
        std::thread::sleep(Duration::from_millis(300));
        std::mem::replace(&mut before, host.sent(interface)) == before
    });
}

#[test]
fn an_address_may_be_replaced() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    let sending = Sending::start(&lab, 30, &[]);
    sending.until_both_carry();
    lab.client.ip("addr add 10.7.1.9/24 dev va1");
    lab.client.ip("addr del 10.7.1.1/24 dev va1");
    // The system removes the second address of a network with the first, unless configured otherwise.
    if !lab.client.ip("addr show va1").contains("10.7.1.9") {
        lab.client.ip("addr add 10.7.1.9/24 dev va1");
    }
    sending.until_more_over("va1", 2 * MB);
    sending.until_more_over("va2", MB);
    sending.end();
}

#[test]
fn an_interface_that_appears_is_used() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    let sending = Sending::start(&lab, 30, &[]);
    sending.until_both_carry();
    lab.add_link(3);
    lab.limit(3, 20);
    lab.client.ip("route add default via 10.7.3.2");
    sending.until_over("va3", 0, 2 * MB);
    sending.end();
}

#[test]
fn an_interface_that_leads_only_to_a_new_address_of_the_server_is_used() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    let sending = Sending::start(&lab, 30, &[]);
    sending.until_both_carry();
    lab.add_link(3);
    sending.until_over("va3", 0, 2 * MB);
    sending.end();
}

#[test]
fn both_links_may_be_black_holes_for_a_while() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    let sending = Sending::start(&lab, 20, &[]);
    sending.until_both_carry();
    lab.black_holes(&[1, 2]);
    std::thread::sleep(Duration::from_secs(2));
    lab.release();
    sending.until_more_over("va1", MB);
    sending.until_more_over("va2", MB);
    sending.end();
}

#[test]
fn both_links_may_lose_their_carrier_for_a_while() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    let sending = Sending::start(&lab, 20, &[]);
    sending.until_both_carry();
    for interface in ["va1", "va2"] {
        lab.client.ip(&format!("link set {interface} down"));
    }
    std::thread::sleep(Duration::from_secs(2));
    for link in [1, 2] {
        lab.client.ip(&format!("link set va{link} up"));
        lab.wait_for_carrier(link);
    }
    sending.until_more_over("va1", MB);
    sending.until_more_over("va2", MB);
    sending.end();
}

#[test]
fn fifty_flaps_leave_no_socket_and_no_memory_behind() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    lab.limit(1, 20);
    lab.limit(2, 20);
    let server = lab.serve(&[]);
    // More than one link carries data.
    let client = lab.start_client(&["bench", "-b", "30M", "-t", "120", &server.ticket]);
    let flap = |times| {
        for _ in 0..times {
            lab.client.ip("link set va1 down");
            lab.client.ip("link set va1 up");
            lab.wait_for_carrier(1);
            let before = lab.client.sent("va1");
            client.wait_until("va1 to carry data", || lab.client.sent("va1") > before + 100_000);
        }
        [client.id(), server.running.id()].map(kept)
    };
    let (early, late) = (flap(15), flap(35));
    for ((sockets, memory), (sockets_later, memory_later)) in early.into_iter().zip(late) {
        // One leaked socket per flap would be 35 more; a few come and go with the current paths.
        assert!(sockets_later <= sockets + 6, "{early:?}, later {late:?}");
        assert!(memory_later <= memory + 4096, "{early:?}, later {late:?}");
    }
    client.signal("INT");
    client.end();
    server.stop().expect(0);
}

/// The open files of a process, and its memory in KiB.
fn kept(process: u32) -> (usize, u64) {
    let files = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count();
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    (files, resident.trim().trim_end_matches(" kB").parse().unwrap())
}

/// A file on its way over two links of 20 Mbit/s.
struct Sending<'a> {
    lab: &'a Lab,
    client: Running,
    server: Server,
}

impl<'a> Sending<'a> {
    fn start(lab: &'a Lab, megabytes: usize, arguments: &[&str]) -> Self {
        lab.limit(1, 20);
        lab.limit(2, 20);
        make_file(&lab.here().join("big"), megabytes * MB);
        let server = lab.serve(&[]);
        let client =
            lab.start_client(&[arguments, &["-v", "--json", "send", "big", &server.ticket]].concat());
        Self { lab, client, server }
    }

    #[track_caller]
    fn until_both_carry(&self) {
        self.until_more_over("va1", MB / 2);
        self.until_more_over("va2", MB / 2);
    }

    /// Waits until this many more bytes have left over an interface of the client.
    #[track_caller]
    fn until_more_over(&self, interface: &str, bytes: usize) {
        self.until_over(interface, self.lab.client.sent(interface), bytes);
    }

    /// The same since it had sent so much: a new interface may have sent something before it is looked at.
    #[track_caller]
    fn until_over(&self, interface: &str, before: u64, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap();
        self.client.wait_until(&format!("{interface} to carry data"), || {
            self.lab.client.sent(interface) > before + bytes
        });
    }

    /// The rest is sent without limits.
    fn end(self) -> Finished {
        self.lab.unlimit();
        let finished = self.client.end().expect(0);
        assert_same_content(&self.lab.here().join("big"), &self.lab.there().join("big"));
        assert_eq!(finished.summary()["verified"], 1);
        self.server.stop().expect(0);
        finished
    }
}
