//! Any encoded value decodes to itself.

use manyway_wire::Writer;
use manyway_wire::mmsp1::{Block, Blocks, Packet, Sseq, Tseq, checksum, seal, travels_alone};
use proptest::collection::vec;
use proptest::prelude::*;

use super::samples::{any_block, any_header, any_sack, payload_of};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    // spec 3.9, 3.20 to 3.40
    #[test]
    fn any_packet_of_blocks_comes_back(header in any_header(), samples in vec(any_block(), 0..6)) {
        let mut packet = Vec::new();
        header.encode(&mut Writer::new(&mut packet, 12));
        packet.extend(payload_of(&samples));
        seal(&mut packet);
        let is_alone = samples.len() < 2 || samples.iter().all(|sample| !travels_alone(sample.kind));
        let decoded = Packet::decode(&packet);
        prop_assert_eq!(decoded.is_ok(), is_alone);

        let payload = &packet[12..];
        let blocks: Vec<_> = Blocks::new(payload).map(Result::unwrap).collect();
        prop_assert_eq!(blocks.len(), samples.len());
        for (block, sample) in blocks.iter().zip(&samples) {
            prop_assert_eq!(block.kind(), sample.kind);
            prop_assert!(block.to_string().starts_with(&sample.words), "{} {}", block, sample.words);
            prop_assert_eq!(block.unrecognised(), None);
        }
        let mut again = Vec::new();
        blocks.iter().for_each(|block| block.encode(&mut Writer::new(&mut again, 1 << 20)));
        prop_assert_eq!(&again[..], payload);
        if let Ok(packet) = decoded {
            prop_assert_eq!((packet.header, packet.payload), (header, payload));
        }
    }

    // spec 3.9
    #[test]
    fn the_last_block_may_lack_its_padding(sample in any_block()) {
        let length = usize::from(u16::from_be_bytes([sample.bytes[2], sample.bytes[3]]));
        let whole: Vec<_> = Blocks::new(&sample.bytes).collect();
        let cut: Vec<_> = Blocks::new(&sample.bytes[..length]).collect();
        prop_assert_eq!(cut, whole);
    }

    // spec 3.12: a block with a cut body never decodes to the same
    #[test]
    fn a_block_with_a_cut_body_never_decodes_to_the_same(sample in any_block(), cut in 1_usize..40) {
        let length = usize::from(u16::from_be_bytes([sample.bytes[2], sample.bytes[3]]));
        let shorter = length.saturating_sub(cut).max(4);
        prop_assume!(shorter < length);
        let mut payload = sample.bytes[..shorter].to_vec();
        payload[2..4].copy_from_slice(&u16::try_from(shorter).unwrap().to_be_bytes());
        let cut: Vec<_> = Blocks::new(&payload).collect();
        prop_assert_ne!(cut, Blocks::new(&sample.bytes).collect::<Vec<_>>());
    }

    // spec 3.40 to 3.42
    #[test]
    fn any_sack_comes_back((bytes, content) in any_sack()) {
        let blocks: Vec<_> = Blocks::new(&bytes).map(Result::unwrap).collect();
        let [Block::Sack(sack)] = blocks[..] else { panic!("{blocks:?}") };
        prop_assert_eq!((sack.ack, sack.window), (content.ack, content.window));
        let offsets: Vec<_> = sack.ranges.offsets().map(std::ops::RangeInclusive::into_inner).collect();
        prop_assert_eq!(offsets, content.ranges);
        prop_assert_eq!(sack.duplicates.iter().collect::<Vec<_>>(), content.duplicates);
        for (first, last) in sack.ranges.iter() {
            prop_assert!(sack.ack.precedes(first) && !last.precedes(first) && !sack.highest().precedes(last));
        }
    }

    // spec 3.3
    #[test]
    fn two_swapped_bytes_and_a_changed_one_are_noticed(
        header in any_header(),
        payload in vec(any::<u8>(), 0..1400),
        (at, to, value) in any::<(prop::sample::Index, prop::sample::Index, u8)>(),
    ) {
        let mut packet = Vec::new();
        header.encode(&mut Writer::new(&mut packet, 12));
        packet.extend(payload);
        seal(&mut packet);
        let (at, to) = (at.index(packet.len()), to.index(packet.len()));
        let written = checksum(&packet);
        let mut changed = packet.clone();
        changed[at] = value;
        prop_assert_eq!(checksum(&changed) == written, changed == packet || (4..8).contains(&at));
        let mut swapped = packet.clone();
        swapped.swap(at, to);
        let is_outside = !(4..8).contains(&at) && !(4..8).contains(&to);
        prop_assert!(!is_outside || (checksum(&swapped) == written) == (swapped == packet));
    }

    // spec 3.31, 3.32
    #[test]
    fn serial_numbers_have_one_order_within_half_of_their_range(base in any::<u32>(), ahead in 1..1_u32 << 31) {
        let (first, second) = (Tseq(base), Tseq(base).plus(ahead));
        prop_assert!(first.precedes(second) && !second.precedes(first));
        prop_assert_eq!((second.since(first), second.minus(ahead)), (ahead, first));
        let (base, ahead) = (Sseq(u16::try_from(base >> 16).unwrap()), u16::try_from(ahead % 0x8000).unwrap());
        prop_assert_eq!(base.precedes(base.plus(ahead)), ahead > 0);
    }
}
