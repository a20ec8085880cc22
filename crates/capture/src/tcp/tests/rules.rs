//! A connection alone: what it says, and whom it wakes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use tokio::io::ReadBuf;
use tokio::time::Instant;

use super::super::connection::{Connection, Flow};
use super::super::machine::{Machine, Output};
use super::super::segment::{Control, Ends, Segment};
use super::super::sending::Sender;

fn ends() -> Ends {
    Ends { program: "198.18.0.1:40000".parse().unwrap(), destination: "192.0.2.7:80".parse().unwrap() }
}

/// An open connection, the numbers of its next segment from the program, and the windows that were told: their ends, and
/// by how many bits they are scaled.
struct Opened {
    machine: Machine,
    output: Output,
    edges: Arc<Mutex<Vec<u32>>>,
    next: u32,
    acknowledgement: u32,
}

const FIRST: u32 = 1000;

fn opened(room: usize) -> Opened {
    let first = Segment {
        sequence: FIRST,
        control: Control::Open,
        window: 60_000,
        scale: Some(7),
        ..Segment::default()
    };
    let edges: Arc<Mutex<Vec<u32>>> = Arc::default();
    let (told, scale) = (Arc::clone(&edges), Mutex::new(0));
    let first_number = Arc::new(Mutex::new(0));
    let number = Arc::clone(&first_number);
    let output = Output::new(move |packet| {
        let (_, segment) = Segment::parse(packet).unwrap();
        if let Some(bits) = segment.scale {
            (*scale.lock().unwrap(), *number.lock().unwrap()) = (bits, segment.sequence);
        } else {
            let window = u32::from(segment.window) << *scale.lock().unwrap();
            told.lock().unwrap().push(segment.acknowledgement.unwrap() + window);
        }
    });
    let mut machine = Machine::new(ends(), &first, 1500, room);
    machine.flush(&output);
    let acknowledgement = first_number.lock().unwrap().wrapping_add(1);
    let mut opened = Opened { machine, output, edges, next: FIRST + 1, acknowledgement };
    opened.take(b"");
    opened
}

impl Opened {
    fn take(&mut self, data: &[u8]) {
        let segment = Segment {
            sequence: self.next,
            acknowledgement: Some(self.acknowledgement),
            window: 60_000,
            data,
            ..Segment::default()
        };
        self.machine.handle_segment(&segment);
        self.machine.flush(&self.output);
        self.next += u32::try_from(data.len()).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_window_never_retreats_by_more_than_its_unit_and_what_it_promised_is_taken() {
    for (room, unit) in [(32 << 10, 1), (256 << 10, 4)] {
        let mut opened = opened(room);
        for length in (1..).take_while(|length| length * (length + 1) / 2 < room) {
            opened.take(&vec![7; length]);
        }
        let edges = opened.edges.lock().unwrap().clone();
        let promised = *edges.iter().max().unwrap();
        for pair in edges.windows(2) {
            assert!(pair[1] + unit > pair[0], "{pair:?} of {room}");
        }
        let left = usize::try_from(promised - opened.next).unwrap();
        opened.take(&vec![7; left]);
        let mut all = vec![0; room + 1];
        let mut buffer = ReadBuf::new(&mut all);
        let context = Context::from_waker(Waker::noop());
        while opened.machine.poll_read(&context, &mut buffer).is_ready() {}
        assert_eq!(buffer.filled().len(), usize::try_from(promised - FIRST - 1).unwrap());
    }
}

/// Uses the connection as soon as it is woken.
struct Eager {
    connection: Connection,
    woken: AtomicUsize,
}

impl Wake for Eager {
    fn wake(self: Arc<Self>) {
        let mut buffer = [0; 10];
        let context = Context::from_waker(Waker::noop());
        let _ = self.connection.poll_read(&context, &mut ReadBuf::new(&mut buffer));
        self.woken.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_woken_may_use_its_connection_at_once() {
    let Opened { machine, output, next, acknowledgement, .. } = opened(32 << 10);
    let flow = Arc::new(Flow::new(ends(), machine, Arc::new(output)));
    let eager =
        Arc::new(Eager { connection: Connection::new(Arc::clone(&flow)), woken: AtomicUsize::new(0) });
    let waker = Waker::from(Arc::clone(&eager));
    let read = || {
        let context = Context::from_waker(&waker);
        assert!(eager.connection.poll_read(&context, &mut ReadBuf::new(&mut [0; 10])).is_pending());
    };
    read();
    let data = Segment {
        sequence: next,
        acknowledgement: Some(acknowledgement),
        data: b"data",
        ..Segment::default()
    };
    flow.handle_segment(&data);
    assert_eq!(eager.woken.load(Ordering::Relaxed), 1);
    read();
    flow.reset();
    assert_eq!(eager.woken.load(Ordering::Relaxed), 2);
}

// RFC 6582, 3.2
#[tokio::test(start_paused = true)]
async fn duplicate_acknowledgements_of_what_a_timeout_repeated_tell_of_no_loss() {
    const LARGEST: u64 = 1000;
    let mut sender = Sender::new(100_000, LARGEST);
    let now = Instant::now();
    let send_all =
        |sender: &mut Sender, now| std::iter::from_fn(|| sender.next_piece(now)).collect::<Vec<_>>();
    send_all(&mut sender, now);
    sender.acknowledge(1, 1_000_000, true, now);
    sender.write(&[7; 10_000]);
    assert_eq!(send_all(&mut sender, now).len(), 10);

    let late = now + Duration::from_secs(2);
    sender.on_timeout(late);
    // Of what was lost only the first segment was missing.
    assert_eq!(send_all(&mut sender, late).len(), 1);
    sender.acknowledge(9001, 1_000_000, true, late);
    send_all(&mut sender, late);
    for _ in 0..5 {
        sender.acknowledge(9001, 1_000_000, true, late);
        assert_eq!(send_all(&mut sender, late), []);
    }
    // What is lost later is repaired at once.
    sender.acknowledge(10_001, 1_000_000, true, late);
    sender.write(&[7; 10_000]);
    let sent = send_all(&mut sender, late).len();
    assert!(sent >= 2, "{sent}");
    sender.acknowledge(11_001, 1_000_000, true, late);
    send_all(&mut sender, late);
    for _ in 0..3 {
        sender.acknowledge(11_001, 1_000_000, true, late);
    }
    assert_eq!(send_all(&mut sender, late).first().map(|piece| piece.position), Some(11_001));
}
