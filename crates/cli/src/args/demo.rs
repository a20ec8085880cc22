//! `manyway demo`.

use std::path::PathBuf;

use clap::Args;

use crate::demo::link_spec::LinkSpec;
use crate::output::units::parse_size;

/// Arguments of `demo`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct DemoArgs {
    /// An emulated link: rate, one-way delay, loss; repeatable
    #[arg(long = "link", value_name = "RATE,DELAY[,LOSS]")]
    #[arg(long_help = "An emulated link: rate, one-way delay and, if wanted, the share of lost packets; \
        repeatable. Without it there are three: 40Mbit,15ms and 20Mbit,40ms and 8Mbit,60ms,0.5%.")]
    pub links: Vec<LinkSpec>,
    /// Send this file instead of one made on the spot
    #[arg(long, value_name = "FILE", conflicts_with = "size")]
    pub file: Option<PathBuf>,
    /// Size of the file made on the spot
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_size)]
    pub size: u64,
    /// Where to write the plot [default: manyway-demo.svg]
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Cut no link; else the best is cut at one quarter, and restored at one half or 8 s later
    #[arg(long)]
    pub no_cut: bool,
    /// Leave out the comparison with the best link alone
    #[arg(long)]
    pub no_comparison: bool,
}

impl DemoArgs {
    /// The links named, or the default ones.
    pub fn links(&self) -> Vec<LinkSpec> {
        if self.links.is_empty() { LinkSpec::defaults() } else { self.links.clone() }
    }
}

const EXAMPLES: &str = "\
Examples:
  manyway demo
  manyway demo --link 50Mbit,10ms --link 50Mbit,10ms --no-cut
  manyway demo --file film.mp4 --link 100M,5ms --link 20M,80ms,0.1%";

#[cfg(test)]
mod tests {
    use crate::args::{Cli, Command};
    use clap::Parser;

    #[test]
    fn links_default_to_three_and_can_be_named() {
        let parse = |arguments: &[&str]| {
            let Command::Demo(demo) = Cli::try_parse_from(arguments).unwrap().command else {
                panic!("another command")
            };
            demo
        };
        assert_eq!(parse(&["manyway", "demo"]).links().len(), 3);
        let demo = parse(&["manyway", "demo", "--link", "5M,1ms", "--size", "1M"]);
        assert_eq!((demo.links().len(), demo.size), (1, 1 << 20));
        let error = Cli::try_parse_from(["manyway", "demo", "--link", "5M,soon"]).unwrap_err().to_string();
        assert!(error.contains("DELAY: \"soon\" is not a time"), "{error}");
    }
}
