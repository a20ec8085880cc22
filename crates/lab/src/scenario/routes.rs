//! The routes of a scenario, of contenders and of others.

use super::{Route, Scenario};

impl Scenario {
    /// The routes of contenders, then those that only others use.
    pub fn all_routes(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter().chain(&self.cross_routes)
    }

    /// A route of this scenario by its index among [`Self::all_routes`].
    pub fn any_route(&self, place: usize) -> Option<&Route> {
        let of_others = || self.cross_routes.get(place.checked_sub(self.routes.len())?);
        self.routes.get(place).or_else(of_others)
    }
}
