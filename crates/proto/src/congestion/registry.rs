//! Congestion controls by name.

use std::fmt;

use super::{Factory, PROFILES, by_name, names};
use crate::text;

/// The congestion controls that can be chosen by name: those built in, and one's own.
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
    /// Adds one's own congestion control. `make` is called once for each path.
    ///
    /// # Errors
    /// If the name is taken, or is not of lower-case letters, digits and hyphens.
    pub fn add(&mut self, name: &'static str, make: Factory) -> Result<(), String> {
        text::check_new_name(name, self.choices())?;
        self.own.push((name, make));
        Ok(())
    }

    /// The names of all, for help texts; those built in first.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        names().chain(self.own.iter().map(|(name, _)| *name))
    }

    /// Whatever [`Self::choose`] finds: the [`PROFILES`], and the names of all.
    fn choices(&self) -> impl Iterator<Item = &'static str> {
        PROFILES.into_iter().map(|(profile, _)| profile).chain(self.names())
    }

    /// Finds a congestion control by its name, or by what it is to do.
    ///
    /// # Errors
    /// If there is none of that name: which there are.
    pub fn choose(&self, name: &str) -> Result<Factory, String> {
        let own = self.own.iter().find(|(known, _)| *known == name).map(|(_, make)| *make);
        own.or_else(|| by_name(name)).ok_or_else(|| text::unknown_name(name, self.choices()))
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
    fn each_profile_is_found_and_named_to_whoever_asks_for_what_is_unknown() {
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
    fn a_control_of_ones_own_is_found_beside_those_built_in_and_takes_no_name_of_theirs() {
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
        // What was refused changed nothing: the last good choice stands.
        assert_eq!((config.congestion)(&ControllerConfig::default()).name(), "cubic");
    }
}
