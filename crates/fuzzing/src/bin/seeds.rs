//! Writes the seeds of all targets into a directory, by target:
//! `cargo run -p manyway-fuzzing --bin seeds -- fuzz/seeds`.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1).map(PathBuf::from) else { return ExitCode::from(2) };
    let written = manyway_fuzzing::seeds::all().into_iter().try_for_each(|seed| {
        let directory = directory.join(seed.target);
        std::fs::create_dir_all(&directory)?;
        std::fs::write(directory.join(seed.name), seed.bytes)
    });
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
