//! Checks free space before a file is written, and frees space when the disk is full.

use super::kept::Kept;
use super::reception::Reception;
use crate::directory::Room;
use crate::entry::{Entry, EntryKind};
use crate::failure::{Failure, Reason};
use crate::name::{part_name, printable};

/// Refuses a file that does not fit into the free space, unless it is so small that finding out costs no less than
/// writing it.
// transfer 5.12
pub(super) fn check(reception: &Reception, entry: &Entry, kept: &Kept) -> Result<(), Failure> {
    if entry.room <= SMALL {
        return Ok(());
    }
    // A file system that does not report its space fails when it is full.
    let Ok(room) = reception.directory.room(&entry.path) else { return Ok(()) };
    let there = match kept {
        Kept::Part { identity, .. } => identity.size().min(entry.size),
        Kept::Whole { .. } => return Ok(()),
        Kept::Nothing => 0,
    };
    let needed = entry.room.saturating_sub(there);
    // Some file systems hold no data, and fail at the first write.
    if needed == 0 || room.total == 0 || needed.saturating_add(margin(room).min(needed)) <= room.free {
        return Ok(());
    }
    Err(full(reception, entry, there))
}

/// How much of an unfinished file stays on a full disk: all but what leaves space for others, and nothing if the file
/// can never fit.
// transfer 5.17
pub(super) fn kept_when_full(reception: &Reception, entry: &Entry, position: u64) -> u64 {
    let Ok(room) = reception.directory.room(&entry.path) else { return position };
    if entry.room > room.total || entry.kind == EntryKind::Stream {
        return 0;
    }
    let given_back = margin(room).saturating_mul(2).saturating_sub(room.free);
    position.saturating_sub(given_back)
}

/// The error with the missing space and what occupies it.
pub(super) fn full(reception: &Reception, entry: &Entry, there: u64) -> Failure {
    let directory = &reception.directory;
    let Ok(room) = directory.room(&entry.path) else { return Failure::new(Reason::DiskFull) };
    let mut text = match entry.room.saturating_sub(there) {
        0 => format!("{} are free", size(room.free)),
        needed => format!("it needs {} more, {} are free", size(needed), size(room.free)),
    };
    let mut in_the_way = Vec::new();
    if there > 0 {
        in_the_way.push((part_name(entry.path.last()), there));
    }
    in_the_way.extend(directory.largest_part(&entry.path).filter(|(_, bytes)| *bytes > 0));
    if let Some((name, bytes)) = in_the_way.iter().max_by_key(|(_, bytes)| *bytes) {
        text += &format!(
            "; the unfinished {} there takes {}: remove it if it is not needed",
            printable(name),
            size(*bytes)
        );
    }
    Failure::with_text(Reason::DiskFull, text)
}

/// A size for people.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let step = (0..UNITS.len() - 1).find(|step| bytes >> (10 * step) < 1024).unwrap_or(UNITS.len() - 1);
    let unit = UNITS.get(step).copied().unwrap_or_default();
    if step == 0 {
        return format!("{bytes} {unit}");
    }
    let tenths = (u128::from(bytes) * 10) >> (10 * step);
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

/// Space that stays free: for names, for other writers, for the file system itself.
fn margin(room: Room) -> u64 {
    (room.total / 100).clamp(LEAST_MARGIN, MOST_MARGIN)
}

/// Bytes of a file for which the file system is not asked.
const SMALL: u64 = 64 << 10;
const LEAST_MARGIN: u64 = 256 << 10;
const MOST_MARGIN: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_are_short() {
        let sizes = [0, 1023, 1024, 1536, 5 << 20, (3 << 30) + (1 << 29), u64::MAX].map(size);
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "5.0 MiB", "3.5 GiB", "16383.9 PiB"]);
    }
}
