//! What works in a scenario after some of its events.

use super::{Change, Direction, Interface, Route, Scenario, Side};

/// Which links and interfaces work.
#[derive(Debug)]
pub(crate) struct Working {
    /// Each link up and down.
    links: Vec<[bool; 2]>,
    client: Vec<bool>,
    server: Vec<bool>,
}

impl Working {
    /// At the start everything works but the interfaces that are to come up later.
    pub(crate) fn at_start(scenario: &Scenario) -> Self {
        let up = |interfaces: &[Interface]| interfaces.iter().map(|one| !one.starts_down).collect();
        Self {
            links: vec![[true; 2]; scenario.links.len()],
            client: up(&scenario.client),
            server: up(&scenario.server),
        }
    }

    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::Cut { link, direction } => self.set_link(*link, *direction, false),
            Change::Restore { link, direction } => self.set_link(*link, *direction, true),
            Change::InterfaceDown { side, interface } => self.set_interface(*side, *interface, false),
            Change::InterfaceUp { side, interface } => self.set_interface(*side, *interface, true),
            Change::Set { .. } | Change::Readdress { .. } | Change::Rebind { .. } => {}
        }
    }

    /// Whether packets pass a route both ways: without its acknowledgements traffic stops, too.
    pub(crate) fn has(&self, route: &Route) -> bool {
        let works = |list: &[bool], place: usize| list.get(place).is_some_and(|works| *works);
        let link_works = |link: &usize| self.links.get(*link).is_some_and(|ways| ways.iter().all(|way| *way));
        works(&self.client, route.client)
            && works(&self.server, route.server)
            && route.links.iter().all(link_works)
    }

    fn set_link(&mut self, link: usize, direction: Direction, works: bool) {
        let Some([up, down]) = self.links.get_mut(link) else { return };
        match direction {
            Direction::Up => *up = works,
            Direction::Down => *down = works,
            Direction::Both => (*up, *down) = (works, works),
        }
    }

    fn set_interface(&mut self, side: Side, interface: usize, works: bool) {
        let interfaces = match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        };
        if let Some(interface) = interfaces.get_mut(interface) {
            *interface = works;
        }
    }
}
