//! What carries the traffic: everybody gives lanes, and all else is the same.

mod child;
mod datagrams;
mod external;
mod multipath;
mod streams;
mod tcp;

use manyway::ConnectionConfig;

use super::document::{Assignment, CarrierSpec, End};
use super::lane::Lane;

/// The connection of a contender, at one end.
pub(super) enum Carrier {
    Streams(Box<streams::Streams>),
    Tcp(tcp::Tcp),
    External(external::External),
    Datagrams(datagrams::Datagrams),
}

impl Carrier {
    /// Takes the first steps that need nothing of the other end; gives the port on which it listens, or 0.
    pub(super) fn listen(assignment: &Assignment, config: &ConnectionConfig) -> Result<(Self, u16), String> {
        Ok(match &assignment.carrier {
            CarrierSpec::Manyway(spec) => {
                let (streams, port) = streams::Streams::listen(assignment, spec, config)?;
                (Self::Streams(Box::new(streams)), port)
            }
            CarrierSpec::Tcp(spec) => {
                let (tcp, port) = tcp::Tcp::listen(assignment.end, spec)?;
                (Self::Tcp(tcp), port)
            }
            CarrierSpec::External(spec) => (Self::External(external::External::listen(assignment, spec)?), 0),
            CarrierSpec::Udp { remote, segment } => {
                let (datagrams, port) = datagrams::Datagrams::listen(assignment.end, *remote, *segment)?;
                (Self::Datagrams(datagrams), port)
            }
        })
    }

    /// Waits, not for long, until it can be connected to.
    pub(super) async fn listening(&mut self, assignment: &Assignment) -> Result<(), String> {
        match self {
            Self::Streams(_) | Self::Tcp(_) | Self::Datagrams(_) => Ok(()),
            Self::External(external) => external.listening(assignment).await,
        }
    }

    /// Connects with the other end, which listens on `port`; gives the lanes of each exchange.
    pub(super) async fn connect(
        &mut self,
        assignment: &Assignment,
        port: u16,
    ) -> Result<Vec<Vec<Lane>>, String> {
        match self {
            Self::Streams(streams) => streams.connect(assignment, port).await,
            Self::Tcp(tcp) => tcp.connect(assignment, port).await,
            Self::External(external) => external.connect(assignment).await,
            Self::Datagrams(datagrams) => Ok(datagrams.connect(port)),
        }
    }

    /// Waits, not for long, until all routes are in use; says what a reader of the figures must know.
    pub(super) async fn settle(&mut self) -> Vec<String> {
        match self {
            Self::Streams(streams) => streams.settle().await,
            Self::Tcp(tcp) => tcp.settle().await,
            Self::External(_) | Self::Datagrams(_) => Vec::new(),
        }
    }

    /// Ends what must have ended before the report; gives the failure of a program that failed.
    pub(super) async fn end(&mut self) -> Option<String> {
        match self {
            Self::Streams(_) | Self::Tcp(_) | Self::Datagrams(_) => None,
            Self::External(external) => external.end().await,
        }
    }

    /// Ends it, once the other end has all.
    pub(super) async fn close(self) {
        if let Self::Streams(streams) = self {
            streams.close().await;
        }
    }
}

/// Where a lane belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    exchange: u8,
    lane: u8,
}

impl Place {
    /// Every lane, if an exchange has so many.
    fn all(assignment: &Assignment, lanes: impl Fn(usize) -> usize) -> Vec<Self> {
        let exchanges = (0..=u8::MAX).take(assignment.exchanges.len());
        exchanges
            .flat_map(|exchange| {
                let lanes = (0..=u8::MAX).take(lanes(usize::from(exchange)));
                lanes.map(move |lane| Self { exchange, lane })
            })
            .collect()
    }
}

/// Lanes before all are there.
#[derive(Default)]
struct Places(Vec<(Place, Lane)>);

impl Places {
    /// The client says where a lane belongs; once that is answered, it works both ways.
    async fn introduce(&mut self, place: Place, mut lane: Lane) -> Result<(), String> {
        lane.write.say(&[place.exchange, place.lane]).await.map_err(|e| format!("greeting: {e}"))?;
        let answer = lane.read.hear(&mut [0]).await;
        answer.map_err(|e| format!("waiting for the answer to the greeting: {e}"))?;
        self.0.push((place, lane));
        Ok(())
    }

    /// The server hears where a lane belongs.
    async fn welcome(&mut self, mut lane: Lane) -> Result<Place, String> {
        let mut words = [0; 2];
        lane.read.hear(&mut words).await.map_err(|e| format!("waiting for the greeting: {e}"))?;
        lane.write.say(&[0]).await.map_err(|e| format!("answering the greeting: {e}"))?;
        let place = Place { exchange: words[0], lane: words[1] };
        self.0.push((place, lane));
        Ok(place)
    }

    /// The lanes of each exchange in their order.
    fn into_lanes(mut self, assignment: &Assignment) -> Vec<Vec<Lane>> {
        self.0.sort_by_key(|(place, _)| place.lane);
        let mut lanes: Vec<Vec<Lane>> = assignment.exchanges.iter().map(|_| Vec::new()).collect();
        for (place, lane) in self.0 {
            if let Some(lanes) = lanes.get_mut(usize::from(place.exchange)) {
                lanes.push(lane);
            }
        }
        lanes
    }
}

/// Whether this end connects.
fn is_client(end: End) -> bool {
    match end {
        End::Client => true,
        End::Server => false,
    }
}
