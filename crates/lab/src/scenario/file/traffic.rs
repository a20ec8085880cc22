//! The traffic of a scenario.

use std::time::Duration;

use manyway_proto::ByteCount;

use super::source::{Table, Value};
use crate::LabError;
use crate::scenario::{Direction, Traffic};

/// Words for directions.
pub(super) const DIRECTIONS: [(&str, Direction); 3] =
    [("up", Direction::Up), ("down", Direction::Down), ("both", Direction::Both)];

const MOST: usize = 32;

/// Reads all traffic; the default is unlimited bulk upwards.
pub(super) fn read(top: &Table<'_>) -> Result<Vec<Traffic>, LabError> {
    let Some(list) = top.get("traffic") else {
        return Ok(vec![Traffic::Bulk { direction: Direction::Up, size: None, rate: None, chunk: None }]);
    };
    let entries = list.list()?;
    if entries.is_empty() || entries.len() > MOST {
        return Err(list.error(format_args!("{} entries; from 1 to {MOST}", entries.len())));
    }
    entries.iter().map(entry).collect()
}

fn entry(value: &Value<'_>) -> Result<Traffic, LabError> {
    let table = value.table(&["bulk", "messages", "size", "rate", "chunk", "interval", "lifetime"])?;
    table.not_both("bulk", "messages")?;
    if let Some(bulk) = table.get("bulk") {
        table.not_both("bulk", "interval")?;
        table.not_both("bulk", "lifetime")?;
        let rate = table.read("rate", Value::rate)?;
        if let Some(rate) =
            table.get("rate").filter(|_| rate.is_some_and(|rate| rate.bytes_per_second() == 0))
        {
            return Err(rate.error("nothing would be sent"));
        }
        return Ok(Traffic::Bulk {
            direction: bulk.word(&DIRECTIONS)?,
            size: table.read("size", |value| value.size(1))?,
            rate,
            chunk: table.read("chunk", chunk)?,
        });
    }
    let Some(messages) = table.get("messages") else {
        return Err(table.error("say what is sent: bulk = \"up\" or messages = \"up\""));
    };
    table.not_both("messages", "rate")?;
    table.not_both("messages", "chunk")?;
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
