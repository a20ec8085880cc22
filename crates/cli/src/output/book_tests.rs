//! Paths that come, go and return.

use manyway_terminal::Colour;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

impl Observed {
    /// A path of this interface that sent so many bytes.
    pub fn example(id: u32, name: &str, state: PathState, bytes: u64) -> Self {
        let counts = Counts { sent: bytes, received: bytes / 100, packets: bytes / 1000, lost: bytes / 100_000 };
        Self {
            name: name.to_owned(),
            label: PathLabel {
                id: PathId(id),
                interface: Some(name.to_owned()),
                local: "10.0.0.2".parse().unwrap(),
                remote: "192.0.2.1:4455".parse().unwrap(),
            },
            state,
            rtt: Some(Duration::from_micros(15_300)),
            counts,
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
    assert_eq!(book.name(1, PathId(2)), Some("wifi0"));
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
fn two_paths_of_one_interface_have_rows_of_their_own() {
    let (mut book, now) = (PathBook::default(), Instant::now());
    book.note(1, now, [path(0, "wifi0", PathState::Active, 1), path(1, "wifi0", PathState::Active, 2)]);
    let names: Vec<_> = book.rows(now).into_iter().map(|row| row.path.name).collect();
    assert_eq!(names, ["wifi0 192.0.2.1:4455"; 2], "the same address in this test");
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
    let mut closed = row("usb0", PathState::Closed, 0, 100_000_000);
    closed.path.rtt = None;
    vec![
        row("wifi0", PathState::Active, 39, 176_400_000),
        row("lte0", PathState::Active, 19, 80_000_000),
        dead,
        closed,
    ]
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
