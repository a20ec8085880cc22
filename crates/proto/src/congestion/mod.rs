//! Congestion control: how much may be in flight on a path, and how fast it may leave.
//!
//! A controller is chosen by name for each path and receives facts about that path only; coupled controllers get the
//! figures of the other paths as an argument. It has no clock and no state outside itself.
//!
//! ```
//! use manyway_proto::congestion::{self, ControllerConfig};
//! let cubic = congestion::by_name("cubic").unwrap();
//! let controller = cubic(&ControllerConfig::new(1200));
//! assert_eq!(controller.window().get(), 12_000);
//! assert!(congestion::names().any(|name| name == "new-reno"));
//! ```

mod bbr;
mod controller;
pub mod coupled;
mod cubic;
mod cubic_curve;
mod fixed;
pub(crate) mod one_way;
mod registry;
mod reno;
mod samples;
pub(crate) mod shared_bottleneck;
mod slow_start;

pub use bbr::Bbr;
pub use controller::CongestionController;
pub use cubic::Cubic;
pub use cubic_curve::Curve as CubicCurve;
pub use fixed::Fixed;
pub use registry::Controllers;
pub use reno::{NewReno, Reno};
pub use samples::{
    AckSample, Activity, Bottleneck, CongestionSign, ControllerConfig, LossSample, LostPacketSample,
    SentSample, Subflow,
};

use coupled::{Balia, Law, Lia, Olia};

/// Creates a controller for one path.
pub type Factory = fn(&ControllerConfig) -> Box<dyn CongestionController>;

const REGISTRY: [(&str, Factory); 8] = [
    (Bbr::NAME, |config| Box::new(Bbr::new(config))),
    (Cubic::NAME, |config| Box::new(Cubic::new(config))),
    (Cubic::COUPLED, |config| Box::new(Cubic::coupled(config))),
    (Lia::NAME, |config| Box::new(Reno::<Lia>::new(config))),
    (Olia::NAME, |config| Box::new(Reno::<Olia>::new(config))),
    (Balia::NAME, |config| Box::new(Reno::<Balia>::new(config))),
    (NewReno::NAME, |config| Box::new(NewReno::new(config))),
    (Fixed::NAME, |config| Box::new(Fixed::new(config))),
];

/// Profiles and their controllers: `bond` takes the full capacity of links without other users, `fair` takes the rate
/// of one flow where paths share a bottleneck with others.
pub const PROFILES: [(&str, &str); 2] = [("bond", Bbr::NAME), ("fair", Cubic::COUPLED)];

pub(crate) fn default_factory() -> Factory {
    |config| Box::new(Bbr::new(config))
}

/// Finds a controller: `bbr` (BBRv3), `cubic` (RFC 9438), `new-reno` (RFC 9002), `fixed` (a constant window, for
/// experiments). Coupled where paths share a bottleneck: `coupled-cubic`, `lia` (RFC 6356), `olia`, `balia`. Also
/// finds the [`PROFILES`].
pub fn by_name(name: &str) -> Option<Factory> {
    let name = PROFILES.iter().find(|(profile, _)| *profile == name).map_or(name, |(_, name)| *name);
    REGISTRY.iter().find(|(known, _)| *known == name).map(|(_, factory)| *factory)
}

/// The names of all controllers.
pub fn names() -> impl Iterator<Item = &'static str> {
    REGISTRY.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests;
