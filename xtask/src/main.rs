//! `cargo run -p xtask -- COMMAND`: what this repository needs and no ready tool does.

mod figures;

use std::io::Write as _;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo run -p xtask -- COMMAND

  figures  what this program reaches, measured; in a release build
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("figures") => figures::run(arguments),
        _ => {
            tell(USAGE);
            ExitCode::from(2)
        }
    }
}

fn tell(text: &str) {
    // Nobody is left to tell if this fails.
    drop(std::io::stderr().write_all(text.as_bytes()));
}
