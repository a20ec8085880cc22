//! The rows of `manyway paths` in every situation.

use super::*;
use manyway::Used;
use manyway::interfaces::{Interface, InterfaceAddress, InterfacePolicy, Route, Snapshot};
use manyway::scheduler::Purpose;
use manyway_terminal::Colour;

use crate::output::fits::assert_fits;
use crate::output::live::frame;

fn rows() -> Vec<PairRow> {
    let row = |interface: &str, local: &str, why: Why| PairRow {
        interface: Some(interface.to_owned()),
        local: Some(local.to_owned()),
        why: Some(why),
        ..PairRow::default()
    };
    let pair = |row: PairRow, path: Option<(u32, PathState)>, role: &str| PairRow {
        remote: Some("203.0.113.5:4455".to_owned()),
        path: path.map(|(id, _)| id),
        state: path.map(|(_, state)| state),
        role: Some(role.to_owned()),
        ..row
    };
    let used = PairRow {
        rtt: Some(Duration::from_micros(31_250)),
        loss: Some((1, 50)),
        rate: Some(Rate::from_bits_per_second(38_200_000)),
        ..pair(
            row("eth0", "192.0.2.7", Why::Used(Used::For(Purpose::EarliestArrival))),
            Some((0, PathState::Active)),
            "primary",
        )
    };
    let waited = Duration::from_secs(12);
    let slower = Unused::NotNeeded { purpose: Purpose::EarliestArrival, idle: Some(waited) };
    vec![
        used,
        pair(
            row("wlan0", "10.1.2.3", Why::Unused(Unused::NoAnswer { waited, carrier: Carrier::Udp })),
            Some((1, PathState::Dead)),
            "primary",
        ),
        pair(row("wwan0", "10.9.8.7", Why::Unused(Unused::Backup)), Some((2, PathState::Backup)), "backup"),
        pair(row("eth1", "10.3.3.3", Why::Unused(slower)), Some((3, PathState::Active)), "primary"),
        row("docker0", "172.17.0.1", Why::Unused(Unused::Excluded(Exclusion::NoRoute))),
        row("docker0", "fe80::42", Why::Unused(Unused::Excluded(Exclusion::LinkLocal))),
        row("lo", "127.0.0.1", Why::Unused(Unused::Excluded(Exclusion::Loopback))),
        pair(
            row("eth0", "2001:db8::7", Why::Unused(Unused::NoAnswer { waited, carrier: Carrier::Udp })),
            None,
            "primary",
        ),
    ]
}

fn table(rows: &[PairRow], width: usize) -> String {
    pair_table(&worth_showing(rows)).text(width, Colour::Without)
}

#[test]
fn every_path_and_every_interface_without_one_has_a_line_that_says_why() {
    for width in [80, 120] {
        insta::assert_snapshot!(format!("pairs_{width}"), table(&rows(), width));
    }
}

#[test]
fn the_live_screen_has_the_table_and_the_last_events() {
    let rows = rows();
    let grid = pair_table(&worth_showing(&rows));
    let events = [
        "   1.30 s  wwan0 backup: path challenge answered",
        "  12.34 s  wlan0 dead: 6 probe timeouts in a row",
    ];
    for width in [80, 120] {
        let screen = frame("paths to the server", |width| grid.lines(width), &events, (width, 24));
        insta::assert_snapshot!(format!("screen_{width}"), screen);
    }
}

#[test]
fn a_path_over_tcp_is_marked_behind_the_address_of_the_peer() {
    let mut rows = rows();
    rows[0].carrier = Some(Carrier::Tcp);
    rows[1].carrier = Some(Carrier::Udp);
    let text = table(&rows, 120);
    assert!(text.contains("203.0.113.5:4455 tcp  primary"), "{text}");
    assert!(!text.contains("udp"), "{text}");
    assert_eq!(rows[0].json(Rate::ZERO)["carrier"], "tcp");
}

#[test]
fn all_pairs_are_shown_on_request() {
    let rows = rows();
    let all: Vec<_> = rows.iter().collect();
    for width in [80, 120] {
        insta::assert_snapshot!(format!("all_pairs_{width}"), pair_table(&all).text(width, Colour::Without));
    }
}

#[test]
fn important_columns_are_never_cut_and_no_line_is_too_wide() {
    for width in 60..160 {
        let text = table(&rows(), width);
        assert_fits(&text, width);
        let words: Vec<_> = text.split_whitespace().collect();
        let text = words.join(" ");
        for part in ["38.20", "100 %", "2.0 %", "31.2", "no answer on UDP for 12 s", "in use"] {
            assert!(text.contains(part), "{part} at {width}:\n{text}");
        }
    }
}

#[test]
fn interfaces_with_a_cap_show_their_use() {
    let day = |text: &str| text.parse().unwrap();
    let cap = CapState {
        cap: manyway::ByteCount(5_000_000_000),
        used: 4_876_543_210,
        since: day("2026-11-01"),
        renewal: day("2026-12-01"),
    };
    let mut rows = rows();
    rows.truncate(3);
    rows[2].cap = Some(cap);
    for width in [80, 120] {
        insta::assert_snapshot!(format!("pairs_with_cap_{width}"), table(&rows, width));
    }
    insta::assert_snapshot!(rows[2].json(Rate::ZERO)["cap"], @r#"
    {"cap":5000000000,"left":123456790,"reached":false,"renewal":"2026-12-01","since":"2026-11-01","used":4876543210}
    "#);
}

#[test]
fn each_helpful_command_is_printed_below_the_table_once() {
    let mut rows = rows();
    assert_eq!(advice_text(&rows), "");
    for row in &mut rows {
        row.advice = Some("sysctl -w net.ipv4.conf.wlan0.rp_filter=2".to_owned());
    }
    insta::assert_snapshot!(advice_text(&rows), @r"
    perhaps this system drops the answers, since its routes to the peer lead out elsewhere; as root:
      sysctl -w net.ipv4.conf.wlan0.rp_filter=2
    ");
}

#[test]
fn a_row_for_programs_has_every_field() {
    let json: Vec<_> = rows().iter().take(2).map(|row| row.json(sum(&rows()))).collect();
    insta::assert_snapshot!(serde_json::to_string_pretty(&json).unwrap(), @r#"
    [
      {
        "advice": null,
        "bits_per_second": 38200000,
        "cap": null,
        "carrier": null,
        "interface": "eth0",
        "local": "192.0.2.7",
        "loss": 0.02,
        "path": 0,
        "reason": "earliest-arrival",
        "remote": "203.0.113.5:4455",
        "role": "primary",
        "rtt": 0.03125,
        "share": 1.0,
        "state": "active",
        "used": true,
        "why": "data arrives earliest over it"
      },
      {
        "advice": null,
        "bits_per_second": null,
        "cap": null,
        "carrier": null,
        "interface": "wlan0",
        "local": "10.1.2.3",
        "loss": null,
        "path": 1,
        "reason": "no-answer",
        "remote": "203.0.113.5:4455",
        "role": "primary",
        "rtt": null,
        "share": null,
        "state": "dead",
        "used": false,
        "why": "no answer on UDP for 12 s"
      }
    ]
    "#);
}

#[test]
fn the_addresses_of_this_host_are_listed_with_their_reasons() {
    let mut eth = Interface::new(2, "eth0");
    eth.mtu = Some(1500);
    eth.addresses = vec![
        InterfaceAddress::new("192.0.2.7".parse().unwrap(), 24),
        InterfaceAddress::new("fe80::7".parse().unwrap(), 64),
    ];
    let mut lo = Interface::new(1, "lo");
    lo.kind = InterfaceKind::Loopback;
    lo.addresses = vec![InterfaceAddress::new("127.0.0.1".parse().unwrap(), 8)];
    let mut tunnel = Interface::new(3, "wg0");
    tunnel.kind = InterfaceKind::Tunnel { kind: "wireguard".to_owned() };
    tunnel.state = LinkState::Up;
    tunnel.addresses = vec![InterfaceAddress::new("10.0.0.2".parse().unwrap(), 24)];
    let mut down = Interface::new(4, "wlan0");
    down.state = LinkState::NoCarrier;
    let snapshot = Snapshot::new(vec![eth, lo, tunnel, down], Some(Vec::<Route>::new()));
    let addresses = snapshot.addresses(&InterfacePolicy::new(), &[]);
    let all: Vec<_> = addresses.iter().map(|own| (own, None)).collect();
    for width in [80, 120] {
        insta::assert_snapshot!(
            format!("addresses_{width}"),
            address_table(&all).text(width, Colour::Without)
        );
    }
    let shown = addresses.iter().filter(|own| leads_somewhere(own)).count();
    assert_eq!(shown, 3, "neither loopback nor link-local");
    insta::assert_snapshot!(address_json(&addresses[1], None), @r#"
    {"address":"192.0.2.7/24","cap":null,"interface":"eth0","kind":"network","link":"up","mtu":1500,"role":"primary","used":true,"why":null}
    "#);
}
