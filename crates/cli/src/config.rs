//! The settings file: defaults for the command line, which takes precedence.
//!
//! An unknown key is an error that names it and its line. Paths are relative to the directory of the file.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use manyway::interfaces::InterfacePattern;
use manyway::{ByteCount, ConfigError, ConnectionConfig, HostPort, PairMode};
use manyway_egress::NetPorts;
use manyway_terminal::{CommandError, ExitCode};
use serde::{Deserialize, Deserializer};

use crate::args::{
    CidPrefix, Cli, Command, Costly, GlobalArgs, Memory, SITE_MTU, ServeArgs, Trust, parse_behind,
    parse_fixed, parse_listen, parse_network,
};
use crate::caps::{Cap, CapRule, InterfaceWish, ResetDay};
use crate::home::Home;
use crate::output::cause;
use crate::output::units::{UnitError, parse_duration, parse_size};
use crate::traffic::TrafficRule;

/// The keys of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Settings {
    interfaces: Vec<Text<InterfaceWish>>,
    exclude: Vec<String>,
    caps: BTreeMap<PatternText, CapSettings>,
    scheduler: Option<Text<SchedulerName>>,
    congestion: Option<Text<CongestionName>>,
    pairs: Option<Text<PairMode>>,
    costly: Option<Costly>,
    memory: Option<Memory>,
    connect_timeout: Option<Text<Time>>,
    trust: Option<Text<Trust>>,
    rendezvous: Vec<Text<HostPort>>,
    rule: Vec<TrafficRule>,
    serve: ServeSettings,
}

/// `[caps.IF]`: the cap of an interface.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct CapSettings {
    cap: Text<Size>,
    #[serde(default)]
    reset_day: ResetDay,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct ServeSettings {
    dir: Option<PathBuf>,
    read_only: bool,
    listen: Vec<Text<ListenAddress>>,
    advertise: Vec<Text<HostPort>>,
    max_clients: Option<Clients>,
    threads: Option<Threads>,
    cid_prefix: Option<Text<CidPrefix>>,
    cid_length: Option<u8>,
    egress: bool,
    allow: Vec<Text<NetPorts>>,
    deny: Vec<Text<NetPorts>>,
    egress_connections: Option<EgressConnections>,
    tun: Vec<Text<Network>>,
    tun_announce: Vec<Text<Network>>,
    tun_behind: Vec<Text<NetworkBehind>>,
    tun_address: Vec<Text<ReservedAddress>>,
    tun_mtu: Option<SiteMtu>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
}

/// Most clients at once.
#[derive(Debug, Deserialize)]
#[serde(try_from = "i64")]
struct Clients(NonZeroUsize);

impl TryFrom<i64> for Clients {
    type Error = &'static str;

    fn try_from(number: i64) -> Result<Self, Self::Error> {
        let number = usize::try_from(number).ok().and_then(NonZeroUsize::new);
        number.map(Self).ok_or("must be at least 1")
    }
}

/// Threads of a server.
#[derive(Debug, Deserialize)]
#[serde(try_from = "i64")]
struct Threads(u8);

impl TryFrom<i64> for Threads {
    type Error = &'static str;

    fn try_from(number: i64) -> Result<Self, Self::Error> {
        let number = u8::try_from(number).ok().filter(|number| (1..=64).contains(number));
        number.map(Self).ok_or("must be from 1 to 64")
    }
}

/// TCP connections of a ticket: at most as many as all may have together.
#[derive(Debug, Deserialize)]
#[serde(try_from = "i64")]
struct EgressConnections(usize);

impl TryFrom<i64> for EgressConnections {
    type Error = &'static str;

    fn try_from(number: i64) -> Result<Self, Self::Error> {
        let number = usize::try_from(number).ok().filter(|number| (1..=16_384).contains(number));
        number.map(Self).ok_or("must be from 1 to 16384")
    }
}

/// Largest packet between sites.
#[derive(Debug, Deserialize)]
#[serde(try_from = "i64")]
struct SiteMtu(u16);

impl TryFrom<i64> for SiteMtu {
    type Error = &'static str;

    fn try_from(number: i64) -> Result<Self, Self::Error> {
        let number = Some(number).filter(|number| SITE_MTU.contains(number));
        number.and_then(|number| u16::try_from(number).ok()).map(Self).ok_or("must be from 1280 to 9000")
    }
}

/// A value in the form of the command line.
#[derive(Debug)]
struct Text<T>(T);

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

#[derive(Debug)]
struct Size(u64);

impl FromStr for Size {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse_size(text).map(Self)
    }
}

/// A key that is a pattern of interface names.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PatternText(String);

impl<'de> Deserialize<'de> for PatternText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse::<InterfacePattern>().map(|_| Self(text)).map_err(serde::de::Error::custom)
    }
}

#[derive(Debug)]
struct Time(Duration);

/// The name of an existing scheduler.
#[derive(Debug)]
struct SchedulerName(String);

impl FromStr for SchedulerName {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        ConnectionConfig::default().set_scheduler(text).map(|_| Self(text.to_owned()))
    }
}

/// The name of an existing congestion control.
#[derive(Debug)]
struct CongestionName(String);

impl FromStr for CongestionName {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        ConnectionConfig::default().set_congestion(text).map(|_| Self(text.to_owned()))
    }
}

/// Makes types of values that functions of the command line parse.
macro_rules! parsed_by {
    ($($name:ident($value:ty) = $parse:ident;)+) => {$(
        #[derive(Debug)]
        struct $name($value);

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                $parse(text).map(Self)
            }
        }
    )+};
}

parsed_by! {
    ListenAddress(SocketAddr) = parse_listen;
    Network(IpNet) = parse_network;
    NetworkBehind((String, IpNet)) = parse_behind;
    ReservedAddress((String, IpAddr)) = parse_fixed;
}

impl FromStr for Time {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse_duration(text).map(Self)
    }
}

/// Fills in what the command line leaves open.
///
/// # Errors
/// If a requested file is missing, or the file is invalid.
pub fn complete(cli: &mut Cli) -> Result<(), CommandError> {
    if cli.global.no_config {
        return Ok(());
    }
    let (path, must_exist) = match &cli.global.config {
        Some(path) => (path.clone(), true),
        // A user without a home has no settings there either.
        None => match Home::find() {
            Ok(home) => (home.directory().join("config.toml"), false),
            Err(_) => return Ok(()),
        },
    };
    let failed =
        |reason: &dyn Display| CommandError::new(ExitCode::Usage, format!("{}: {reason}", path.display()));
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !must_exist => return Ok(()),
        Err(error) if must_exist => return Err(failed(&cause(&error))),
        Err(error) => {
            let text = format!(
                "{}: {}; MANYWAY_HOME can name another directory, and --no-config reads no settings",
                path.display(),
                cause(&error)
            );
            return Err(CommandError::new(ExitCode::Failed, text));
        }
    };
    let settings = Settings::parse(&text).map_err(|error| failed(&error.trim_end()))?;
    settings.apply(cli, path.parent().unwrap_or_else(|| Path::new(".")));
    Ok(())
}

impl Settings {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// The error, with the line, the key and suggestions.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    fn apply(self, cli: &mut Cli, directory: &Path) {
        let Self {
            interfaces,
            exclude,
            caps,
            scheduler,
            congestion,
            pairs,
            costly,
            memory,
            connect_timeout,
            trust,
            rendezvous,
            rule,
            serve,
        } = self;
        let global: &mut GlobalArgs = &mut cli.global;
        global.traffic_rules = rule;
        global.scheduler_of_settings = global.scheduler.is_none() && scheduler.is_some();
        global.scheduler = global.scheduler.take().or_else(|| scheduler.map(|name| name.0.0));
        global.congestion = global.congestion.take().or_else(|| congestion.map(|name| name.0.0));
        global.pairs = global.pairs.or_else(|| pairs.map(|mode| mode.0));
        global.costly = global.costly.or(costly);
        global.memory = global.memory.or(memory);
        global.connect_timeout = global.connect_timeout.or_else(|| connect_timeout.map(|time| time.0.0));
        global.settings_trust = trust.map(|trust| match trust.0 {
            Trust::File(file) => Trust::File(directory.join(file)),
            other @ (Trust::Keys | Trust::System) => other,
        });
        if global.rendezvous.is_empty() {
            global.rendezvous = rendezvous.into_iter().map(|host| host.0).collect();
        }
        // A cap applies even if the command line names other interfaces.
        global.settings_caps.extend(interfaces.iter().filter_map(|wish| wish.0.cap_rule()));
        global.settings_caps.extend(caps.into_iter().filter_map(|(pattern, settings)| {
            let cap = Cap { bytes: ByteCount(settings.cap.0.0), reset_day: settings.reset_day };
            Some(CapRule { pattern: pattern.0.parse().ok()?, cap: Some(cap) })
        }));
        // Caps stay in force where none is chosen.
        if cli.command.chooses_interfaces() && global.interfaces.is_empty() && global.exclude.is_empty() {
            global.interfaces_of_settings = true;
            // Their caps rank behind those of the command line.
            global.interfaces = interfaces.into_iter().map(|wish| wish.0.rule.into()).collect();
            global.exclude = exclude;
        }
        if let Command::Serve(arguments) = &mut cli.command {
            serve.apply(arguments, directory);
        }
    }
}

impl ServeSettings {
    fn apply(self, arguments: &mut ServeArgs, directory: &Path) {
        let Self {
            dir,
            read_only,
            listen,
            advertise,
            max_clients,
            threads,
            cid_prefix,
            cid_length,
            egress,
            allow,
            deny,
            egress_connections,
            tun,
            tun_announce,
            tun_behind,
            tun_address,
            tun_mtu,
            cert,
            key,
        } = self;
        let path = |path: PathBuf| directory.join(path);
        arguments.dir = arguments.dir.take().or_else(|| dir.map(path));
        arguments.read_only |= read_only;
        unless_given(&mut arguments.listen, listen.into_iter().map(|address| address.0.0));
        unless_given(&mut arguments.advertise, advertise.into_iter().map(|host| host.0));
        arguments.max_clients = arguments.max_clients.or_else(|| max_clients.map(|clients| clients.0));
        arguments.threads = arguments.threads.or_else(|| threads.map(|threads| threads.0));
        arguments.cid_prefix = arguments.cid_prefix.take().or_else(|| cid_prefix.map(|prefix| prefix.0));
        arguments.cid_length = arguments.cid_length.or(cid_length);
        arguments.egress |= egress;
        unless_given(&mut arguments.allow, allow.into_iter().map(|net| net.0));
        // What either denies is denied.
        arguments.deny.extend(deny.into_iter().map(|net| net.0));
        arguments.egress_connections = egress_connections.map(|number| number.0);
        unless_given(&mut arguments.tun, tun.into_iter().map(|network| network.0.0));
        unless_given(&mut arguments.tun_announce, tun_announce.into_iter().map(|network| network.0.0));
        unless_given(&mut arguments.tun_behind, tun_behind.into_iter().map(|behind| behind.0.0));
        unless_given(&mut arguments.tun_address, tun_address.into_iter().map(|fixed| fixed.0.0));
        arguments.tun_mtu = arguments.tun_mtu.or_else(|| tun_mtu.map(|mtu| mtu.0));
        if arguments.cert.is_none() {
            arguments.cert = cert.map(path);
            arguments.key = key.map(path);
        }
    }
}

/// Takes the values of the file where the command line has none.
fn unless_given<T>(given: &mut Vec<T>, of_file: impl Iterator<Item = T>) {
    if given.is_empty() {
        given.extend(of_file);
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use manyway::IdLayout;

    use super::*;

    const ALL: &str = r#"
interfaces = ["eth0", "wwan0,role=backup,cap=1GB"]
exclude = ["docker0"]
scheduler = "min-rtt"
congestion = "cubic"
pairs = "disjoint"
connect-timeout = "3s"
trust = "authority.pem"
rendezvous = ["meet.example.org"]
costly = "allow"
memory = "small"

[caps."w*"]
cap = "5 GB"
reset-day = 15

[[rule]]
proto = "udp"
port = 5004
class = "deadline"
lifetime = "150ms"

[[rule]]
port = 873
class = "bulk"

[serve]
dir = "films"
read-only = true
listen = ["192.0.2.7:5000"]
advertise = ["media.example.org"]
max-clients = 10
threads = 3
cid-prefix = "4a0107"
cid-length = 13
egress = true
allow = ["10.1.0.0/16:80"]
deny = ["10.1.2.0/24"]
egress-connections = 4096
tun = ["10.99.0.0/24", "fd00:99::/64"]
tun-announce = ["192.168.9.0/24"]
tun-behind = ["branch=192.168.5.0/24"]
tun-address = ["branch=10.99.0.7"]
tun-mtu = 1300
cert = "/etc/chain.pem"
key = "key.pem"
"#;

    fn applied(text: &str, arguments: &[&str]) -> Cli {
        let mut cli = Cli::try_parse_from([&["manyway"], arguments].concat()).unwrap();
        Settings::parse(text).unwrap().apply(&mut cli, Path::new("/etc/x"));
        cli
    }

    fn serve_of(cli: &Cli) -> &ServeArgs {
        let Command::Serve(serve) = &cli.command else { panic!("another command") };
        serve
    }

    #[test]
    fn the_file_fills_in_what_the_command_line_leaves_open() {
        let client = applied(ALL, &["get", "mw1x"]).global;
        assert_eq!((client.interfaces.len(), client.exclude.as_slice()), (2, &["docker0".to_owned()][..]));
        assert_eq!(client.scheduler.as_deref(), Some("min-rtt"));
        assert!(client.scheduler_of_settings);
        let named = applied(ALL, &["get", "mw1x", "--scheduler", "cost"]).global;
        assert!(!named.scheduler_of_settings && named.scheduler.as_deref() == Some("cost"));
        assert_eq!(client.pairs, Some(PairMode::Disjoint));
        assert_eq!((client.costly, client.memory), (Some(Costly::Allow), Some(Memory::Small)));
        assert_eq!(client.connect_timeout(), Duration::from_secs(3));
        assert_eq!(client.traffic_rules.len(), 2);
        assert_eq!(client.trust(), Some(&Trust::File("/etc/x/authority.pem".into())));
        assert_eq!(client.rendezvous, ["meet.example.org:4455".parse().unwrap()]);

        for arguments in [&["serve"][..], &["demo"], &["send", "film.mp4"]] {
            let own = applied(ALL, arguments).global;
            assert!(own.interfaces.is_empty() && own.exclude.is_empty(), "{arguments:?}");
        }
        assert_eq!(applied(ALL, &["send", "film.mp4", "--to", "host"]).global.interfaces.len(), 2);
        let cli = applied(ALL, &["serve"]);
        let serve = serve_of(&cli);
        assert_eq!(serve.dir(), Path::new("/etc/x/films"));
        assert!(serve.read_only);
        assert_eq!(serve.listen, ["192.0.2.7:5000".parse().unwrap()]);
        assert_eq!(serve.advertise, ["media.example.org:4455".parse().unwrap()]);
        assert_eq!(serve.max_clients.map(NonZeroUsize::get), Some(10));
        assert_eq!(serve.threads, Some(3));
        assert_eq!(serve.ids(), IdLayout::new(13, &[0x4a, 1, 7]));
        assert!(serve.egress && serve.allow == ["10.1.0.0/16:80".parse().unwrap()]);
        assert_eq!(serve.deny, ["10.1.2.0/24".parse().unwrap()]);
        assert_eq!(serve.egress_connections, Some(4096));
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        assert_eq!(serve.tun, [net("10.99.0.0/24"), net("fd00:99::/64")]);
        assert_eq!(serve.tun_announce, [net("192.168.9.0/24")]);
        assert_eq!(serve.tun_behind, [("branch".to_owned(), net("192.168.5.0/24"))]);
        assert_eq!(serve.tun_address, [("branch".to_owned(), "10.99.0.7".parse().unwrap())]);
        assert_eq!(serve.tun_mtu, Some(1300));
        let cli = applied(ALL, &["serve", "--allow", "10.2.0.0/16", "--deny", "10.2.2.0/24"]);
        assert_eq!(serve_of(&cli).allow, ["10.2.0.0/16".parse().unwrap()]);
        assert_eq!(serve_of(&cli).deny, ["10.2.2.0/24", "10.1.2.0/24"].map(|net| net.parse().unwrap()));
        assert_eq!(serve.cert.as_deref(), Some(Path::new("/etc/chain.pem")));
        assert_eq!(serve.key.as_deref(), Some(Path::new("/etc/x/key.pem")));
    }

    #[test]
    fn a_cap_of_the_settings_applies_whatever_interfaces_the_command_line_names() {
        let caps = |arguments: &[&str]| {
            let rules = applied(ALL, arguments).global.cap_rules();
            ["wwan0", "wlan0", "eth0"].map(|name| rules.of(name).map(|cap| cap.to_string()))
        };
        let settings = [Some("1 GB a month from day 1"), Some("5 GB a month from day 15"), None];
        let settings = settings.map(|cap| cap.map(str::to_owned));
        assert_eq!(caps(&["get", "mw1x"]), settings);
        assert_eq!(caps(&["serve"]), settings);
        assert_eq!(caps(&["-I", "wwan0", "get", "mw1x"]), settings);
        let [lifted, other, named] =
            caps(&["--cap", "wwan0=none", "--cap", "wlan0=8GB", "-I", "eth0,cap=2GB@3", "get", "mw1x"]);
        assert_eq!(lifted, None);
        assert_eq!(other.as_deref(), Some("8 GB a month from day 1"));
        assert_eq!(named.as_deref(), Some("2 GB a month from day 3"));
        for rule in ["wwan0=none", "w*=none"] {
            assert_eq!(caps(&["--cap", rule, "get", "mw1x"])[0], None);
        }
    }

    #[test]
    fn the_command_line_takes_precedence() {
        let client =
            applied(ALL, &["--exclude", "eth1", "--connect-timeout", "9s", "--trust", "keys", "get", "mw1x"]);
        let client = client.global;
        assert_eq!(client.rendezvous.len(), 1);
        let other = applied(ALL, &["--rendezvous", "192.0.2.9:5000", "serve"]).global.rendezvous;
        assert_eq!(other, ["192.0.2.9:5000".parse().unwrap()]);
        assert_eq!((client.interfaces.len(), client.exclude.as_slice()), (0, &["eth1".to_owned()][..]));
        assert_eq!((client.connect_timeout(), client.trust()), (Duration::from_secs(9), Some(&Trust::Keys)));
        let cli = applied(ALL, &["serve", "--dir", "d", "--cert", "c", "--key", "k", "--max-clients", "1"]);
        let serve = serve_of(&cli);
        assert_eq!((serve.dir(), serve.max_clients.map(NonZeroUsize::get)), (Path::new("d"), Some(1)));
        assert_eq!(
            (serve.cert.as_deref(), serve.key.as_deref()),
            (Some(Path::new("c")), Some(Path::new("k")))
        );
    }

    #[test]
    fn an_error_names_the_line_and_the_key() {
        for (text, parts) in [
            ("\nschedular = \"x\"", &["line 2", "schedular", "scheduler"][..]),
            ("[serve]\nreadonly = true", &["line 2", "readonly", "read-only"]),
            ("connect-timeout = \"soon\"", &["line 1", "connect-timeout", "15ms"]),
            ("interfaces = [\"eth0,role=first\"]", &["line 1", "role"]),
            ("[serve]\nmax-clients = 0", &["line 2", "max-clients", "must be at least 1"]),
            ("[serve]\nthreads = 65", &["line 2", "threads", "must be from 1 to 64"]),
            ("[serve]\ncid-prefix = \"4a1\"", &["line 2", "cid-prefix", "hexadecimal"]),
            ("[serve]\nlisten = [\"4455\"]", &["line 2", "listen"]),
            ("[serve]\nallow = [\"10.1.2.3/16\"]", &["line 2", "allow", "10.1.0.0/16"]),
            ("[serve]\ndeny = [\"mail\"]", &["line 2", "deny", "NET[:PORTS]"]),
            ("exclude = 3", &["line 1", "exclude"]),
            ("pairs = \"all\"", &["line 1", "full-mesh"]),
            ("costly = \"yes\"", &["line 1", "allow"]),
            ("memory = \"256K\"", &["line 1", "small"]),
            ("[caps.wwan0]\ncap = \"5 apples\"", &["line 2", "5 apples"]),
            ("[caps.wwan0]\ncap = \"5GB\"\nreset-day = 32", &["line 3", "1 to 31"]),
            ("[caps.wwan0]\nreset-day = 3", &["line 1", "cap"]),
            ("[caps.\"a/b\"]\ncap = \"5GB\"", &["a/b"]),
            ("trust = ", &["line 1"]),
            ("[[rule]]\nproto = \"sctp\"\nclass = \"bulk\"", &["line 2", "sctp", "`tcp` or `udp`"]),
            ("[[rule]]\nclass = \"fast\"", &["line 2", "`interactive`, `deadline`, `bulk`"]),
            ("[[rule]]\nclass = \"bulk\"\nport = 70000", &["line 3", "70000", "8000-8100"]),
            ("[[rule]]\nclass = \"bulk\"\ncopies = \"late\"", &["line 3", "copies", "`lifetime`"]),
            ("[[rule]]\nclass = \"bulk\"\nto = \"home\"", &["line 3", "home", "NET[:PORTS]"]),
            ("[[rule]]\nproto = \"udp\"\ndscp = \"voice\"", &["line 3", "voice", "af43"]),
            ("[[rule]]\nproto = \"udp\"\nlifetime = \"1m\"", &["line 3", "1m", "10ms to 10s"]),
            ("\n[[rule]]\nport = 22", &["line 2", "a class, a lifetime"]),
            ("\n[[rule]]\nclass = \"deadline\"", &["line 2", "proto = \"udp\""]),
        ] {
            let error = Settings::parse(text).unwrap_err();
            for part in parts {
                assert!(error.contains(part), "{part} in\n{error}");
            }
        }
    }

    #[test]
    fn an_empty_file_changes_nothing() {
        let cli = applied("", &["serve"]);
        assert_eq!(serve_of(&cli).dir(), Path::new("."));
        assert_eq!(cli.global.connect_timeout(), Duration::from_secs(10));
    }
}
