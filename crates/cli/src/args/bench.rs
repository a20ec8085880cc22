//! `manyway bench`.

use std::time::Duration;

use clap::Args;
use manyway::{Rate, RateAlgorithm, TargetRate};
use manyway_terminal::ExitCode;
use manyway_transfer::{BenchFlow, BenchLimit, BenchPlan, MessagePlan};

use super::number::{port, within};
use super::ping::parse_interval;
use crate::output::units::{parse_duration, parse_rate, parse_size};

/// Arguments of `bench`; letters as in iperf3.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub struct BenchArgs {
    /// The server: ticket, @FILE containing it, or saved name
    #[arg(value_name = "TICKET")]
    pub ticket: String,
    /// How long to measure; 0 until Ctrl-C
    #[arg(short = 't', long, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    pub time: Duration,
    /// Transfer this many bytes instead; K, M and G are powers of 1024
    #[arg(short = 'n', long, value_name = "SIZE", conflicts_with = "time", value_parser = parse_bytes)]
    pub bytes: Option<u64>,
    /// How often to print figures; 0 prints only the summary
    #[arg(short = 'i', long, value_name = "TIME", default_value = "1s", value_parser = parse_pause)]
    pub interval: Duration,
    /// How many streams at once
    #[arg(short = 'P', long = "parallel", value_name = "N", default_value_t = 1)]
    #[arg(value_parser = parse_streams)]
    pub parallel: u16,
    /// Let the server send
    #[arg(short = 'R', long)]
    pub reverse: bool,
    /// Let both send at the same time
    #[arg(long, conflicts_with = "reverse")]
    pub bidir: bool,
    /// Bytes of each write [default: 64K, with -b: 10 ms of data]
    #[arg(short = 'l', long, value_name = "SIZE", value_parser = parse_length)]
    pub length: Option<u32>,
    /// Bits a second of each stream, on average; 0 is no limit; K, M and G are powers of 1000
    #[arg(short = 'b', long = "bitrate", value_name = "RATE", value_parser = parse_bitrate)]
    pub bitrate: Option<Rate>,
    /// Receive at this rate, held by the receiver: all streams together, on average; needs -R or --bidir
    #[arg(long, value_name = "RATE", value_parser = parse_target)]
    #[arg(conflicts_with = "messages")]
    pub target_rate: Option<Rate>,
    /// How --target-rate uses TCP connections: basic (--connections of them) or advanced (1 to so many, at most 4)
    #[arg(long, value_name = "NAME", default_value_t, hide_default_value = true, requires = "target_rate")]
    pub algorithm: RateAlgorithm,
    /// Omit the first TIME from all figures
    #[arg(short = 'O', long, value_name = "TIME", default_value = "0s", value_parser = parse_omit)]
    pub omit: Duration,
    /// Congestion control of both ends (without this, --congestion sets this end alone)
    #[arg(short = 'C', long = "control", value_name = "NAME", conflicts_with = "congestion")]
    pub control: Option<String>,
    /// Connect to this port instead of the ticket's
    #[arg(short = 'p', long, value_name = "PORT", value_parser = port)]
    pub port: Option<u16>,
    /// Send on this interface or address first
    #[arg(long, value_name = "IF|ADDR", conflicts_with = "reverse")]
    pub primary: Option<String>,
    /// Measure each path alone too, and print the gain over the best
    #[arg(long)]
    pub compare: bool,
    /// End with status 6 if the gain is smaller, in percent; implies --compare
    #[arg(long, value_name = "PERCENT", allow_negative_numbers = true, value_parser = parse_gain)]
    pub min_gain: Option<f64>,
    /// Print one JSON document at the end instead of anything else
    #[arg(short = 'J', long = "json-document", conflicts_with = "json")]
    pub document: bool,
    /// Measure how long messages of so many bytes take instead, from 16 to 262144
    #[arg(long, value_name = "SIZE", value_parser = parse_message)]
    #[arg(conflicts_with_all = ["bytes", "bidir", "length", "interval", "omit", "compare", "min_gain"])]
    pub messages: Option<u32>,
    /// How many messages a second
    #[arg(long, value_name = "N", default_value_t = 100, requires = "messages")]
    #[arg(value_parser = parse_message_rate)]
    pub rate: u32,
    /// Deadline in ms; later messages are abandoned or counted as late
    #[arg(long, value_name = "MS", requires = "messages", value_parser = parse_deadline)]
    pub deadline: Option<Duration>,
    /// Send bulk beside the messages, as without --messages; -P and -b apply to it
    #[arg(long, requires = "messages")]
    pub bulk: bool,
}

fn parse_streams(text: &str) -> Result<u16, String> {
    within(text, 1..=BenchPlan::MAX_STREAMS.into())
}

fn parse_message_rate(text: &str) -> Result<u32, String> {
    within(text, 1..=MessagePlan::MAX_RATE.into())
}

impl BenchArgs {
    /// What to measure.
    pub fn plan(&self) -> BenchPlan {
        let mut plan = BenchPlan::default();
        plan.flow = match (self.bidir, self.reverse) {
            (true, _) => BenchFlow::Both,
            (false, true) => BenchFlow::Download,
            (false, false) => BenchFlow::Upload,
        };
        plan.limit = match self.bytes {
            Some(bytes) => BenchLimit::Bytes(bytes),
            None if self.is_endless() => BenchLimit::Bytes(u64::MAX),
            None => BenchLimit::Duration(self.time),
        };
        plan.interval = if self.interval.is_zero() { SELDOM } else { self.interval };
        plan.streams = self.parallel;
        plan.omit = self.omit;
        plan.rate = self.bitrate.map(Rate::bits_per_second).filter(|rate| *rate > 0);
        plan.target = self.target_rate.map(Rate::bits_per_second);
        plan.length = self.length;
        plan.congestion.clone_from(&self.control);
        plan
    }

    /// The messages to measure, if any.
    ///
    /// # Errors
    /// Names the options that apply to bulk only and were given without bulk. (clap has no such condition.)
    pub fn message_plan(&self) -> Result<Option<MessagePlan>, String> {
        let Some(size) = self.messages else { return Ok(None) };
        let of_bulk = [(self.parallel > 1, "-P"), (self.bitrate.is_some(), "-b")];
        if let Some((_, option)) = of_bulk.iter().find(|(is_given, _)| *is_given && !self.bulk) {
            return Err(format!(
                "{option} is for bulk, and --messages sends none without --bulk; --rate says how many messages"
            ));
        }
        let mut plan = MessagePlan::default();
        plan.size = size;
        plan.rate = self.rate;
        plan.time = if self.is_endless() { UNTIL_STOPPED } else { self.time };
        plan.deadline = self.deadline;
        plan.reverse = self.reverse;
        // Bulk sets the congestion control of the other end itself.
        plan.congestion = self.control.clone().filter(|_| !self.bulk);
        Ok(Some(plan))
    }

    /// How the target rate is held, if there is one.
    ///
    /// # Errors
    /// It is out of range, or nothing is received at which it could be aimed.
    pub fn target(&self, connections: Option<u8>) -> Result<Option<TargetRate>, String> {
        let Some(rate) = self.target_rate else { return Ok(None) };
        if !self.reverse && !self.bidir {
            return Err("--target-rate is held by the receiver, which is the server here: add -R to receive"
                .to_owned());
        }
        let mut target = TargetRate::new(rate);
        target.algorithm = self.algorithm;
        target.connections = connections.unwrap_or(target.connections);
        target.validate().map_err(|error| error.to_string())?;
        Ok(Some(target))
    }

    /// Whether Ctrl-C is the regular end, as with `-t 0` of iperf3.
    pub fn is_endless(&self) -> bool {
        self.bytes.is_none() && self.time.is_zero()
    }

    /// Whether a run that stopped with that code ended as intended.
    pub fn is_ended_by(&self, code: ExitCode) -> bool {
        self.is_endless() && code.is_interruption()
    }

    /// Whether each path is measured alone, too.
    pub fn compares(&self) -> bool {
        self.compare || self.min_gain.is_some()
    }
}

/// The interval of a run whose intervals are not printed.
const SELDOM: Duration = Duration::from_secs(3600);

/// The time of a run of messages that only Ctrl-C ends.
const UNTIL_STOPPED: Duration = Duration::from_secs(365 * 24 * 3600);

fn parse_target(text: &str) -> Result<Rate, String> {
    let rate = parse_rate(text).map_err(|error| error.to_string())?;
    TargetRate::new(rate).validate().map(|()| rate).map_err(|error| error.to_string())
}

fn parse_time(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

fn parse_pause(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(Duration::ZERO) => Ok(Duration::ZERO),
        Ok(_) | Err(_) => parse_interval(text),
    }
}

fn parse_omit(text: &str) -> Result<Duration, String> {
    let omit = parse_duration(text).map_err(|error| error.to_string())?;
    if omit > BenchPlan::MAX_OMIT { Err("60s is the most that can be left out".to_owned()) } else { Ok(omit) }
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text).map_err(|error| error.to_string())?;
    if bytes == 0 { Err("0 bytes measure nothing".to_owned()) } else { Ok(bytes) }
}

fn parse_length(text: &str) -> Result<u32, String> {
    let length = parse_size(text).map_err(|error| error.to_string())?;
    let length = u32::try_from(length).ok().filter(|length| (1..=BenchPlan::MAX_LENGTH).contains(length));
    length.ok_or_else(|| "a write has 1 byte to 1 MiB".to_owned())
}

fn parse_message(text: &str) -> Result<u32, String> {
    let sizes = MessagePlan::MIN_SIZE..=MessagePlan::MAX_SIZE;
    let size = parse_size(text).map_err(|error| error.to_string())?;
    let size = u32::try_from(size).ok().filter(|size| sizes.contains(size));
    size.ok_or_else(|| format!("a message has {} to {} bytes here", sizes.start(), sizes.end()))
}

/// A bare number is in ms.
fn parse_deadline(text: &str) -> Result<Duration, String> {
    let bare = text.parse::<u64>().map(Duration::from_millis);
    let deadline = bare.or_else(|_| parse_duration(text)).map_err(|error| error.to_string())?;
    if deadline.is_zero() {
        Err("nothing arrives in no time; leave --deadline out".to_owned())
    } else {
        Ok(deadline)
    }
}

fn parse_bitrate(text: &str) -> Result<Rate, String> {
    parse_rate(text).map_err(|error| error.to_string())
}

fn parse_gain(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>().ok().filter(|gain| gain.is_finite());
    number.ok_or_else(|| format!("{text:?} is not a number of percent; write it like 20"))
}

const EXAMPLES: &str = "\
Prints what was received in each interval and the rate of each path, and path events as they happen; at the end the sums, \
the longest time without a byte, and what was lost. The options -t, -n, -P, -R, -b, -l, -i, -O and -J are those of \
iperf3. With -C both ends change their congestion control, so it also works with -R. With -t 0 Ctrl-C is the regular \
end: status 0.

With --messages it measures how long messages take from one application to the other. Prints the latency below which 50, \
95, 99 and 99.9 % of the messages arrived, the longest, and how many came late or never. With -R the server's are measured. \
There are no intervals (-i), and nothing is left out (-O).

Examples:
  manyway bench @home.ticket
  manyway bench -t 30 -P 4 -R home
  manyway bench --bidir -b 5M -O 2 home
  manyway bench --min-gain 20 home     20 % faster than the best path alone?
  manyway bench --json -i 100ms home | jq .bits_per_second
  manyway bench -J home > result.json
  manyway bench --messages 100 --rate 50 --deadline 150 --bulk home";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    #[test]
    fn options_become_a_plan_of_messages() {
        let plan = |arguments: &[&str]| {
            let all = ["manyway", "bench", "mw1x"].iter().chain(arguments);
            let cli = Cli::try_parse_from(all).map_err(|error| error.to_string())?;
            let Command::Bench(bench) = cli.command else { panic!("another command") };
            bench.message_plan()
        };
        assert_eq!(plan(&[]).unwrap(), None);
        assert_eq!(plan(&["--messages", "100"]).unwrap(), Some(MessagePlan::default()));
        let all = ["--messages", "2K", "--rate", "50", "--deadline", "150", "-R", "-t", "3", "--bulk"];
        let all = plan(&all).unwrap().unwrap();
        assert_eq!((all.size, all.rate, all.reverse, all.time), (2048, 50, true, Duration::from_secs(3)));
        assert_eq!(all.deadline, Some(Duration::from_millis(150)));
        let control = |arguments| plan(arguments).unwrap().unwrap().congestion;
        // Beside bulk, bulk changes the other end.
        assert_eq!(control(&["--messages", "100", "-C", "cubic"]).as_deref(), Some("cubic"));
        assert_eq!(control(&["--messages", "100", "-C", "cubic", "--bulk", "-P", "2", "-b", "5M"]), None);
        for (wrong, named) in [
            (["-i", "1s"], "--interval"),
            (["-O", "1s"], "--omit"),
            (["-P", "2"], "-P is for bulk"),
            (["-b", "5M"], "-b is for bulk"),
        ] {
            let error = plan(&[&["--messages", "100"], &wrong[..]].concat()).unwrap_err();
            assert!(error.contains(named), "{wrong:?}: {error}");
        }
        for wrong in [
            &["--messages", "15"][..],
            &["--messages", "1M"],
            &["--messages", "100", "--rate", "0"],
            &["--messages", "100", "--deadline", "0"],
            &["--messages", "100", "--bidir"],
            &["--messages", "100", "-n", "5M"],
            &["--deadline", "100"],
            &["--bulk"],
        ] {
            assert!(plan(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn options_become_a_plan() {
        let plan = |arguments: &[&str]| {
            let all = ["manyway", "bench", "mw1x"].iter().chain(arguments);
            Cli::try_parse_from(all).map(|cli| {
                let Command::Bench(bench) = cli.command else { panic!("another command") };
                bench.plan()
            })
        };
        assert_eq!(plan(&[]).unwrap(), BenchPlan::default());
        let reverse = plan(&["-R", "-P", "3", "-n", "5M"]).unwrap();
        assert_eq!((reverse.flow, reverse.streams), (BenchFlow::Download, 3));
        assert_eq!(reverse.limit, BenchLimit::Bytes(5 << 20));
        let both =
            plan(&["--bidir", "-b", "5M", "-l", "8K", "-O", "2", "-C", "new-reno", "-i", "0"]).unwrap();
        assert_eq!((both.flow, both.rate, both.length), (BenchFlow::Both, Some(5_000_000), Some(8192)));
        assert_eq!((both.omit, both.congestion.as_deref()), (Duration::from_secs(2), Some("new-reno")));
        let endless = plan(&["-t", "0", "-b", "0"]).unwrap();
        assert_eq!((endless.limit, endless.rate), (BenchLimit::Bytes(u64::MAX), None));
        assert_eq!(plan(&["-b", ".01M"]).unwrap().rate, Some(10_000));
        for wrong in [
            &["-P", "0"][..],
            &["-i", "1ms"],
            &["-n", "5M", "-t", "3"],
            &["-n", "0"],
            &["-R", "--bidir"],
            &["-l", "2M"],
            &["-O", "2m"],
            &["-J", "--json"],
            &["--min-gain", "lots"],
            &["-p", "0"],
        ] {
            assert!(plan(wrong).is_err(), "{wrong:?}");
        }
    }
}
