//! Selection of interfaces and addresses.

use super::MB;
use crate::common::lab::{Family, Hole, Lab};
use crate::common::program::{assert_same_content, make_file};

/// More than the handshake and probes take, less than data.
const LITTLE: u64 = 100_000;

#[test]
fn only_a_named_interface_is_used() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    let server = lab.serve(&[]);
    make_file(&lab.here().join("file"), MB);
    let sent = lab.run_client(&["--json", "-I", "va1", "send", "file", &server.ticket]).expect(0);
    assert!(lab.client.sent("va1") > 1_000_000 && lab.client.sent("va2") < LITTLE);
    assert_eq!(sent.summary()["paths"].as_array().unwrap().len(), 1);
}

#[test]
fn an_excluded_interface_is_not_used() {
    let Some(lab) = Lab::start(2, Family::Both) else { return };
    let server = lab.serve(&[]);
    make_file(&lab.here().join("file"), MB);
    lab.run_client(&["-q", "--exclude", "va1", "send", "file", &server.ticket]).expect(0);
    assert!(lab.client.sent("va2") > 1_000_000 && lab.client.sent("va1") < LITTLE);
    lab.run_client(&["-q", "--exclude", "va*", "send", "file", &server.ticket])
        .expect(7)
        .says("no interface of this host leads to the peer")
        .says("va1, va2: excluded by the user");
}

#[test]
fn a_backup_carries_data_while_the_others_are_dead_and_hardly_any_else() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    lab.limit(1, 20);
    lab.limit(2, 20);
    let server = lab.serve(&[]);
    make_file(&lab.here().join("big"), 30 * MB);
    let client =
        lab.start_client(&["-I", "va1", "-I", "va2,role=backup", "-v", "send", "big", &server.ticket]);
    // Until round-trip times are known, an end may suspect a path whose queue fills for the first time.
    let until_more_over_primary = |bytes: u64| {
        let before = lab.client.sent("va1");
        client.wait_until("the primary to carry data", || lab.client.sent("va1") > before + bytes);
    };
    let assert_backup_rests = || {
        let before = lab.client.sent("va2");
        until_more_over_primary(3_000_000);
        let more = lab.client.sent("va2") - before;
        assert!(more < 600_000, "over the backup: {more}; {}", client.messages());
    };
    until_more_over_primary(3_000_000);
    assert_backup_rests();
    lab.black_hole(1, Hole::Both);
    client.wait_for("va1 dead");
    let before = lab.client.sent("va2");
    client.wait_until("the backup to carry data", || lab.client.sent("va2") > before + 2_000_000);
    lab.release();
    until_more_over_primary(2_000_000);
    assert_backup_rests();
    lab.unlimit();
    client.end().expect(0);
    assert_same_content(&lab.here().join("big"), &lab.there().join("big"));
}

#[test]
fn a_family_can_be_chosen() {
    let Some(lab) = Lab::start(2, Family::Both) else { return };
    let server = lab.serve(&[]);
    make_file(&lab.here().join("file"), MB);
    for (option, sign) in [("-4", "."), ("-6", ":")] {
        let sent = lab.run_client(&["--json", option, "send", "file", &server.ticket]).expect(0).summary();
        let paths = sent["paths"].as_array().unwrap();
        assert!(paths.iter().all(|path| path["local"].as_str().unwrap().contains(sign)), "{option}: {sent}");
    }
}

#[test]
fn a_server_is_reached_over_the_address_that_works() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    let server = lab.serve(&[]);
    make_file(&lab.here().join("file"), MB);
    lab.black_hole(1, Hole::Both);
    lab.run_client(&["-q", "send", "file", &server.ticket]).expect(0);
    assert_same_content(&lab.here().join("file"), &lab.there().join("file"));
}

/// The client has one interface; the server's second address is behind the first link too.
#[test]
fn a_client_with_one_interface_moves_to_another_address_of_the_server() {
    let Some(lab) = Lab::start(1, Family::V4) else { return };
    lab.limit(1, 20);
    lab.server.ip("link add spare type veth peer name behind");
    lab.server.ip("addr add 10.8.0.2/32 dev spare");
    lab.server.ip("link set spare up");
    lab.server.ip("link set behind up");
    lab.client.ip("route add 10.8.0.2/32 via 10.7.1.2");
    let server = lab.serve(&[]);
    make_file(&lab.here().join("big"), 12 * MB);
    let client = lab.start_client(&["-v", "send", "big", &server.ticket]);
    client.wait_until("data", || lab.client.sent("va1") > 2_000_000);
    let hole = |address: &str| {
        lab.server.nft(&format!(
            "flush ruleset\ntable inet hole {{\nchain input {{ type filter hook input priority 0; \
             ip daddr {address} drop; }}\n}}"
        ));
    };
    // After the two, each was in use once or the transfer is done.
    for address in ["10.7.1.2", "10.8.0.2"] {
        hole(address);
        let before = lab.client.sent("va1");
        client.wait_until(&format!("data without {address}"), || lab.client.sent("va1") > before + 2_000_000);
    }
    lab.release();
    lab.unlimit();
    client.end().expect(0);
    assert_same_content(&lab.here().join("big"), &lab.there().join("big"));
}
