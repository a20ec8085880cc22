//! `manyway play`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use manyway::{Rate, TargetRate};
use manyway_play::Buffer;
use manyway_transfer::RelativePath;

use crate::output::units::{parse_duration, parse_rate, parse_size};

/// Arguments of `play`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct PlayArgs {
    /// The server: ticket, @FILE containing it, saved name, or HOST:PORT
    #[arg(value_name = "TICKET")]
    pub server: String,
    /// A film, playlist or directory there; a page with all files if none is named
    #[arg(value_name = "FILE", value_parser = parse_path)]
    pub path: Option<RelativePath>,
    /// Start this player with the URL as its last argument, and end when it ends
    #[arg(last = true, value_name = "PLAYER")]
    pub player: Vec<OsString>,
    /// Listen here for players; any host that can connect can read all files of the ticket
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0", value_parser = parse_listen)]
    pub listen: SocketAddr,
    /// Receive all media at this rate, or as fast as possible with max; default that of the media and a margin
    #[arg(long, value_name = "RATE|max")]
    pub rate: Option<PlayRate>,
    /// Read-ahead buffer per file, in time or bytes
    #[arg(long, value_name = "TIME|SIZE", default_value = "20s", value_parser = parse_buffer)]
    pub buffer: Buffer,
    /// Draw buffer and rate over time as an SVG file at the end
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// The rate at which media is received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlayRate {
    /// This one.
    Of(Rate),
    /// As fast as possible.
    Max,
}

impl FromStr for PlayRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Max);
        }
        let rate = parse_rate(text).map_err(|error| format!("{error}; or max"))?;
        TargetRate::new(rate).validate().map_err(|error| error.to_string())?;
        Ok(Self::Of(rate))
    }
}

fn parse_buffer(text: &str) -> Result<Buffer, String> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("write it like 30s, 2min, 64M or 64MiB".to_owned());
    }
    match (parse_duration(text), parse_size(text)) {
        (Ok(time), _) if !time.is_zero() => Ok(Buffer::Time(time)),
        (Err(_), Ok(bytes)) if bytes >= Buffer::LEAST => Ok(Buffer::Bytes(bytes)),
        (Err(_), Ok(bytes)) if bytes > 0 => Err("at least 256 KiB".to_owned()),
        _ => Err("write it like 30s, 2min, 64M or 64MiB".to_owned()),
    }
}

/// A slash at the end, as shells complete it, is no part of the name.
fn parse_path(text: &str) -> Result<RelativePath, String> {
    RelativePath::parse(text.strip_suffix('/').unwrap_or(text)).map_err(|error| error.to_string())
}

/// On loopback by default, since players do not authenticate.
fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    super::serve::parse_address(text, "127.0.0.1:8080 or [::1]:8080")
}

const EXAMPLES: &str = "\
Examples:
  manyway play @home.ticket                        a page with all files
  manyway play home films/holiday.mp4 -- mpv --fs
  manyway play home films/holiday.mp4              prints a URL for any player
  manyway play home live/stream.m3u8 --buffer 60s -- ffplay

The server is `manyway serve --dir films`. The command runs until Ctrl-C or until PLAYER ends, and then reports for each \
film how soon it began and how often it stalled.";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    fn parsed(words: &[&str]) -> Result<PlayArgs, String> {
        let words = [&["manyway", "play", "home"], words].concat();
        let command = Cli::try_parse_from(words).map_err(|error| error.to_string())?.command;
        let Command::Play(arguments) = command else { return Err(format!("{command:?}")) };
        Ok(arguments)
    }

    #[test]
    fn a_buffer_is_a_time_or_a_size_and_a_player_follows_two_dashes() {
        let arguments =
            parsed(&["a/b.mp4", "--buffer", "2min", "--rate", "3M", "--", "mpv", "--fs"]).unwrap();
        assert_eq!(arguments.buffer, Buffer::Time(Duration::from_secs(120)));
        assert_eq!(arguments.rate, Some(PlayRate::Of(Rate::from_bits_per_second(3_000_000))));
        assert_eq!(arguments.player, ["mpv", "--fs"]);
        let arguments = parsed(&["--buffer", "64M", "--rate", "max"]).unwrap();
        assert_eq!((arguments.buffer, arguments.rate), (Buffer::Bytes(64 << 20), Some(PlayRate::Max)));
        assert_eq!((arguments.path, arguments.listen.port()), (None, 0));
        for (words, part) in [
            (&["--buffer", "64"][..], "write it like 30s"),
            (&["--buffer", "0s"], "write it like 30s"),
            (&["--buffer", "255K"], "at least 256 KiB"),
            (&["--rate", "fast"], "or max"),
            (&["--rate", "1k"], "8 kbit/s"),
            (&["../a"], "\"..\""),
            (&["--listen", "8080"], "127.0.0.1:8080"),
        ] {
            let error = parsed(words).unwrap_err();
            assert!(error.contains(part), "{words:?}: {error}");
        }
    }
}
