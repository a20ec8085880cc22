//! Variants of a scenario.

use std::time::Duration;

use super::{Change, Direction, Ending, Event, Scenario, Side, Traffic};

impl Scenario {
    /// The same with the traffic in the other direction. Turning twice restores it.
    #[must_use]
    pub fn turned(mut self) -> Self {
        for traffic in &mut self.traffic {
            let (Traffic::Bulk { direction, .. } | Traffic::Messages { direction, .. }) = traffic;
            *direction = opposite(*direction);
        }
        self
    }

    /// The same with another duration. Events move and sizes of bulk traffic change in proportion, so that everything
    /// still happens; round-trip times and intervals stay.
    #[must_use]
    pub fn with_duration(mut self, duration: Duration) -> Self {
        let old = self.duration.as_nanos().max(1);
        let scaled = |value: u128| value.saturating_mul(duration.as_nanos()) / old;
        let nanos = |value: u128| u64::try_from(scaled(value)).unwrap_or(u64::MAX);
        for event in &mut self.events {
            event.at = Duration::from_nanos(nanos(event.at.as_nanos()));
        }
        for traffic in &mut self.traffic {
            if let Traffic::Bulk { size: Some(size), .. } = traffic {
                size.0 = nanos(u128::from(size.get())).max(1);
            }
        }
        self.duration = duration;
        self
    }

    /// Longest time of a run from the start of the traffic: the duration, and if there is traffic with an end of its
    /// own that must come, four times as long and half a minute more.
    pub fn limit(&self) -> Duration {
        let sized = |traffic: &Traffic| matches!(traffic, Traffic::Bulk { size: Some(_), .. });
        if self.ending != Ending::OnTime && self.traffic.iter().any(sized) {
            self.duration.saturating_mul(4).saturating_add(Duration::from_secs(30))
        } else {
            self.duration
        }
    }

    /// The same with one route only, its interfaces, its links, and their events. A missing route leaves everything as
    /// it is.
    #[must_use]
    pub fn single(mut self, route: usize) -> Self {
        let Some(mut route) = self.routes.get(route).cloned() else { return self };
        let kept = std::mem::take(&mut route.links);
        let (client, server) = (route.client, route.server);
        self.events =
            self.events.into_iter().filter_map(|event| narrowed(event, &kept, (client, server))).collect();
        self.links = kept.iter().filter_map(|link| self.links.get(*link).cloned()).collect();
        self.client = self.client.get(client).cloned().into_iter().collect();
        self.server = self.server.get(server).cloned().into_iter().collect();
        route.links = (0..kept.len()).collect();
        (route.client, route.server) = (0, 0);
        self.routes = vec![route];
        self
    }
}

/// The event with the indices of links and interfaces in a scenario of one route; `None` if it concerns others.
fn narrowed(event: Event, links: &[usize], (client, server): (usize, usize)) -> Option<Event> {
    let Event { at, mut change } = event;
    match &mut change {
        Change::Cut { link, .. } | Change::Restore { link, .. } | Change::Set { link, .. } => {
            *link = links.iter().position(|kept| kept == link)?;
        }
        Change::InterfaceDown { side, interface }
        | Change::InterfaceUp { side, interface }
        | Change::Readdress { side, interface, .. }
        | Change::Rebind { side, interface } => {
            let kept = match side {
                Side::Client => client,
                Side::Server => server,
            };
            if *interface != kept {
                return None;
            }
            *interface = 0;
        }
    }
    Some(Event { at, change })
}

const fn opposite(direction: Direction) -> Direction {
    match direction {
        Direction::Up => Direction::Down,
        Direction::Down => Direction::Up,
        Direction::Both => Direction::Both,
    }
}
