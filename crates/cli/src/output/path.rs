//! How a path is named everywhere: interface and addresses.

use std::net::{IpAddr, SocketAddr};

use manyway::{PathEvent, PathId, PathInfo};
use serde_json::{Value, json};

/// What a path is known by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathLabel {
    /// Its number.
    pub id: PathId,
    /// Its interface, where it is bound to one.
    pub interface: Option<String>,
    /// Its own address.
    pub local: IpAddr,
    /// The peer's address.
    pub remote: SocketAddr,
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
        }
    }

    /// The interface, or the own address where there is none.
    pub fn name(&self) -> String {
        self.interface.clone().unwrap_or_else(|| self.local.to_string())
    }

    /// The label for programs, with more fields of `facts`.
    pub fn json(&self, facts: Value) -> Value {
        let mut value = json!({
            "path": self.id.0, "interface": self.interface,
            "local": self.local.to_string(), "remote": self.remote.to_string(),
        });
        if let (Some(value), Value::Object(facts)) = (value.as_object_mut(), facts) {
            value.extend(facts);
        }
        value
    }
}

/// What happened to a path, in words; `name` is its interface where that is known.
pub fn event_words(event: &PathEvent, name: Option<&str>) -> String {
    let local = event.tuple.local.address.ip().to_canonical();
    let name = name.map_or_else(|| local.to_string(), str::to_owned);
    format!("{name} {}: {}", event.state, event.reason)
}

/// What happened to a path, for programs.
pub fn event_json(event: &PathEvent, name: Option<&str>, seconds: f64) -> Value {
    json!({
        "event": "path", "time": seconds, "path": event.path.0, "interface": name,
        "local": event.tuple.local.address.ip().to_canonical().to_string(),
        "remote": event.tuple.remote.to_string(),
        "state": event.state.word(), "reason": event.reason.to_string(),
    })
}
