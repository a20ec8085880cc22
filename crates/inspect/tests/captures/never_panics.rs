//! No input makes the crate panic.

use std::ops::ControlFlow;
use std::sync::OnceLock;

use manyway_inspect::{Inside, Inspector, KeyLog, blocks, capture};
use manyway_proto::ByteCount;
use proptest::prelude::*;

use crate::common::{Recorded, connection, inspect, pcap, pcapng};

fn recorded() -> &'static Recorded {
    static RECORDED: OnceLock<Recorded> = OnceLock::new();
    RECORDED.get_or_init(|| connection(9, ByteCount(20_000)))
}

/// Reads all that there is to read.
fn exhaust(file: &[u8]) {
    for packet in inspect(file, &recorded().key_log) {
        let _ = (packet.is_malformed(), format!("{packet:?}"));
        if let Inside::Opened(opened) = packet.inside {
            words(&opened.payload);
        }
    }
}

/// Every block in words and field by field.
fn words(payload: &[u8]) {
    for block in blocks(payload).filter_map(|at| at.block.ok()) {
        let mut fields = 0;
        block.fields(&mut |name, field| fields += name.len() + field.to_string().len());
        assert!(block.to_string().len() >= block.name().len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        exhaust(&bytes);
        let mut inspector = Inspector::default();
        for packet in inspector.datagram(&bytes) {
            let _ = packet.is_malformed();
        }
        words(&bytes);
        let mut log = KeyLog::default();
        log.add(&bytes);
        let _ = capture::parse_bytes(&bytes);
    }

    #[test]
    fn random_files_behind_a_right_start_are_read_without_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..2000), ng in any::<bool>(), link in 0_u8..230
    ) {
        let mut file = if ng { pcapng(&[], "") } else { pcap(&[]) };
        if !ng {
            file[20] = link;
        }
        file.extend(bytes);
        exhaust(&file);
    }

    #[test]
    fn damaged_captures_are_read_as_far_as_they_go(
        ng in any::<bool>(), flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
        length in any::<prop::sample::Index>()
    ) {
        let Recorded { seen, key_log, .. } = recorded();
        let mut file = if ng { pcapng(seen, key_log) } else { pcap(seen) };
        for (place, mask) in flips {
            let place = place.index(file.len());
            file[place] ^= mask;
        }
        file.truncate(length.index(file.len()));
        exhaust(&file);
    }

    #[test]
    fn random_text_is_read_without_panic(text in "[0-9a-fx:|# \n\t]{0,400}|\\PC{0,200}") {
        let _ = capture::read(text.as_bytes(), &mut |_| ControlFlow::Continue(()));
    }
}
