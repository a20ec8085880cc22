//! `cargo run -p xtask -- COMMAND`: tasks of this repository without an existing tool.

mod chart;
mod figures;
#[cfg(unix)]
mod files;
mod output;
mod scale;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use output::{show, tell};
use xtask::{check, shape};

const USAGE: &str = "usage: cargo run -p xtask -- COMMAND

  check    the rules of this repository that no ready tool knows
  shape [--json] [--against REVISION]
           figures of the source tree: large types, circles of imports, long functions and others
  chart    the bar chart of the README, from its table of runs
  figures  what this program reaches, measured; in a release build
  scale    what many connections cost a server; in a release build
  resume-torture [--seed N] [--kills N] [--size GIB] [--data MIB] [--rate MBIT]
           sends a sparse file while both sides are killed; in a release build, as root
  small-files [--seed N] [--files N]
           sends many small files, compared with cp and tar; in a release build
";

/// The repository around the working directory: the tree of the caller is checked, wherever this program was built.
fn root() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    here.ancestors().find(|place| place.join("xtask/Cargo.toml").is_file()).map(Path::to_path_buf)
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(root) = root() else {
        tell("run xtask in the repository, or in a directory of it\n");
        return ExitCode::FAILURE;
    };
    let root = root.as_path();
    match arguments.next().as_deref() {
        Some("check") => report(check::run(root)),
        Some("shape") => show(shape::run(root, arguments).map_err(|error| format!("no figures: {error}"))),
        Some("chart") => match chart::write(root) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                tell(&format!("no chart: {error}\n"));
                ExitCode::FAILURE
            }
        },
        Some("figures") => figures::run(arguments),
        Some("scale") => scale::run(arguments),
        #[cfg(unix)]
        Some("resume-torture") => files::resume_torture(arguments),
        #[cfg(unix)]
        Some("small-files") => files::small_files(arguments),
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
