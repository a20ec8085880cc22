//! The sections of links.

use manyway_sim::link::{DelayModel, LinkConfig};

use super::Files;
use super::properties::{self, Properties};
use super::source::{Table, Value};
use crate::LabError;
use crate::scenario::{Checksum, Link};

/// A link as written in its section, before its routes are known.
#[derive(Debug)]
pub(super) struct Written<'a> {
    /// Its name.
    pub(super) name: &'a str,
    pub(super) value: Value<'a>,
    /// The interfaces at its ends, if the section names them.
    pub(super) client: Option<Value<'a>>,
    pub(super) server: Option<Value<'a>>,
    /// The link; its MTU is 0 if the section names none.
    pub(super) link: Link,
}

/// Its fields beside properties.
const FIELDS: [&str; 5] = ["checksum", "up", "down", "client", "server"];

/// Reads all links, in the order of the file.
pub(super) fn read<'a>(top: &Table<'a>, files: Files<'_>) -> Result<Vec<Written<'a>>, LabError> {
    let links = top.need("links")?;
    let named = links.named()?;
    if named.is_empty() || named.len() > MOST_LINKS {
        return Err(links.error(format_args!("{} links; from 1 to {MOST_LINKS}", named.len())));
    }
    named.into_iter().map(|(name, value)| link(name, value, files)).collect()
}

fn link<'a>(name: &'a str, value: Value<'a>, files: Files<'_>) -> Result<Written<'a>, LabError> {
    let table = value.table(&[&properties::FIELDS[..], &FIELDS].concat())?;
    let mut common = LinkConfig::default().with_overhead(0).with_mtu(0);
    Properties::read(&table, DelayModel::default(), files)?.write(&mut common);
    let way = |field: &str| -> Result<LinkConfig, LabError> {
        let mut config = common.clone();
        if let Some(value) = table.get(field) {
            let part = value.table(&properties::FIELDS)?;
            if let Some(rtt) = part.get("rtt") {
                return Err(rtt.error("one direction has a delay"));
            }
            Properties::read(&part, common.delay, files)?.write(&mut config);
        }
        Ok(config)
    };
    let (up, down) = (way("up")?, way("down")?);
    let words = [("stale", Checksum::Stale), ("repaired", Checksum::Repaired)];
    let checksum = table.read("checksum", |value| value.word(&words))?.unwrap_or_default();
    let link = Link { name: name.to_owned(), up, down, checksum };
    Ok(Written { name, client: table.get("client"), server: table.get("server"), link, value })
}

const MOST_LINKS: usize = 256;
