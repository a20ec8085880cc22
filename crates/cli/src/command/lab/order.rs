//! Orders to links that stand, a line of words each.

use manyway_lab::Scenario;
use manyway_lab::scenario::{Change, Direction, Setting, Side};
use manyway_proto::{ByteCount, text};
use manyway_sim::link::{DelayModel, LossModel, Probability, QueueConfig, QueueLimit, RateModel};

/// What a line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Order {
    /// A change of a link or an interface.
    Change(Change),
    /// What has passed until now.
    Figures,
    /// The end.
    Quit,
}

impl Order {
    /// Reads a line; `None` if there is nothing on it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read(line: &str, scenario: &Scenario) -> Result<Option<Self>, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let order = match words.as_slice() {
            [] => return Ok(None),
            ["figures"] => Self::Figures,
            ["quit" | "exit"] => Self::Quit,
            ["cut", name, rest @ ..] => {
                Self::Change(Change::Cut { link: link(scenario, name)?, direction: direction(rest)? })
            }
            ["restore", name, rest @ ..] => {
                Self::Change(Change::Restore { link: link(scenario, name)?, direction: direction(rest)? })
            }
            ["set", name, property, value, rest @ ..] => Self::Change(Change::Set {
                link: link(scenario, name)?,
                direction: direction(rest)?,
                setting: setting(property, value)?,
            }),
            [what @ ("interface-down" | "interface-up" | "rebind"), side, name] => {
                let (side, interface) = interface(scenario, side, name)?;
                Self::Change(match *what {
                    "interface-down" => Change::InterfaceDown { side, interface },
                    "interface-up" => Change::InterfaceUp { side, interface },
                    _ => Change::Rebind { side, interface },
                })
            }
            _ => return Err(format!("{line:?} is no order; there are {ORDERS}")),
        };
        Ok(Some(order))
    }
}

fn link(scenario: &Scenario, name: &str) -> Result<usize, String> {
    let names = || scenario.links.iter().map(|link| link.name.as_str());
    names().position(|known| known == name).ok_or_else(|| {
        format!("there is no link {name:?}; there are {}", names().collect::<Vec<_>>().join(", "))
    })
}

fn interface(scenario: &Scenario, side: &str, name: &str) -> Result<(Side, usize), String> {
    let (side, interfaces) = match side {
        "client" => (Side::Client, &scenario.client),
        "server" => (Side::Server, &scenario.server),
        _ => return Err(format!("{side:?} is neither client nor server")),
    };
    let names = || interfaces.iter().map(|interface| interface.name.as_str());
    let place = names().position(|known| known == name).ok_or_else(|| {
        format!("there is no interface {name:?}; there are {}", names().collect::<Vec<_>>().join(", "))
    })?;
    Ok((side, place))
}

fn direction(words: &[&str]) -> Result<Direction, String> {
    match words {
        [] | ["both"] => Ok(Direction::Both),
        ["up"] => Ok(Direction::Up),
        ["down"] => Ok(Direction::Down),
        _ => Err(format!("{:?} is no direction; there are up, down and both", words.join(" "))),
    }
}

fn setting(property: &str, value: &str) -> Result<Setting, String> {
    let words = |error: text::UnitError| error.to_string();
    let share = || text::parse_share(value).map(Probability::from_billionths).map_err(words);
    Ok(match property {
        "rate" => Setting::Rate(RateModel::Fixed(text::parse_rate(value).map_err(words)?)),
        "delay" => Setting::Delay(DelayModel::constant(text::parse_duration(value).map_err(words)?)),
        "queue" => Setting::Queue(QueueConfig::drop_tail(queue(value)?)),
        "loss" => Setting::Loss(LossModel::Random(share()?)),
        "corruption" => Setting::Corruption(share()?),
        "duplication" => Setting::Duplication(share()?),
        "mtu" => Setting::Mtu(value.parse().map_err(|_| format!("{value:?} is no number of bytes"))?),
        _ => return Err(format!("a link has no {property:?}; it has {PROPERTIES}")),
    })
}

/// A time, or else a size.
fn queue(value: &str) -> Result<QueueLimit, String> {
    if let Ok(time) = text::parse_duration(value) {
        return Ok(QueueLimit::Time(time));
    }
    let size = text::parse_size(value).map_err(|_| format!("{value:?} is neither a time nor a size"))?;
    Ok(QueueLimit::Bytes(ByteCount(size)))
}

const ORDERS: &str = "cut LINK, restore LINK, set LINK PROPERTY VALUE, interface-down SIDE NAME, interface-up SIDE NAME, \
rebind SIDE NAME, figures, quit";
const PROPERTIES: &str = "rate, delay, queue, loss, corruption, duplication and mtu";

#[cfg(test)]
mod tests {
    use super::*;
    use manyway_lab::scenario::Library;
    use manyway_proto::Rate;
    use std::time::Duration;

    fn scenario() -> Scenario {
        Library::builtin().unwrap().find("wifi-lte").unwrap().remove(0)
    }

    #[test]
    fn orders_are_words() {
        let scenario = scenario();
        let name = scenario.links[1].name.clone();
        let read = |line: &str| Order::read(line, &scenario).unwrap().unwrap();
        let change = |change| Order::Change(change);
        assert_eq!(read(&format!("cut {name}")), change(Change::Cut { link: 1, direction: Direction::Both }));
        assert_eq!(
            read(&format!(" restore  {name} up ")),
            change(Change::Restore { link: 1, direction: Direction::Up })
        );
        let set = |setting| change(Change::Set { link: 1, direction: Direction::Down, setting });
        let rate = RateModel::Fixed(Rate::from_bits_per_second(10_000_000));
        assert_eq!(read(&format!("set {name} rate 10Mbit down")), set(Setting::Rate(rate)));
        let queue = |limit| Setting::Queue(QueueConfig::drop_tail(limit));
        let time = QueueLimit::Time(Duration::from_millis(50));
        assert_eq!(read(&format!("set {name} queue 50ms down")), set(queue(time)));
        let size = QueueLimit::Bytes(ByteCount(64 << 10));
        assert_eq!(read(&format!("set {name} queue 64KiB down")), set(queue(size)));
        assert_eq!((read("figures"), read("quit")), (Order::Figures, Order::Quit));
        assert_eq!(Order::read("  ", &scenario), Ok(None));
    }

    #[test]
    fn a_wrong_order_says_what_there_is() {
        let scenario = scenario();
        let name = &scenario.links[0].name;
        for (line, part) in [
            ("cut cable".to_owned(), name.as_str()),
            (format!("cut {name} sideways"), "up, down and both"),
            (format!("set {name} colour red"), "rate, delay"),
            (format!("set {name} rate soon"), "20Mbit"),
            (format!("set {name} queue soon"), "neither a time nor a size"),
            ("rebind nobody x".to_owned(), "client nor server"),
            ("dance".to_owned(), "figures"),
        ] {
            let error = Order::read(&line, &scenario).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
