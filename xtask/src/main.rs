//! `cargo run -p xtask -- COMMAND`: what this repository needs and no ready tool does.

mod figures;
mod scale;

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use xtask::check;

const USAGE: &str = "usage: cargo run -p xtask -- COMMAND

  check    the rules of this repository that no ready tool knows
  figures  what this program reaches, measured; in a release build
  scale    what many connections cost a server; in a release build
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or_else(|| Path::new("."));
    match arguments.next().as_deref() {
        Some("check") => report(check::run(root)),
        Some("figures") => figures::run(arguments),
        Some("scale") => scale::run(arguments),
        _ => {
            tell(USAGE);
            ExitCode::from(2)
        }
    }
}

fn report(result: io::Result<Vec<check::Finding>>) -> ExitCode {
    match result {
        Ok(findings) if findings.is_empty() => ExitCode::SUCCESS,
        Ok(findings) => {
            for finding in &findings {
                tell(&format!("{finding}\n"));
            }
            tell(&format!("{} found\n", findings.len()));
            ExitCode::FAILURE
        }
        Err(error) => {
            tell(&format!("the checks can not run: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

fn tell(text: &str) {
    // Nobody is left to tell if this fails.
    drop(io::stderr().write_all(text.as_bytes()));
}
