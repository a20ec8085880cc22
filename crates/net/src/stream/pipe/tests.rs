use super::*;

fn pipes() -> Pipes {
    let budget = Arc::new(Budget::new(&manyway_proto::StreamConfig::default()));
    Pipes::new(StreamId::new(manyway_proto::Side::Client, 0), &budget)
}

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

#[test]
fn the_driver_is_woken_once_for_many_writes() {
    let pipes = pipes();
    assert!(pipes.send().push(Bytes::from_static(b"one")));
    assert!(!pipes.send().push(Bytes::from_static(b"two")));
    assert_eq!(pipes.send().pop(), Some(Chunk::Bytes("one".into())));
    assert_eq!(pipes.send().pop(), Some(Chunk::Bytes("two".into())));
    pipes.send().set_drained();
    assert!(pipes.send().push(Bytes::from_static(b"three")));
}

#[test]
fn a_reset_reaches_the_driver_although_it_waits_for_credit() {
    let pipes = pipes();
    assert!(pipes.send().push(Bytes::from_static(b"waits for credit")));
    assert!(pipes.send().reset(7));
    assert_eq!(pipes.send().pop(), None);
    assert!(!pipes.send().reset(8));
    assert_eq!(pipes.send().ending(), Ending::Resetting(7));
}

#[test]
fn a_reset_ends_the_wait_for_delivery() {
    let pipes = pipes();
    assert!(pipes.send().poll_delivered(&context()).is_pending());
    pipes.send().reset(7);
    assert_eq!(pipes.send().poll_delivered(&context()), Poll::Ready(Err(WriteError::Reset)));
    assert_eq!(pipes.send().poll_room(&context(), Kind::Bytes), Poll::Ready(Err(WriteError::Reset)));
    assert_eq!(pipes.send().finish(), Err(WriteError::Reset));
}

#[test]
fn a_half_that_the_peer_stopped_is_over() {
    let pipes = pipes();
    pipes.send().fail(WriteError::Stopped(3));
    assert!(!pipes.is_over());
    assert_eq!(pipes.send().finish(), Err(WriteError::Stopped(3)));
    assert!(!pipes.send().push(Bytes::from_static(b"late")));
    pipes.receive().end(Ok(()));
    assert!(pipes.is_over());
}

#[test]
fn queued_data_survives_the_refusal_of_more() {
    let pipes = pipes();
    pipes.send().push(Bytes::from_static(b"before"));
    pipes.send().refuse(WriteError::Finished);
    assert_eq!(pipes.send().poll_room(&context(), Kind::Bytes), Poll::Ready(Err(WriteError::Finished)));
    assert!(!pipes.send().is_drained());
    assert_eq!(pipes.send().pop(), Some(Chunk::Bytes("before".into())));
}

#[test]
fn a_half_carries_bytes_or_messages_and_numbers_the_messages() {
    let pipes = pipes();
    let (first, wake) = pipes.send().push_message("one".into(), MessageOptions::default());
    let (second, again) = pipes.send().push_message("two".into(), MessageOptions::default());
    assert_eq!((first, wake, second, again), (MessageToken(0), true, MessageToken(1), false));
    let mismatch = pipes.send().poll_room(&context(), Kind::Bytes);
    assert_eq!(mismatch, Poll::Ready(Err(WriteError::CarriesMessages)));
    assert!(pipes.send().poll_room(&context(), Kind::Messages).is_ready());
    pipes.receive().push(Arrived::Bytes("bytes".into()));
    assert_eq!(pipes.receive().poll_message(&context()), Poll::Ready(Err(ReadError::CarriesBytes)));
    assert!(matches!(pipes.receive().poll_chunk(&context(), 9), Poll::Ready(Ok(Some(_)))));
}

#[test]
fn the_driver_is_woken_when_half_of_the_queue_is_read() {
    let pipes = pipes();
    let room = pipes.receive().room();
    let half = Bytes::from(vec![0; room / 2]);
    pipes.receive().push(Arrived::Bytes(half.clone()));
    pipes.receive().push(Arrived::Bytes(half));
    assert_eq!(pipes.receive().room(), 0);
    let mut heard = Vec::new();
    for _ in 0..4 {
        let Poll::Ready(Ok(Some((_, wake)))) = pipes.receive().poll_chunk(&context(), room / 4) else {
            panic!()
        };
        heard.push(wake);
    }
    assert_eq!(heard, [false, true, false, false]);
}

#[test]
fn a_message_that_does_not_fit_waits_for_a_reader() {
    let pipes = pipes();
    let mut pipe = pipes.receive();
    let room = pipe.room();
    assert!(!pipe.holds_back(room - MESSAGE_OVERHEAD, room));
    // Without a reader, nothing; then a reader waits, and the driver is woken once.
    assert!(pipe.holds_back(room, room));
    assert!(pipe.poll_message(&context()).is_pending());
    assert!(pipe.was_full() && !pipe.was_full());
    assert!(!pipe.holds_back(room, room));
    pipe.push(Arrived::Bytes(Bytes::from(vec![0; 100])));
    // Behind other data it waits until that is taken.
    let left = pipe.room();
    assert!(pipe.holds_back(room, left));
    assert!(matches!(pipe.poll_chunk(&context(), 100), Poll::Ready(Ok(Some((_, true))))));
}

#[test]
fn dropping_unread_bytes_returns_their_room_to_others() {
    let pipes = pipes();
    let all = pipes.receive().room();
    pipes.receive().push(Arrived::Bytes(Bytes::from(vec![0; all])));
    assert!(pipes.receive().stop());
    assert!(!pipes.receive().stop());
    assert_eq!(pipes.receive().budget.held(), 0);
    assert_eq!(pipes.receive().poll_chunk(&context(), 1), Poll::Ready(Err(ReadError::Stopped)));
}
