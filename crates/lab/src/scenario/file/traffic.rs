//! The traffic of a scenario.

use std::time::Duration;

use manyway_proto::{ByteCount, Rate};

use super::source::{Table, Value};
use crate::LabError;
use crate::scenario::{Direction, Traffic};

/// Words for directions.
pub(super) const DIRECTIONS: [(&str, Direction); 3] =
    [("up", Direction::Up), ("down", Direction::Down), ("both", Direction::Both)];

const MOST: usize = 32;

const FIELDS: [&str; 14] = [
    "bulk",
    "messages",
    "by",
    "size",
    "rate",
    "chunk",
    "interval",
    "lifetime",
    "count",
    "route",
    "at",
    "for",
    "direction",
    "packet",
];

/// The entries of the traffic: what the contenders send, or what others send, who are named by `by`.
pub(super) fn entries<'a>(top: &Table<'a>, of_others: bool) -> Result<Vec<Table<'a>>, LabError> {
    let Some(list) = top.get("traffic") else { return Ok(Vec::new()) };
    let values = list.list()?;
    if values.is_empty() {
        return Err(list.error(format_args!("no entry; from 1 to {MOST}")));
    }
    let tables = values.iter().map(|value| value.table(&FIELDS)).collect::<Result<Vec<_>, _>>()?;
    let entries: Vec<_> = tables.into_iter().filter(|table| table.get("by").is_some() == of_others).collect();
    if entries.len() > MOST {
        return Err(list.error(format_args!("{} entries of a kind; at most {MOST}", entries.len())));
    }
    Ok(entries)
}

/// Refuses fields that mean nothing for an entry.
pub(super) fn check_fields(table: &Table<'_>, what: &str, fields: &[&str]) -> Result<(), LabError> {
    match FIELDS.iter().filter(|field| !fields.contains(field)).find_map(|field| table.get(field)) {
        Some(value) => Err(value.error(format_args!("this means nothing for {what}"))),
        None => Ok(()),
    }
}

/// Reads what contenders send; the default is unlimited bulk upwards.
pub(super) fn read(top: &Table<'_>) -> Result<Vec<Traffic>, LabError> {
    let entries = entries(top, false)?;
    if entries.is_empty() {
        return Ok(vec![Traffic::Bulk { direction: Direction::Up, size: None, rate: None, chunk: None }]);
    }
    entries.iter().map(entry).collect()
}

fn entry(table: &Table<'_>) -> Result<Traffic, LabError> {
    table.not_both("bulk", "messages")?;
    if let Some(bulk) = table.get("bulk") {
        check_fields(table, "bulk", &["bulk", "size", "rate", "chunk"])?;
        let rate = table.read("rate", rate)?;
        return Ok(Traffic::Bulk {
            direction: bulk.word(&DIRECTIONS)?,
            size: table.read("size", |value| value.size(1))?,
            rate,
            chunk: table.read("chunk", chunk)?,
        });
    }
    let Some(messages) = table.get("messages") else {
        let choices = "bulk = \"up\", messages = \"up\", or by = \"tcp-cubic\" for traffic of others";
        return Err(table.error(format_args!("say what is sent: {choices}")));
    };
    check_fields(table, "messages", &["messages", "size", "interval", "lifetime"])?;
    let size = table.need("size")?;
    let bytes = size.size(16)?;
    if bytes.get() > LARGEST_MESSAGE {
        return Err(size.error("a message has at most 64 KiB"));
    }
    let interval = table.need("interval")?.time(Duration::from_micros(100)..=Duration::from_secs(60))?;
    let lifetime =
        table.read("lifetime", |value| value.time(Duration::from_millis(1)..=Duration::from_secs(60)))?;
    Ok(Traffic::Messages { direction: messages.word(&DIRECTIONS)?, size: bytes, interval, lifetime })
}

/// A rate at which something is sent.
pub(super) fn rate(value: &Value<'_>) -> Result<Rate, LabError> {
    let rate = value.rate()?;
    if rate.bytes_per_second() == 0 {
        return Err(value.error("nothing would be sent"));
    }
    Ok(rate)
}

/// The size of the application's writes.
fn chunk(value: &Value<'_>) -> Result<ByteCount, LabError> {
    let size = value.size(1)?;
    if size.get() > LARGEST_CHUNK {
        return Err(value.error("an application hands over at most 64 KiB at a time here"));
    }
    Ok(size)
}

/// Less than the default limit of both ends.
const LARGEST_MESSAGE: u64 = 64 << 10;

/// The minimum default of both runners for one write.
const LARGEST_CHUNK: u64 = 64 << 10;
