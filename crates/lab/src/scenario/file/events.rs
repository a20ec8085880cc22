//! The events of a scenario.

use std::time::Duration;

use super::Files;
use super::interfaces::address;
use super::properties::{self, Properties};
use super::source::{Table, Time, Value, listed};
use super::traffic::DIRECTIONS;
use crate::LabError;
use crate::scenario::{Change, Direction, Event, Interface, Scenario, Side};

const MOST: usize = 10_000;

pub(super) const KINDS: [&str; 7] = ["cut", "restore", "set", "down", "up", "address", "rebind"];

/// The fields of an event.
pub(super) fn fields() -> Vec<&'static str> {
    [&OWN_FIELDS[..], &properties::FIELDS].concat()
}

/// Those beside properties.
const OWN_FIELDS: [&str; 12] =
    ["at", "cut", "restore", "set", "down", "up", "address", "rebind", "for", "repeat", "direction", "to"];

/// Reads all events in the order of time; of those at the same time, in the order of the file.
pub(super) fn read(top: &Table<'_>, scenario: &Scenario, files: Files<'_>) -> Result<Vec<Event>, LabError> {
    let mut events = Vec::new();
    for value in top.read("events", Value::list)?.unwrap_or_default() {
        let table = value.table(&fields())?;
        let times = moments(&table, scenario.limit())?;
        if events.len() + times.len() > MOST {
            return Err(value.error(format_args!("more than {MOST} events")));
        }
        let (changes, ends) = changes(&table, scenario, files)?;
        for (at, end) in times {
            events.extend(changes.iter().map(|change| Event { at, change: change.clone() }));
            let end = end.zip(ends.clone());
            events.extend(end.map(|(at, change)| Event { at, change }));
        }
    }
    events.sort_by_key(|event| event.at);
    Ok(events)
}

/// Its time, and its end, if it has a duration.
fn moments(table: &Table<'_>, limit: Duration) -> Result<Vec<(Duration, Option<Duration>)>, LabError> {
    let at = table.need("at")?;
    let first = at.time(Duration::ZERO..=Duration::MAX)?;
    let times = Duration::from_millis(1)..=Duration::from_secs(3600);
    let lasts = table.read("for", |value| value.time(times.clone()))?;
    let (every, count) = match table.get("repeat") {
        None => (Duration::ZERO, 1),
        Some(value) => {
            let repeat = value.table(&["every", "times"])?;
            let every = repeat.need("every")?.time(times)?;
            if lasts.is_some_and(|lasts| lasts >= every) {
                return Err(value.error("it happens again before it is over"));
            }
            (every, repeat.need("times")?.integer(1..=10_000_u32)?)
        }
    };
    let start = |number: u32| first.saturating_add(every.saturating_mul(number));
    let last = start(count - 1).saturating_add(lasts.unwrap_or_default());
    if last >= limit {
        let end = Time(limit);
        return Err(at.error(format_args!("at {} the scenario is over: it ends after {end}", Time(last))));
    }
    Ok((0..count).map(start).map(|at| (at, lasts.map(|lasts| at + lasts))).collect())
}

/// The change, and the one that ends it.
pub(super) fn changes(
    table: &Table<'_>,
    scenario: &Scenario,
    files: Files<'_>,
) -> Result<(Vec<Change>, Option<Change>), LabError> {
    let mut kinds = KINDS.iter().filter_map(|kind| Some((*kind, table.get(kind)?)));
    let Some((kind, value)) = kinds.next() else {
        return Err(table.error(format_args!("say what happens: {}", listed(KINDS.into_iter()))));
    };
    if let Some((second, value)) = kinds.next() {
        return Err(value.error(format_args!("an event does one thing, not {kind} and {second}")));
    }
    check_fields(table, kind)?;
    let direction = table.read("direction", |value| value.word(&DIRECTIONS))?.unwrap_or(Direction::Both);
    let one = |change| Ok((vec![change], None));
    match kind {
        "cut" => {
            let link = link(&value, scenario)?;
            Ok((vec![Change::Cut { link, direction }], Some(Change::Restore { link, direction })))
        }
        "restore" => one(Change::Restore { link: link(&value, scenario)?, direction }),
        "set" => Ok((set(table, (link(&value, scenario)?, direction), scenario, files)?, None)),
        "down" => {
            let (side, interface) = interface(&value, scenario)?;
            let up = Change::InterfaceUp { side, interface };
            Ok((vec![Change::InterfaceDown { side, interface }], Some(up)))
        }
        "up" => {
            let (side, interface) = interface(&value, scenario)?;
            one(Change::InterfaceUp { side, interface })
        }
        "address" => {
            let (side, interface) = interface(&value, scenario)?;
            one(Change::Readdress { side, interface, address: new_address(&table.need("to")?, scenario)? })
        }
        _ => {
            let (side, interface) = interface(&value, scenario)?;
            let has_nat = interfaces(scenario, side).get(interface).is_some_and(|found| found.nat.is_some());
            if !has_nat {
                return Err(value.error("there is no translator before this interface"));
            }
            one(Change::Rebind { side, interface })
        }
    }
}

/// Refuses fields that do not apply to this kind of event.
fn check_fields(table: &Table<'_>, kind: &str) -> Result<(), LabError> {
    for field in fields() {
        let fits = match field {
            "at" | "repeat" => true,
            "for" => matches!(kind, "cut" | "down"),
            "direction" => matches!(kind, "cut" | "restore" | "set"),
            "to" => kind == "address",
            property if properties::FIELDS.contains(&property) => kind == "set",
            other => other == kind,
        };
        if let Some(value) = table.get(field).filter(|_| !fits) {
            return Err(value.error(format_args!("this means nothing for {kind}")));
        }
    }
    Ok(())
}

/// The new properties; of delay and jitter, the one that is not named stays as the link had it at the start.
fn set(
    table: &Table<'_>,
    (link, direction): (usize, Direction),
    scenario: &Scenario,
    files: Files<'_>,
) -> Result<Vec<Change>, LabError> {
    let Some(found) = scenario.links.get(link) else { return Ok(Vec::new()) };
    let read = |base| Properties::read(table, base, files).map(Properties::settings);
    let (up, down) = (read(found.up.delay)?, read(found.down.delay)?);
    if up.is_empty() {
        return Err(table.error(format_args!("say what is set: {}", listed(properties::FIELDS.into_iter()))));
    }
    let change = |direction| move |setting| Change::Set { link, direction, setting };
    Ok(match direction {
        Direction::Both if up == down => up.into_iter().map(change(Direction::Both)).collect(),
        Direction::Both => up
            .into_iter()
            .map(change(Direction::Up))
            .chain(down.into_iter().map(change(Direction::Down)))
            .collect(),
        Direction::Up => up.into_iter().map(change(Direction::Up)).collect(),
        Direction::Down => down.into_iter().map(change(Direction::Down)).collect(),
    })
}

fn link(value: &Value<'_>, scenario: &Scenario) -> Result<usize, LabError> {
    let name = value.text()?;
    scenario.links.iter().position(|link| link.name == name).ok_or_else(|| {
        let there = listed(scenario.links.iter().map(|link| link.name.as_str()));
        value.error(format_args!("{name:?} is none of the links: {there}"))
    })
}

/// An interface of the client by its name, one of the server by `server.` and its name.
fn interface(value: &Value<'_>, scenario: &Scenario) -> Result<(Side, usize), LabError> {
    let text = value.text()?;
    let (side, name) = match text.split_once('.') {
        Some(("server", name)) => (Side::Server, name),
        Some(("client", name)) => (Side::Client, name),
        Some(_) | None => (Side::Client, text),
    };
    let place = interfaces(scenario, side).iter().position(|interface| interface.name == name);
    place.map(|place| (side, place)).ok_or_else(|| {
        let client = scenario.client.iter().map(|interface| interface.name.clone());
        let server = scenario.server.iter().map(|interface| format!("server.{}", interface.name));
        let there = client.chain(server).collect::<Vec<_>>().join(", ");
        value.error(format_args!("{text:?} is none of the interfaces: {there}"))
    })
}

fn interfaces(scenario: &Scenario, side: Side) -> &[Interface] {
    match side {
        Side::Client => &scenario.client,
        Side::Server => &scenario.server,
    }
}

/// An unused address.
fn new_address(value: &Value<'_>, scenario: &Scenario) -> Result<std::net::IpAddr, LabError> {
    let address = address(value)?;
    let mut interfaces = scenario.client.iter().chain(&scenario.server);
    let is_taken = interfaces.any(|interface| {
        interface.addresses.contains(&address) || interface.nat.is_some_and(|nat| nat.outer == address)
    });
    if is_taken {
        return Err(value.error(format_args!("{address} is in use")));
    }
    Ok(address)
}
