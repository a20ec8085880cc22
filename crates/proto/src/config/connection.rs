//! Settings of a connection.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_wire::mmsp2::Parameters;

use super::{Detection, KeyLimits, StreamConfig};
use crate::congestion::{self, Controllers, Factory as ControllerFactory};
use crate::observe::Observers;
use crate::packet::BASE_DATAGRAM;
use crate::path::{LARGEST_DATAGRAM, PairMode};
use crate::scheduler::{Scheduler, SchedulerFactory, Schedulers};

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
    /// Name of the application protocol; both ends must agree. At most 64 bytes, default empty.
    pub application: Vec<u8>,
    /// Idle timeout: the connection ends after this long without a packet of the peer; the smaller value of both ends
    /// counts. Default 30 s, at least 1 s.
    pub idle_timeout: Duration,
    /// Sends a packet on a path that was quiet for this long, to keep NAT bindings open and to detect dead paths.
    /// Default off.
    pub keep_alive: Option<Duration>,
    /// Timeout of the handshake. Default 10 s, at least 100 ms.
    pub connect_timeout: Duration,
    /// How long the connection lives without any working path. Default 60 s.
    pub no_path_timeout: Duration,
    /// Whether the guard leaves out a path for a while that makes all paths together slower than the best one alone
    /// (spec 6.42). Default on.
    pub guard: bool,
    /// Which address pairs a client uses. Default [`PairMode::LocalDisjoint`]; a server ignores it.
    pub pairs: PairMode,
    /// Windows and limits of streams.
    pub streams: StreamConfig,
    /// Highest path id that the peer may use at first, so one less than the number of paths. Default 7, at most 31.
    pub path_limit: u32,
    /// RTT assumed before the first sample. Default 100 ms.
    pub initial_rtt: Duration,
    /// Largest UDP payload to send or accept, in bytes; the smaller value of both ends counts, and bounds the path
    /// MTU search. Default and maximum 65 000; at least 1200.
    pub max_datagram: u16,
    /// Addresses of a server that the client should try, at most 8. Default none.
    pub advertised: Vec<SocketAddr>,
    /// The only UDP port that a client contacts: advertised addresses with another port are not tried. Default: any.
    pub peer_port: Option<u16>,
    /// Rendezvous servers, at most 4: there both ends find each other again when both migrated at once (spec chapter
    /// 10). A server sends them to its clients; a client with servers of its own uses those. Default none.
    pub rendezvous: Vec<SocketAddr>,
    /// How the failure of a path is detected over MMSP/1; MMSP/2 ignores it, and always detects it fast. Default
    /// [`Detection::Fast`].
    pub detection: Detection,
    /// Streams in each direction over MMSP/1, where both ends agree on the smaller number when they connect; MMSP/2 ignores
    /// it. A stream number is used again after its stream has ended in both directions. Default 1024, from 1 to 65 534.
    pub stream_numbers: u16,
    /// When keys are updated and reach their limits. The default suits every use; tests of key updates lower it.
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
            detection: Detection::Fast,
            stream_numbers: 1024,
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
    /// Settings for little memory: a connection takes at most 256 KiB, under all paths and all behaviour of the peer.
    /// Streams that the program opens beyond 16 come on top, and so do messages, of which each stream accepts one at
    /// any time. The connection carries about 34 KB in each of the longest round trips (13 Mbit/s at 20 ms), because
    /// credit of 48 KiB is granted piece by piece. It has up to four paths and 16 streams of the peer at a time, and
    /// accepts messages of up to 16 KiB.
    ///
    /// ```
    /// let config = manyway_proto::ConnectionConfig::small();
    /// assert!(config.validate().is_ok() && config.streams.max_window < 1 << 16);
    /// ```
    pub fn small() -> Self {
        Self { streams: StreamConfig::small(), path_limit: 3, max_datagram: 1472, ..Self::default() }
    }

    /// Settings for MMSP/1 as its thesis describes it: one primary path, NewReno, and path challenges that alone tell that
    /// a path failed. Any other setting may be chosen too.
    ///
    /// ```
    /// let config = manyway_proto::ConnectionConfig::mmsp1();
    /// assert_eq!(config.detection, manyway_proto::Detection::Probes);
    /// ```
    pub fn mmsp1() -> Self {
        let mut config = Self { detection: Detection::Probes, ..Self::default() };
        let chosen = config.set_scheduler("primary").and_then(|()| config.set_congestion("new-reno"));
        debug_assert!(chosen.is_ok(), "the names are known: {chosen:?}");
        config
    }

    /// Chooses the scheduler by its name, with optional settings after a `=`. Default `earliest`.
    ///
    /// # Errors
    /// If there is none of that name, and then the text lists the known ones, or if its settings are invalid.
    pub fn set_scheduler(&mut self, choice: &str) -> Result<(), ConfigError> {
        self.scheduler =
            self.schedulers.choose(choice).map_err(|reason| ConfigError { field: "scheduler", reason })?;
        Ok(())
    }

    /// Adds a custom scheduler to those that [`Self::set_scheduler`] finds, as [`Schedulers::add`] does.
    ///
    /// # Errors
    /// If the name is taken, or contains other characters than lower-case letters, digits and hyphens.
    pub fn add_scheduler(
        &mut self,
        name: &'static str,
        make: impl Fn(&str) -> Result<Box<dyn Scheduler>, String> + Send + Sync + 'static,
    ) -> Result<(), ConfigError> {
        self.schedulers.add(name, make).map_err(|reason| ConfigError { field: "scheduler", reason })
    }

    /// Chooses the congestion controller by its name, or by a profile: `bond` (`bbr`) for links without other users,
    /// `fair` (`coupled-cubic`) for the open Internet. Default `bbr`.
    ///
    /// # Errors
    /// If there is none of that name; the error lists the known ones.
    pub fn set_congestion(&mut self, name: &str) -> Result<(), ConfigError> {
        self.congestion =
            self.controllers.choose(name).map_err(|reason| ConfigError { field: "congestion", reason })?;
        Ok(())
    }

    /// Chooses which address pairs a client uses, by the name of a [`PairMode`]. Default `local-disjoint`.
    ///
    /// # Errors
    /// If there is none of that name; the error lists the known ones.
    pub fn set_pairs(&mut self, name: &str) -> Result<(), ConfigError> {
        self.pairs = name.parse().map_err(|reason| ConfigError { field: "pairs", reason })?;
        Ok(())
    }

    /// Adds a custom congestion controller to those that [`Self::set_congestion`] finds, as [`Controllers::add`]
    /// does.
    ///
    /// # Errors
    /// If the name is taken, or contains other characters than lower-case letters, digits and hyphens.
    pub fn add_congestion(&mut self, name: &'static str, make: ControllerFactory) -> Result<(), ConfigError> {
        self.controllers.add(name, make).map_err(|reason| ConfigError { field: "congestion", reason })
    }

    /// Uses a custom scheduler, without a name to choose it by.
    pub fn set_scheduler_factory(&mut self, factory: SchedulerFactory) {
        self.scheduler = factory;
    }

    /// Uses a custom congestion controller.
    pub fn set_congestion_factory(&mut self, factory: ControllerFactory) {
        self.congestion = factory;
    }

    /// Reports internal facts of each connection to `observers`, such as [`qlog`](crate::observe::qlog). Default
    /// none, which costs one branch for each fact.
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
        check((1..=65_534).contains(&self.stream_numbers), "stream_numbers", "from 1 to 65534")?;
        check(self.initial_rtt >= Duration::from_millis(1), "initial_rtt", "at least 1 ms")?;
        let sizes = BASE_DATAGRAM..=LARGEST_DATAGRAM;
        check(sizes.contains(&self.max_datagram), "max_datagram", "from 1200 to 65000 bytes")?;
        check(self.advertised.len() <= 8, "advertised", "at most 8 addresses")?;
        check(self.rendezvous.len() <= Parameters::MAX_RENDEZVOUS, "rendezvous", "at most 4 addresses")?;
        self.streams.check().map_err(|error| ConfigError { field: "streams", reason: error.to_string() })
    }
}

/// An invalid setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The field.
    pub field: &'static str,
    /// The values that are valid.
    pub reason: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.field, self.reason)
    }
}

impl std::error::Error for ConfigError {}
