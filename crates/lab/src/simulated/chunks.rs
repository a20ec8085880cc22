//! The program of CMT in virtual time: chunks of a file over independent TCP connections of the model.
//!
//! The receiving program takes chunks one after the other as they arrive, and spends its time on each. What it has not
//! taken yet waits in the buffers of the system, which have room for all of it.

use std::collections::BTreeMap;
use std::time::Duration;

use manyway_proto::{ByteCount, ConnectionConfig, Instant};
use manyway_sim::{CrossFlow, CrossKind};

use super::setup::Setup;
use super::stage::Stage;
use crate::LabError;
use crate::contender::{Chunks, ManywaySettings};
use crate::dealing::{Dealing, NUMBER, Resequencer};
use crate::outcome::{Arrivals, Delivery, Flow, Outcome, RouteTotals};
use crate::scenario::{Direction, Ending, Event, Scenario, Side, Traffic};

/// Runs the program through a scenario.
///
/// # Errors
/// The scenario has other traffic than one bulk of a given size from one end.
pub(super) fn run(scenario: &Scenario, chunks: &Chunks, seed: u64) -> Result<Outcome, LabError> {
    let dealing = chunks.dealing(scenario).ok_or_else(|| LabError::Unsupported(Chunks::UNFIT.to_owned()))?;
    // The hosts have machines, which never connect.
    let setup = Setup::new(&ConnectionConfig::default(), &ManywaySettings::default())?;
    let mut stage = Stage::new(scenario, &setup, seed);
    let begin = stage.world.now();
    let end = begin + if scenario.ending == Ending::OnTime { scenario.duration } else { scenario.limit() };
    let direction = scenario.traffic.first().map_or(Direction::Up, Traffic::direction);
    let mut lanes = Vec::new();
    for route in 0..scenario.routes.len() {
        for _ in 0..chunks.connections {
            let number = lanes.len();
            let flow = CrossFlow {
                kind: CrossKind::Cubic,
                packet: PACKET,
                start: begin,
                end,
                bytes: Some(dealing.bytes_of(number)),
            };
            stage.add_flow(scenario, (route, direction), flow);
            lanes.push(Lane::new(&dealing, number));
        }
    }
    stage.count();
    let mut program = Program {
        free_at: Duration::ZERO,
        until: end - begin,
        order: Resequencer::default(),
        arrivals: Arrivals::default(),
    };
    let failure = drive(&mut stage, (begin, end), scenario, |stage, at| {
        lanes.iter_mut().for_each(|lane| lane.advance(stage, at, &dealing, &mut program));
        lanes.iter().all(Lane::is_over)
    });
    Ok(program.outcome(stage, scenario, failure))
}

/// Steps the world with the events of the scenario until everything has arrived, or the end.
fn drive(
    stage: &mut Stage,
    (begin, end): (Instant, Instant),
    scenario: &Scenario,
    mut advance: impl FnMut(&Stage, Duration) -> bool,
) -> Option<String> {
    let mut events = scenario.events.iter().peekable();
    loop {
        let now = stage.world.now();
        while let Some(Event { change, .. }) = events.next_if(|event| begin + event.at <= now) {
            stage.apply(change);
        }
        stage.note(begin);
        if advance(stage, now - begin) || now >= end {
            return None;
        }
        let until = events.peek().map_or(end, |event| (begin + event.at).min(end));
        if let Err(broken) = stage.world.step(until) {
            return Some(broken.to_string());
        }
    }
}

/// A connection with the chunks that it is to carry.
struct Lane {
    flow: usize,
    numbers: Box<dyn Iterator<Item = u64>>,
    /// The chunk that arrives next, and the bytes of the connection up to its end.
    next: Option<u64>,
    due: u64,
}

impl Lane {
    fn new(dealing: &Dealing, number: usize) -> Self {
        let mut lane = Self { flow: number, numbers: Box::new(dealing.of(number)), next: None, due: 0 };
        lane.expect(dealing);
        lane
    }

    fn expect(&mut self, dealing: &Dealing) {
        self.next = self.numbers.next();
        self.due += self.next.map_or(0, |number| NUMBER + dealing.length(number));
    }

    fn is_over(&self) -> bool {
        self.next.is_none()
    }

    /// Hands the program what has arrived.
    fn advance(&mut self, stage: &Stage, at: Duration, dealing: &Dealing, program: &mut Program) {
        let received = stage.cross_received(self.flow);
        while received >= self.due
            && let Some(number) = self.next
        {
            program.take(at, number, dealing);
            self.expect(dealing);
        }
    }
}

/// The receiving program.
struct Program {
    /// When it has done what it has begun.
    free_at: Duration,
    /// The end of the run.
    until: Duration,
    order: Resequencer,
    arrivals: Arrivals,
}

impl Program {
    fn take(&mut self, at: Duration, number: u64, dealing: &Dealing) {
        self.free_at = self.free_at.max(at) + dealing.cost;
        // What it does not get to in time does not count.
        if self.free_at <= self.until {
            self.order.take(number, dealing.length(number));
            self.arrivals.record(self.free_at, dealing.length(number));
        }
    }

    fn outcome(self, stage: Stage, scenario: &Scenario, failure: Option<String>) -> Outcome {
        let up = scenario.traffic.first().map(Traffic::direction) != Some(Direction::Down);
        let receiver = if up { Side::Server } else { Side::Client };
        let arrived = self.arrivals.total();
        let size = match scenario.traffic.first() {
            Some(Traffic::Bulk { size: Some(size), .. }) if scenario.ending != Ending::OnTime => *size,
            _ => ByteCount(1),
        };
        let failure = failure
            .or_else(|| (arrived < size).then(|| format!("only {arrived} of {size} bytes arrived in time")));
        let routes: Vec<RouteTotals> = stage.totals();
        Outcome {
            flows: vec![Flow {
                receiver,
                arrivals: self.arrivals,
                latencies: None,
                missing: 0,
                overtaken: 0,
            }],
            routes: routes.into_iter().take(scenario.routes.len()).collect(),
            cross: Vec::new(),
            delivery: Some(Delivery { most_held: ByteCount(self.order.most_held()), ..Delivery::default() }),
            control: Vec::new(),
            set_up: None,
            cpu: None,
            ended: Vec::new(),
            told: BTreeMap::new(),
            failure,
            remarks: Vec::new(),
        }
    }
}

/// Bytes of a full IP packet.
const PACKET: u16 = 1500;
