//! The carriers of traffic: each provides lanes, and everything else is the same for all.

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
    /// Takes the first steps, which do not need the other end; returns the listening port, or 0.
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

    /// Waits, for a limited time, until it accepts connections.
    pub(super) async fn listening(&mut self, assignment: &Assignment) -> Result<(), String> {
        match self {
            Self::Streams(_) | Self::Tcp(_) | Self::Datagrams(_) => Ok(()),
            Self::External(external) => external.listening(assignment).await,
        }
    }

    /// Connects to the other end, which listens on `port`; returns the lanes of each exchange.
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

    /// Waits, for a limited time, until all routes are in use; returns remarks for the reader of the figures.
    pub(super) async fn settle(&mut self) -> Vec<String> {
        match self {
            Self::Streams(streams) => streams.settle().await,
            Self::Tcp(tcp) => tcp.settle().await,
            Self::External(_) | Self::Datagrams(_) => Vec::new(),
        }
    }

    /// Ends what must end before the report; returns the failure of a program.
    pub(super) async fn end(&mut self) -> Option<String> {
        match self {
            Self::Streams(_) | Self::Tcp(_) | Self::Datagrams(_) => None,
            Self::External(external) => external.end().await,
        }
    }

    /// Ends it, once the other end has everything.
    pub(super) async fn close(self) {
        if let Self::Streams(streams) = self {
            streams.close().await;
        }
    }
}

/// The exchange and number of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    exchange: u8,
    lane: u8,
}

impl Place {
    /// Every lane, if each exchange has this many.
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

/// Lanes until all have been opened.
#[derive(Default)]
struct Places(Vec<(Place, Lane)>);

impl Places {
    /// The client names the place of a lane; once that is answered, it works both ways.
    async fn introduce(&mut self, place: Place, mut lane: Lane) -> Result<(), String> {
        lane.write.say(&[place.exchange, place.lane]).await.map_err(|e| format!("greeting: {e}"))?;
        let answer = lane.read.hear(&mut [0]).await;
        answer.map_err(|e| format!("waiting for the answer to the greeting: {e}"))?;
        self.0.push((place, lane));
        Ok(())
    }

    /// The server reads the place of a lane.
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
