//! One run: handshake, traffic, events, and the laws.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use manyway_proto::{ConnectionError, Event, Instant, TargetRate};
use manyway_sim::{BrokenLaw, DeliveryWatch, PathFigures, Peer as _, Reference, Step};

use super::cross::CrossRecord;
use super::flow::{self, Stream};
use super::setup::Setup;
use super::stage::Stage;
use crate::Outcome;
use crate::outcome::{Control, Delivery, SetUp};
use crate::scenario::{self, Ending, Scenario, Side};

/// Time for the handshake.
const SET_UP: Duration = Duration::from_secs(15);
/// Time for paths to come up.
const SETTLE: Duration = Duration::from_secs(3);
/// Interval of checking for them.
const LOOK: Duration = Duration::from_millis(10);
/// Time for data in flight after the end.
const GRACE: Duration = Duration::from_secs(2);

/// Most paths of a connection.
const MOST_PATHS: usize = 8;

const SIDES: [Side; 2] = [Side::Client, Side::Server];

/// Runs a scenario over all of its routes.
pub(super) fn run(scenario: &Scenario, setup: &Setup, seed: u64) -> Outcome {
    let paths = {
        let routes: Vec<usize> = (0..scenario.routes.len()).collect();
        let pairs = scenario.groups(&scenario.at_start(&routes), setup.config.pairs).len().min(MOST_PATHS);
        pairs * setup.tcp.map_or(1, |tcp| tcp.connections)
    };
    let mut run = Run {
        stage: Stage::new(scenario, setup, seed),
        model: Reference::default(),
        streams: Vec::new(),
        cross: CrossRecord::new(scenario),
        events: scenario.events.iter().cloned().collect(),
        begin: Instant::from_nanos(0),
        watch: DeliveryWatch::default(),
        figures: Vec::new(),
        remarks: Vec::new(),
        gives_up: false,
        ended: [None, None],
        set_up: None,
    };
    let result = run.set_up(paths).and_then(|()| {
        run.begin(scenario, setup.target);
        match scenario.ending {
            Ending::Complete => run.drive(run.begin + scenario.limit() + GRACE),
            Ending::OnTime => run.drive(run.begin + scenario.duration),
            Ending::NoPath(_) => {
                run.gives_up = true;
                run.drive(run.begin + scenario.duration + scenario.giving_up().unwrap_or_default())?;
                run.has_given_up()
            }
        }
    });
    run.outcome(scenario, result.err())
}

struct Run {
    stage: Stage,
    /// The expected data of the applications.
    model: Reference,
    streams: Vec<Stream>,
    cross: CrossRecord,
    /// The remaining events.
    events: VecDeque<scenario::Event>,
    /// Time 0, once the traffic has begun.
    begin: Instant,
    watch: DeliveryWatch,
    figures: Vec<PathFigures>,
    remarks: Vec<String>,
    /// Whether the end of the connection is expected.
    gives_up: bool,
    /// When the connection ended at the client and at the server, since time 0.
    ended: [Option<Duration>; 2],
    set_up: Option<SetUp>,
}

impl Run {
    /// Connects, and waits a while for the paths.
    fn set_up(&mut self, paths: usize) -> Result<(), String> {
        self.stage.connect()?;
        let gives_up = self.now() + SET_UP;
        while !self.is_connected() {
            self.check_alive()?;
            if self.step(gives_up)? == Step::Waited {
                return Err(format!("not connected after {} s", SET_UP.as_secs()));
            }
        }
        let until = self.now() + SETTLE;
        loop {
            let ready = self.stage.ready_paths();
            self.set_up = Some(self.stage.set_up());
            if ready >= paths {
                return Ok(());
            }
            if self.now() >= until {
                self.remarks.push(format!("only {ready} of {paths} paths were there at the begin"));
                return Ok(());
            }
            let look = self.now() + LOOK;
            while self.step(look)? == Step::Acted {}
            self.check_alive()?;
        }
    }

    fn begin(&mut self, scenario: &Scenario, target: Option<TargetRate>) {
        self.begin = self.now();
        let streams = flow::streams(scenario, self.begin).into_iter();
        self.streams = streams.map(|stream| stream.wanted(target)).collect();
        self.stage.add_cross_traffic(scenario, self.begin);
        self.stage.count();
        for side in SIDES {
            if let Some(connection) = self.stage.peer(side).and_then(|peer| peer.connection()) {
                connection.set_observer(self.watch.observer(side));
            }
        }
    }

    /// Runs until everything has arrived, or the time is over.
    fn drive(&mut self, end: Instant) -> Result<(), String> {
        loop {
            self.apply_events();
            self.act().map_err(|broken| broken.to_string())?;
            self.stage.note(self.begin);
            self.cross.note(self.now() - self.begin, &self.stage);
            let is_over = self.streams.iter().all(Stream::is_over) || self.ended.iter().all(Option::is_some);
            if self.now() >= end || is_over {
                return Ok(());
            }
            if self.gives_up {
                self.note_ends();
            } else {
                self.check_alive()?;
            }
            let now = self.now();
            let event = self.events.front().map(|event| self.begin + event.at);
            let wakes = self.streams.iter().filter_map(|stream| stream.wakes_at(now));
            let until = wakes.chain(event).fold(end, Instant::min);
            self.step(until)?;
        }
    }

    fn now(&self) -> Instant {
        self.stage.world.now()
    }

    fn is_connected(&mut self) -> bool {
        SIDES.into_iter().all(|side| self.stage.peer(side).is_some_and(|peer| peer.streams().is_some()))
    }

    fn check_alive(&mut self) -> Result<(), String> {
        for (side, name) in SIDES.into_iter().zip(["client", "server"]) {
            if let Some(error) = self.stage.peer(side).and_then(|peer| peer.ended()) {
                return Err(format!("the connection ended at the {name}: {error}"));
            }
        }
        Ok(())
    }

    /// Records at which ends the connection is over.
    fn note_ends(&mut self) {
        let at = self.now() - self.begin;
        for (side, ended) in SIDES.into_iter().zip(&mut self.ended) {
            if ended.is_none()
                && let Some(error) = self.stage.peer(side).and_then(|peer| peer.ended())
            {
                *ended = Some(at);
                if *error != ConnectionError::NoPath {
                    self.remarks
                        .push(format!("the connection ended at the {side:?} for another reason: {error}"));
                }
            }
        }
    }

    /// Whether the connection ended at both ends.
    fn has_given_up(&self) -> Result<(), String> {
        for (ended, name) in self.ended.iter().zip(["client", "server"]) {
            if ended.is_none() {
                return Err(format!("the connection had not ended at the {name}"));
            }
        }
        Ok(())
    }

    /// Executes one step, not after `until`, and checks the laws.
    fn step(&mut self, until: Instant) -> Result<Step, String> {
        let step = self.stage.world.step(until).map_err(|broken| broken.to_string())?;
        let now = self.now();
        for side in SIDES {
            if let Some(peer) = self.stage.peer(side) {
                peer.absorb_events(now);
            }
            self.check_paths(side).map_err(|broken| broken.to_string())?;
        }
        Ok(step)
    }

    fn check_paths(&mut self, side: Side) -> Result<(), BrokenLaw> {
        let (now, host) = (self.now(), self.stage.host(side));
        self.figures.clear();
        if let Some(peer) = self.stage.peer(side) {
            peer.figures(now, &mut self.figures);
        }
        self.figures.iter().try_for_each(|path| self.stage.world.laws_mut().on_path(now, host, *path))
    }

    fn apply_events(&mut self) {
        let now = self.now();
        while self.events.front().is_some_and(|event| self.begin + event.at <= now)
            && let Some(event) = self.events.pop_front()
        {
            self.stage.apply(&event.change);
        }
    }

    /// Runs the applications of both ends.
    fn act(&mut self) -> Result<(), BrokenLaw> {
        let now = self.now();
        for side in SIDES {
            let (host, writer) = (self.stage.host(side), self.stage.host(side.other()));
            let Some(streams) = self.stage.peer(side).and_then(|peer| peer.streams()) else { continue };
            // Streams that the other end opened are known by their IDs.
            while streams.accept().is_some() {}
            let mut result = Ok(());
            for stream in &mut self.streams {
                if stream.sender == side {
                    stream.send(now, host, streams, &mut self.model);
                } else if result.is_ok() {
                    result = stream.receive(now, writer, streams, &mut self.model);
                }
            }
            result.map_err(|law| self.stage.world.laws_mut().broken(now, law))?;
        }
        for stream in &mut self.streams {
            if let Some(peer) = self.stage.peer(stream.sender.other()) {
                stream.hold(now, peer);
            }
        }
        Ok(())
    }

    /// What receivers did since the traffic began.
    fn control(&mut self) -> Vec<Control> {
        let mut control = Vec::new();
        for side in SIDES {
            let Some(peer) = self.stage.peer(side) else { continue };
            let events = peer.peer().events().iter().filter(|(at, _)| *at >= self.begin);
            control.extend(events.filter_map(|(at, event)| {
                let Event::TargetRate(report) = event else { return None };
                Some(Control::new(*at - self.begin, report))
            }));
        }
        control
    }

    fn outcome(mut self, scenario: &Scenario, failure: Option<String>) -> Outcome {
        let end = self.now();
        let discarded = SIDES.into_iter().filter_map(|side| {
            let connection = self.stage.peer(side)?.connection()?;
            Some(connection.statistics().duplicate_bytes_received)
        });
        let delivery = Delivery {
            most_held: self.watch.most_held(),
            delays: self.watch.delays(),
            discarded: discarded.sum(),
        };
        let control = self.control();
        let streams = if self.streams.is_empty() { flow::streams(scenario, end) } else { self.streams };
        let must_arrive = scenario.ending != Ending::OnTime;
        let shortage = |stream: &Stream| stream.shortage(must_arrive);
        let failure = failure.or_else(|| streams.iter().find_map(shortage));
        Outcome {
            flows: streams.into_iter().map(|stream| stream.into_flow(end)).collect(),
            routes: self.stage.totals().into_iter().take(scenario.routes.len()).collect(),
            cross: self.cross.into_arrivals(),
            delivery: Some(delivery),
            cpu: None,
            ended: if self.ended.iter().all(Option::is_some) {
                self.ended.into_iter().flatten().collect()
            } else {
                Vec::new()
            },
            control,
            set_up: self.set_up,
            told: BTreeMap::new(),
            failure,
            remarks: self.remarks,
        }
    }
}
