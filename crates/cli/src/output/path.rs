//! The display name of a path: interface and addresses.

use std::net::{IpAddr, SocketAddr};

use manyway::interfaces::Exclusion;
use manyway::scheduler::Purpose;
use manyway::{
    Carrier, Event, PathEvent, PathId, PathInfo, PathReason, PathReport, PathState, TargetReport, Unused,
    Used, Why,
};
use serde_json::{Value, json};

use super::address;
use super::names::{Traits, host_of};

/// Identifies a path for people and programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathLabel {
    /// Its number.
    pub id: PathId,
    /// Its interface, if it is bound to one.
    pub interface: Option<String>,
    /// Its local address.
    pub local: IpAddr,
    /// The peer's address.
    pub remote: SocketAddr,
    /// What carries it.
    pub carrier: Carrier,
}

impl PathLabel {
    /// The label of a path.
    pub fn of(path: &PathInfo) -> Self {
        let tuple = path.statistics.tuple;
        Self {
            id: path.statistics.id,
            interface: path.interface.clone(),
            local: tuple.local.address.ip().to_canonical(),
            remote: tuple.remote,
            carrier: tuple.carrier,
        }
    }

    /// The interface, or the peer's host if the path is bound to none.
    pub fn name(&self) -> String {
        self.interface.clone().unwrap_or_else(|| host_of(&self.remote()).to_owned())
    }

    /// The peer's address as a text.
    pub fn remote(&self) -> String {
        address(self.remote)
    }

    /// What tells the path from others.
    pub fn traits(&self) -> Traits {
        let (remote, local) = (host_of(&self.remote()).to_owned(), self.local.to_string());
        Traits { base: self.name(), carrier: self.carrier.to_string(), local, remote }
    }

    /// The label for programs, with the additional fields of `facts`.
    pub fn json(&self, facts: Value) -> Value {
        let mut value = json!({
            "path": self.id.0, "interface": self.interface,
            "local": self.local.to_string(), "remote": self.remote(), "carrier": self.carrier.to_string(),
        });
        if let (Some(value), Value::Object(facts)) = (value.as_object_mut(), facts) {
            value.extend(facts);
        }
        value
    }
}

/// Whether the path with that ID is used, and why.
pub fn why_of(report: &[PathReport], id: PathId) -> Option<&Why> {
    let row = report.iter().find(|row| row.path.as_ref().is_some_and(|path| path.id == id))?;
    Some(&row.why)
}

/// Whether a path is used and why, in a cell of a table.
pub fn why_words(why: &Why) -> String {
    match why {
        // The ordinary case needs no reason.
        Why::Used(Used::For(Purpose::EarliestArrival | Purpose::Any)) => "in use".to_owned(),
        Why::Used(reason) => format!("in use: {reason}"),
        Why::Unused(Unused::Excluded(exclusion)) => exclusion_words(exclusion, None),
        Why::Unused(reason) => reason.to_string(),
    }
}

/// Why an interface or address is not used, and the remedy where the name of the interface is known.
pub fn exclusion_words(exclusion: &Exclusion, interface: Option<&str>) -> String {
    match (exclusion, interface) {
        (Exclusion::Loopback, _) => "loopback, not routable".to_owned(),
        (Exclusion::LinkLocal, _) => "link-local, not routable".to_owned(),
        (other, Some(interface)) => other.with_remedy(interface),
        (other, None) => other.to_string(),
    }
}

/// The path of an event that is worth a line; `None` for other events.
pub fn path_of(event: &Event) -> Option<PathId> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the library's list is open")]
    match event {
        Event::Path(event) => (event.state != PathState::Validating).then_some(event.path),
        Event::PrimaryPath(path) | Event::CostlyPathNeeded(path) => Some(*path),
        _ => None,
    }
}

/// The text of an event of a path; `name` is its display name, if known.
pub fn news_words(event: &Event, name: Option<&str>) -> Option<String> {
    let name_or = |path: &PathId| name.map_or_else(|| format!("path {path}"), str::to_owned);
    #[expect(clippy::wildcard_enum_match_arm, reason = "the library's list is open")]
    match event {
        Event::Path(event) => Some(event_words(event, name)),
        Event::PrimaryPath(path) => Some(format!("{} primary: new data goes on it", name_or(path))),
        Event::CostlyPathNeeded(path) => {
            Some(format!("{} needed: it costs more, and data wait until it is allowed", name_or(path)))
        }
        _ => None,
    }
}

/// An event of a path, for programs; `interface` is its interface, if known.
pub fn news_json(event: &Event, interface: Option<&str>, seconds: f64) -> Option<Value> {
    let choice = |word: &str, path: &PathId| json!({ "event": word, "time": seconds, "path": path.0, "interface": interface });
    #[expect(clippy::wildcard_enum_match_arm, reason = "the library's list is open")]
    match event {
        Event::Path(event) => Some(event_json(event, interface, seconds)),
        Event::PrimaryPath(path) => Some(choice("primary-path", path)),
        Event::CostlyPathNeeded(path) => Some(choice("costly-path-needed", path)),
        Event::TargetRate(report) => Some(target_json(report, seconds)),
        _ => None,
    }
}

fn target_json(report: &TargetReport, seconds: f64) -> Value {
    json!({
        "event": "target-rate", "time": seconds, "target": report.target.bits_per_second(),
        "bits_per_second": report.sample.bits_per_second(), "mean": report.mean.bits_per_second(),
        "window": report.window.get(), "congestion_percent": report.congestion_percent,
        "paths": report.paths, "connections": report.connections,
    })
}

/// The text of a state and its reason.
pub fn state_words(name: &str, state: PathState, reason: &PathReason) -> String {
    format!("{name} {state}: {reason}")
}

/// The text of a path event; `name` is its display name, if known.
pub fn event_words(event: &PathEvent, name: Option<&str>) -> String {
    let name = name.map_or_else(|| host_of(&address(event.tuple.remote)).to_owned(), str::to_owned);
    state_words(&name, event.state, &event.reason)
}

fn event_json(event: &PathEvent, interface: Option<&str>, seconds: f64) -> Value {
    json!({
        "event": "path", "time": seconds, "path": event.path.0, "interface": interface,
        "local": event.tuple.local.address.ip().to_canonical().to_string(),
        "remote": address(event.tuple.remote), "carrier": event.tuple.carrier.to_string(),
        "state": event.state.word(), "reason": event.reason.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ordinary_case_is_two_words_and_others_have_a_reason() {
        assert_eq!(why_words(&Why::Used(Used::For(Purpose::EarliestArrival))), "in use");
        assert_eq!(why_words(&Why::Used(Used::Alone)), "in use: the only path that works");
        let excluded = |reason| why_words(&Why::Unused(Unused::Excluded(reason)));
        assert_eq!(excluded(Exclusion::LinkLocal), "link-local, not routable");
        assert_eq!(excluded(Exclusion::ByUser), "excluded by the user");
    }

    /// The log, JSON and qlog have the same words.
    #[test]
    fn a_screen_has_the_words_of_the_library_for_the_reason_of_a_state() {
        for (reason, words) in [
            (PathReason::ProbeTimeout { count: 1 }, "probe timeout"),
            (PathReason::ProbeTimeout { count: 6 }, "6 probe timeouts in a row"),
            (PathReason::Unreachable, "ICMP unreachable"),
            (PathReason::SendRefused, "no route (address removed?)"),
            (PathReason::Connected, "connected"),
            (PathReason::AddressGone, "one of its addresses is gone"),
        ] {
            let shown = state_words("eth0", PathState::Dead, &reason);
            assert_eq!(shown, format!("eth0 dead: {words}"));
            assert_eq!(shown, format!("eth0 dead: {reason}"));
        }
    }

    #[test]
    fn a_change_of_the_primary_path_is_news_of_that_path() {
        let (primary, needed) = (Event::PrimaryPath(PathId(1)), Event::CostlyPathNeeded(PathId(2)));
        assert_eq!([path_of(&primary), path_of(&needed)], [Some(PathId(1)), Some(PathId(2))]);
        assert_eq!(path_of(&Event::Connected), None);
        insta::assert_snapshot!(news_words(&primary, Some("va1")).unwrap(), @"va1 primary: new data goes on it");
        insta::assert_snapshot!(news_words(&needed, None).unwrap(), @"path 2 needed: it costs more, and data wait until it is allowed");
        insta::assert_snapshot!(news_json(&primary, Some("va1"), 1.5).unwrap(), @r#"{"event":"primary-path","interface":"va1","path":1,"time":1.5}"#);
        insta::assert_snapshot!(news_json(&needed, None, 2.5).unwrap(), @r#"{"event":"costly-path-needed","interface":null,"path":2,"time":2.5}"#);
    }
}
