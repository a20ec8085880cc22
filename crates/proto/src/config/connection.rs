//! Settings of a connection.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_wire::mmsp2::Parameters;

use crate::congestion::{self, Controllers, Factory as ControllerFactory};
use crate::observe::Observers;
use crate::path::{BASE_DATAGRAM, LARGEST_DATAGRAM, PairMode};
use crate::scheduler::{Scheduler, SchedulerFactory, Schedulers};
use crate::{KeyLimits, StreamConfig};

/// Settings of a connection; [`ConnectionConfig::default`] is what most programs want.
///
/// ```
/// use manyway_proto::ConnectionConfig;
/// let mut config = ConnectionConfig::default();
/// config.set_scheduler("round-robin")?;
/// config.validate()?;
/// assert!(config.set_scheduler("magic").is_err());
/// # Ok::<(), manyway_proto::ConfigError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConnectionConfig {
    /// Name of the protocol that the application speaks; both ends must agree. At most 64 bytes, default empty.
    pub application: Vec<u8>,
    /// How long nothing may be heard before the connection ends; the smaller value of both ends counts.
    /// Default 30 s, at least 1 s.
    pub idle_timeout: Duration,
    /// Sends something on a path that was quiet for so long, to keep NATs open and to notice death. Default off.
    pub keep_alive: Option<Duration>,
    /// How long the set-up may take. Default 10 s, at least 100 ms.
    pub connect_timeout: Duration,
    /// How long the connection lives without any working path. Default 60 s.
    pub no_path_timeout: Duration,
    /// Whether a path is left out for a while that makes all of them together slower than the best one is alone
    /// (spec 6.42). Default on.
    pub guard: bool,
    /// Which pairs of addresses a client uses. Default [`PairMode::LocalDisjoint`]; a server has no say.
    pub pairs: PairMode,
    /// Windows and limits of streams.
    pub streams: StreamConfig,
    /// Highest path id that the peer may use at the start, so one less than the number of paths. Default 7, at most 31.
    pub path_limit: u32,
    /// Round-trip time assumed before the first measurement. Default 100 ms.
    pub initial_rtt: Duration,
    /// Largest UDP payload to send or take, in bytes; the smaller value of both ends counts, and what the path carries
    /// is searched below it. Default 65 000, which is also the most; at least 1200.
    pub max_datagram: u16,
    /// A server's own addresses that the client should try, at most 8. Default none.
    pub advertised: Vec<SocketAddr>,
    /// A client goes to this UDP port only: addresses with another one that the peer names are not tried. Default: any.
    pub peer_port: Option<u16>,
    /// Rendezvous servers, at most 4: there both ends find each other again when both moved at once (spec chapter 10). A
    /// server tells its clients; a client that names some of its own goes to those. Default none.
    pub rendezvous: Vec<SocketAddr>,
    /// When keys change and end. The default is right for every use; tests of the change lower it.
    #[doc(hidden)]
    pub key_limits: KeyLimits,
    pub(crate) schedulers: Schedulers,
    pub(crate) scheduler: SchedulerFactory,
    pub(crate) controllers: Controllers,
    pub(crate) congestion: ControllerFactory,
    pub(crate) observers: Option<Observers>,
}

impl Default for ConnectionConfig {
    fn default() -> Self {
        Self {
            application: Vec::new(),
            idle_timeout: Duration::from_secs(30),
            keep_alive: None,
            connect_timeout: Duration::from_secs(10),
            no_path_timeout: Duration::from_secs(60),
            guard: true,
            pairs: PairMode::default(),
            streams: StreamConfig::default(),
            path_limit: 7,
            initial_rtt: Duration::from_millis(100),
            max_datagram: LARGEST_DATAGRAM,
            advertised: Vec::new(),
            peer_port: None,
            rendezvous: Vec::new(),
            key_limits: KeyLimits::default(),
            schedulers: Schedulers::default(),
            scheduler: SchedulerFactory::default(),
            controllers: Controllers::default(),
            congestion: congestion::default_factory(),
            observers: None,
        }
    }
}

impl ConnectionConfig {
    /// Settings for little memory: a connection takes at most 256 KiB, whatever its paths are like and whatever the peer
    /// does. What the program itself brings comes on top: streams of its own beyond 16, and messages, of which each stream
    /// takes one at any time. It carries about 34 KB in each of the longest round trips
    /// (13 Mbit/s at 20 ms), since credit of 48 KiB is granted piece by piece, has up to four paths and 16
    /// streams of the peer at a time, and takes messages of up to 16 KiB.
    ///
    /// ```
    /// let config = manyway_proto::ConnectionConfig::small();
    /// assert!(config.validate().is_ok() && config.streams.max_window < 1 << 16);
    /// ```
    pub fn small() -> Self {
        Self { streams: StreamConfig::small(), path_limit: 3, max_datagram: 1472, ..Self::default() }
    }

    /// Chooses the scheduler by its name, with settings behind a `=` if it has any. Default `earliest`.
    ///
    /// # Errors
    /// If there is none of that name, which lists the known ones, or its settings can not be used.
    pub fn set_scheduler(&mut self, choice: &str) -> Result<(), ConfigError> {
        self.scheduler =
            self.schedulers.choose(choice).map_err(|reason| ConfigError { field: "scheduler", reason })?;
        Ok(())
    }

    /// Adds a scheduler of one's own to those that [`Self::set_scheduler`] finds, as [`Schedulers::add`] does.
    ///
    /// # Errors
    /// If the name is taken, or is not of lower-case letters, digits and hyphens.
    pub fn add_scheduler(
        &mut self,
        name: &'static str,
        make: impl Fn(&str) -> Result<Box<dyn Scheduler>, String> + Send + Sync + 'static,
    ) -> Result<(), ConfigError> {
        self.schedulers.add(name, make).map_err(|reason| ConfigError { field: "scheduler", reason })
    }

    /// Chooses the congestion control by its name, or by a profile: `bond` (`bbr`) for links of one's own, `fair`
    /// (`coupled-cubic`) for the open Internet. Default `bbr`.
    ///
    /// # Errors
    /// If there is none of that name; the error lists the known ones.
    pub fn set_congestion(&mut self, name: &str) -> Result<(), ConfigError> {
        self.congestion =
            self.controllers.choose(name).map_err(|reason| ConfigError { field: "congestion", reason })?;
        Ok(())
    }

    /// Chooses which pairs of addresses a client uses, by the name of a [`PairMode`]. Default `local-disjoint`.
    ///
    /// # Errors
    /// If there is none of that name; the error lists the known ones.
    pub fn set_pairs(&mut self, name: &str) -> Result<(), ConfigError> {
        self.pairs = name.parse().map_err(|reason| ConfigError { field: "pairs", reason })?;
        Ok(())
    }

    /// Adds a congestion control of one's own to those that [`Self::set_congestion`] finds, as [`Controllers::add`] does.
    ///
    /// # Errors
    /// If the name is taken, or is not of lower-case letters, digits and hyphens.
    pub fn add_congestion(&mut self, name: &'static str, make: ControllerFactory) -> Result<(), ConfigError> {
        self.controllers.add(name, make).map_err(|reason| ConfigError { field: "congestion", reason })
    }

    /// Uses a scheduler of one's own, without a name to choose it by.
    pub fn set_scheduler_factory(&mut self, factory: SchedulerFactory) {
        self.scheduler = factory;
    }

    /// Uses a congestion controller of one's own.
    pub fn set_congestion_factory(&mut self, factory: ControllerFactory) {
        self.congestion = factory;
    }

    /// Lets `observers` hear what goes on inside of each connection, such as [`qlog`](crate::observe::qlog). Default
    /// nobody, which costs one branch a fact.
    pub fn set_observers(&mut self, observers: Observers) {
        self.observers = Some(observers);
    }

    /// Checks every field against its range.
    ///
    /// # Errors
    /// Names the first field that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let check = |good: bool, field: &'static str, range: &str| {
            if good { Ok(()) } else { Err(ConfigError { field, reason: format!("must be {range}") }) }
        };
        check(self.application.len() <= 64, "application", "at most 64 bytes")?;
        check(self.idle_timeout >= Duration::from_secs(1), "idle_timeout", "at least 1 s")?;
        check(self.connect_timeout >= Duration::from_millis(100), "connect_timeout", "at least 100 ms")?;
        check(self.path_limit <= 31, "path_limit", "at most 31")?;
        check(self.initial_rtt >= Duration::from_millis(1), "initial_rtt", "at least 1 ms")?;
        let sizes = BASE_DATAGRAM..=LARGEST_DATAGRAM;
        check(sizes.contains(&self.max_datagram), "max_datagram", "from 1200 to 65000 bytes")?;
        check(self.advertised.len() <= 8, "advertised", "at most 8 addresses")?;
        check(self.rendezvous.len() <= Parameters::MAX_RENDEZVOUS, "rendezvous", "at most 4 addresses")?;
        self.streams.check().map_err(|error| ConfigError { field: "streams", reason: error.to_string() })
    }
}

/// A setting that can not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The field.
    pub field: &'static str,
    /// What it must be.
    pub reason: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.field, self.reason)
    }
}

impl std::error::Error for ConfigError {}
