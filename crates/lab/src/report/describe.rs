//! Describes scenarios as text.

use manyway_proto::Rate;
use manyway_sim::CrossKind;
use manyway_sim::link::{
    DelayModel, Drops, Jitter, LinkConfig, LossModel, Probability, QueueLimit, RateModel,
};
use manyway_units::text;

use crate::scenario::{Change, CrossTraffic, Direction, Scenario, Setting, Side, Traffic};

/// The properties of one direction of a link.
pub(super) fn link(config: &LinkConfig) -> String {
    let mut words = vec![rate(&config.rate), delay(&config.delay), queue(&config.queue.limit)];
    words.extend(loss(&config.loss));
    words.extend((config.drops != Drops::Nothing).then(|| drops(config.drops)));
    for (share, what) in [(config.corruption, "corrupted"), (config.duplication, "twice")] {
        if share > Probability::NEVER {
            words.push(format!("{} {what}", percent(share)));
        }
    }
    words.join(", ")
}

/// What an application sends.
pub(super) fn traffic(traffic: &Traffic) -> String {
    match traffic {
        Traffic::Bulk { direction, size, rate, chunk } => {
            let mut words = format!("bulk {}", way(*direction));
            if let Some(size) = size {
                words += &format!(", {}", text::size(size.get()));
            }
            if let Some(rate) = rate {
                words += &format!(", at most {rate}");
            }
            if let Some(chunk) = chunk {
                words += &format!(", {chunk} at a time");
            }
            words
        }
        Traffic::Messages { direction, size, interval, lifetime } => {
            let mut words =
                format!("messages {} of {size} every {}", way(*direction), text::duration(*interval));
            if let Some(lifetime) = lifetime {
                words += &format!(", of use for {}", text::duration(*lifetime));
            }
            words
        }
    }
}

/// What others send.
pub fn cross(scenario: &Scenario, traffic: &CrossTraffic) -> String {
    let route = scenario.any_route(traffic.route).map_or("?", |route| route.name.as_str());
    let mut words = if traffic.count == 1 { String::new() } else { format!("{} × ", traffic.count) };
    words += &format!("{} {} over {route}", traffic.name(), way(traffic.direction));
    if let CrossKind::Udp(rate) = traffic.kind {
        words += &format!(" at {rate}");
    }
    words += &format!(", {}-byte packets, from {}", traffic.packet, text::duration(traffic.at));
    if let Some(lasts) = traffic.lasts {
        words += &format!(" for {}", text::duration(lasts));
    }
    words
}

/// An event.
pub(super) fn change(scenario: &Scenario, change: &Change) -> String {
    let link = |place: usize| scenario.links.get(place).map_or("?", |link| link.name.as_str());
    let interface = |side: Side, place: usize| {
        let interfaces = match side {
            Side::Client => &scenario.client,
            Side::Server => &scenario.server,
        };
        format!("{} of the {}", interfaces.get(place).map_or("?", |one| one.name.as_str()), self::side(side))
    };
    match change {
        Change::Cut { link: place, direction } => format!("{} is cut {}", link(*place), way(*direction)),
        Change::Restore { link: place, direction } => {
            format!("{} works again {}", link(*place), way(*direction))
        }
        Change::Set { link: place, direction, setting } => {
            format!("{} gets {} {}", link(*place), self::setting(setting), way(*direction))
        }
        Change::InterfaceDown { side, interface: place } => format!("{} goes down", interface(*side, *place)),
        Change::InterfaceUp { side, interface: place } => format!("{} comes up", interface(*side, *place)),
        Change::Readdress { side, interface: place, address } => {
            format!("{} gets the address {address}", interface(*side, *place))
        }
        Change::Rebind { side, interface: place } => {
            format!("the address translator of {} forgets", interface(*side, *place))
        }
    }
}

/// A side in one word.
pub(super) const fn side(side: Side) -> &'static str {
    match side {
        Side::Client => "client",
        Side::Server => "server",
    }
}

const fn way(direction: Direction) -> &'static str {
    match direction {
        Direction::Up => "up",
        Direction::Down => "down",
        Direction::Both => "both ways",
    }
}

fn setting(setting: &Setting) -> String {
    match setting {
        Setting::Rate(model) => rate(model),
        Setting::Delay(model) => delay(model),
        Setting::Queue(config) => queue(&config.limit),
        Setting::Loss(model) => loss(model).unwrap_or_else(|| "no loss".to_owned()),
        Setting::Corruption(share) => format!("{} corrupted", percent(*share)),
        Setting::Duplication(share) => format!("{} twice", percent(*share)),
        Setting::Mtu(mtu) => format!("an MTU of {mtu}"),
        Setting::Ecn(treatment) => format!("ECN marks {treatment}"),
        Setting::Drops(drops) => self::drops(*drops),
    }
}

fn rate(model: &RateModel) -> String {
    match model.nominal() {
        Rate::MAX => "any rate".to_owned(),
        rate => match model {
            RateModel::Trace(_) => format!("{rate} by a trace"),
            // The enum is non-exhaustive.
            RateModel::Fixed(_) | RateModel::TokenBucket { .. } | RateModel::Unlimited | _ => {
                rate.to_string()
            }
        },
    }
}

fn delay(model: &DelayModel) -> String {
    let base = text::duration(model.base);
    match model.jitter {
        Jitter::Uniform(most) => format!("{base} ± {} evenly", text::duration(most)),
        Jitter::Normal(deviation) => format!("{base} ± {}", text::duration(deviation)),
        // The enum is non-exhaustive.
        Jitter::None | _ => base,
    }
}

fn queue(limit: &QueueLimit) -> String {
    match limit {
        QueueLimit::Time(time) => format!("queue {}", text::duration(*time)),
        QueueLimit::Packets(1) => "queue 1 packet".to_owned(),
        QueueLimit::Packets(packets) => format!("queue {packets} packets"),
        QueueLimit::Bytes(bytes) => format!("queue {}", text::size(bytes.get())),
        QueueLimit::Unlimited => "queue without end".to_owned(),
    }
}

fn loss(model: &LossModel) -> Option<String> {
    match model {
        LossModel::None => None,
        LossModel::Random(share) => {
            (*share > Probability::NEVER).then(|| format!("{} lost", percent(*share)))
        }
        LossModel::Next { count: 1, .. } => Some("the next packet lost".to_owned()),
        LossModel::Next { count, .. } => Some(format!("the next {count} packets lost")),
        LossModel::GilbertElliott(_) => Some("lost in bursts".to_owned()),
        LossModel::Scripted(_) | _ => Some("lost by a script".to_owned()),
    }
}

fn drops(drops: Drops) -> String {
    match drops {
        Drops::Nothing => "all packets through".to_owned(),
        // The enum is non-exhaustive.
        Drops::Udp | _ => "all UDP dropped".to_owned(),
    }
}

fn percent(share: Probability) -> String {
    let percent = f64::from(share.billionths()) / 1e7;
    format!("{percent} %")
}
