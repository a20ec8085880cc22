use manyway_wire::StreamId;
use proptest::prelude::*;

use super::*;

const MOST: u64 = 4096;

fn block(message: MessageId, offset: u32, end: bool, data: &[u8]) -> MessageData<'_> {
    MessageData { stream: StreamId(0), message, place: MessagePlace::new(offset, 7), end, data }
}

fn take(inbox: &mut Inbox, block: &MessageData<'_>) -> Result<CreditCost, Refusal> {
    let credit_cost = inbox.check(block, MOST)?;
    inbox.on_piece(block, credit_cost);
    Ok(credit_cost)
}

fn skip(inbox: &mut Inbox, id: MessageId, reach: u32) -> Result<CreditCost, Refusal> {
    let credit_cost = inbox.check_skip(id, reach)?;
    inbox.on_skip(id, credit_cost);
    Ok(credit_cost)
}

fn all(inbox: &mut Inbox) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| inbox.pop()).map(|message| message.data.to_vec()).collect()
}

// spec 8.29
#[test]
fn ordered_messages_wait_for_earlier_ones_and_unordered_ones_do_not() {
    let mut inbox = Inbox::default();
    take(&mut inbox, &block(MessageId::ordered(1), 0, true, b"second")).unwrap();
    take(&mut inbox, &block(MessageId::unordered(5), 0, true, b"at once")).unwrap();
    assert_eq!(all(&mut inbox), [b"at once"]);
    take(&mut inbox, &block(MessageId::ordered(0), 0, true, b"first")).unwrap();
    assert_eq!(all(&mut inbox), [&b"first"[..], b"second"]);
}

// spec 8.32
#[test]
fn a_message_costs_its_reach_and_a_fixed_sum_once() {
    let mut inbox = Inbox::default();
    let id = MessageId::ordered(0);
    assert_eq!(take(&mut inbox, &block(id, 10, false, b"abc")).unwrap().new, 128 + 13);
    assert_eq!(take(&mut inbox, &block(id, 0, false, b"abc")).unwrap().new, 0);
    assert_eq!(take(&mut inbox, &block(id, 13, true, b"d")).unwrap().new, 1);
    assert_eq!(take(&mut inbox, &block(id, 3, false, b"1234567")).unwrap().new, 0);
    assert_eq!((inbox.reached(), inbox.finished()), (142, 142));
    assert_eq!(take(&mut inbox, &block(id, 0, true, b"again, and longer than before")).unwrap().new, 0);
}

// spec 8.34
#[test]
fn a_skip_counts_up_to_its_reach_and_returns_it() {
    let mut inbox = Inbox::default();
    let id = MessageId::ordered(0);
    take(&mut inbox, &block(id, 100, false, b"x")).unwrap();
    take(&mut inbox, &block(MessageId::ordered(1), 0, true, b"next")).unwrap();
    assert_eq!(skip(&mut inbox, id, 300), Ok(CreditCost { new: 199, given_back: 428 }));
    assert_eq!(skip(&mut inbox, id, 300), Ok(CreditCost::default()));
    assert_eq!(take(&mut inbox, &block(id, 0, true, b"late")), Ok(CreditCost::default()));
    assert_eq!(all(&mut inbox), [b"next"]);
    assert_eq!((inbox.reached(), inbox.finished(), inbox.overhead()), (560, 560, 0));
}

// spec 8.34
#[test]
fn a_complete_message_is_not_skipped() {
    let mut inbox = Inbox::default();
    take(&mut inbox, &block(MessageId::ordered(0), 0, true, b"whole")).unwrap();
    assert_eq!(skip(&mut inbox, MessageId::ordered(0), 5), Ok(CreditCost::default()));
    assert_eq!(all(&mut inbox), [b"whole"]);
}

// spec 8.30, 8.31, 8.34
#[test]
fn contradictory_or_too_large_pieces_are_refused() {
    let mut inbox = Inbox::default();
    let id = MessageId::unordered(0);
    take(&mut inbox, &block(id, 4, true, b"end")).unwrap();
    for wrong in [block(id, 7, false, b"x"), block(id, 3, true, b"x")] {
        assert!(take(&mut inbox, &wrong).is_err());
    }
    assert!(skip(&mut inbox, id, 6).is_err());
    assert!(take(&mut inbox, &block(MessageId::ordered(0), 4096, false, b"x")).is_err());
    assert!(take(&mut inbox, &block(MessageId::ordered(0), 4095, false, b"x")).is_ok());
}

// spec 8.35
#[test]
fn at_most_1024_messages_are_incomplete() {
    let mut inbox = Inbox::default();
    for number in 0..512 {
        take(&mut inbox, &block(MessageId::ordered(number), 0, false, b"x")).unwrap();
        take(&mut inbox, &block(MessageId::unordered(number), 0, false, b"x")).unwrap();
    }
    assert!(take(&mut inbox, &block(MessageId::ordered(600), 0, false, b"x")).is_err());
    assert!(take(&mut inbox, &block(MessageId::ordered(600), 0, true, b"x")).is_ok());
    skip(&mut inbox, MessageId::ordered(3), 1).unwrap();
    assert!(take(&mut inbox, &block(MessageId::ordered(601), 0, false, b"x")).is_ok());
}

// spec 8.35
#[test]
fn every_second_number_costs_memory_until_the_others_arrive() {
    let mut inbox = Inbox::default();
    for number in 0..100 {
        skip(&mut inbox, MessageId::unordered(2 * number + 1), 0).unwrap();
    }
    assert_eq!(inbox.overhead(), 100 * RANGE_OVERHEAD);
    for number in 0..100 {
        take(&mut inbox, &block(MessageId::unordered(2 * number), 0, true, b"")).unwrap();
    }
    assert_eq!(inbox.overhead(), 0);
}

proptest! {
    /// Under any input the sums match, and the rest equals what was announced.
    #[test]
    fn sums_match_under_any_input(
        steps in prop::collection::vec((0_u64..12, any::<bool>(), 0_u32..60, 0_usize..40, 0_u8..8), 0..200),
    ) {
        let mut inbox = Inbox::default();
        let bytes = [5; 40];
        let (mut counted, mut given_back, mut delivered) = (0, 0, 0);
        let mut last_ordered = None;
        for (number, unordered, offset, length, kind) in steps {
            let id = MessageId { number, unordered };
            let credit_cost = match kind {
                0 => skip(&mut inbox, id, offset),
                _ => take(&mut inbox, &block(id, if kind < 4 { 0 } else { offset }, kind % 2 == 0, &bytes[..length])),
            };
            let credit_cost = credit_cost.unwrap_or_default();
            counted += credit_cost.new;
            given_back += credit_cost.given_back;
            prop_assert_eq!(inbox.reached(), counted);
            prop_assert!(inbox.finished() <= inbox.reached());
            while let Some(message) = inbox.pop() {
                delivered += 128 + message.data.len() as u64;
                if message.order == Order::Ordered {
                    last_ordered = Some(last_ordered.map_or(0, |last| last + 1));
                }
            }
            let waiting: u64 = inbox.waiting.values().map(|message| 128 + message.data.len() as u64).sum();
            prop_assert_eq!(inbox.finished(), delivered + given_back + waiting);
            let gaps = |lane: &Lane| lane.overhead() + lane.incomplete.values().map(Assembly::overhead).sum::<u64>();
            prop_assert_eq!(inbox.overhead(), gaps(&inbox.ordered) + gaps(&inbox.unordered));
        }
    }
}
