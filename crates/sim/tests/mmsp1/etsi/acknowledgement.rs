//! Acknowledgement: TS 102 369, group A.

use manyway_sim::scenario::MS;

use super::super::tester::Tester;
use super::data;

#[test]
fn sctp_a_v_9_1_the_first_data_are_acknowledged_within_20_ms() {
    let mut tester = Tester::accepted();
    let block = data(&tester, 0);
    tester.send_raw(&block);
    tester.run_for(20 * MS);
    assert_eq!(tester.take_sacks().last().map(|sack| sack.blocks), Some(1));
}

#[test]
fn sctp_a_v_9_2_one_sack_acknowledges_all_data_of_a_packet() {
    let mut tester = Tester::accepted();
    let blocks: Vec<u8> = (0..3).flat_map(|number| data(&tester, number)).collect();
    tester.send_raw(&blocks);
    tester.run_for(20 * MS);
    let sacks = tester.take_sacks();
    assert_eq!(sacks.iter().map(|sack| sack.blocks).collect::<Vec<_>>(), [3]);
}

#[test]
fn sctp_a_o_9_3_a_gap_is_reported_at_once() {
    let mut tester = Tester::accepted();
    let blocks = [data(&tester, 0), data(&tester, 2)];
    tester.send_raw(&blocks[0]);
    tester.run_for(20 * MS);
    tester.discard();
    tester.send_raw(&blocks[1]);
    let sacks = tester.take_sacks();
    assert_eq!(
        sacks.iter().map(|sack| (sack.blocks, &sack.ranges[..])).collect::<Vec<_>>(),
        [(1, &[(2, 2)][..])]
    );
}
