//! The output of `manyway status`.

use manyway_terminal::Colour;

use super::super::prometheus;
use super::*;
use crate::output::fits::assert_fits;
use crate::output::live::frame;
use crate::output::tint::block;

fn path(id: u32, interface: Option<&str>, state: &str, out: u64) -> PathDocument {
    PathDocument {
        path: id,
        interface: interface.map(str::to_owned),
        local: format!("10.0.{id}.2"),
        remote: "192.0.2.1:4455".to_owned(),
        carrier: "udp".to_owned(),
        state: state.to_owned(),
        rtt: (state == "active").then_some(0.0153),
        loss: Some(0.004),
        bytes_sent: 176_400_000,
        bytes_received: 2_100_000,
        packets_sent: 120_000,
        packets_lost: 480,
        sent_bits_per_second: Some(out),
        received_bits_per_second: Some(out / 100),
        used: state == "active",
        why: Some(if state == "active" { "in use" } else { "no answer on UDP for 12 s" }.to_owned()),
    }
}

fn documents() -> Vec<Document> {
    let paths = vec![path(0, Some("wifi0"), "active", 39_040_000), path(1, Some("lte0"), "dead", 0)];
    let files = FilesDocument {
        files: 35,
        files_done: 12,
        failed: 1,
        bytes: 214_000_000,
        bytes_done: 76_700_000,
        current: Some("film.mp4".to_owned()),
    };
    let peer = |name: Option<&str>, files, paths| PeerDocument {
        name: name.map(str::to_owned),
        wire: "mmsp2".to_owned(),
        seconds: 73.0,
        sent_bits_per_second: Some(39_040_000),
        received_bits_per_second: Some(390_400),
        files,
        paths,
    };
    let document = |pid, verb: &str, files, peers| Document {
        pid,
        verb: verb.to_owned(),
        version: "0.1.0".to_owned(),
        seconds: 75.2,
        files,
        peers,
    };
    let guest = vec![path(0, None, "active", 8_000_000)];
    vec![
        document(4711, "send", Some(files.clone()), vec![peer(Some("home"), None, paths)]),
        document(812, "serve", None, vec![peer(Some("ticket \"a\""), Some(files), guest)]),
        document(813, "serve", None, Vec::new()),
    ]
}

#[test]
fn every_command_shows_its_peers_paths_rates_and_files() {
    for width in [80, 120] {
        insta::assert_snapshot!(
            format!("status_{width}"),
            block(&lines(&documents(), width), Colour::Without)
        );
    }
}

#[test]
fn the_live_screen_has_every_command_and_is_cut_at_its_height() {
    for width in [80, 120] {
        let screen = frame("manyway status", |width| lines(&documents(), width), &[], (width, 24));
        insta::assert_snapshot!(format!("screen_{width}"), screen);
    }
    assert_eq!(frame("manyway status", |width| lines(&documents(), width), &[], (80, 6)).lines().count(), 6);
}

#[test]
fn no_line_is_wider_than_its_terminal() {
    let mut documents = documents();
    let ipv6 = PathDocument {
        local: "2001:db8:1234:5678:9abc:def0:1234:5678".to_owned(),
        remote: "[2001:db8:1234:5678:9abc:def0:1234:9999]:36173".to_owned(),
        ..path(3, None, "validating", 8_000_000_000)
    };
    documents[1].peers[0].paths.insert(0, ipv6);
    documents[1].peers[0].name = None;
    for width in [60, 80, 90, 100, 120] {
        assert_fits(&block(&lines(&documents, width), Colour::Without), width);
    }
}

#[test]
fn exporters_get_the_text_format_of_prometheus() {
    insta::assert_snapshot!(prometheus::text(&documents()[..2]));
}

#[test]
fn a_document_survives_the_socket() {
    let sent = serde_json::to_string(&documents()[0]).unwrap();
    assert!(!sent.contains('\n'));
    assert_eq!(serde_json::from_str::<Document>(&sent).unwrap(), documents()[0]);
}
