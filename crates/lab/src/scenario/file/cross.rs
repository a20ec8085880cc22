//! The traffic of others.

use std::time::Duration;

use manyway_sim::CrossKind;

use super::source::{Table, Time, Value, listed};
use super::traffic::{check_fields, entries, rate};
use crate::LabError;
use crate::scenario::{CrossTraffic, Direction, Route, Scenario, Traffic};

/// Most flows of an entry, and of all.
const MOST: u32 = 100;
/// The smallest packet: TCP needs room for its headers.
const SMALLEST: u16 = 200;

#[derive(Debug, Clone, Copy)]
enum By {
    Cubic,
    Reno,
    Udp,
}

const WORDS: [(&str, By); 3] = [("tcp-cubic", By::Cubic), ("tcp-reno", By::Reno), ("udp", By::Udp)];
const DIRECTIONS: [(&str, Direction); 2] = [("up", Direction::Up), ("down", Direction::Down)];
const FIELDS: [&str; 8] = ["by", "count", "route", "at", "for", "direction", "packet", "rate"];

/// Reads all entries.
pub(super) fn read(top: &Table<'_>, scenario: &Scenario) -> Result<Vec<CrossTraffic>, LabError> {
    let entries = entries(top, true)?;
    if let (Some(damage), false) = (top.get("damage"), entries.is_empty()) {
        let reason =
            "first transmissions of others would be damaged, too: leave out this or traffic with \"by\"";
        return Err(damage.error(reason));
    }
    let mut flows = 0;
    let mut traffic = Vec::new();
    for table in &entries {
        let entry = entry(table, scenario)?;
        flows += entry.count;
        if flows > MOST {
            return Err(table.error(format_args!("{flows} flows of others in all; at most {MOST}")));
        }
        traffic.push(entry);
    }
    Ok(traffic)
}

fn entry(table: &Table<'_>, scenario: &Scenario) -> Result<CrossTraffic, LabError> {
    check_fields(table, "traffic of others", &FIELDS)?;
    let kind = match table.need("by")?.word(&WORDS)? {
        By::Udp => CrossKind::Udp(rate(&table.need("rate")?)?),
        By::Cubic | By::Reno if table.get("rate").is_some() => {
            let rate = table.need("rate")?;
            return Err(
                rate.error("TCP sends what its congestion control allows; a rate is for by = \"udp\"")
            );
        }
        By::Cubic => CrossKind::Cubic,
        By::Reno => CrossKind::Reno,
    };
    let (route, found) = route(table, scenario)?;
    let (at, lasts) = times(table, scenario)?;
    let own = match scenario.traffic.first().map(Traffic::direction) {
        Some(Direction::Down) => Direction::Down,
        Some(Direction::Up | Direction::Both) | None => Direction::Up,
    };
    let most = mtu(scenario, found);
    Ok(CrossTraffic {
        kind,
        count: table.read("count", |value| value.integer(1..=MOST))?.unwrap_or(1),
        route,
        at,
        lasts,
        direction: table.read("direction", |value| value.word(&DIRECTIONS))?.unwrap_or(own),
        packet: table.read("packet", |value| value.integer(SMALLEST..=most))?.unwrap_or(most),
    })
}

/// The route by its name; the only one, if there is one.
fn route<'a>(table: &Table<'_>, scenario: &'a Scenario) -> Result<(usize, &'a Route), LabError> {
    let names = || listed(scenario.all_routes().map(|route| route.name.as_str()));
    let mut routes = scenario.all_routes().enumerate();
    let Some(value) = table.get("route") else {
        return match (routes.next(), routes.next()) {
            (Some(only), None) => Ok(only),
            (Some(_), Some(_)) | (None, _) => {
                Err(table.error(format_args!("say which route it takes: {}", names())))
            }
        };
    };
    let name = value.text()?;
    routes
        .find(|(_, route)| route.name == name)
        .ok_or_else(|| value.error(format_args!("{name:?} is none of the routes: {}", names())))
}

/// When it begins, and how long it lasts, if not until the end.
fn times(table: &Table<'_>, scenario: &Scenario) -> Result<(Duration, Option<Duration>), LabError> {
    let end = scenario.limit();
    let over = |value: &Value<'_>, at: Duration| {
        let (at, end) = (Time(at), Time(end));
        Err(value.error(format_args!("at {at} the scenario is over: it ends after {end}")))
    };
    let at = table.read("at", |value| value.time(Duration::ZERO..=Duration::MAX))?.unwrap_or_default();
    if let Some(value) = table.get("at").filter(|_| at >= end) {
        return over(&value, at);
    }
    let times = Duration::from_millis(1)..=Duration::from_secs(3600);
    let lasts = table.read("for", |value| value.time(times))?;
    match (table.get("for"), lasts) {
        (Some(value), Some(lasts)) if at.saturating_add(lasts) > end => {
            over(&value, at.saturating_add(lasts))
        }
        _ => Ok((at, lasts)),
    }
}

/// The largest packet that passes a route both ways.
fn mtu(scenario: &Scenario, route: &Route) -> u16 {
    let links = route.links.iter().filter_map(|place| scenario.links.get(*place));
    let client = scenario.client.get(route.client).map(|interface| interface.mtu);
    let server = scenario.server.get(route.server).map(|interface| interface.mtu);
    links.flat_map(|link| [link.up.mtu, link.down.mtu]).chain(client).chain(server).min().unwrap_or(u16::MAX)
}
