//! Events that wait for the application: bounded, whether it polls them or not.

use std::collections::VecDeque;

use crate::event::Event;

/// Beyond this many, path events replace older ones.
const MOST: usize = 128;

/// Events of the connection itself, in order.
///
/// Newer path events replace outdated ones, so a peer that migrates, opens and closes paths all day long fills no
/// memory while the application does not poll. An event that happens once, such as the end, is never dropped.
#[derive(Debug, Default)]
pub(crate) struct Events {
    waiting: VecDeque<Event>,
}

impl Events {
    /// Adds an event. Costs O(1); with more than 128 waiting events O(n).
    pub(crate) fn push(&mut self, event: Event) {
        let is_repeat = matches!(event, Event::PeerAddresses | Event::TcpConnections);
        if is_repeat && self.waiting.contains(&event) {
            return;
        }
        if let Event::AddressObserved { path, .. } = event {
            self.waiting.retain(
                |waiting| !matches!(waiting, Event::AddressObserved { path: other, .. } if *other == path),
            );
        }
        if let Event::PrimaryPath(_) | Event::CostlyPathNeeded(_) = event {
            // Only the newest event of this kind is true.
            self.waiting.retain(|waiting| std::mem::discriminant(waiting) != std::mem::discriminant(&event));
        }
        if self.waiting.len() >= MOST {
            self.make_room(&event);
        }
        self.waiting.push_back(event);
    }

    /// Drops the oldest event of the same path, or else the oldest of any path.
    fn make_room(&mut self, event: &Event) {
        let of_path = |waiting: &Event| {
            matches!(waiting, Event::Path(_) | Event::AddressObserved { .. } | Event::TargetRate(_))
        };
        let of_same_path = |waiting: &Event| match (waiting, event) {
            (Event::Path(old), Event::Path(new)) => old.path == new.path,
            _ => false,
        };
        let outdated =
            self.waiting.iter().position(of_same_path).or_else(|| self.waiting.iter().position(of_path));
        outdated.and_then(|at| self.waiting.remove(at));
    }

    /// The next event.
    pub(crate) fn pop(&mut self) -> Option<Event> {
        self.waiting.pop_front()
    }

    /// Frees unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.waiting.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use manyway_wire::PathId;

    use super::{Events, MOST};
    use crate::event::{Event, PathEvent};
    use crate::{ClosedBy, ConnectionError, FourTuple, LocalAddress, PathReason, PathState, Role};

    fn path(number: u32, state: PathState) -> Event {
        let local = LocalAddress { interface: 1, address: "10.0.0.1:1".parse().unwrap() };
        let tuple = FourTuple::udp(local, "10.0.0.2:1".parse().unwrap());
        let reason = PathReason::Opened;
        Event::Path(PathEvent { path: PathId(number), tuple, role: Role::Primary, state, reason })
    }

    #[test]
    fn path_events_are_bounded_and_events_that_happen_once_stay() {
        let mut events = Events::default();
        events.push(Event::Connected);
        for number in 0..10_000 {
            events.push(path(number, PathState::Validating));
            events.push(path(number, PathState::Closed));
            events.push(Event::PeerAddresses);
            events.push(Event::TcpConnections);
            let address = ([192, 0, 2, 1], 1).into();
            events.push(Event::AddressObserved { path: PathId(number), address });
            assert!(events.waiting.len() <= MOST);
        }
        let end = ConnectionError::Closed { by: ClosedBy::Peer, code: 0, reason: String::new() };
        events.push(Event::Closed(end.clone()));
        assert_eq!(events.pop(), Some(Event::Connected));
        let told: Vec<_> = std::iter::from_fn(|| events.pop()).collect();
        assert_eq!(told.iter().filter(|event| **event == Event::PeerAddresses).count(), 1);
        assert_eq!(told.iter().filter(|event| **event == Event::TcpConnections).count(), 1);
        assert_eq!(told.last(), Some(&Event::Closed(end)));
    }

    #[test]
    fn the_last_event_of_each_path_is_always_delivered() {
        let mut events = Events::default();
        for round in 0..1000 {
            for number in 0..8 {
                let state = if round % 2 == 0 { PathState::Active } else { PathState::Suspect };
                events.push(path(number, state));
            }
        }
        let told: Vec<_> = std::iter::from_fn(|| events.pop()).collect();
        for number in 0..8 {
            let of_path = |event: &&Event| matches!(event, Event::Path(news) if news.path == PathId(number));
            assert_eq!(told.iter().rfind(of_path), Some(&path(number, PathState::Suspect)));
        }
    }
}
