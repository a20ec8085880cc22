//! `manyway lab` and `manyway sim`, which run `manyway-lab`.

use std::ffi::OsString;

use clap::Args;

/// Arguments of `lab` and `sim`.
#[derive(Debug, Clone, Args)]
pub struct PassedOn {
    /// Arguments of `manyway-lab`
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

pub(super) const LAB_EXAMPLES: &str = "\
Runs `manyway-lab`, a program of its own, with the same arguments; `manyway-lab --help` shows them.

Examples:
  sudo manyway lab two-50
  manyway lab list";

pub(super) const SIM_EXAMPLES: &str = "\
Runs `manyway-lab sim`, a program of its own, with the same arguments; `manyway-lab sim --help` \
shows them.

Examples:
  manyway sim two-50
  manyway sim list";
