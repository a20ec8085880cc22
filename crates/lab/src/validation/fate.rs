//! The fate of packets: losses, damage, copies, and `CoDel`.

use std::time::Duration;

use manyway_proto::Rate;
use manyway_sim::link::{
    Discipline, GilbertElliott, LinkConfig, LossModel, Probability, QueueConfig, Reaction,
};

use super::datagrams::{Arrived, Load};
use super::stage::{Stage, failed, open};
use super::theory;
use super::trial::Trial;
use super::{Extent, Figure, Property};
use crate::LabError;
use crate::emulator::LinkCounters;
use crate::measures::count;

const MS: Duration = Duration::from_millis(1);

pub(super) fn loss(trial: Trial<'_>) -> Result<Vec<Figure>, LabError> {
    let share = Probability::from_percent(2.0);
    let (random, _) = pass(&open(MS).with_loss(LossModel::Random(share)), trial)?;
    let law = GilbertElliott {
        to_bad: Probability::from_percent(1.0),
        to_good: Probability::from_percent(25.0),
        loss_good: Probability::NEVER,
        loss_bad: Probability::ALWAYS,
    };
    let (bursty, arrived) = pass(&open(MS).with_loss(LossModel::GilbertElliott(law)), trial)?;
    let bursts = theory::Bursts::of(&law);
    let lengths = lengths(&arrived, bursty.offered.packets);
    let sent = count(packets(trial.extent));
    let expected = sent * bursts.share / bursts.length;
    let number = count(u64::try_from(lengths.len()).unwrap_or(0)).max(1.0);
    let mean = count(lengths.iter().sum()) / number;
    let length = Figure::new(Property::Loss, "in bursts, their length", "packets", mean);
    Ok(vec![
        of_all(Property::Loss, "random", (random.lost.packets, sent), random, (theory::number(share), 0.0)),
        of_all(
            Property::Loss,
            "in bursts",
            (bursty.lost.packets, sent),
            bursty,
            (bursts.share, bursts.correlation),
        ),
        length.near(bursts.length, 3.0 * bursts.length_deviation / expected.sqrt()),
    ])
}

/// Lengths of the runs of packets that did not arrive.
fn lengths(arrived: &[Arrived], sent: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = arrived.iter().map(|arrived| arrived.number + 1).collect();
    numbers.sort_unstable();
    let from = std::iter::once(0).chain(numbers.iter().copied());
    let to = numbers.iter().copied().chain([sent + 1]);
    from.zip(to).map(|(from, to)| to.saturating_sub(from + 1)).filter(|length| *length > 0).collect()
}

pub(super) fn corruption(trial: Trial<'_>) -> Result<Vec<Figure>, LabError> {
    let share = Probability::from_percent(20.0);
    let (link, arrived) = pass(&open(MS).with_corruption(share), trial)?;
    // The checksum is stale, so the host drops damaged packets.
    let damaged = link.offered.packets - u64::try_from(arrived.len()).unwrap_or(0).min(link.offered.packets);
    let sent = count(packets(trial.extent));
    Ok(vec![of_all(Property::Corruption, "one bit", (damaged, sent), link, (theory::number(share), 0.0))])
}

pub(super) fn duplication(trial: Trial<'_>) -> Result<Vec<Figure>, LabError> {
    let share = Probability::from_percent(10.0);
    let (link, arrived) = pass(&open(MS).with_duplication(share), trial)?;
    let copies = u64::try_from(arrived.len()).unwrap_or(0).saturating_sub(link.offered.packets);
    let sent = count(packets(trial.extent));
    Ok(vec![of_all(Property::Duplication, "copies", (copies, sent), link, (theory::number(share), 0.0))])
}

/// Sends small packets from the client through a link; returns the link's counters and what arrived.
fn pass(config: &LinkConfig, trial: Trial<'_>) -> Result<(LinkCounters, Vec<Arrived>), LabError> {
    let stage = trial.stage(config)?;
    let load =
        Load { count: packets(trial.extent), size: 100, time: trial.extent.of(PASSING), wait: 200 * MS };
    let arrived = stage.send(load)?;
    Ok((books(stage)?, arrived))
}

/// Number of packets of [`pass`]: ten in a millisecond.
fn packets(extent: Extent) -> u64 {
    10 * u64::try_from(extent.of(PASSING).as_millis()).unwrap_or(u64::MAX)
}

const PASSING: Duration = Duration::from_secs(2);

/// The counters of a link upwards.
fn books(stage: Stage) -> Result<LinkCounters, LabError> {
    let totals = stage.finish()?.totals;
    totals.links.first().map(|link| link.up).ok_or_else(|| LabError::System("the link has no books".into()))
}

/// The share of packets to which something happened, within three standard deviations of the expected value for this
/// number.
/// many sent.
fn of_all(
    property: Property,
    law: &str,
    (happened, sent): (u64, f64),
    link: LinkCounters,
    (share, correlation): (f64, f64),
) -> Figure {
    let all = count(link.offered.packets).max(1.0);
    let setting = format!("{law}, {} %", (share * 1e4).round() / 1e2);
    let tolerance = 3.0 * theory::deviation_of_share(share, sent, correlation);
    Figure::new(property, setting, "%", 100.0 * count(happened) / all).near(100.0 * share, 100.0 * tolerance)
}

pub(super) fn codel(trial: Trial<'_>) -> Result<Vec<Figure>, LabError> {
    let rate = Rate::from_bits_per_second(10_000_000);
    let time = trial.extent.of(2_000 * MS);
    let strikes = |reaction| {
        let queue = QueueConfig::codel(reaction);
        let stage = trial.stage(&LinkConfig::new(rate, MS).with_queue(queue))?;
        if reaction == Reaction::Mark {
            rustix::net::sockopt::set_ip_tos(&stage.near, ECN_CAPABLE)
                .map_err(|error| failed(error.into()))?;
        }
        // One and a half times the rate.
        let load = Load { count: (rate * time).get() / 1_000, size: 1_472, time, wait: Duration::ZERO };
        stage.send(load)?;
        books(stage)
    };
    let Discipline::Codel(law) = QueueConfig::codel(Reaction::Drop).discipline else { return Ok(Vec::new()) };
    // A packet that leaves after t was offered after two thirds of it, so the target is exceeded after three of it.
    let expected = theory::strikes(&law, time.saturating_sub(3 * law.target));
    let figure = |setting, packets| {
        Figure::new(Property::Codel, setting, "packets", count(packets))
            .near(f64::from(expected), f64::from(expected) * 0.05)
    };
    let (dropping, marking) = (strikes(Reaction::Drop)?, strikes(Reaction::Mark)?);
    Ok(vec![
        figure("drops at 1.5 times the rate", dropping.queue_law.packets),
        figure("ECN marks at 1.5 times the rate", marking.marked.packets),
    ])
}

/// ECT(0) of RFC 3168.
const ECN_CAPABLE: u8 = 0b10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_missing_packets_is_a_burst() {
        let now = std::time::Instant::now();
        let arrived =
            [5, 3, 4, 9].map(|number| Arrived { number, delay: MS, sent_at: now, at: now, flipped: 0 });
        assert_eq!(lengths(&arrived, 10), [3, 3]);
        assert_eq!(lengths(&arrived, 12), [3, 3, 2]);
        assert_eq!(lengths(&[], 3), [3]);
    }
}
