//! `manyway decode`: captures and hex text of any kind are read to their end, and every packet is printed.

use std::ops::ControlFlow;

use manyway_inspect::capture::{self, Item};
use manyway_inspect::{ClearPacket, Inside, Inspector, KeyLog, Packet, clear_packets};

/// Reads the input as a capture, and if it is none as a datagram.
pub fn run(data: &[u8]) {
    let mut inspector = Inspector::new(KeyLog::default());
    let mut payloads = 0;
    let read = capture::read(data, &mut |item| {
        match item {
            Item::Datagram(datagram) => {
                payloads += datagram.payload.len();
                look_at(&mut inspector, datagram.payload);
            }
            Item::Skipped { why, .. } => assert!(!why.to_string().is_empty()),
            Item::KeyLog(text) => {
                inspector.add_keys(text);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    });
    assert!(payloads <= data.len(), "no byte is read twice");
    if let Err(error) = read {
        assert!(!error.to_string().is_empty());
        look_at(&mut inspector, data);
    }
}

fn look_at(inspector: &mut Inspector, datagram: &[u8]) {
    clear_packets(datagram).for_each(|packet| check_clear(&packet));
    let packets = inspector.datagram(datagram);
    assert_eq!(packets.is_empty(), datagram.is_empty());
    let mut end = 0;
    for packet in &packets {
        assert!(packet.offset >= end && packet.offset < datagram.len(), "packets follow each other");
        end = packet.offset + packet.length;
        check(packet);
    }
    assert!(end <= datagram.len());
}

fn check_clear(packet: &ClearPacket<'_>) {
    let mut end = 0;
    for at in packet.blocks() {
        assert!(at.offset == end && at.length > 0, "blocks follow each other");
        end = at.offset + at.length;
        let words = match &at.block {
            Ok(Some(block)) => block.to_string(),
            Ok(None) => continue,
            Err(error) => error.to_string(),
        };
        assert!(!words.is_empty() && !words.contains(char::is_control), "{words:?}");
    }
    assert!(end <= packet.payload.len());
}

fn check(packet: &Packet) {
    match &packet.inside {
        Inside::Opened(opened) => {
            for block in opened.blocks() {
                assert!(block.offset + block.length <= opened.payload.len());
                let words = match &block.block {
                    Ok(block) => block.to_string(),
                    Err(error) => error.to_string(),
                };
                // Text of the peer must not control a terminal.
                assert!(!words.is_empty() && !words.contains(char::is_control), "{words:?}");
            }
        }
        Inside::Sealed(why) => assert!(!why.to_string().is_empty()),
        Inside::Nothing => {}
    }
}
