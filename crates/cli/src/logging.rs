//! Where `tracing` goes: to stderr, as much as `-v` and `-q` say.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::args::GlobalArgs;
use crate::output::stderr;

/// Starts logging. `MANYWAY_LOG` holds a filter that wins over `-v` and `-q`. A second call has no effect.
pub fn start(global: &GlobalArgs) {
    let level = level(global);
    let filter = EnvFilter::try_from_env("MANYWAY_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let has_colour = std::io::stderr().is_terminal() && !no_colour();
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| stderr::Log)
        .log_internal_errors(false)
        .with_ansi(has_colour)
        .with_target(global.verbose > 1)
        .try_init();
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
