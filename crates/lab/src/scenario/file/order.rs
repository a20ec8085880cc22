//! Orders: immediate changes, as words on a line. They are events without a time, read by the same code.

use toml::Spanned;
use toml::de::DeTable;

use super::source::{Source, Table, listed};
use super::traffic::DIRECTIONS;
use super::{Files, events, properties};
use crate::LabError;
use crate::scenario::{Change, Scenario};

impl Change {
    /// Reads an order: the kind of an event, the name of a link or an interface, for `set` properties with their values
    /// as in a scenario, for `address` the new one, and for links an optional direction. Properties that are not named
    /// stay as the scenario has them. `files` reads a trace.
    ///
    /// # Errors
    /// [`LabError::Scenario`] with the error, and the existing names or the range.
    ///
    /// ```
    /// use manyway_lab::Scenario;
    /// use manyway_lab::scenario::Change;
    /// let files = |_: &str| Err(std::io::ErrorKind::NotFound.into());
    /// let scenario = Scenario::parse("mine", "[links.wifi]\n[links.lte]\n", &files).unwrap();
    /// let read = |line| Change::read(line, &scenario, &files);
    /// let order = "set lte rate 10Mbit jitter { deviation = \"5ms\", order = \"free\" } down";
    /// assert_eq!(read(order).unwrap().len(), 2);
    /// let error = read("set lte mtu 99").unwrap_err().to_string();
    /// assert_eq!(error, "mtu: 99 is not a whole number from 576 to 65535");
    /// ```
    pub fn read(line: &str, scenario: &Scenario, files: Files<'_>) -> Result<Vec<Self>, LabError> {
        let text = event(&words(line)?)?;
        let source = Source { file: None, text: &text };
        let document = DeTable::parse(&text).map_err(|error| wrong(error.message().replace('\n', "; ")))?;
        let table = Table::new(&source, ("", 0..0), Spanned::get_ref(&document), &events::fields())?;
        events::changes(&table, scenario, files).map(|(changes, _)| changes)
    }
}

fn wrong(what: impl Into<String>) -> LabError {
    LabError::Scenario(what.into())
}

/// Splits a line at its spaces, but not within braces.
fn words(line: &str) -> Result<Vec<String>, LabError> {
    let (mut words, mut depth) = (Vec::<String>::new(), 0_usize);
    for word in line.split_whitespace() {
        match words.last_mut() {
            Some(last) if depth > 0 => last.extend([" ", word]),
            Some(_) | None => words.push(word.to_owned()),
        }
        let count = |brace| word.chars().filter(|c| *c == brace).count();
        depth = (depth + count('{')).saturating_sub(count('}'));
    }
    if depth > 0 { Err(wrong("a brace is not closed")) } else { Ok(words) }
}

/// The same as the fields of an event.
fn event(words: &[String]) -> Result<String, LabError> {
    let [kind, name, rest @ ..] = words else {
        return Err(wrong(format!("say what happens and to whom: {} NAME …", events::KINDS.join(", "))));
    };
    if !events::KINDS.contains(&kind.as_str()) {
        return Err(wrong(format!("{kind:?} is none of: {}", listed(events::KINDS.into_iter()))));
    }
    let mut lines = vec![field(kind, name)?];
    let is_direction = |word: &&String| DIRECTIONS.iter().any(|(known, _)| known == word);
    let direction = rest.last().filter(is_direction);
    lines.extend(direction.map(|word| field("direction", word)).transpose()?);
    let rest = rest.get(..rest.len() - usize::from(direction.is_some())).unwrap_or_default();
    match (kind.as_str(), rest) {
        (_, []) => {}
        ("address", [address]) => lines.push(field("to", address)?),
        ("set", pairs) => {
            for pair in pairs.chunks(2) {
                let [property, value] = pair else {
                    return Err(wrong(format!("{:?} has no value", pair.concat())));
                };
                if !properties::FIELDS.contains(&property.as_str()) {
                    let there = listed(properties::FIELDS.into_iter());
                    return Err(wrong(format!("a link has no {property:?}; it has: {there}")));
                }
                lines.push(field(property, value)?);
            }
        }
        (_, rest) => return Err(wrong(format!("{:?} means nothing for {kind}", rest.join(" ")))),
    }
    Ok(lines.join("\n"))
}

/// A field of TOML: sections and bare numbers as they are, anything else as text.
fn field(name: &str, value: &str) -> Result<String, LabError> {
    let is_number = name == "mtu" && value.bytes().all(|byte| byte.is_ascii_digit());
    if value.starts_with('{') || is_number {
        return Ok(format!("{name} = {value}"));
    }
    if value.contains('\'') {
        return Err(wrong(format!("{value}: no quotation marks are needed")));
    }
    Ok(format!("{name} = '{value}'"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use manyway_sim::link::{
        DelayModel, Jitter, LossModel, Order, Probability, QueueConfig, RateModel, Reaction,
    };

    use super::*;
    use crate::scenario::{Direction, Setting, Side};

    const FILE: &str =
        "[client.wifi]\nnat = {}\n[client.lte]\n[links.wifi]\nrtt = '20ms'\n[links.lte]\nrtt = '60ms'\n";

    fn nothing(_: &str) -> std::io::Result<String> {
        Err(std::io::ErrorKind::NotFound.into())
    }

    fn scenario() -> Scenario {
        Scenario::parse("mine.toml", FILE, &nothing).unwrap()
    }

    fn read(line: &str) -> Vec<Change> {
        Change::read(line, &scenario(), &nothing).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    #[test]
    fn every_event_has_an_order() {
        let (link, both) = (1, Direction::Both);
        assert_eq!(read("cut lte"), [Change::Cut { link, direction: both }]);
        assert_eq!(read(" restore  lte up "), [Change::Restore { link, direction: Direction::Up }]);
        let (side, interface) = (Side::Client, 1);
        assert_eq!(read("down lte"), [Change::InterfaceDown { side, interface }]);
        assert_eq!(read("up lte"), [Change::InterfaceUp { side, interface }]);
        let server = Change::InterfaceDown { side: Side::Server, interface: 0 };
        assert_eq!(read("down server.server"), [server]);
        let address = "10.9.9.9".parse().unwrap();
        assert_eq!(read("address lte 10.9.9.9"), [Change::Readdress { side, interface, address }]);
        assert_eq!(read("rebind wifi"), [Change::Rebind { side, interface: 0 }]);
    }

    #[test]
    fn a_link_takes_every_property_that_it_has_in_a_scenario() {
        let set = |line: &str| -> Vec<Setting> {
            let setting = |change| {
                let Change::Set { link: 1, direction: Direction::Down, setting } = change else {
                    panic!("{line}: {change:?}")
                };
                setting
            };
            read(&format!("set lte {line} down")).into_iter().map(setting).collect()
        };
        let ms = Duration::from_millis;
        let base = DelayModel::constant(ms(30));
        let normal = base.with_jitter(Jitter::Normal(ms(5)), Order::Kept);
        assert_eq!(set("jitter 5ms"), [Setting::Delay(normal)]);
        let free = base.with_jitter(Jitter::Uniform(ms(5)), Order::Free).with_hold(ms(50));
        let words = "jitter { spread = \"5ms\", order = \"free\", hold = \"50ms\" }";
        assert_eq!(set(words), [Setting::Delay(free)]);
        let bursts = LossModel::bursts(Probability::from_percent(2.0), 3);
        assert_eq!(set("loss {share=\"2%\", burst=3}"), [Setting::Loss(bursts)]);
        let marking = QueueConfig::codel(Reaction::Mark);
        assert_eq!(set("queue { codel = \"mark\" }"), [Setting::Queue(marking)]);
        assert_eq!(
            set("rate unlimited mtu 1400 loss 0%"),
            [Setting::Rate(RateModel::Unlimited), Setting::Loss(LossModel::None), Setting::Mtu(1400)]
        );
        assert_eq!(set("corruption 0.5% duplication 0.01 delay 1s queue 64KiB").len(), 4);
    }

    #[test]
    fn a_wrong_order_is_answered_with_existing_names_or_the_range() {
        for (line, part) in [
            ("", "cut, restore, set, down, up, address, rebind"),
            ("dance", "cut, restore, set"),
            ("dance lte", "\"dance\" is none of: cut"),
            ("cut cable", "none of the links: wifi, lte"),
            ("cut lte sideways", "\"sideways\" means nothing for cut"),
            ("down lte up", "means nothing for down"),
            ("up unknown", "none of the interfaces: wifi, lte, server.server"),
            ("rebind lte", "no translator"),
            ("address lte", "the field to is missing"),
            ("address lte 10.101.0.2", "in use"),
            ("address lte here", "not an address"),
            ("set lte", "say what is set: rate"),
            ("set lte down", "say what is set: rate"),
            ("set lte rate", "\"rate\" has no value"),
            ("set lte colour red", "a link has no \"colour\"; it has: rate, trace"),
            ("set lte at 5s", "a link has no \"at\""),
            ("set lte rate soon", "rate: \"soon\" is not a rate; write it like 20Mbit"),
            ("set lte rate 1kbit", "rate: out of range: from 8kbit to 100Gbit"),
            ("set lte delay 31s", "delay: 31s is out of range: from 0ns to 30s"),
            ("set lte queue 2m", "queue: "),
            ("set lte mtu 500", "mtu: 500 is not a whole number from 576 to 65535"),
            ("set lte mtu large", "mtu: \"large\" is not a whole number"),
            ("set lte loss 101%", "loss: "),
            ("set lte rate 1M rate 2M", "duplicate key"),
            ("set lte delay 5ms rtt 9ms", "give either delay or rtt"),
            ("set lte loss { share = \"2%\"", "not closed"),
            ("set lte trace no-such-file", "cannot be read"),
            ("cut l'te", "quotation marks"),
        ] {
            let error = Change::read(line, &scenario(), &nothing).unwrap_err().to_string();
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn unnamed_properties_stay_as_they_are_now() {
        let mut scenario = scenario();
        for line in ["set lte delay 80ms", "set lte jitter 5ms up", "address lte 10.9.9.9"] {
            for change in Change::read(line, &scenario, &nothing).unwrap() {
                scenario.apply(&change);
            }
        }
        let base = DelayModel::constant(Duration::from_millis(80));
        let varied = base.with_jitter(Jitter::Normal(Duration::from_millis(5)), Order::Kept);
        assert_eq!((scenario.links[1].up.delay, scenario.links[1].down.delay), (varied, base));
        let error = Change::read("address wifi 10.9.9.9", &scenario, &nothing).unwrap_err().to_string();
        assert!(error.contains("10.9.9.9 is in use"), "{error}");
    }
}
