//! `manyway get`.

use std::path::PathBuf;

use clap::Args;
use manyway_fetch::Sha256;
use manyway_transfer::RelativePath;

use super::TransferArgs;

/// Arguments of `get`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct GetArgs {
    /// The server (ticket, @FILE containing it, or saved name), the code of `manyway send`, or a URL
    #[arg(value_name = "TICKET")]
    pub ticket: String,
    /// Files and directories there; everything if none is named
    #[arg(value_name = "PATH", value_parser = parse_path)]
    pub paths: Vec<RelativePath>,
    /// Directory, new name, device, pipe or "-" for stdout
    #[arg(short = 'o', long = "output", value_name = "DIR|NAME", default_value = ".")]
    pub output: PathBuf,
    /// Do not overwrite existing files
    #[arg(long, conflicts_with = "backup")]
    pub keep: bool,
    /// Back up existing files as NAME~
    #[arg(long)]
    pub backup: bool,
    /// SHA-256 sum that the file of a URL must have
    #[arg(long, value_name = "HEX", value_parser = parse_sum)]
    pub sha256: Option<Sha256>,
    /// What all transfers understand.
    #[command(flatten)]
    pub transfer: TransferArgs,
}

/// A slash at the end, as shells complete it, is no part of the name.
fn parse_path(text: &str) -> Result<RelativePath, String> {
    RelativePath::parse(text.strip_suffix('/').unwrap_or(text)).map_err(|error| error.to_string())
}

fn parse_sum(text: &str) -> Result<Sha256, String> {
    Sha256::parse(text).ok_or_else(|| "a SHA-256 sum has 64 hexadecimal digits".to_owned())
}

const EXAMPLES: &str = "\
Examples:
  manyway get @home.ticket film.mp4
  manyway get home film.mp4 -o holiday.mp4
  manyway get home photos.tar -o - | tar x
  manyway get home                     everything
  manyway get 7-guitar-island --rendezvous meet.example.org
  manyway get https://example.org/debian.iso -o ~/images

The server sends, so its scheduler decides: --scheduler and -I IF,weight=N have no effect here. -I IF,role=backup \
and -I IF,cost=N take effect at the server.

To resume after an interruption run the same command again. What an interrupted transfer leaves behind is called \
.NAME.manyway-part.";

#[cfg(test)]
mod tests {
    use crate::args::Cli;
    use clap::Parser;

    #[test]
    fn paths_that_lead_outside_are_a_usage_error() {
        assert!(Cli::try_parse_from(["manyway", "get", "mw1x", "a/b/", "c"]).is_ok());
        let error = Cli::try_parse_from(["manyway", "get", "mw1x", "../b"]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("\"..\""), "{error}");
    }
}
