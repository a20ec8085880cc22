//! Scenarios as TOML files, described in `docs/scenarios.md`.

mod cross;
mod ending;
mod events;
mod hosts;
mod interfaces;
mod links;
mod order;
mod properties;
mod source;
mod traffic;

use std::fs;
use std::path::Path;
use std::time::Duration;

use toml::Spanned;
use toml::de::DeTable;

pub use self::source::Files;
use self::source::{Source, Table};
use super::Scenario;
use crate::LabError;

/// Default duration of a scenario.
const DURATION: Duration = Duration::from_secs(15);

impl Scenario {
    /// Reads a scenario from a file; traces are looked up beside it.
    ///
    /// # Errors
    /// It cannot be read, or is invalid; then the text names file, line and field.
    pub fn read(path: &Path) -> Result<Self, LabError> {
        let failed = |error| LabError::Io { doing: format!("reading {}", path.display()), error };
        let text = fs::read_to_string(path).map_err(failed)?;
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        Self::parse(&path.display().to_string(), &text, &|name| fs::read_to_string(folder.join(name)))
    }

    /// Reads a scenario from text. `file` names it in errors, and is the default name of the scenario; `files` reads
    /// the traces.
    ///
    /// # Errors
    /// The text is invalid; the error names file, line and field.
    ///
    /// ```
    /// use manyway_lab::Scenario;
    /// let text = "links.wifi = { rtt = '15ms', rate = '30Mbit' }\nlinks.lte = { rtt = '60ms', rate = 'fast' }";
    /// let error = Scenario::parse("mine.toml", text, &|_| Err(std::io::ErrorKind::NotFound.into())).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "mine.toml, line 2, links.lte.rate: \"fast\" is not a rate; write it like 20Mbit or 1.5G"
    /// );
    /// ```
    pub fn parse(file: &str, text: &str, files: Files<'_>) -> Result<Self, LabError> {
        let source = Source { file: Some(file), text };
        let document = DeTable::parse(text).map_err(|error| {
            let what = error.message().replace('\n', "; ");
            source.error(&error.span().unwrap_or(0..0), "", what)
        })?;
        let top = Table::new(&source, ("", 0..0), Spanned::get_ref(&document), &FIELDS)?;
        scenario(&top, file, files)
    }
}

const FIELDS: [&str; 13] = [
    "name", "title", "group", "source", "duration", "client", "server", "links", "routes", "traffic",
    "events", "end", "damage",
];

fn scenario(top: &Table<'_>, file: &str, files: Files<'_>) -> Result<Scenario, LabError> {
    let stem = Path::new(file).file_stem().and_then(|stem| stem.to_str()).unwrap_or("scenario");
    let name = top.read("name", |value| word(value, "a name"))?.unwrap_or_else(|| stem.to_owned());
    let text = |field: &str, default: &str| -> Result<String, LabError> {
        Ok(top
            .read(field, |value| value.text().map(ToOwned::to_owned))?
            .unwrap_or_else(|| default.to_owned()))
    };
    let lengths = Duration::from_millis(100)..=Duration::from_secs(3600);
    let duration = top.read("duration", |value| value.time(lengths))?.unwrap_or(DURATION);
    let hosts = hosts::read(top, files)?;
    let mut scenario = Scenario {
        title: text("title", &name)?,
        group: top
            .read("group", |value| word(value, "the name of a group"))?
            .unwrap_or_else(|| "user".to_owned()),
        source: text("source", file)?,
        name,
        duration,
        client: hosts.client,
        server: hosts.server,
        links: hosts.links,
        routes: hosts.routes,
        cross_routes: hosts.cross_routes,
        traffic: traffic::read(top)?,
        cross_traffic: Vec::new(),
        events: Vec::new(),
        ending: top.read("end", ending::ending)?.unwrap_or_default(),
        damage: top.read("damage", ending::damage)?,
    };
    scenario.events = events::read(top, &scenario, files)?;
    scenario.cross_traffic = cross::read(top, &scenario)?;
    Ok(scenario)
}

/// A word for command lines: letters, digits and hyphens.
fn word(value: &source::Value<'_>, what: &str) -> Result<String, LabError> {
    let text = value.text()?;
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if text.is_empty() || text.len() > 40 || text == "all" || !text.chars().all(fits) {
        let rule = "lower-case letters, digits and hyphens, at most 40, and not \"all\"";
        return Err(value.error(format_args!("{text:?} is not {what}: {rule}")));
    }
    Ok(text.to_owned())
}
