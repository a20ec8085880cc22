//! Which exchange each lane belongs to, as the client tells the server.

use crate::agent::document::Assignment;
use crate::agent::lane::Lane;

/// The exchange and number of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) exchange: u8,
    pub(super) lane: u8,
}

impl Place {
    /// Every lane, if each exchange has this many.
    pub(super) fn all(assignment: &Assignment, lanes: impl Fn(usize) -> usize) -> Vec<Self> {
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
pub(super) struct Places(Vec<(Place, Lane)>);

impl Places {
    /// The client names the place of a lane; once that is answered, it works both ways.
    pub(super) async fn introduce(&mut self, place: Place, mut lane: Lane) -> Result<(), String> {
        lane.write.say(&[place.exchange, place.lane]).await.map_err(|e| format!("greeting: {e}"))?;
        let answer = lane.read.hear(&mut [0]).await;
        answer.map_err(|e| format!("waiting for the answer to the greeting: {e}"))?;
        self.add(place, lane);
        Ok(())
    }

    /// The server reads the place of a lane.
    pub(super) async fn welcome(&mut self, mut lane: Lane) -> Result<Place, String> {
        let mut words = [0; 2];
        lane.read.hear(&mut words).await.map_err(|e| format!("waiting for the greeting: {e}"))?;
        lane.write.say(&[0]).await.map_err(|e| format!("answering the greeting: {e}"))?;
        let place = Place { exchange: words[0], lane: words[1] };
        self.add(place, lane);
        Ok(place)
    }

    /// Both ends know the place of a lane.
    pub(super) fn add(&mut self, place: Place, lane: Lane) {
        self.0.push((place, lane));
    }

    /// The lanes of each exchange in their order.
    pub(super) fn into_lanes(mut self, assignment: &Assignment) -> Vec<Vec<Lane>> {
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
