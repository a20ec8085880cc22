//! Congestion controllers by name.

use std::fmt;

use super::{Factory, PROFILES, by_name, names};
use crate::names;

/// The congestion controllers that can be chosen by name: built-in and custom ones.
///
/// ```
/// use manyway_proto::congestion::{ControllerConfig, Controllers, Fixed};
///
/// let mut controllers = Controllers::default();
/// controllers.add("forty", |config| {
///     let mut config = *config;
///     config.initial_window = 40;
///     Box::new(Fixed::new(&config))
/// })?;
/// let make = controllers.choose("forty")?;
/// assert_eq!(make(&ControllerConfig::new(1000)).window().get(), 40_000);
/// assert!(controllers.choose("fifty").unwrap_err().contains("forty"));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Default)]
pub struct Controllers {
    own: Vec<(&'static str, Factory)>,
}

impl Controllers {
    /// Adds a custom congestion controller. `make` is called once for each path.
    ///
    /// # Errors
    /// If the name is taken, or contains other characters than lower-case letters, digits and hyphens.
    pub fn add(&mut self, name: &'static str, make: Factory) -> Result<(), String> {
        names::check_new_name(name, self.choices())?;
        self.own.push((name, make));
        Ok(())
    }

    /// The names of all controllers, for help texts; built-in ones first.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        names().chain(self.own.iter().map(|(name, _)| *name))
    }

    /// All choices of [`Self::choose`]: the [`PROFILES`], and the names of all controllers.
    fn choices(&self) -> impl Iterator<Item = &'static str> {
        PROFILES.into_iter().map(|(profile, _)| profile).chain(self.names())
    }

    /// Finds a congestion controller by its name or profile.
    ///
    /// # Errors
    /// If there is none of that name: the text lists the valid ones.
    pub fn choose(&self, name: &str) -> Result<Factory, String> {
        let own = self.own.iter().find(|(known, _)| *known == name).map(|(_, make)| *make);
        own.or_else(|| by_name(name)).ok_or_else(|| names::unknown_name(name, self.choices()))
    }
}

impl fmt::Debug for Controllers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ControllerConfig, Fixed, PROFILES};
    use super::Controllers;
    use crate::ConnectionConfig;

    #[test]
    fn each_profile_is_found_and_listed_in_the_error_for_an_unknown_name() {
        let controllers = Controllers::default();
        let unknown = controllers.choose("magic").err().unwrap();
        let (_, named) = unknown.split_once(": ").unwrap();
        let named: Vec<_> = named.split(", ").collect();
        for (profile, name) in PROFILES {
            let make = controllers.choose(profile).unwrap();
            assert_eq!(make(&ControllerConfig::default()).name(), name, "{profile}");
            assert!(named.contains(&profile), "{profile} in {unknown}");
        }
        assert!(controllers.names().all(|name| named.contains(&name)), "{unknown}");
    }

    #[test]
    fn a_custom_controller_is_found_beside_built_in_ones_and_takes_none_of_their_names() {
        let mut config = ConnectionConfig::default();
        config.add_congestion("steady", |config| Box::new(Fixed::new(config))).unwrap();
        config.set_congestion("steady").unwrap();
        assert_eq!((config.congestion)(&ControllerConfig::default()).name(), "fixed");
        config.set_congestion("fair").unwrap();
        assert_eq!((config.congestion)(&ControllerConfig::default()).name(), "coupled-cubic");
        config.set_congestion("cubic").unwrap();

        let unknown = config.set_congestion("magic").unwrap_err().to_string();
        assert!(
            unknown.starts_with("congestion \"magic\" is not one of: bond, fair, bbr, cubic"),
            "{unknown}"
        );
        assert!(unknown.ends_with(", steady"), "{unknown}");
        for name in ["steady", "bbr", "fair"] {
            let taken = config.add_congestion(name, |config| Box::new(Fixed::new(config))).unwrap_err();
            assert_eq!(taken.to_string(), format!("congestion {name:?} is taken"));
        }
        for name in ["", "Steady", "a,b", "a=b"] {
            let wrong = config.add_congestion(name, |config| Box::new(Fixed::new(config))).unwrap_err();
            assert!(wrong.reason.contains("lower-case letters"), "{wrong}");
        }
        // The refused choice changed nothing: the last valid one stands.
        assert_eq!((config.congestion)(&ControllerConfig::default()).name(), "cubic");
    }
}
