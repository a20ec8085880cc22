//! What reads bytes of others, for the fuzz targets.

use std::ops::Range;

use manyway_transfer::RelativePath;

use crate::presentation::Presentations;
use crate::range::ByteRange;

/// The bytes that a field `Range` names in a file of this size: `None` if the field is ignored, `Some(None)` if there are
/// none.
pub fn range(field: &str, size: u64) -> Option<Option<Range<u64>>> {
    ByteRange::parse(field).map(|range| range.of(size))
}

/// Reads a playlist or manifest of this name; returns how many files it names, and the bytes of their names.
pub fn list(path: &RelativePath, text: &str) -> (usize, usize) {
    let mut presentations = Presentations::default();
    presentations.on_list(path, text);
    (presentations.len(), presentations.bytes())
}
