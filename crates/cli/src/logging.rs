//! Where `tracing` goes: to stderr, as much as `-v` and `-q` say.

use std::io::{self, IsTerminal as _, Write};

use serde_json::json;
use tracing_subscriber::EnvFilter;

use crate::args::{GlobalArgs, LogFormat};
use crate::output::stderr;
use crate::serving::journal::json_line;

/// Starts logging. `MANYWAY_LOG` holds a filter that wins over `-v` and `-q`. A second call has no effect.
pub fn start(global: &GlobalArgs, format: LogFormat) {
    let level = level(global);
    let filter = EnvFilter::try_from_env("MANYWAY_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .log_internal_errors(false)
        .with_target(global.verbose > 1);
    let _ = match format {
        LogFormat::Text => {
            let has_colour = io::stderr().is_terminal() && !no_colour();
            lines.with_ansi(has_colour).with_writer(|| stderr::Log).try_init()
        }
        LogFormat::Json => lines.with_ansi(false).without_time().with_writer(|| JsonLines).try_init(),
    };
}

/// Makes a document of each line of `tracing`, so that programs find nothing else on standard error.
struct JsonLines;

impl Write for JsonLines {
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        stderr::line(&document(&String::from_utf8_lossy(message)));
        Ok(message.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A line of `tracing`, which begins with its level, as a document.
fn document(line: &str) -> String {
    let line = line.trim();
    let (level, text) = line.split_once(' ').unwrap_or(("", line));
    json_line("log", None, json!({ "level": level.to_lowercase(), "text": text.trim() }))
}

/// Whether the user asks for output without colours (<https://no-color.org>).
pub fn no_colour() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

fn level(global: &GlobalArgs) -> &'static str {
    match (global.quiet, global.verbose) {
        (true, _) => "error",
        (false, 0) => "warn",
        (false, 1) => "info",
        (false, 2) => "debug",
        (false, _) => "trace",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_tracing_becomes_a_document_with_its_level() {
        let read: serde_json::Value =
            serde_json::from_str(&document(" WARN sat0: \"half\" of 1 MB is used reason=x\n")).unwrap();
        assert_eq!((&read["event"], &read["level"]), (&"log".into(), &"warn".into()));
        assert_eq!(read["text"], "sat0: \"half\" of 1 MB is used reason=x");
    }
}
