//! Cases from the field: effects of networks and hosts on a transfer, with the real programs.

use std::time::Duration;

use super::MB;
use super::modems::{Modem, SERVER};
use crate::common::lab::{Family, Hole, Lab};
use crate::common::program::{Running, assert_same_content, make_file, wait_until};

#[test]
fn two_modems_with_the_same_network_and_the_same_address_carry_both() {
    for addresses in [["192.168.8.100", "192.168.8.100"], ["192.168.8.100", "192.168.8.101"]] {
        let Some(lab) = Lab::start(0, Family::V4) else { return };
        let modems = [1, 2].map(|number| Modem::plug(&lab, number, addresses[usize::from(number) - 1]));
        modems.iter().for_each(|modem| modem.limit(20));
        let server = lab.serve(&["--advertise", SERVER]);
        make_file(&lab.here().join("big"), 24 * MB);
        let client = lab.start_client(&["-v", "send", "big", &server.ticket]);
        let until_more_over = |interface: &str, bytes: u64| {
            let before = lab.client.sent(interface);
            client.wait_until(interface, || lab.client.sent(interface) > before + bytes);
        };
        until_more_over("wwan1", 1_000_000);
        until_more_over("wwan2", 1_000_000);
        modems[0].lose_signal();
        client.wait_for(" dead: ");
        until_more_over("wwan2", 2_000_000);
        modems[1].unlimit();
        client.end().expect(0);
        assert_same_content(&lab.here().join("big"), &lab.there().join("big"));
        server.stop().expect(0);
    }
}

#[test]
fn a_translator_that_forgets_in_the_middle_of_a_transfer_interrupts_nothing() {
    for verb in ["send", "get"] {
        let Some(lab) = Lab::start(0, Family::V4) else { return };
        let modem = Modem::plug(&lab, 1, "192.168.8.100");
        modem.limit(10);
        let server = lab.serve(&["--advertise", SERVER]);
        make_file(&lab.here().join("big"), 6 * MB);
        make_file(&lab.there().join("other"), 6 * MB);
        let client = match verb {
            "send" => lab.start_client(&["-v", "send", "big", &server.ticket]),
            _ => lab.start_client(&["-v", "get", &server.ticket, "other"]),
        };
        let (from, interface) = if verb == "send" { (&lab.client, "wwan1") } else { (&lab.server, "vb1") };
        for _ in 0..3 {
            let before = from.sent(interface);
            client.wait_until("data", || from.sent(interface) > before + 300_000);
            let mapped = modem.ports();
            assert_eq!(mapped.len(), 1, "{mapped:?}");
            modem.forget();
            wait_until("another port", || modem.ports().len() == 1 && modem.ports() != mapped);
        }
        modem.unlimit();
        let finished = client.end().expect(0);
        // The path stays: it is neither closed nor opened again.
        assert!(!finished.err.contains("is closed"), "{}", finished.err);
        assert!(finished.took < Duration::from_secs(20), "{finished:?}");
        server.stop().expect(0);
    }
}

/// A laptop that is closed for a moment: the NAT forgets it meanwhile, and both go on afterwards.
#[test]
fn a_client_that_is_stopped_in_the_middle_goes_on_although_its_translator_forgot_it() {
    let Some(lab) = Lab::start(0, Family::V4) else { return };
    let modem = Modem::plug(&lab, 1, "192.168.8.100");
    modem.limit(20);
    modem.forget_after(1);
    let server = lab.serve(&["--advertise", SERVER]);
    make_file(&lab.here().join("big"), 16 * MB);
    let client = lab.start_client(&["-v", "send", "big", &server.ticket]);
    client.wait_until("data", || lab.client.sent("wwan1") > 2_000_000);
    stop_for(&client, Duration::from_secs(4));
    client.wait_for("this host slept");
    modem.unlimit();
    client.end().expect(0);
    assert_same_content(&lab.here().join("big"), &lab.there().join("big"));
    server.stop().expect(0);
}

#[test]
fn either_end_may_be_stopped_for_a_while_in_the_middle_of_a_transfer() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    lab.limit(1, 20);
    lab.limit(2, 20);
    let server = lab.serve(&["-v"]);
    make_file(&lab.here().join("big"), 20 * MB);
    let client = lab.start_client(&["-v", "send", "big", &server.ticket]);
    let until_more_over_both = |bytes: u64| {
        let before = ["va1", "va2"].map(|interface| (interface, lab.client.sent(interface)));
        for (interface, before) in before {
            client.wait_until(interface, || lab.client.sent(interface) > before + bytes);
        }
    };
    until_more_over_both(500_000);
    stop_for(&client, Duration::from_secs(3));
    client.wait_for("this host slept");
    until_more_over_both(500_000);
    stop_for(&server.running, Duration::from_secs(3));
    server.running.wait_for("this host slept");
    until_more_over_both(500_000);
    lab.unlimit();
    client.end().expect(0);
    assert_same_content(&lab.here().join("big"), &lab.there().join("big"));
    server.stop().expect(0);
}

/// Longer than any path may be silent, shorter than a connection may be idle.
fn stop_for(program: &Running, time: Duration) {
    program.signal("STOP");
    std::thread::sleep(time);
    program.signal("CONT");
}

#[test]
fn a_server_whose_only_address_is_replaced_speaks_from_the_new_one() {
    for verb in ["send", "get"] {
        let Some(lab) = Lab::start(1, Family::V4) else { return };
        lab.limit(1, 10);
        let server = lab.serve(&[]);
        let (source, arguments) = match verb {
            "send" => (lab.here(), ["send", "big", &server.ticket]),
            _ => (lab.there(), ["get", &server.ticket, "big"]),
        };
        make_file(&source.join("big"), 10 * MB);
        let client = lab.start_client(&arguments);
        client.wait_until("data", || lab.client.sent("va1") + lab.server.sent("vb1") > 1_000_000);
        replace_address(&lab);
        // Checks that it goes on from there before the rest is sent without limits.
        let sent = || lab.client.sent("va1") + lab.server.sent("vb1");
        let before = sent();
        client.wait_until("data after the move", || sent() > before + 500_000);
        lab.unlimit();
        client.end().expect(0);
        assert_same_content(&lab.here().join("big"), &lab.there().join("big"));
        server.stop().expect(0);
    }
}

/// Replaces the server's only address, 10.7.1.2, by 10.7.1.7.
fn replace_address(lab: &Lab) {
    lab.server.ip("addr add 10.7.1.7/24 dev vb1");
    lab.server.ip("addr del 10.7.1.2/24 dev vb1");
    if !lab.server.ip("addr show vb1").contains("10.7.1.7") {
        lab.server.ip("addr add 10.7.1.7/24 dev vb1");
    }
}

#[test]
fn a_server_that_moves_is_found_by_its_name_though_other_addresses_of_the_name_are_dead() {
    let Some(lab) = Lab::start(1, Family::V4) else { return };
    lab.limit(1, 20);
    // Only packets from addresses to which the client has sent may enter.
    lab.client.nft("table inet wall {\nchain i { type filter hook input priority 0; ct state new udp sport 4455 drop; }\n}");
    let name = |addresses: &[&str]| {
        let line = |address: &&str| format!("{address} moving.test\n");
        let hosts = "127.0.0.1 localhost\n".to_owned() + &addresses.iter().map(line).collect::<String>();
        lab.client.set_hosts(&hosts);
        lab.server.set_hosts(&hosts);
    };
    // Two of three addresses are dead from the beginning.
    name(&["10.7.1.8", "10.7.1.9", "10.7.1.2"]);
    let server = lab.serve(&["--advertise", "moving.test:4455"]);
    make_file(&lab.here().join("big"), 10 * MB);
    let client = lab.start_client(&["-v", "send", "big", &server.ticket]);
    client.wait_until("data", || lab.client.sent("va1") > 3_000_000);
    replace_address(&lab);
    name(&["10.7.1.8", "10.7.1.7"]);
    client.wait_for("the server has new addresses");
    lab.unlimit();
    client.end().expect(0);
    assert_same_content(&lab.here().join("big"), &lab.there().join("big"));
    server.stop().expect(0);
}

#[test]
fn a_broken_address_family_delays_the_handshake_by_less_than_a_second() {
    for broken in [Family::V6, Family::V4] {
        let Some(lab) = Lab::start(2, Family::Both) else { return };
        let server = lab.serve(&[]);
        make_file(&lab.here().join("file"), MB);
        lab.drop_udp(broken);
        let sent = lab.run_client(&["--json", "send", "file", &server.ticket]).expect(0);
        assert!(sent.took < Duration::from_secs(2), "{sent:?}");
        assert_paths_avoid(&sent.summary(), broken);
        server.stop().expect(0);
    }
}

/// As with a VPN that allows the other family only: the system reports it at once.
#[test]
fn a_family_that_the_own_firewall_forbids_does_not_keep_the_other_from_connecting() {
    for broken in [Family::V6, Family::V4] {
        let Some(lab) = Lab::start(2, Family::Both) else { return };
        let server = lab.serve(&[]);
        make_file(&lab.here().join("file"), MB);
        let protocol = if broken == Family::V4 { "ipv4" } else { "ipv6" };
        lab.client.nft(&format!(
            "table inet wall {{\nchain out {{ type filter hook output priority 0; \
             meta nfproto {protocol} meta l4proto udp drop; }}\n}}"
        ));
        let sent = lab.run_client(&["--json", "send", "file", &server.ticket]).expect(0);
        assert!(sent.took < Duration::from_secs(2), "{sent:?}");
        assert_paths_avoid(&sent.summary(), broken);
        server.stop().expect(0);
    }
}

#[test]
fn a_family_that_breaks_in_the_middle_is_replaced_by_the_other_on_every_interface() {
    for broken in [Family::V6, Family::V4] {
        let Some(lab) = Lab::start(2, Family::Both) else { return };
        lab.limit(1, 20);
        lab.limit(2, 20);
        let server = lab.serve(&[]);
        make_file(&lab.here().join("big"), 16 * MB);
        let client = lab.start_client(&["-v", "--json", "send", "big", &server.ticket]);
        let until_more_over = |interface: &str, bytes: u64| {
            let before = lab.client.sent(interface);
            client.wait_until(interface, || lab.client.sent(interface) > before + bytes);
        };
        until_more_over("va1", 500_000);
        until_more_over("va2", 500_000);
        lab.drop_udp(broken);
        until_more_over("va1", 1_500_000);
        until_more_over("va2", 1_500_000);
        lab.unlimit();
        let sent = client.end().expect(0);
        assert_paths_avoid(&sent.summary(), broken);
        server.stop().expect(0);
    }
}

#[track_caller]
fn assert_paths_avoid(summary: &serde_json::Value, broken: Family) {
    let sign = if broken == Family::V4 { "." } else { ":" };
    let paths = summary["paths"].as_array().unwrap();
    let told = |path: &serde_json::Value| path["local"].as_str().unwrap().to_owned();
    assert!(
        !paths.is_empty() && paths.iter().all(|path| !told(path).contains(sign)),
        "{broken:?}: {summary}"
    );
}

/// The client's packets arrive, and no packet comes back.
#[test]
fn a_link_that_carries_one_direction_only_is_not_chosen_for_the_handshake() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    let server = lab.serve(&[]);
    make_file(&lab.here().join("file"), MB);
    lab.black_hole(1, Hole::Back);
    let sent = lab.run_client(&["-q", "send", "file", &server.ticket]).expect(0);
    assert!(sent.took < Duration::from_secs(3), "{sent:?}");
    wait_until("the file", || lab.there().join("file").exists());
    server.stop().expect(0);
}
