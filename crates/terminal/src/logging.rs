//! Where `tracing` goes: to stderr, as much as `-v` and `-q` say.

use tracing_subscriber::EnvFilter;

use crate::colour::Colour;
use crate::stderr;

/// How much is told on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verbosity {
    /// `-q`: errors alone.
    Quiet,
    /// What `-v` says, so many times.
    Level(u8),
}

impl Verbosity {
    /// The filter of the log.
    fn level(self) -> &'static str {
        match self {
            Self::Quiet => "error",
            Self::Level(0) => "warn",
            Self::Level(1) => "info",
            Self::Level(2) => "debug",
            Self::Level(_) => "trace",
        }
    }
}

/// Starts logging. `MANYWAY_LOG` holds a filter that wins over `verbosity`. A second call has no effect.
pub fn start(verbosity: Verbosity) {
    let filter = EnvFilter::try_from_env("MANYWAY_LOG").unwrap_or_else(|_| EnvFilter::new(verbosity.level()));
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| stderr::Log)
        .log_internal_errors(false)
        .with_ansi(Colour::of_messages() == Colour::With)
        .with_target(matches!(verbosity, Verbosity::Level(2..)))
        .try_init();
}
