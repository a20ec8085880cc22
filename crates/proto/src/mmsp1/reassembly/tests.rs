use proptest::prelude::*;

use super::*;

const FIRST: u64 = (1 << 32) + 7;
const MOST: u64 = 10_000;

fn piece(stream: u16, sseq: u16, fragment: Fragment, data: &[u8]) -> Piece {
    let data = Bytes::copy_from_slice(data);
    Piece { stream, sseq: Sseq(sseq), protocol: 5, unordered: false, fragment, data }
}

fn reassembly() -> Reassembly {
    Reassembly::new(FIRST, MOST)
}

/// Cuts messages, each with the given fragments, as one sender would.
fn cut(messages: &[Vec<Vec<u8>>], stream: impl Fn(usize) -> u16) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (number, fragments) in messages.iter().enumerate() {
        let last = fragments.len() - 1;
        for (at, data) in fragments.iter().enumerate() {
            let fragment = match (at == 0, at == last) {
                (true, true) => Fragment::Whole,
                (true, false) => Fragment::First,
                (false, true) => Fragment::Last,
                (false, false) => Fragment::Middle,
            };
            pieces.push(piece(stream(number), u16::try_from(number).unwrap(), fragment, data));
        }
    }
    pieces
}

fn messages() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    let fragment = prop::collection::vec(any::<u8>(), 0..20);
    prop::collection::vec(prop::collection::vec(fragment, 1..8), 1..12)
}

proptest! {
    // spec 3.34
    #[test]
    fn any_order_gives_the_message(messages in messages(), seed in any::<u64>()) {
        let mut order: Vec<(usize, Piece)> = cut(&messages, |number| u16::try_from(number % 3).unwrap())
            .into_iter().enumerate().collect();
        let mut state = seed;
        for at in (1..order.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            order.swap(at, usize::try_from(state >> 33).unwrap() % (at + 1));
        }
        let mut reassembly = reassembly();
        let mut complete = Vec::new();
        for (at, piece) in order {
            complete.extend(reassembly.insert(FIRST + at as u64, piece).unwrap());
            let held: u64 = reassembly.pieces.values().map(|piece| OVERHEAD + piece.bytes()).sum();
            prop_assert_eq!(reassembly.held(), held);
            let in_runs: u64 = reassembly.runs.iter().map(|(begin, run)| run.end - begin).sum();
            prop_assert_eq!(in_runs, reassembly.pieces.len() as u64);
        }
        prop_assert!(reassembly.is_empty() && reassembly.runs.is_empty());
        prop_assert_eq!(reassembly.complete.len(), 1);
        complete.sort_by_key(|message| message.sseq.map(|sseq| sseq.0));
        for (number, (message, fragments)) in complete.iter().zip(&messages).enumerate() {
            prop_assert_eq!(usize::from(message.stream), number % 3);
            prop_assert_eq!(&message.data[..], fragments.concat());
        }
        prop_assert_eq!(complete.len(), messages.len());
    }

    // spec 3.118: what a peer may do wrong ends in an error or in messages, and never in more memory than it sent
    #[test]
    fn arbitrary_fragments_are_joined_refused_or_held(
        blocks in prop::collection::vec((0_u64..30, 0_u8..4, 0_u16..2, any::<bool>()), 0..60),
    ) {
        let mut reassembly = reassembly();
        for (at, part, stream, unordered) in blocks {
            let fragment = [Fragment::Whole, Fragment::First, Fragment::Middle, Fragment::Last][usize::from(part)];
            let block = Piece { unordered, ..piece(stream, 0, fragment, b"data") };
            let (held, runs) = (reassembly.held(), reassembly.runs.len());
            match reassembly.insert(FIRST + at, block) {
                Ok(Some(message)) => prop_assert_eq!(message.data.len() % 4, 0),
                Ok(None) => {}
                Err(_) => prop_assert_eq!((held, runs), (reassembly.held(), reassembly.runs.len())),
            }
            let in_runs: u64 = reassembly.runs.iter().map(|(begin, run)| run.end - begin).sum();
            prop_assert_eq!(in_runs, reassembly.pieces.len() as u64);
        }
    }
}

#[test]
fn begin_inside_a_message_is_impossible() {
    use Fragment::{First, Last, Middle, Whole};
    // Neighbours in TSEQ of which the first is followed by the second.
    for (before, after) in [
        (First, First),
        (First, Whole),
        (Middle, First),
        (Middle, Whole),
        (Last, Middle),
        (Whole, Last),
        (Last, Last),
    ] {
        let blocks = [(FIRST + 1, before), (FIRST + 2, after)];
        for order in [[0, 1], [1, 0]] {
            let mut reassembly = reassembly();
            let results = order.map(|at| {
                let (tseq, fragment) = blocks[at];
                reassembly.insert(tseq, piece(0, 0, fragment, b"x"))
            });
            assert_eq!(results[1], Err(Broken::Impossible), "{before:?} {after:?} {order:?}");
        }
    }
}

#[test]
fn what_contradicts_a_message_that_is_complete_is_impossible() {
    let mut reassembly = reassembly();
    let late = piece(0, 0, Fragment::Last, b"x");
    assert_eq!(reassembly.insert(FIRST, late), Err(Broken::Impossible), "the initial TSEQ begins a message");
    assert!(reassembly.insert(FIRST + 5, piece(0, 0, Fragment::Whole, b"x")).unwrap().is_some());
    for (tseq, fragment) in [(FIRST + 4, Fragment::First), (FIRST + 6, Fragment::Middle)] {
        assert_eq!(reassembly.insert(tseq, piece(0, 1, fragment, b"x")), Err(Broken::Impossible));
    }
    assert_eq!(reassembly.held(), 0);
}

#[test]
fn two_messages_never_mix() {
    let other_stream = piece(1, 0, Fragment::Last, b"b");
    let other_number = piece(0, 1, Fragment::Last, b"b");
    let unordered = Piece { unordered: true, ..piece(0, 0, Fragment::Last, b"b") };
    for other in [other_stream, other_number, unordered] {
        let mut reassembly = reassembly();
        assert_eq!(reassembly.insert(FIRST, piece(0, 0, Fragment::First, b"a")), Ok(None));
        assert_eq!(reassembly.insert(FIRST + 1, other), Err(Broken::Impossible));
        let whole = reassembly.insert(FIRST + 1, piece(0, 0, Fragment::Last, b"b")).unwrap().unwrap();
        assert_eq!((&whole.data[..], whole.sseq), (&b"ab"[..], Some(Sseq(0))));
    }
}

// spec 3.33
#[test]
fn the_sseq_of_unordered_fragments_is_ignored() {
    let mut reassembly = reassembly();
    let [first, last] = [(3, Fragment::First), (9, Fragment::Last)].map(|(sseq, fragment)| Piece {
        unordered: true,
        protocol: sseq.into(),
        ..piece(0, sseq, fragment, b"x")
    });
    assert_eq!(reassembly.insert(FIRST + 1, last), Ok(None));
    let whole = reassembly.insert(FIRST, first).unwrap().unwrap();
    assert_eq!(
        (whole.sseq, whole.protocol, whole.data.len()),
        (None, 3, 2),
        "the protocol is that of the first one"
    );
}

// spec 3.140
#[test]
fn a_message_above_the_limit_is_refused_before_it_is_complete() {
    let half = vec![0; usize::try_from(MOST / 2).unwrap()];
    let mut reassembly = reassembly();
    assert_eq!(reassembly.insert(FIRST, piece(0, 0, Fragment::First, &half)), Ok(None));
    assert_eq!(reassembly.insert(FIRST + 1, piece(0, 0, Fragment::Middle, &half)), Ok(None));
    assert_eq!(reassembly.insert(FIRST + 2, piece(0, 0, Fragment::Middle, b"x")), Err(Broken::TooLarge));
    let whole = reassembly.insert(FIRST + 2, piece(0, 0, Fragment::Last, b"")).unwrap().unwrap();
    assert_eq!(whole.data.len() as u64, MOST);
}
