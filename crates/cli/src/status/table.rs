//! Running commands for people.

use manyway::Rate;
use manyway_terminal::{shortened, text_width, wrap_strictly};

use super::document::{Document, FilesDocument, PathDocument, PeerDocument};
use crate::output::book::LEGEND;
use crate::output::grid::{Cell, Grid};
use crate::output::names::{Traits, distinct, host_of};
use crate::output::tint::{Line, Tint};
use crate::output::units::{megabits, percent, size};

/// Every command with its peers and paths, for a terminal of that width. Rates are those of the last two seconds, with
/// headers and retransmissions; those of the paths add up to those of their peer.
pub fn lines(documents: &[Document], width: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    for document in documents {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.extend(command(document, width));
    }
    if documents.iter().any(|document| !document.peers.is_empty()) {
        lines.push(Line::new(LEGEND, Tint::Faint));
    }
    lines
}

fn command(document: &Document, width: usize) -> Vec<Line> {
    let Document { pid, verb, seconds, files, peers, .. } = document;
    let mut head = Line::new(format!("{verb} {pid}"), Tint::Strong);
    head.push(format!("  running {}", span(*seconds)), Tint::Plain);
    if peers.len() != 1 {
        head.push(format!("  {} connections", peers.len()), Tint::Plain);
    }
    let mut lines = vec![head];
    lines.extend(files.iter().flat_map(|files| wrapped("  ", &files_text(files), width)));
    for peer in peers {
        lines.extend(peer_lines(peer, width));
    }
    lines
}

fn peer_lines(peer: &PeerDocument, width: usize) -> Vec<Line> {
    let first = peer.paths.first().map(|path| path.remote.clone()).unwrap_or_default();
    let mut head = Line::from("  ");
    let name = shortened(peer.name.clone().unwrap_or(first), width.saturating_sub(2));
    let length = text_width(&name);
    head.push(name, Tint::Strong);
    let rate = |rate: Option<u64>| rate.map_or_else(|| "-".to_owned(), mbit);
    let (sent, received) = (rate(peer.sent_bits_per_second), rate(peer.received_bits_per_second));
    let facts = format!("connected {}  out {sent}, in {received} Mbit/s", span(peer.seconds));
    let mut lines = Vec::new();
    if 2 + length + 2 + text_width(&facts) <= width {
        head.push(format!("  {facts}"), Tint::Plain);
        lines.push(head);
    } else {
        lines.push(head);
        lines.extend(wrapped(INDENT, &facts, width));
    }
    lines.extend(peer.files.iter().flat_map(|files| wrapped(INDENT, &files_text(files), width)));
    let table = paths(&peer.paths).lines(width.saturating_sub(INDENT.len()));
    lines.extend(table.into_iter().map(|line| {
        let mut indented = Line::from(INDENT);
        indented.pieces.extend(line.pieces);
        indented
    }));
    lines
}

fn paths(paths: &[PathDocument]) -> Grid {
    let mut grid = Grid::new()
        .words("path")
        .words("state")
        .numbers("rtt ms")
        .numbers("loss")
        .numbers("out Mbit/s")
        .numbers("in Mbit/s")
        .numbers("share")
        .spare_numbers("sent")
        .spare_numbers("received")
        .spare_words("local")
        .spare_words("remote");
    if paths.iter().any(|path| path.why.is_some()) {
        grid = grid.remark("why");
    }
    let both = |path: &PathDocument| {
        let rates = [path.sent_bits_per_second, path.received_bits_per_second].into_iter().flatten();
        rates.filter(|rate| *rate >= IDLE).reduce(u64::saturating_add)
    };
    let all = paths.iter().filter_map(both).sum();
    let names = distinct(&paths.iter().map(traits).collect::<Vec<_>>());
    for (path, name) in paths.iter().zip(names) {
        // Less than this are probes of the transport, which round to zero.
        let rate = |rate: Option<u64>| Cell::or_none(rate.filter(|rate| *rate >= IDLE).map(mbit));
        grid.row([
            Cell::from(name),
            Cell::new(path.state.clone(), tint(&path.state)),
            Cell::or_none(path.rtt.map(|rtt| format!("{:.1}", rtt * 1e3))),
            Cell::or_none(path.loss.map(|loss| format!("{:.1} %", loss * 100.0))),
            rate(path.sent_bits_per_second),
            rate(path.received_bits_per_second),
            Cell::or_none(both(path).map(|rate| percent(rate, all))),
            Cell::from(size(path.bytes_sent)),
            Cell::from(size(path.bytes_received)),
            Cell::from(path.local.clone()),
            Cell::from(path.remote.clone()),
            Cell::from(path.why.clone().unwrap_or_default()),
        ]);
    }
    grid
}

fn wrapped(indent: &str, text: &str, width: usize) -> Vec<Line> {
    let lines = wrap_strictly(text, width.saturating_sub(indent.len())).into_iter();
    lines.map(|line| Line::from(format!("{indent}{line}").as_str())).collect()
}

fn traits(path: &PathDocument) -> Traits {
    let remote = host_of(&path.remote).to_owned();
    let base = path.interface.clone().unwrap_or_else(|| remote.clone());
    Traits { base, carrier: path.carrier.clone(), local: path.local.clone(), remote }
}

fn tint(state: &str) -> Tint {
    let known = manyway::PathState::ALL.into_iter().find(|known| known.word() == state);
    known.map_or(Tint::Plain, Tint::of_state)
}

fn files_text(files: &FilesDocument) -> String {
    let FilesDocument { files: all, files_done, failed, bytes, bytes_done, current } = files;
    let failed = if *failed > 0 { format!(", {failed} failed") } else { String::new() };
    let current = current.as_ref().map(|name| format!("; now {name}")).unwrap_or_default();
    let (done, whole) = (size(*bytes_done.min(bytes)), size(*bytes));
    format!("{files_done} of {all} files{failed}, {done} of {whole}{current}")
}

fn mbit(bits_per_second: u64) -> String {
    megabits(Rate::from_bits_per_second(bits_per_second))
}

/// A duration.
fn span(seconds: f64) -> String {
    let seconds = std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default().as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} m {:02} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {:02} m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// Less than this, in bits a second, rounds to zero.
const IDLE: u64 = 5_000;
const INDENT: &str = "    ";

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
