//! Connection errors that name the cause: a closed port, an interface, the system's own filter.

use std::time::Duration;

use crate::common::lab::{Family, Lab};
use crate::common::program::{Server, wait_until};

/// The server behind every link.
const SERVER: &str = "10.9.9.9:4455";

#[test]
fn a_closed_port_ends_a_command_at_once_with_its_address_and_port() {
    for (family, address) in [(Family::V4, "10.7.1.2:4999"), (Family::V6, "[fd00:7:1::2]:4999")] {
        let Some(lab) = Lab::start(1, family) else { return };
        let finished = lab.run_client(&["ping", "--trust-on-first-use", address]).expect(7);
        assert!(finished.took < Duration::from_secs(3), "{finished:?}");
        finished.says(address).says("closed");
    }
}

/// A host of the local network that does not answer ARP or neighbour discovery, and a router that does not.
#[test]
fn a_missing_neighbour_ends_a_command_before_its_time_and_a_present_one_is_reached() {
    let v4 = ["10.7.1.77", "10.7.1.99", "10.7.1.2", SERVER];
    let v6 = ["fd00:7:1::77", "fd00:7:1::99", "fd00:7:1::2", "[fd00:9::9]:4455"];
    for (family, kind, [router, absent, present, behind]) in
        [(Family::V4, "ipv4", v4), (Family::V6, "ipv6", v6)]
    {
        let Some(lab) = Lab::start(1, family) else { return };
        lab.client.set(&format!("{kind}/neigh/va1/retrans_time_ms"), "100");
        lab.client.ip(&format!("route add default via {router} dev va1"));
        let beside = if family == Family::V6 { format!("[{absent}]:4455") } else { format!("{absent}:4455") };
        // The second time the kernel knows already that nothing was found.
        for address in [&*beside, &beside, behind] {
            let finished = lab.run_client(&["ping", "-c", "1", "--trust-on-first-use", address]).expect(7);
            assert!(finished.took < Duration::from_secs(3), "TCP is not tried: {finished:?}");
            finished.says(&format!("{address} is unreachable: nothing on the local network answers for it"));
        }
        for address in [&*beside, behind] {
            let ping = ["ping", "-c", "1", "--carrier", "tcp", "--trust-on-first-use", address];
            let finished = lab.run_client(&ping).expect(7);
            assert!(finished.took < Duration::from_secs(3), "no other port is tried: {finished:?}");
            finished.says(&format!("{address} is unreachable: nothing on the local network answers for it"));
        }
        let server = lab.serve(&["--advertise", absent, "--advertise", present]);
        lab.run_client(&["ping", "-c", "1", &server.ticket]).expect(0);
        server.stop().expect(0);
    }
}

#[test]
fn an_interface_whose_mtu_is_too_small_is_named_with_its_number() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    let server = lab.serve(&[]);
    lab.client.ip("link set va2 mtu 1000");
    lab.run_client(&["paths", &server.ticket]).expect(0).says("MTU of 1000 is below 1228");
    lab.client.ip("link set va1 mtu 900");
    let finished = lab.run_client(&["ping", "-c", "1", &server.ticket]).expect(7);
    finished.says("va1: its MTU of 900").says("va2: its MTU of 1000");
    server.stop().expect(0);
}

#[test]
fn two_hosts_and_a_cable_need_no_other_addresses_than_link_local_ones() {
    let Some(lab) = Lab::start(1, Family::V6) else { return };
    for (host, interface, address) in
        [(&lab.client, "va1", "fd00:7:1::1"), (&lab.server, "vb1", "fd00:7:1::2")]
    {
        host.ip(&format!("addr del {address}/64 dev {interface}"));
        wait_until("a link-local address", || {
            let addresses = host.ip(&format!("-6 addr show dev {interface}"));
            addresses.contains("fe80::") && !addresses.contains("tentative")
        });
    }
    let server = lab.serve(&[]);
    lab.run_client(&["ping", "-c", "1", &server.ticket]).expect(0);
    let addresses = lab.server.ip("-6 addr show dev vb1");
    let own = addresses.split_whitespace().find(|word| word.starts_with("fe80::")).unwrap();
    let own = own.split('/').next().unwrap();
    // It is reached, and accepts the ticket.
    let zoned = format!("{own}%va1");
    lab.run_client(&["ping", "-c", "1", "--trust-on-first-use", &zoned])
        .expect(3)
        .says("is known from now on");
    lab.run_client(&["ping", "--trust-on-first-use", &format!("{own}%nope0")]).says("nope0");
    server.stop().expect(0);

    let here = lab.there();
    let listen = format!("[{own}%vb1]:4466");
    let command = lab.serving(&here, &["--listen", &listen]);
    let server = Server::start(command);
    lab.run_client(&["ping", "-c", "1", &server.ticket]).expect(0);
    server.stop().expect(0);
}

#[test]
fn strict_reverse_path_filtering_of_a_second_interface_is_named_with_the_command_that_ends_it() {
    let Some(lab) = Lab::start(2, Family::V4) else { return };
    lab.server.ip("addr add 10.9.9.9/32 dev lo");
    for link in [1, 2] {
        lab.client.ip(&format!("route add default via 10.7.{link}.2 dev va{link} metric {link}"));
    }
    lab.client.set("ipv4/conf/all/rp_filter", "0");
    lab.client.set("ipv4/conf/va2/rp_filter", "1");
    let server = lab.serve(&["--advertise", SERVER]);
    let command = "sysctl -w net.ipv4.conf.va2.rp_filter=2";
    lab.run_client(&["paths", &server.ticket]).expect(0).says("no answer on UDP").says(command);
    let alone = ["ping", "-c", "1", "-I", "va2", "--connect-timeout", "2s", &server.ticket];
    lab.run_client(&alone).expect(7).says(command);
    lab.client.set("ipv4/conf/va2/rp_filter", "2");
    lab.run_client(&alone).expect(0);
    server.stop().expect(0);
}
