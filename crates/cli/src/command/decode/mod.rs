//! `manyway decode`: prints the packets of captures.

mod json;
mod show;
mod text;

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use manyway_inspect::capture::{self, CaptureError, Datagram, Item, Skip};
use manyway_inspect::{Inside, Inspector, KeyLog, Sealed, clear_packets};
use manyway_terminal::{CommandError, ExitCode};

use crate::args::{DecodeArgs, GlobalArgs};
use crate::output::cause;
use show::{Place, Show, Summary};

/// Decodes the file to standard output.
///
/// # Errors
/// If the file or the key log cannot be read, or the output cannot be written.
pub fn run(global: &GlobalArgs, arguments: &DecodeArgs) -> Result<ExitCode, CommandError> {
    let out = BufWriter::new(io::stdout().lock());
    let mut show: Box<dyn Show> = if global.json {
        Box::new(json::Json::new(out))
    } else {
        Box::new(text::Text::new(out, text::Detail::of(global)))
    };
    let input: Box<dyn Read + Send> = if arguments.file == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(BufReader::new(File::open(&arguments.file).map_err(|e| of_file(&arguments.file, &e))?))
    };
    if arguments.blocks {
        return bare_blocks(input, show.as_mut(), &arguments.file);
    }
    let log = key_log(arguments)?;
    let mut decoder = Decoder {
        summary: Summary { has_keys: !log.is_empty(), ..Summary::default() },
        inspector: Inspector::new(log),
        port: arguments.port,
        start: None,
        show: show.as_mut(),
        failure: None,
    };
    let read = capture::read(input, &mut |item| decoder.take(&item));
    let Decoder { summary, failure, .. } = decoder;
    if let Some(error) = failure {
        return Err(error.into());
    }
    if read.is_ok() || summary.shown() > 0 {
        show.end(&summary)?;
    }
    match read {
        Ok(()) if summary.malformed > 0 => Ok(ExitCode::Failed),
        Ok(()) => Ok(ExitCode::Ok),
        Err(error) => Err(of_capture(&arguments.file, &error)),
    }
}

fn bare_blocks(
    mut input: Box<dyn Read + Send>,
    show: &mut dyn Show,
    file: &Path,
) -> Result<ExitCode, CommandError> {
    let mut text = Vec::new();
    input.by_ref().take(LONGEST_BLOCKS).read_to_end(&mut text).map_err(|error| of_file(file, &error))?;
    let payload = capture::parse_bytes(&text)
        .map_err(|error| CommandError::new(ExitCode::Failed, format!("{}: {error}", name(file))))?;
    show.blocks(&payload)?;
    let malformed = manyway_inspect::blocks(&payload).any(|at| at.block.is_err());
    Ok(if malformed { ExitCode::Failed } else { ExitCode::Ok })
}

/// Longest text of bare blocks, in bytes.
const LONGEST_BLOCKS: u64 = 16 << 20;

/// The key log that the user names, or that of `SSLKEYLOGFILE`.
fn key_log(arguments: &DecodeArgs) -> Result<KeyLog, CommandError> {
    let mut log = KeyLog::default();
    if let Some(path) = &arguments.keylog {
        let text = std::fs::read(path).map_err(|error| of_file(path, &error))?;
        if log.add(&text) == 0 {
            let text = format!(
                "{}: no secrets of TLS 1.3; SSLKEYLOGFILE must name it while a program runs",
                name(path)
            );
            return Err(CommandError::new(ExitCode::Failed, text));
        }
    } else if let Some(path) = std::env::var_os("SSLKEYLOGFILE")
        && let Ok(text) = std::fs::read(path)
    {
        log.add(&text);
    }
    Ok(log)
}

fn of_file(path: &Path, error: &io::Error) -> CommandError {
    CommandError::new(ExitCode::Failed, format!("{}: {}", name(path), cause(error)))
}

fn of_capture(path: &Path, error: &CaptureError) -> CommandError {
    CommandError::new(ExitCode::Failed, format!("{}: {error}", name(path)))
}

fn name(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

struct Decoder<'s> {
    inspector: Inspector,
    port: Option<u16>,
    start: Option<Duration>,
    show: &'s mut dyn Show,
    summary: Summary,
    /// The error of the output, if it failed.
    failure: Option<io::Error>,
}

impl Decoder<'_> {
    fn take(&mut self, item: &Item<'_>) -> ControlFlow<()> {
        match self.try_take(item) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failure = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    fn try_take(&mut self, item: &Item<'_>) -> io::Result<()> {
        match item {
            Item::Datagram(datagram) => self.datagram(datagram),
            Item::Skipped { number, time, why } => {
                // Frames without UDP are not shown; other skipped ones may hide a packet.
                if *why == Skip::NotUdp || self.port.is_some() && *why == Skip::Cut {
                    return Ok(());
                }
                self.summary.skipped += 1;
                let place = Place {
                    number: *number,
                    time: *time,
                    elapsed: self.elapsed(*time),
                    addresses: None,
                    missing: 0,
                };
                self.show.skipped(&place, *why)
            }
            Item::KeyLog(text) => {
                self.summary.has_keys |= self.inspector.add_keys(text) > 0;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn datagram(&mut self, datagram: &Datagram<'_>) -> io::Result<()> {
        let Datagram { number, time, addresses, payload, missing } = *datagram;
        let elapsed = self.elapsed(time);
        if let (Some(port), Some((from, to))) = (self.port, addresses)
            && from.port() != port
            && to.port() != port
        {
            return Ok(());
        }
        let place = Place { number, time, elapsed, addresses, missing };
        let mut is_clear = false;
        for packet in clear_packets(payload) {
            is_clear = true;
            self.summary.packets += 1;
            self.summary.malformed += u64::from(packet.is_malformed());
            self.show.clear_packet(&place, &packet)?;
        }
        if is_clear {
            return Ok(());
        }
        for packet in self.inspector.datagram(payload) {
            self.summary.packets += 1;
            self.summary.malformed += u64::from(packet.is_malformed());
            self.summary.without_secret +=
                u64::from(matches!(packet.inside, Inside::Sealed(Sealed::NoSecret(_))));
            let bytes = payload.get(packet.offset..packet.offset + packet.length).unwrap_or_default();
            self.show.packet(&place, &packet, bytes)?;
        }
        Ok(())
    }

    fn elapsed(&mut self, time: Option<Duration>) -> Option<Duration> {
        let time = time?;
        Some(time.saturating_sub(*self.start.get_or_insert(time)))
    }
}
