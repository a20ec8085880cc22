//! `manyway-lab sim`.

use clap::{Args, Subcommand};

use super::lab::parse_list;
use super::{CampaignArgs, NameList};

/// Arguments of `sim`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct SimArgs {
    /// Something else than running scenarios.
    #[command(subcommand)]
    pub action: Option<SimAction>,
    /// Which settings of Manyway run [default: manyway,manyway-best]
    #[arg(short = 'c', long, value_name = "NAME,…", value_parser = parse_list)]
    pub contenders: Vec<NameList>,
    /// What to run.
    #[command(flatten)]
    pub campaign: CampaignArgs,
}

/// What else `sim` does.
#[derive(Debug, Clone, Subcommand)]
pub enum SimAction {
    /// List the scenarios
    #[command(after_help = LIST_EXAMPLES)]
    List,
    /// Check the results against the project's limits; the status is 6 if one is missed
    #[command(after_help = GATES_EXAMPLES)]
    Gates(CampaignArgs),
    /// Compare every scheduler with every congestion control, both ways, in tables of a line for each pair
    #[command(after_help = MATRIX_EXAMPLES)]
    Matrix(MatrixArgs),
}

/// Arguments of `sim matrix`.
#[derive(Debug, Clone, Args)]
pub struct MatrixArgs {
    /// Which schedulers, with settings if need be [default: each]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub schedulers: Vec<String>,
    /// Which congestion controls [default: each]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub congestions: Vec<String>,
    /// What to run.
    #[command(flatten)]
    pub campaign: CampaignArgs,
}

const EXAMPLES: &str = "\
Runs Manyway through scenarios in virtual time: no root, no network, and the same seed gives the \
same figures. Contenders are separated as manyway,manyway-best; settings go behind a colon. What \
needs the system's own TCP runs without `sim`, as root. An experiment of a document says itself \
who runs, and ends with status 6 if what must hold does not.

Examples:
  manyway-lab sim two-50
  manyway-lab sim environments --direction both -n 5 --report out
  manyway-lab sim wifi-lte -c manyway,manyway:congestion=new-reno -t 30s
  manyway-lab sim goff-fig4 --report out
  manyway-lab sim my-links.toml --json | jq .bits_per_second
  manyway-lab sim list";

const MATRIX_EXAMPLES: &str = "\
Without names the groups unequal, environments and simult-flows, once, both ways. Takes a while:
-t makes it shorter. What a path carries alone is that of `manyway-best` with the same congestion \
control.

Examples:
  manyway-lab sim matrix -t 5s
  manyway-lab sim matrix unequal --schedulers min-rtt,blest,ecf --congestions cubic
  manyway-lab sim matrix rate-4to1 --schedulers weighted,weighted=4:1 --csv runs.csv";

const LIST_EXAMPLES: &str = "\
Examples:
  manyway-lab sim list
  manyway-lab sim list --json | jq -r .scenario";

const GATES_EXAMPLES: &str = "\
Without names all scenarios, 20 seeds, both directions, which takes long: --budget, --quick and \
names make it shorter.

Examples:
  manyway-lab sim gates
  manyway-lab sim gates table --quick
  manyway-lab sim gates --budget 10m --json";
