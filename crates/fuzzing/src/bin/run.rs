//! Runs one target on files, without libFuzzer: `cargo run -p manyway-fuzzing --bin run -- setup FILE…`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let name = arguments.next().unwrap_or_default();
    let Some((_, run)) = manyway_fuzzing::TARGETS.into_iter().find(|(target, _)| name == *target) else {
        return ExitCode::from(2);
    };
    for path in arguments {
        let Ok(input) = std::fs::read(path) else { return ExitCode::FAILURE };
        run(&input);
    }
    ExitCode::SUCCESS
}
