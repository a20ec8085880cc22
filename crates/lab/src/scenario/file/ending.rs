//! How a run ends, and damage to what is sent for the first time.

use std::time::Duration;

use super::source::{Table, Value};
use crate::LabError;
use crate::scenario::{Checksum, Damage, Ending, Pattern};

/// A word, or a section with the time after which a connection without a path gives up.
pub(super) fn ending(value: &Value<'_>) -> Result<Ending, LabError> {
    if !value.is_table() {
        return value.word(&[("complete", Ending::Complete), ("on-time", Ending::OnTime)]);
    }
    let table = value.table(&["no_path"])?;
    let times = Duration::from_secs(1)..=Duration::from_secs(600);
    table.need("no_path")?.time(times).map(Ending::NoPath)
}

/// Which of the first transmissions are damaged.
pub(super) fn damage(value: &Value<'_>) -> Result<Damage, LabError> {
    let table = value.table(&["share", "part", "of", "checksum"])?;
    let words = [("stale", Checksum::Stale), ("repaired", Checksum::Repaired)];
    let checksum = table.read("checksum", |value| value.word(&words))?.unwrap_or_default();
    Ok(Damage { pattern: pattern(&table)?, checksum })
}

fn pattern(table: &Table<'_>) -> Result<Pattern, LabError> {
    table.not_both("share", "part")?;
    if let Some(share) = table.read("share", Value::share)? {
        return Ok(Pattern::Share(share));
    }
    let (Some(part), Some(of)) = (table.get("part"), table.get("of")) else {
        return Err(table.error("give its share, or part and of"));
    };
    let (bytes, all) = (part.size(0)?, of.size(1)?);
    if bytes > all {
        return Err(part.error(format_args!("{bytes} is more than {all}")));
    }
    Ok(Pattern::Last { part: bytes, of: all })
}
