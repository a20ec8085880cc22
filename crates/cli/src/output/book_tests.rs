//! Paths that come, go and return.

use manyway::Carrier;
use manyway_terminal::Colour;

use super::*;
use crate::output::fits::assert_fits;

const SECOND: Duration = Duration::from_secs(1);

impl Observed {
    /// A path of this interface that sent so many bytes.
    pub(crate) fn example(id: u32, name: &str, state: PathState, bytes: u64) -> Self {
        let packets = Some(Packets { sent: bytes / 1000, lost: bytes / 100_000 });
        let counts = Counts { sent: bytes, received: bytes / 100, packets };
        Self {
            name: name.to_owned(),
            label: PathLabel {
                id: PathId(id),
                interface: Some(name.to_owned()),
                local: "10.0.0.2".parse().unwrap(),
                remote: "192.0.2.1:4455".parse().unwrap(),
                carrier: Carrier::Udp,
            },
            state,
            rtt: Some(Duration::from_micros(15_300)),
            counts,
            why: None,
        }
    }
}

fn path(id: u32, name: &str, state: PathState, bytes: u64) -> Observed {
    Observed::example(id, name, state, bytes)
}

fn names(book: &PathBook, now: Instant) -> Vec<(String, PathState, u64)> {
    let row = |row: PathRow| (row.path.name, row.path.state, row.path.counts.sent);
    book.rows(now).into_iter().map(row).collect()
}

#[test]
fn a_closed_path_stays_and_one_that_returns_continues_its_row() {
    use PathState::{Active, Closed};
    let (mut book, now) = (PathBook::default(), Instant::now());
    book.note(1, now, [path(0, "wifi0", Active, 1000), path(1, "lte0", Active, 500)]);
    book.note(1, now + SECOND, [path(1, "lte0", Active, 900)]);
    let wifi_gone = [("wifi0".to_owned(), Closed, 1000), ("lte0".to_owned(), Active, 900)];
    assert_eq!(names(&book, now + SECOND), wifi_gone);
    book.note(1, now + 2 * SECOND, [path(1, "lte0", Active, 900), path(2, "wifi0", Active, 70)]);
    assert_eq!(names(&book, now + 2 * SECOND)[0], ("wifi0".to_owned(), Active, 1070));
    assert_eq!(book.name(1, PathId(2)).as_deref(), Some("wifi0"));
}

#[test]
fn a_second_connection_continues_the_rows_of_the_first_with_the_sums() {
    let (mut book, now) = (PathBook::default(), Instant::now());
    book.note(1, now, [path(0, "wifi0", PathState::Active, 1000)]);
    let next = book.open() + 1;
    book.close(1);
    assert_eq!(book.rows(now)[0].path.state, PathState::Closed);
    book.note(next, now, [path(0, "wifi0", PathState::Active, 300)]);
    assert_eq!(names(&book, now), [("wifi0".to_owned(), PathState::Active, 1300)]);
}

#[test]
fn a_path_that_moves_to_another_interface_opens_a_row_and_leaves_its_traffic_behind() {
    use PathState::{Active, Closed};
    let (mut book, now) = (PathBook::default(), Instant::now());
    book.note(1, now, [path(0, "wifi0", Active, 1000)]);
    book.note(1, now + SECOND, [path(0, "lte0", Active, 1700)]);
    let row = |name: &str, state, bytes| (name.to_owned(), state, bytes);
    assert_eq!(names(&book, now + SECOND), [row("wifi0", Closed, 1000), row("lte0", Active, 700)]);
    book.note(1, now + 2 * SECOND, [path(0, "wifi0", Active, 2000)]);
    let back = [row("wifi0", Active, 1300), row("lte0", Closed, 700)];
    assert_eq!(names(&book, now + 2 * SECOND), back, "back in its first row");
    assert_eq!(book.name(1, PathId(0)).as_deref(), Some("wifi0"));
}

#[test]
fn a_closed_path_says_why_and_an_open_one_keeps_its_last_reason() {
    let (mut book, now) = (PathBook::default(), Instant::now());
    let used = |id| Observed {
        why: Some("in use".to_owned()),
        ..path(id, &format!("if{id}"), PathState::Active, 1)
    };
    book.note(1, now, [used(0), used(1)]);
    book.note_state(1, PathId(0), (PathState::Closed, &PathReason::AddressGone));
    for _ in 0..2 {
        book.note(1, now, [path(1, "if1", PathState::Active, 2)]);
    }
    let whys: Vec<_> = book.rows(now).into_iter().map(|row| row.path.why.unwrap()).collect();
    assert_eq!(whys, ["one of its addresses is gone", "in use"]);
}

#[test]
fn two_paths_of_one_interface_have_rows_of_their_own() {
    let (mut book, now) = (PathBook::default(), Instant::now());
    let over = |id, carrier| {
        let mut path = path(id, "wifi0", PathState::Active, 1);
        path.label.carrier = carrier;
        path
    };
    book.note(1, now, [over(0, Carrier::Udp), over(1, Carrier::Tcp), over(2, Carrier::Tcp)]);
    let names: Vec<_> = book.rows(now).into_iter().map(|row| row.path.name).collect();
    assert_eq!(names, ["wifi0 udp", "wifi0 tcp 1", "wifi0 tcp 2"]);
    assert_eq!(book.name(1, PathId(2)).as_deref(), Some("wifi0 tcp 2"));
}

#[test]
fn a_rate_begins_with_the_first_look_and_an_idle_path_has_none() {
    let (mut book, now) = (PathBook::default(), Instant::now());
    book.note(1, now, [path(0, "wifi0", PathState::Active, 1 << 30), path(1, "lte0", PathState::Active, 9)]);
    assert_eq!(book.rows(now)[0].rate, None);
    let more = (1 << 30) + 1_250_000;
    book.note(
        1,
        now + SECOND,
        [path(0, "wifi0", PathState::Active, more), path(1, "lte0", PathState::Active, 9)],
    );
    let rows = book.rows(now + SECOND);
    assert_eq!(rows[0].rate.map(|rate| rate.bits_per_second() / 100_000), Some(101));
    assert_eq!(rows[1].rate, None, "an idle path has no rate");
}

fn rows() -> Vec<PathRow> {
    let row = |name: &str, state, megabits: u64, bytes| PathRow {
        rate: (megabits > 0).then(|| Rate::from_bits_per_second(megabits * 1_000_000)),
        path: path(0, name, state, bytes),
    };
    let mut dead = row("sat0", PathState::Dead, 0, 1_000_000);
    dead.path.rtt = None;
    dead.path.why = Some("no answer on UDP for 12 s".to_owned());
    let mut closed = row("usb0", PathState::Closed, 0, 100_000_000);
    closed.path.rtt = None;
    closed.path.why = Some("one of its addresses is gone".to_owned());
    let mut rows = vec![
        row("wifi0", PathState::Active, 39, 176_400_000),
        row("lte0", PathState::Active, 19, 80_000_000),
        dead,
        closed,
    ];
    for row in &mut rows[..2] {
        row.path.why = Some("in use".to_owned());
    }
    rows
}

#[test]
fn no_table_of_paths_over_ipv6_is_wider_than_its_terminal() {
    let (mut book, now) = (PathBook::default(), Instant::now());
    let paths = (0..3).map(|id| {
        let name = if id == 2 { "2001:db8:1234:5678:9abc:def0:1234:5678" } else { "enx00e04c680001" };
        let mut path = path(id, name, PathState::Validating, 1_000_000_000);
        path.label.interface = None;
        path.label.local = format!("2001:db8:1234:5678:9abc:def0:1234:567{id}").parse().unwrap();
        path
    });
    book.note(1, now, paths);
    for width in [60, 80, 120] {
        let rows = book.rows(now);
        for table in [live_table(&rows), final_table(&rows)] {
            assert_fits(&table.text(width, Colour::Without), width);
        }
    }
}

#[test]
fn the_table_of_a_running_transfer_fits_every_terminal() {
    for width in [80, 120] {
        insta::assert_snapshot!(
            format!("live_table_{width}"),
            live_table(&rows()).text(width, Colour::Without)
        );
    }
}

#[test]
fn the_table_at_the_end_has_every_path_that_carried_anything() {
    for width in [80, 120] {
        insta::assert_snapshot!(
            format!("final_table_{width}"),
            final_table(&rows()).text(width, Colour::Without)
        );
    }
}
