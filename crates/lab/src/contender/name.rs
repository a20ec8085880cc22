//! Names of contenders, as on the command line and in reports.

use std::fmt;
use std::str::FromStr;

use manyway_proto::{ConfigError, ConnectionConfig, RateAlgorithm};
use manyway_units::text;

use super::error::NameError;
use super::target::whole_units;
use super::{
    Carrier, Chunks, Contender, ExternalProgram, ManywaySettings, PathDetection, RouteChoice, Target,
    Through, Wire,
};

/// The names that [`Contender::find`] knows, as a text for help and errors.
pub const POSSIBLE_NAMES: &str = "manyway, manyway-best, manyway:wire=WIRE,detection=NAME,carrier=CARRIER,connections=N,target=RATE,interval=TIME,buffer=BYTES,algorithm=NAME,scheduler=NAME,congestion=NAME,pairs=MODE, tcp-CC, possible, possible-CC, \
     mptcp-CC (where CC is cubic, reno, bbr or another congestion control of the system), forward, proxy, run, \
     tunnel, ssh, wireguard-go and direct, each with :flows=N,program=NAME (own, iperf3, curl, quinn or srt), chunks:connections=N,shares=1/2/1,search=TIME,file=BYTES, external:NAME; \
     manyway and tcp-CC take @N behind the name for the Nth route alone";

impl Contender {
    /// Finds the contender of a name; those called `external:NAME` are among `externals`.
    ///
    /// ```
    /// use manyway_lab::Contender;
    /// let programs = ["cat;cat;cat".parse()?];
    /// assert!(Contender::find("external:cat", &programs).is_ok());
    /// assert!(Contender::find("external:dog", &programs).is_err());
    /// assert_eq!("mptcp-bbr".parse::<Contender>()?.to_string(), "mptcp-bbr");
    /// # Ok::<(), manyway_lab::contender::NameError>(())
    /// ```
    ///
    /// # Errors
    /// There is no such contender; the error lists the existing ones.
    pub fn find(name: &str, externals: &[ExternalProgram]) -> Result<Self, NameError> {
        Self::find_with(name, externals, &ConnectionConfig::default())
    }

    /// As [`Self::find`], with the schedulers and congestion controls that were added to `config`.
    ///
    /// # Errors
    /// There is no such contender; the error lists the existing ones.
    pub fn find_with(
        name: &str,
        externals: &[ExternalProgram],
        config: &ConnectionConfig,
    ) -> Result<Self, NameError> {
        if let Some(program) = name.strip_prefix("external:") {
            let found = externals.iter().find(|external| external.name == program);
            return found.cloned().map(Self::External).ok_or_else(|| unknown_program(program, externals));
        }
        if let Some(congestion) = name.strip_prefix("possible-") {
            return Ok(Self::Possible { congestion: Some(system_name(congestion)?) });
        }
        if let Some(congestion) = name.strip_prefix("mptcp-") {
            return Ok(Self::Mptcp { congestion: system_name(congestion)? });
        }
        if let Some(rest) = name.strip_prefix("tcp-") {
            let (congestion, route) = with_route(rest, RouteChoice::Best)?;
            return Ok(Self::Tcp { congestion: system_name(congestion)?, route });
        }
        if Chunks::is_meant(name) {
            return name.parse().map(Self::Chunks);
        }
        if Through::is_meant(name) {
            return name.parse().map(Self::Through);
        }
        if name == "possible" {
            return Ok(Self::Possible { congestion: None });
        }
        let (who, settings) = name.split_once(':').map_or((name, None), |(who, rest)| (who, Some(rest)));
        let routes = match who {
            "manyway" => RouteChoice::All,
            "manyway-best" => RouteChoice::Best,
            other => match other.strip_prefix("manyway@") {
                Some(_) => with_route(other, RouteChoice::All)?.1,
                None => return Err(NameError(format!("{name:?} is not one of: {POSSIBLE_NAMES}"))),
            },
        };
        let mut found = ManywaySettings { routes, ..ManywaySettings::default() };
        settings.map_or(Ok(()), |settings| found.set(settings, config.clone()))?;
        Ok(Self::Manyway(found))
    }
}

impl FromStr for Contender {
    type Err = NameError;

    /// As [`Contender::find`] without external programs.
    fn from_str(name: &str) -> Result<Self, NameError> {
        Self::find(name, &[])
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Manyway(settings) => settings.fmt(f),
            Self::Tcp { congestion, route } => match route {
                RouteChoice::Only(place) => write!(f, "tcp-{congestion}@{}", place + 1),
                RouteChoice::Best | RouteChoice::All => write!(f, "tcp-{congestion}"),
            },
            Self::Possible { congestion: None } => f.write_str("possible"),
            Self::Possible { congestion: Some(congestion) } => write!(f, "possible-{congestion}"),
            Self::Mptcp { congestion } => write!(f, "mptcp-{congestion}"),
            Self::Chunks(chunks) => chunks.fmt(f),
            Self::Through(through) => through.fmt(f),
            Self::External(program) => write!(f, "external:{}", program.name),
        }
    }
}

impl ManywaySettings {
    /// Parses `key=value` pairs with commas between, if `config` accepts the values.
    fn set(&mut self, settings: &str, mut config: ConnectionConfig) -> Result<(), NameError> {
        let unknown = |error: ConfigError| NameError(error.to_string());
        // The congestion control is the system's then.
        let over_tcp = settings.split(',').any(|setting| setting == "carrier=tcp");
        let has_target = value_of(settings, "target").is_some();
        for setting in settings.split(',') {
            let Some((key, value)) = setting.split_once('=') else {
                return Err(NameError(format!(
                    "{setting:?} is not like wire=NAME, detection=NAME, carrier=NAME, connections=N, target=RATE, interval=TIME, buffer=BYTES, algorithm=NAME, scheduler=NAME, congestion=NAME or pairs=MODE"
                )));
            };
            match key {
                "wire" => {
                    self.wire = match value {
                        "mmsp2" => Wire::Mmsp2,
                        "mmsp1" => Wire::Mmsp1,
                        _ => return Err(NameError(format!("wire must be mmsp2 or mmsp1, not {value:?}"))),
                    }
                }
                "detection" => {
                    self.detection = match value {
                        "fast" => PathDetection::Fast,
                        "probes" => PathDetection::Probes,
                        _ => {
                            return Err(NameError(format!(
                                "detection must be fast or probes, not {value:?}"
                            )));
                        }
                    }
                }
                "carrier" => {
                    self.carrier = match value {
                        "udp" => Carrier::Udp,
                        "tcp" => Carrier::Tcp,
                        "auto" => Carrier::Auto,
                        _ => {
                            return Err(NameError(format!(
                                "carrier must be udp, tcp or auto, not {value:?}"
                            )));
                        }
                    }
                }
                "connections" => {
                    let number = value.parse().ok().filter(|number| (1..=16).contains(number));
                    let wrong = || NameError(format!("connections must be 1 to 16, not {value:?}"));
                    self.connections = Some(number.ok_or_else(wrong)?);
                }
                "target" => self.target = Some(target_of(value, settings)?),
                "algorithm" if value.parse::<RateAlgorithm>().is_ok() && has_target => {}
                "algorithm" => {
                    return Err(NameError(
                        "algorithm must be basic or advanced, and is for a target=RATE".to_owned(),
                    ));
                }
                "interval" | "buffer" if has_target => {}
                "interval" | "buffer" => return Err(NameError(format!("{key} is for a target=RATE"))),
                "congestion" if over_tcp => self.congestion = Some(system_name(value)?),
                "scheduler" => {
                    config.set_scheduler(value).map_err(unknown)?;
                    self.scheduler = Some(value.to_owned());
                }
                "congestion" => {
                    config.set_congestion(value).map_err(unknown)?;
                    self.congestion = Some(value.to_owned());
                }
                "pairs" => {
                    config.set_pairs(value).map_err(unknown)?;
                    self.pairs = Some(config.pairs);
                }
                _ => {
                    return Err(NameError(format!(
                        "manyway has no setting {key:?} here; there are wire, detection, carrier, connections, target, interval, buffer, algorithm, scheduler, congestion and pairs"
                    )));
                }
            }
        }
        self.check(settings)
    }

    /// Refuses settings that do not go together.
    fn check(&self, settings: &str) -> Result<(), NameError> {
        if self.carrier != Carrier::Udp && self.wire == Wire::Mmsp1 {
            return Err(NameError("MMSP/1 goes over UDP: leave out wire=mmsp1 or carrier".to_owned()));
        }
        if self.wire == Wire::Mmsp2 && settings.split(',').any(|setting| setting.starts_with("detection=")) {
            return Err(NameError("detection is a setting of MMSP/1: add wire=mmsp1".to_owned()));
        }
        if self.target.is_some() && self.wire == Wire::Mmsp1 {
            return Err(NameError("MMSP/1 has no target rate: leave out wire=mmsp1 or target".to_owned()));
        }
        if let Some(target) = &self.target {
            target.setting(self.connections).map_err(|error| NameError(error.to_string()))?;
        }
        Ok(())
    }
}

impl fmt::Display for ManywaySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.routes {
            RouteChoice::All => f.write_str("manyway")?,
            RouteChoice::Best => f.write_str("manyway-best")?,
            RouteChoice::Only(place) => write!(f, "manyway@{}", place + 1)?,
        }
        let pairs = self.pairs.map(|mode| mode.to_string());
        let wire = (self.wire == Wire::Mmsp1).then(|| "mmsp1".to_owned());
        let detection = (self.detection == PathDetection::Fast).then(|| "fast".to_owned());
        let connections = self.connections.map(|number| number.to_string());
        let target = self.target.map(|target| target.to_string());
        let algorithm = self.target.filter(|target| target.is_advanced).map(|_| "advanced".to_owned());
        let interval = self.target.and_then(|target| target.interval).map(whole_units);
        let buffer = self.target.and_then(|target| target.buffer).map(|bytes| bytes.to_string());
        let carrier = match self.carrier {
            Carrier::Udp => None,
            Carrier::Tcp => Some("tcp".to_owned()),
            Carrier::Auto => Some("auto".to_owned()),
        };
        let settings = [
            ("wire", &wire),
            ("detection", &detection),
            ("carrier", &carrier),
            ("connections", &connections),
            ("target", &target),
            ("interval", &interval),
            ("buffer", &buffer),
            ("algorithm", &algorithm),
            ("scheduler", &self.scheduler),
            ("congestion", &self.congestion),
            ("pairs", &pairs),
        ];
        let mut mark = ':';
        for (key, value) in settings.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?))) {
            write!(f, "{mark}{key}={value}")?;
            mark = ',';
        }
        Ok(())
    }
}

impl FromStr for ExternalProgram {
    type Err = NameError;

    /// Parses `NAME;SENDER;RECEIVER`. If the commands contain semicolons, any other character may follow the name and
    /// separate them, such as `%`.
    /// between them, such as `%`.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let wrong = |hint: &str| {
            NameError(format!("{text:?} is not of the form NAME;SENDER COMMAND;RECEIVER COMMAND{hint}"))
        };
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.+".contains(letter);
        let separator = text.chars().find(|letter| !is_plain(*letter));
        let Some(separator) = separator.filter(|sign| !sign.is_whitespace()) else {
            return Err(wrong(", with a name of letters, digits and - _ . +"));
        };
        let parts: Vec<&str> = text.split(separator).map(str::trim).collect();
        let [name, sender, receiver] = parts.as_slice() else {
            return Err(wrong("; where a command has semicolons, put another sign for these two, such as %"));
        };
        if [name, sender, receiver].iter().any(|part| part.is_empty()) {
            return Err(wrong(", none of them empty"));
        }
        Ok(Self { name: (*name).to_owned(), sender: (*sender).to_owned(), receiver: (*receiver).to_owned() })
    }
}

fn unknown_program(name: &str, externals: &[ExternalProgram]) -> NameError {
    let names: Vec<&str> = externals.iter().map(|external| external.name.as_str()).collect();
    let known =
        if names.is_empty() { "none is".to_owned() } else { format!("there is {}", names.join(", ")) };
    NameError(format!(
        "no external program {name:?} is given, {known}; give it with --external 'NAME;SENDER;RECEIVER'"
    ))
}

/// A rate with the settings that go with it.
fn target_of(rate: &str, settings: &str) -> Result<Target, NameError> {
    let is_advanced = value_of(settings, "algorithm") == Some("advanced");
    let interval = value_of(settings, "interval").map(text::parse_duration).transpose();
    let interval = interval.map_err(|error| NameError(format!("interval {error}")))?;
    let buffer = value_of(settings, "buffer").map(str::parse).transpose();
    let buffer = buffer.map_err(|_| NameError("buffer must be a number of bytes".to_owned()))?;
    let target: Target = rate.parse().map_err(|error: ConfigError| NameError(error.to_string()))?;
    Ok(Target { is_advanced, interval, buffer, ..target })
}

/// The value of a key.
fn value_of<'a>(settings: &'a str, key: &str) -> Option<&'a str> {
    settings.split(',').find_map(|setting| setting.strip_prefix(key)?.strip_prefix('='))
}

/// `NAME@N` for the Nth route, counted from 1.
fn with_route(text: &str, otherwise: RouteChoice) -> Result<(&str, RouteChoice), NameError> {
    let Some((name, number)) = text.split_once('@') else { return Ok((text, otherwise)) };
    let place = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let place =
        place.ok_or_else(|| NameError(format!("{number:?} is not the number of a route, counted from 1")))?;
    Ok((name, RouteChoice::Only(place)))
}

/// A congestion control of the system; only the system knows whether it exists.
fn system_name(name: &str) -> Result<String, NameError> {
    // TCP_CA_NAME_MAX is 16 with the terminating zero.
    let is_good = (1..16).contains(&name.len())
        && name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_');
    if is_good {
        return Ok(name.to_owned());
    }
    Err(NameError(format!(
        "{name:?} can not be a congestion control of the system, such as cubic, reno or bbr"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_and_written_alike() {
        for name in [
            "manyway",
            "manyway-best",
            "manyway@2",
            "manyway:scheduler=round-robin,congestion=new-reno",
            "manyway-best:congestion=cubic",
            "manyway:congestion=cubic,pairs=disjoint",
            "manyway@1:wire=mmsp1,scheduler=earliest",
            "manyway:wire=mmsp1",
            "manyway:wire=mmsp1,detection=fast,scheduler=earliest",
            "manyway:carrier=tcp,scheduler=outstanding-ratio,congestion=reno,pairs=disjoint",
            "manyway@2:wire=mmsp1,scheduler=earliest",
            "manyway:carrier=tcp,connections=5,target=800k",
            "manyway:carrier=auto,scheduler=min-rtt",
            "manyway:target=2M",
            "manyway:target=2M,interval=500ms",
            "manyway:target=2M,interval=90s,scheduler=min-rtt",
            "manyway:carrier=tcp,target=2M,buffer=5000",
            "manyway:carrier=tcp,connections=8,target=1600k,algorithm=advanced,scheduler=round-robin",
            "tcp-cubic",
            "tcp-bbr@1",
            "possible",
            "possible-bbr",
            "mptcp-cubic",
            "mptcp-bbr",
            "run",
            "tunnel:flows=16",
            "ssh",
            "wireguard-go:program=iperf3",
            "direct:program=quinn",
            "run:program=srt",
            "proxy:program=iperf3",
            "chunks",
            "chunks:connections=2,shares=1/2/1,search=57ns,file=104857600",
            "proxy:program=curl",
            "forward:flows=4,program=iperf3",
        ] {
            assert_eq!(name.parse::<Contender>().unwrap().to_string(), name);
        }
    }

    #[test]
    fn a_name_determines_its_contender() {
        let best = "tcp-cubic".parse::<Contender>().unwrap();
        assert_eq!(best, Contender::Tcp { congestion: "cubic".into(), route: RouteChoice::Best });
        let second = "manyway@2".parse::<Contender>().unwrap();
        let expected = ManywaySettings { routes: RouteChoice::Only(1), ..ManywaySettings::default() };
        assert_eq!(second, Contender::Manyway(expected));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        for (name, hint) in [
            ("quic", "mptcp-CC"),
            ("", "manyway-best"),
            ("manyway:scheduler=magic", "min-rtt"),
            ("manyway:congestion=magic", "new-reno"),
            ("manyway:pairs=magic", "full-mesh"),
            ("manyway:wire=mmsp3", "mmsp2 or mmsp1"),
            ("manyway:wire=mmsp1,detection=slow", "fast or probes"),
            ("manyway:detection=fast", "add wire=mmsp1"),
            (
                "manyway:speed=high",
                "wire, detection, carrier, connections, target, interval, buffer, algorithm, scheduler, congestion and pairs",
            ),
            ("manyway:connections=17", "1 to 16"),
            ("manyway:target=fast", "such as 800k"),
            ("manyway:target=1", "rate"),
            ("manyway:interval=1s", "target=RATE"),
            ("manyway:target=1M,interval=soon", "interval"),
            ("manyway:target=1M,interval=1ms", "too short"),
            ("manyway:buffer=5000", "target=RATE"),
            ("manyway:target=1M,buffer=some", "number of bytes"),
            ("manyway:target=1M,buffer=10", "at least 1000 bytes"),
            ("manyway:algorithm=advanced", "target=RATE"),
            ("manyway:target=1M,algorithm=best", "basic or advanced"),
            ("manyway:wire=mmsp1,target=1M", "leave out"),
            ("manyway:carrier=sctp", "udp, tcp or auto"),
            ("manyway:wire=mmsp1,carrier=tcp", "leave out"),
            ("manyway:", "scheduler=NAME"),
            ("manyway@0", "counted from 1"),
            ("tcp-cubic@x", "counted from 1"),
            ("tcp-", "such as cubic"),
            ("mptcp-../x", "such as cubic"),
            ("possible-Very_Long_Name_Indeed", "such as cubic"),
            ("run:flows=0", "1 to 64"),
            ("run:program=wget", "own, iperf3, curl, quinn or srt"),
            ("proxy:program=quinn", "quinn knows no proxy"),
            ("run:program=srt,flows=2", "srt has one flow"),
            ("run:wire=mmsp1", "flows=N or program=NAME"),
            ("tunnel:program=curl,flows=2", "one flow"),
            ("chunks:connections=0", "1 to 16"),
            ("chunks:shares=1:2", "1/2/1"),
            ("chunks:search=long", "search"),
            ("chunks:file=0", "bytes"),
            ("chunks:speed=1", "connections=N"),
            ("runner", "manyway-best"),
            ("external:iperf", "--external"),
        ] {
            let text = name.parse::<Contender>().unwrap_err().to_string();
            assert!(text.contains(hint), "{name}: {text}");
        }
    }

    #[test]
    fn an_external_program_is_two_commands_with_a_name() {
        let program: ExternalProgram = "nc; nc {remote} {port} ;nc -l {port}".parse().unwrap();
        assert_eq!(
            (program.sender.as_str(), program.receiver.as_str()),
            ("nc {remote} {port}", "nc -l {port}")
        );
        let found = Contender::find("external:nc", std::slice::from_ref(&program)).unwrap();
        assert_eq!(found, Contender::External(program.clone()));
        let text = Contender::find("external:cat", &[program]).unwrap_err().to_string();
        assert!(text.contains("there is nc"), "{text}");
        let program: ExternalProgram = "sh% cat; exit 0 %cat|cat;".parse().unwrap();
        assert_eq!((program.name.as_str(), program.sender.as_str()), ("sh", "cat; exit 0"));
        assert_eq!(program.receiver, "cat|cat;");
        let text = "sh;cat; exit;cat".parse::<ExternalProgram>().unwrap_err().to_string();
        assert!(text.contains("such as %"), "{text}");
        for wrong in ["nc", "nc;a", "nc;a;b;c", ";a;b", "n c;a;b", "nc;;b"] {
            assert!(wrong.parse::<ExternalProgram>().is_err(), "{wrong}");
        }
    }
}
