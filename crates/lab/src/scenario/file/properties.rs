//! The properties of one direction of a link.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use manyway_proto::{ByteCount, Rate};
use manyway_sim::link::{
    CellModel, Codel, DelayModel, DeliveryTrace, Discipline, Drops, EcnTreatment, GilbertElliott, Jitter,
    LinkConfig, LossModel, Order, Probability, QueueConfig, QueueLimit, RateModel, Reaction,
};
use manyway_units::text;

use super::Files;
use super::source::{Table, Value};
use crate::LabError;
use crate::scenario::Setting;

/// The fields of properties, in any section.
pub(super) const FIELDS: [&str; 12] = [
    "rate",
    "trace",
    "delay",
    "rtt",
    "jitter",
    "queue",
    "loss",
    "corruption",
    "duplication",
    "mtu",
    "ecn",
    "drops",
];

/// The properties in a section; others stay as they are.
#[derive(Debug, Clone, Default)]
pub(super) struct Properties(Vec<Setting>);

impl Properties {
    /// Reads them; `base` is the delay of a jitter without one, and the jitter of a delay without one.
    pub(super) fn read(table: &Table<'_>, base: DelayModel, files: Files<'_>) -> Result<Self, LabError> {
        table.not_both("rate", "trace")?;
        table.not_both("delay", "rtt")?;
        let settings = [
            table.read("rate", rate)?.map(Setting::Rate),
            table.read("trace", |value| trace(value, files))?.map(Setting::Rate),
            delay(table, base)?.map(Setting::Delay),
            table.read("queue", queue)?.map(Setting::Queue),
            table.read("loss", loss)?.map(Setting::Loss),
            table.read("corruption", Value::share)?.map(Setting::Corruption),
            table.read("duplication", Value::share)?.map(Setting::Duplication),
            table.read("mtu", mtu)?.map(Setting::Mtu),
            table.read("ecn", ecn)?.map(Setting::Ecn),
            table.read("drops", |value| value.word(&Drops::WORDS))?.map(Setting::Drops),
        ];
        Ok(Self(settings.into_iter().flatten().collect()))
    }

    /// Writes them into the settings of a link.
    pub(super) fn write(&self, config: &mut LinkConfig) {
        self.0.iter().for_each(|setting| setting.write(config));
    }

    /// Each of them.
    pub(super) fn settings(self) -> Vec<Setting> {
        self.0
    }
}

/// The size of the largest IP packet.
pub(super) fn mtu(value: &Value<'_>) -> Result<u16, LabError> {
    value.integer(576..=65_535)
}

/// The treatment of packets with ECN marks.
fn ecn(value: &Value<'_>) -> Result<EcnTreatment, LabError> {
    value.word(&EcnTreatment::WORDS)
}

fn rate(value: &Value<'_>) -> Result<RateModel, LabError> {
    if value.is_table() {
        let table = value.table(&["mean", "burst"])?;
        let rate = checked_rate(&table.need("mean")?)?;
        return Ok(RateModel::TokenBucket { rate, burst: table.need("burst")?.size(1_500)? });
    }
    if value.text().is_ok_and(|text| text == "unlimited") {
        return Ok(RateModel::Unlimited);
    }
    checked_rate(value).map(RateModel::Fixed)
}

fn checked_rate(value: &Value<'_>) -> Result<Rate, LabError> {
    let rate = value.rate()?;
    // A rate of zero stops a link without losing packets.
    let range = Rate::from_bits_per_second(8_000)..=Rate::from_bits_per_second(100_000_000_000);
    if rate == Rate::ZERO || range.contains(&rate) {
        return Ok(rate);
    }
    Err(value.error("out of range: from 8kbit to 100Gbit, or 0 to let everything wait"))
}

fn trace(value: &Value<'_>, files: Files<'_>) -> Result<RateModel, LabError> {
    if value.is_table() {
        return cell(value);
    }
    let name = value.text()?;
    let text =
        files(name).map_err(|error| value.error(format_args!("the trace {name} cannot be read: {error}")))?;
    let trace =
        DeliveryTrace::from_mahimahi(&text).map_err(|error| value.error(format_args!("{name}: {error}")))?;
    Ok(RateModel::Trace(Arc::new(trace)))
}

/// A generated trace.
fn cell(value: &Value<'_>) -> Result<RateModel, LabError> {
    let table = value.table(&["mean", "wander", "seed"])?;
    let rate = |name: &str| {
        let value = table.need(name)?;
        let range = Rate::from_bits_per_second(100_000)..=CellModel::FASTEST;
        let rate = value.rate()?;
        let wrong = || value.error("out of range: from 100kbit to 150Mbit");
        range.contains(&rate).then_some(rate).ok_or_else(wrong)
    };
    let seed = table.read("seed", |value| value.integer(0..=u32::MAX))?.unwrap_or(1);
    let cell = CellModel::new(rate("mean")?, rate("wander")?, seed.into());
    let trace = cell.trace().map_err(|error| value.error(error))?;
    Ok(RateModel::Trace(Arc::new(trace)))
}

const DELAYS: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(30);

/// The one-way delay, or half of the round-trip time, with its variation.
fn delay(table: &Table<'_>, base: DelayModel) -> Result<Option<DelayModel>, LabError> {
    let one_way = table.read("delay", |value| value.time(DELAYS))?;
    let round_trip = table.read("rtt", |value| value.time(DELAYS))?;
    let jitter = table.read("jitter", |value| jitter(value, round_trip.is_some()))?;
    let time = one_way.or_else(|| round_trip.map(|time| time / 2));
    if time.is_none() && jitter.is_none() {
        return Ok(None);
    }
    let mut model = base;
    model.base = time.unwrap_or(base.base);
    Ok(Some(match jitter {
        Some(varied) => model.with_jitter(varied.jitter, varied.order).with_hold(varied.hold),
        None => model,
    }))
}

struct Varied {
    jitter: Jitter,
    order: Order,
    hold: Duration,
}

/// The one-way jitter. That of a round trip is the sum of two independent ones: its deviation is √2 of theirs, its
/// spread twice theirs.
fn jitter(value: &Value<'_>, of_round_trip: bool) -> Result<Varied, LabError> {
    let normal = |time: Duration| {
        let half = time.saturating_mul(1_000_000) / 1_414_214;
        Jitter::Normal(if of_round_trip { half } else { time })
    };
    if !value.is_table() {
        let jitter = normal(value.time(DELAYS)?);
        return Ok(Varied { jitter, order: Order::Kept, hold: Duration::ZERO });
    }
    let table = value.table(&["deviation", "spread", "order", "hold"])?;
    table.not_both("deviation", "spread")?;
    let deviation = table.read("deviation", |value| value.time(DELAYS))?;
    let spread = table.read("spread", |value| value.time(DELAYS))?;
    let spread = spread.map(|time| Jitter::Uniform(if of_round_trip { time / 2 } else { time }));
    let Some(jitter) = deviation.map(normal).or(spread) else {
        return Err(table.error("give its deviation or its spread"));
    };
    let order = table.read("order", |value| value.word(&[("kept", Order::Kept), ("free", Order::Free)]))?;
    let hold = table.read("hold", |value| value.time(DELAYS))?;
    Ok(Varied { jitter, order: order.unwrap_or_default(), hold: hold.unwrap_or_default() })
}

fn queue(value: &Value<'_>) -> Result<QueueConfig, LabError> {
    if !value.is_table() {
        return Ok(QueueConfig::drop_tail(limit(value)?));
    }
    let table = value.table(&["limit", "codel", "target", "interval"])?;
    let reaction =
        table.read("codel", |value| value.word(&[("drop", Reaction::Drop), ("mark", Reaction::Mark)]))?;
    let limit = table.read("limit", limit)?;
    let Some(reaction) = reaction else {
        let limit = limit.ok_or_else(|| table.error("give its limit, its codel, or both"))?;
        let stray = table.get("target").or_else(|| table.get("interval"));
        return match stray {
            Some(stray) => Err(stray.error("this is of no use without codel = \"drop\" or \"mark\"")),
            None => Ok(QueueConfig::drop_tail(limit)),
        };
    };
    let mut config = QueueConfig::codel(reaction);
    if let Discipline::Codel(Codel { target, interval, .. }) = &mut config.discipline {
        let times = Duration::from_micros(10)..=Duration::from_secs(10);
        *target = table.read("target", |value| value.time(times.clone()))?.unwrap_or(*target);
        *interval = table.read("interval", |value| value.time(times))?.unwrap_or(*interval);
    }
    config.limit = limit.unwrap_or(config.limit);
    Ok(config)
}

/// A time, a size with its unit, a number of packets, or no limit.
fn limit(value: &Value<'_>) -> Result<QueueLimit, LabError> {
    let wanted =
        || value.error("this is no length of a queue; write it like 100ms, 64KiB, 50 packets or unlimited");
    let text = value.text().map_err(|_| wanted())?;
    if text == "unlimited" {
        return Ok(QueueLimit::Unlimited);
    }
    if let Some(number) = text.strip_suffix(" packets") {
        return number.parse().ok().filter(|number| *number > 0).map(QueueLimit::Packets).ok_or_else(wanted);
    }
    if text.ends_with('B') {
        return text::parse_size(text).map(|size| QueueLimit::Bytes(ByteCount(size))).map_err(|_| wanted());
    }
    // A bare number would be ambiguous.
    if !text.ends_with('s') || text::parse_duration(text).is_err() {
        return Err(wanted());
    }
    value.time(Duration::from_millis(1)..=Duration::from_secs(60)).map(QueueLimit::Time)
}

fn loss(value: &Value<'_>) -> Result<LossModel, LabError> {
    if !value.is_table() {
        return Ok(match value.share()? {
            Probability::NEVER => LossModel::None,
            share => LossModel::Random(share),
        });
    }
    let table = value.table(&["next", "from", "share", "burst", "to_bad", "to_good", "good", "bad"])?;
    if let Some(next) = table.get("next") {
        for name in ["share", "burst", "to_bad", "to_good", "good", "bad"] {
            table.not_both("next", name)?;
        }
        let from = table.read("from", |value| value.integer(0..=65_535_u32))?.unwrap_or(0);
        return Ok(LossModel::Next { count: next.integer(1..=10_000_u64)?, from });
    }
    if let Some(share) = table.get("share") {
        for name in ["to_bad", "to_good", "good", "bad"] {
            table.not_both("share", name)?;
        }
        let burst = table.need("burst")?.integer(1..=10_000)?;
        let model = LossModel::bursts(share.share()?, burst);
        let LossModel::GilbertElliott(GilbertElliott { to_bad: Probability::ALWAYS, .. }) = model else {
            return Ok(model);
        };
        return Err(share.error("so much cannot be lost in bursts so short"));
    }
    let part = |name: &str| table.read(name, Value::share);
    let (Some(to_bad), Some(to_good)) = (part("to_bad")?, part("to_good")?) else {
        return Err(table.error(
            "give next, or share and burst, or to_bad and to_good (with good and bad, the losses then)",
        ));
    };
    Ok(LossModel::GilbertElliott(GilbertElliott {
        to_bad,
        to_good,
        loss_good: part("good")?.unwrap_or(Probability::NEVER),
        loss_bad: part("bad")?.unwrap_or(Probability::ALWAYS),
    }))
}
