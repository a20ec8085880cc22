//! Schedulers by name.

use std::fmt;
use std::sync::Arc;

use super::{
    Blest, Cost, Earliest, Ecf, MinRtt, OutstandingRatio, Primary, Redundant, RoundRobin, Scheduler,
    StreamBound, Weighted,
};
use crate::names;

/// Creates a scheduler from its settings, the text after the `=` of its name (empty without one); the error says
/// which settings are valid.
type Maker = dyn Fn(&str) -> Result<Box<dyn Scheduler>, String> + Send + Sync;

/// The schedulers that can be chosen by name: built-in and custom ones.
///
/// A choice is a name, or a name with settings: `weighted=1:1:2`. Settings contain no comma and no space.
///
/// ```
/// use manyway_proto::scheduler::{Decision, Scheduler, Schedulers, Source, View};
///
/// #[derive(Debug)]
/// struct Only(u32);
///
/// impl Scheduler for Only {
///     fn name(&self) -> &'static str {
///         "only"
///     }
///     fn decide(&mut self, view: &View<'_>) -> Decision {
///         match view.candidates().find(|path| path.id.0 == self.0) {
///             Some(path) => Decision::send(path.id, path.sendable, Source::Next),
///             None => Decision::WAIT,
///         }
///     }
/// }
///
/// let mut schedulers = Schedulers::default();
/// schedulers.add("only", |settings| {
///     let path = settings.parse().map_err(|_| "must be the number of a path: only=1".to_owned())?;
///     Ok(Box::new(Only(path)))
/// })?;
/// assert_eq!(schedulers.choose("only=1")?.make().name(), "only");
/// assert!(schedulers.choose("only=wifi").unwrap_err().contains("number of a path"));
/// assert!(schedulers.choose("round-robin").is_ok());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Default)]
pub struct Schedulers {
    own: Vec<(&'static str, Arc<Maker>)>,
}

/// Creates a chosen scheduler, with its settings, for each connection.
#[derive(Clone)]
pub struct SchedulerFactory {
    name: &'static str,
    make: Arc<dyn Fn() -> Box<dyn Scheduler> + Send + Sync>,
}

type BuiltIn = (&'static str, fn(&str) -> Result<Box<dyn Scheduler>, String>);

const BUILT_IN: [BuiltIn; 11] = [
    ("earliest", |settings| without_settings(settings, Earliest)),
    ("min-rtt", |settings| without_settings(settings, MinRtt)),
    ("round-robin", |settings| without_settings(settings, RoundRobin::default())),
    ("weighted", |settings| boxed(Weighted::parse(settings))),
    ("outstanding-ratio", |settings| without_settings(settings, OutstandingRatio)),
    ("blest", |settings| without_settings(settings, Blest::default())),
    ("ecf", |settings| without_settings(settings, Ecf::default())),
    ("primary", |settings| boxed(Primary::parse(settings))),
    ("stream-bound", |settings| without_settings(settings, StreamBound::default())),
    ("redundant", |settings| boxed(Redundant::parse(settings))),
    ("cost", |settings| boxed(Cost::parse(settings))),
];

/// The scheduler of a connection whose configuration names none.
const DEFAULT: &str = "earliest";

fn without_settings(
    settings: &str,
    scheduler: impl Scheduler + 'static,
) -> Result<Box<dyn Scheduler>, String> {
    if settings.is_empty() { Ok(Box::new(scheduler)) } else { Err("has no settings".to_owned()) }
}

fn boxed(made: Result<impl Scheduler + 'static, String>) -> Result<Box<dyn Scheduler>, String> {
    made.map(|scheduler| -> Box<dyn Scheduler> { Box::new(scheduler) })
}

impl Schedulers {
    /// Adds a custom scheduler. `make` gets the text after the `=` of the choice, empty without one; its error says
    /// which settings are valid.
    ///
    /// # Errors
    /// If the name is taken, or contains other characters than lower-case letters, digits and hyphens.
    pub fn add(
        &mut self,
        name: &'static str,
        make: impl Fn(&str) -> Result<Box<dyn Scheduler>, String> + Send + Sync + 'static,
    ) -> Result<(), String> {
        names::check_new_name(name, self.names())?;
        self.own.push((name, Arc::new(make)));
        Ok(())
    }

    /// The names of all schedulers, for help texts and errors; built-in ones first.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        names().chain(self.own.iter().map(|(name, _)| *name))
    }

    /// Finds a scheduler by its name, with its settings if any follow a `=`.
    ///
    /// # Errors
    /// If there is none of that name, or its settings are invalid: the text says what to write instead.
    pub fn choose(&self, choice: &str) -> Result<SchedulerFactory, String> {
        let (name, settings) = choice.split_once('=').unwrap_or((choice, ""));
        let settings = settings.to_owned();
        if let Some((name, make)) = self.own.iter().find(|(known, _)| *known == name) {
            let make = Arc::clone(make);
            return SchedulerFactory::new(name, settings, move |settings| make(settings));
        }
        let Some((name, make)) = BUILT_IN.iter().find(|(known, _)| *known == name) else {
            return Err(names::unknown_name(name, self.names()));
        };
        SchedulerFactory::new(name, settings, make)
    }
}

impl SchedulerFactory {
    /// Tries the settings once, so that creation cannot fail later.
    fn new(
        name: &'static str,
        settings: String,
        make: impl Fn(&str) -> Result<Box<dyn Scheduler>, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let _tried = make(&settings).map_err(|reason| format!("{name:?} {reason}"))?;
        // If a maker refuses settings that it accepted before, the default scheduler replaces it.
        let make = Arc::new(move || make(&settings).unwrap_or_else(|_| Box::new(Earliest)));
        Ok(Self { name, make })
    }

    /// Creates schedulers by a custom function, without a name to choose them by.
    pub fn from_fn(make: impl Fn() -> Box<dyn Scheduler> + Send + Sync + 'static) -> Self {
        Self { name: make().name(), make: Arc::new(make) }
    }

    /// Creates one for a new connection.
    pub fn make(&self) -> Box<dyn Scheduler> {
        (self.make)()
    }

    /// The name of its schedulers, without settings.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl Default for SchedulerFactory {
    fn default() -> Self {
        by_name(DEFAULT).unwrap_or_else(|_| Self::from_fn(|| Box::new(Earliest)))
    }
}

impl fmt::Debug for SchedulerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SchedulerFactory").field(&self.name).finish()
    }
}

impl fmt::Debug for Schedulers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// Finds a built-in scheduler by its name and optional settings.
///
/// ```
/// let make = manyway_proto::scheduler::by_name("min-rtt")?;
/// assert_eq!(make.make().name(), "min-rtt");
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
/// As for [`Schedulers::choose`].
pub fn by_name(choice: &str) -> Result<SchedulerFactory, String> {
    Schedulers::default().choose(choice)
}

/// The names of all built-in schedulers, for help texts and errors.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}
