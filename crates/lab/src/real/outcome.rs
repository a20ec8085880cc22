//! Combines the reports of the agents and the links.

use std::time::Duration;

use manyway_proto::ByteCount;
use manyway_sim::pair::Side;

use super::assignment::Plan;
use super::cross::CrossEnd;
use super::session::{End, name};
use crate::agent::document::{self, Exchange, Load, Report};
use crate::contender::Contender;
use crate::emulator::{EmulatorReport, InterfaceReport, Lateness, Snapshot};
use crate::outcome::{CpuTime, Delivery, Flow, Outcome, RouteTotals, SetUp};

/// Makes the outcome of a run beside which others ran, or none; `before` are the figures of the links when the traffic began.
pub(super) fn assemble(
    plan: &Plan<'_>,
    contender: &Contender,
    mut end: End,
    (links, cross, others): (&EmulatorReport, &CrossEnd, usize),
    before: Option<&Snapshot>,
) -> Outcome {
    let exchanges = plan.exchanges();
    let flows = flows(&exchanges, &end);
    let received = [&end.client, &end.server].into_iter().flatten().flat_map(|report| &report.received);
    let most_held = received.flatten().filter_map(|received| received.most_held).max();
    let is_partial = plan.may_stay_partial();
    let ended: Vec<Duration> =
        [&end.client, &end.server].into_iter().flatten().filter_map(|report| report.ended).collect();
    let is_expected = plan.ends_without_a_path() && matches!(contender, Contender::Manyway(_));
    let lives_on =
        (is_expected && ended.len() < 2).then(|| "an end did not give the connection up".to_owned());
    let failure = end.failure.take().or_else(|| shortage(&exchanges, &flows, is_partial)).or(lives_on);
    // That of the agents is not that of what carries their data.
    let is_whole = !matches!(contender, Contender::Through(_));
    let cpu = end.client.as_ref().zip(end.server.as_ref()).filter(|_| is_whole);
    let mut remarks = end.remarks;
    // The deliveries of routes are those of all together.
    if failure.is_none() && others == 0 && cross.arrivals.is_empty() {
        let names = |group: Vec<usize>| {
            let names: Vec<&str> = group.iter().map(|route| plan.route_name(*route)).collect();
            (names.join(" or "), group)
        };
        let groups: Vec<_> = plan.groups(contender).into_iter().map(names).collect();
        remarks.extend(idle_routes(&groups, &exchanges, &links.routes));
    }
    remarks.extend(cross.remarks.iter().cloned());
    remarks.extend(late(links.totals.lateness));
    // A device that is down drops as well, which is no fault of the emulator.
    if !plan.loses_an_interface() {
        remarks.extend(overrun(&links.totals.interfaces));
    }
    let reports = [&end.client, &end.server].into_iter().flatten();
    let control = reports.flat_map(|report| report.control.iter().copied()).collect();
    Outcome {
        flows,
        routes: links.routes.iter().take(plan.routes()).cloned().collect(),
        cross: cross.arrivals.clone(),
        delivery: most_held
            .map(|most_held| Delivery { most_held: ByteCount(most_held), ..Delivery::default() }),
        control,
        set_up: before.filter(|_| others == 0).map(|before| set_up(before, end.took)),
        cpu: cpu.map(|(client, server)| CpuTime { client: client.cpu, server: server.cpu }),
        ended: if ended.len() == 2 { ended } else { Vec::new() },
        told: end.told,
        failure,
        remarks,
    }
}

/// What set-up took: packets count where they arrived.
fn set_up(before: &Snapshot, took: Duration) -> SetUp {
    let received = || before.interfaces.iter().map(|interface| interface.received);
    SetUp {
        took,
        packets: received().map(|count| count.packets).sum(),
        bytes: ByteCount(received().map(|count| count.bytes).sum()),
        memory: None,
    }
}

/// Arrived data, in the order of the traffic, up before down; empty where no report came.
fn flows(exchanges: &[Exchange], end: &End) -> Vec<Flow> {
    let mut flows = Vec::new();
    for (place, exchange) in exchanges.iter().enumerate() {
        for receiver in [Side::Server, Side::Client] {
            if !exchange.receives(receiver.into()) {
                continue;
            }
            let received = report(end, receiver).and_then(|report| report.received.get(place)?.clone());
            let received = received.unwrap_or_default();
            let sent = report(end, receiver.other()).and_then(|report| *report.sent.get(place)?).unwrap_or(0);
            flows.push(flow(receiver, exchange.load, received, sent));
        }
    }
    flows
}

fn flow(receiver: Side, load: Load, received: document::Received, sent: u64) -> Flow {
    let (latencies, missing) = match load {
        Load::Bulk { .. } => (None, 0),
        Load::Messages { .. } => {
            let arrived = u64::try_from(received.latencies.len()).unwrap_or(u64::MAX);
            let latencies = received.latencies.into_iter().map(Duration::from_nanos).collect();
            (Some(latencies), sent.saturating_sub(arrived))
        }
    };
    Flow { receiver, arrivals: received.arrivals, latencies, missing, overtaken: received.overtaken }
}

fn report(end: &End, side: Side) -> Option<&Report> {
    match side {
        Side::Client => end.client.as_ref(),
        Side::Server => end.server.as_ref(),
    }
}

/// Data that should have arrived and did not; `is_partial`: some is enough.
fn shortage(exchanges: &[Exchange], flows: &[Flow], is_partial: bool) -> Option<String> {
    let loads = exchanges.iter().flat_map(|exchange| {
        let count = usize::from(exchange.up) + usize::from(exchange.down);
        std::iter::repeat_n(exchange.load, count)
    });
    loads.zip(flows).find_map(|(load, flow)| {
        let arrived = flow.arrivals.total().get();
        let who = name(flow.receiver);
        match load {
            _ if arrived == 0 => Some(format!("nothing arrived at the {who}")),
            Load::Bulk { size: Some(size), .. } if arrived != size && !is_partial => {
                Some(format!("only {arrived} of {size} bytes arrived at the {who} in time"))
            }
            Load::Bulk { .. } | Load::Messages { .. } => None,
        }
    })
}

/// Routes that should carry bulk data and hardly do: at least one of each group, with its name.
fn idle_routes(
    groups: &[(String, Vec<usize>)],
    exchanges: &[Exchange],
    routes: &[RouteTotals],
) -> Vec<String> {
    let is_greedy = |exchange: &&Exchange| matches!(exchange.load, Load::Bulk { rate: None, .. });
    let greedy: Vec<&Exchange> = exchanges.iter().filter(is_greedy).collect();
    let mut remarks = Vec::new();
    for (is_wanted, which) in [
        (greedy.iter().any(|exchange| exchange.up), Side::Server),
        (greedy.iter().any(|exchange| exchange.down), Side::Client),
    ] {
        if !is_wanted {
            continue;
        }
        let carried = |totals: &RouteTotals| match which {
            Side::Server => totals.up.total().get(),
            Side::Client => totals.down.total().get(),
        };
        let all: u64 = routes.iter().map(carried).sum();
        for (route, group) in groups {
            let bytes: u64 = group.iter().filter_map(|route| routes.get(*route)).map(carried).sum();
            if bytes < all / 200 {
                remarks.push(format!(
                    "the route {route} carried only {bytes} of {all} bytes to the {}",
                    name(which)
                ));
            }
        }
    }
    remarks
}

/// The remark that packets were late enough to affect the figures: many of them, or some by a pause.
fn late(lateness: Lateness) -> Option<String> {
    (lateness.p99 > LATE || lateness.worst > PAUSE).then(|| {
        format!(
            "the emulator was late by {:.1} ms for one packet in a hundred, by {:.1} ms at worst: the machine was busy",
            millis(lateness.p99),
            millis(lateness.worst)
        )
    })
}

/// The remark that packets were lost that no link has dropped.
fn overrun(interfaces: &[InterfaceReport]) -> Option<String> {
    let lost: u64 = interfaces.iter().map(|interface| interface.overrun).sum();
    (lost > 0).then(|| {
        format!(
            "the emulator lost {lost} packets that it did not take from a host in time: the machine was busy"
        )
    })
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// From here on the emulator's own delay may affect the figures.
const LATE: Duration = Duration::from_millis(2);
/// A pause of this length affects silences, which are judged by a tenth of a second.
const PAUSE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Arrivals;

    #[test]
    fn a_route_that_hardly_carries_anything_is_reported() {
        let carrying = |bytes| {
            let mut up = Arrivals::default();
            up.record(Duration::ZERO, bytes);
            RouteTotals { up, ..RouteTotals::default() }
        };
        let bulk =
            |rate| [Exchange { up: true, down: false, load: Load::Bulk { size: None, rate, chunk: None } }];
        let alone = [("wifi".to_owned(), vec![0]), ("lte".to_owned(), vec![1])];
        let told = |bytes| idle_routes(&alone, &bulk(None), &[carrying(99_600), carrying(bytes)]);
        assert!(told(600).is_empty());
        assert_eq!(told(400), ["the route lte carried only 400 of 100000 bytes to the server"]);
        // Of alternative routes one is enough; and a sender of little data needs no second.
        let routes = [carrying(99_600), carrying(400)];
        let either = [("wifi or lte".to_owned(), vec![0, 1])];
        assert!(idle_routes(&either, &bulk(None), &routes).is_empty());
        assert!(idle_routes(&alone, &bulk(Some(1_000_000)), &routes).is_empty());
    }

    #[test]
    fn packets_lost_by_the_emulator_are_reported() {
        let interface = |overrun| InterfaceReport { overrun, ..InterfaceReport::default() };
        assert_eq!(overrun(&[interface(0), interface(0)]), None);
        let remark = overrun(&[interface(3), interface(4)]).unwrap();
        assert!(remark.starts_with("the emulator lost 7 packets"), "{remark}");
    }

    #[test]
    fn one_pause_of_the_emulator_is_reported_as_well_as_a_general_delay() {
        let of = |p99, worst| {
            let (p99, worst) = (Duration::from_millis(p99), Duration::from_millis(worst));
            late(Lateness { count: 1000, median: Duration::ZERO, p99, worst })
        };
        assert_eq!(of(1, 15), None);
        assert!(of(3, 15).is_some());
        assert!(of(0, 150).unwrap().contains("by 150.0 ms at worst"));
    }
}
