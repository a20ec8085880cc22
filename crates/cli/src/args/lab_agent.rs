//! `manyway lab-agent`.

use clap::Args;

/// One end of a run of the lab, which starts it.
///
/// It reads its assignment, a JSON document, and orders from standard input, and answers with JSON lines.
#[derive(Debug, Args)]
pub struct LabAgentArgs {}
