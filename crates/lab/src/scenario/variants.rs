//! Variants of a scenario.

use std::time::Duration;

use super::{Change, Direction, Ending, Event, Route, Scenario, Side, Traffic};

/// Time to find that the last path is lost, also for an end that only receives.
const DETECTION: Duration = Duration::from_secs(35);

impl Scenario {
    /// The same with the traffic in the other direction. Reversing twice restores it.
    #[must_use]
    pub fn reversed(mut self) -> Self {
        for traffic in &mut self.traffic {
            let (Traffic::Bulk { direction, .. } | Traffic::Messages { direction, .. }) = traffic;
            *direction = opposite(*direction);
        }
        for traffic in &mut self.cross_traffic {
            traffic.direction = opposite(traffic.direction);
        }
        self
    }

    /// The same with another duration. Events and traffic of others move and sizes of bulk traffic change in proportion,
    /// so that everything still happens; round-trip times and intervals stay.
    #[must_use]
    pub fn with_duration(mut self, duration: Duration) -> Self {
        let old = self.duration.as_nanos().max(1);
        let scaled = |value: u128| value.saturating_mul(duration.as_nanos()) / old;
        let nanos = |value: u128| u64::try_from(scaled(value)).unwrap_or(u64::MAX);
        for event in &mut self.events {
            event.at = Duration::from_nanos(nanos(event.at.as_nanos()));
        }
        let scaled_time = |time: Duration| Duration::from_nanos(nanos(time.as_nanos()));
        for traffic in &mut self.cross_traffic {
            traffic.at = scaled_time(traffic.at);
            traffic.lasts = traffic.lasts.map(scaled_time);
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

    /// If both ends have to give the connection up: most time for that after the duration.
    pub(crate) fn giving_up(&self) -> Option<Duration> {
        match self.ending {
            Ending::NoPath(patience) => Some(patience.saturating_add(DETECTION)),
            Ending::Complete | Ending::OnTime => None,
        }
    }

    /// The same with one route of contenders only, and those that others use, with their interfaces, their links, and
    /// their events. A missing route leaves everything as it is.
    #[must_use]
    pub fn single(mut self, route: usize) -> Self {
        let Some(only) = self.routes.get(route) else { return self };
        let mut used: Vec<usize> = self.cross_traffic.iter().map(|traffic| traffic.route).collect();
        used.sort_unstable();
        used.dedup();
        used.retain(|place| *place != route);
        let mut kept = Kept::default();
        let only = kept.renumber(only.clone());
        let others = used.iter().filter_map(|place| self.any_route(*place).cloned());
        let cross_routes = others.map(|route| kept.renumber(route)).collect();
        self.events = self.events.into_iter().filter_map(|event| kept.narrow(event)).collect();
        self.links = picked(&self.links, &kept.links);
        self.client = picked(&self.client, &kept.client);
        self.server = picked(&self.server, &kept.server);
        // The first of each is that of the contenders.
        for interface in self.client.iter_mut().skip(1).chain(self.server.iter_mut().skip(1)) {
            interface.is_for_others = true;
        }
        for traffic in &mut self.cross_traffic {
            let place = used.iter().position(|place| *place == traffic.route);
            traffic.route = place.map_or(0, |place| place + 1);
        }
        (self.routes, self.cross_routes) = (vec![only], cross_routes);
        self
    }
}

/// What of a scenario is kept, by its old indices, in the order of the new ones.
#[derive(Debug, Default)]
struct Kept {
    links: Vec<usize>,
    client: Vec<usize>,
    server: Vec<usize>,
}

impl Kept {
    /// Keeps what a route needs, and gives it the new indices.
    fn renumber(&mut self, route: Route) -> Route {
        let number = |kept: &mut Vec<usize>, old: usize| {
            kept.iter().position(|known| *known == old).unwrap_or_else(|| {
                kept.push(old);
                kept.len() - 1
            })
        };
        Route {
            client: number(&mut self.client, route.client),
            server: number(&mut self.server, route.server),
            links: route.links.iter().map(|link| number(&mut self.links, *link)).collect(),
            ..route
        }
    }

    /// The event with the new indices; `None` if it concerns something else.
    fn narrow(&self, event: Event) -> Option<Event> {
        let Event { at, mut change } = event;
        let new = |kept: &[usize], old: usize| kept.iter().position(|known| *known == old);
        match &mut change {
            Change::Cut { link, .. } | Change::Restore { link, .. } | Change::Set { link, .. } => {
                *link = new(&self.links, *link)?;
            }
            Change::InterfaceDown { side, interface }
            | Change::InterfaceUp { side, interface }
            | Change::Readdress { side, interface, .. }
            | Change::Rebind { side, interface } => {
                let kept = match side {
                    Side::Client => &self.client,
                    Side::Server => &self.server,
                };
                *interface = new(kept, *interface)?;
            }
        }
        Some(Event { at, change })
    }
}

fn picked<T: Clone>(all: &[T], places: &[usize]) -> Vec<T> {
    places.iter().filter_map(|place| all.get(*place).cloned()).collect()
}

const fn opposite(direction: Direction) -> Direction {
    match direction {
        Direction::Up => Direction::Down,
        Direction::Down => Direction::Up,
        Direction::Both => Direction::Both,
    }
}
