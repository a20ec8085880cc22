//! The output of `manyway` and `manyway-lab` for people, programs and the shell.
//!
//! * Lines: [`print_line`] for data on standard output, [`note`] for messages on standard error, which are wrapped ([`wrap()`]),
//!   [`text_width`] to measure them,
//!   [`json`] for programs;
//! * [`screen`]: what the terminal can show; [`Colour`] and [`ProgressMode`]: the choice for it;
//! * [`CommandError`] and [`ExitCode`]: why a command failed, and its exit status; [`ending`] reports it;
//! * [`documents`]: completion and manual page, from the definition of a command line;
//! * [`logging`] and [`signal`].

mod colour;
pub mod documents;
pub mod ending;
mod error;
mod exit_code;
pub mod json;
pub mod logging;
mod mask;
mod measure;
mod progress;
pub mod screen;
pub mod signal;
pub mod stderr;
mod words;
mod wrap;

pub use colour::Colour;
pub use error::CommandError;
pub use exit_code::ExitCode;
pub use mask::{without_numbers, without_secrets};
pub use measure::{clip, shortened, text_width};
pub use progress::ProgressMode;
pub use words::{note, print_line, wrapped};
pub use wrap::{wrap, wrap_strictly};
