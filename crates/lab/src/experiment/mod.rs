//! Experiments as data, those of the documents that this project implements and those of programs over Manyway: the setting, the contenders, the document's
//! results, what is compared, and which claims must hold.
//!
//! An [`Experiment`] is a list of [`Row`]s. Each is run in the scenario that the experiment's template makes of its
//! values; rows of equal values share their runs, and look at different phases of them. [`plan`] makes a campaign of
//! it, [`Findings`] evaluate the results, and [`report`] prints them. An experiment is a file here and a line in
//! [`EXPERIMENTS`].

mod ams_fig10;
mod ams_fig12;
mod ams_fig9;
mod ams_race;
mod cmt_chunks;
mod cmt_duplicates;
mod cmt_paths;
mod definition;
mod dent;
mod findings;
mod goff_eq6;
mod goff_fig3;
mod goff_fig4;
mod goff_fig5;
mod mmsp_corruption;
mod mmsp_links;
mod mmsp_setup;
mod mmsp_table41;
mod mmsp_table42;
mod multitcp;
mod multitcp_dent;
mod plan;
mod programs_death;
mod programs_quic;
mod programs_srt;
mod programs_tcp;
mod programs_udp;
mod quantity;
pub mod report;
mod row;
#[cfg(test)]
mod tests;
mod trace;

pub use definition::{Alone, Bound, Claim, Column, Curves, Experiment, Trace, Unit};
pub use findings::{Finding, Findings};
pub use plan::{plan, thin};
pub use quantity::{Measure, Quantity};
pub use row::{Extent, Phase, Row};

/// Those of the documents, in the order of lists.
pub const EXPERIMENTS: [&Experiment; 25] = [
    &mmsp_setup::EXPERIMENT,
    &mmsp_table41::EXPERIMENT,
    &mmsp_table42::EXPERIMENT,
    &mmsp_corruption::WIRED,
    &mmsp_corruption::WIRELESS,
    &ams_fig9::EXPERIMENT,
    &ams_fig10::EXPERIMENT,
    &ams_fig12::EXPERIMENT,
    &ams_race::EXPERIMENT,
    &cmt_chunks::BY_SIZE,
    &cmt_chunks::BY_NUMBER,
    &cmt_paths::EXPERIMENT,
    &cmt_duplicates::EXPERIMENT,
    &multitcp_dent::EXPERIMENT,
    &multitcp::FIGURE_82,
    &multitcp::FIGURE_83,
    &multitcp::FIGURE_84,
    &multitcp::FIGURE_85,
    &multitcp::FIGURE_86,
    &multitcp::FIGURE_87,
    &goff_eq6::EXPERIMENT,
    &goff_fig3::EXPERIMENT,
    &goff_fig4::EXPERIMENT,
    &goff_fig5::SAME_ADDRESS,
    &goff_fig5::OTHER_ADDRESS,
];

/// Those of programs over Manyway, on real sockets alone.
pub const PROGRAMS: [&Experiment; 6] = [
    &programs_tcp::ONE,
    &programs_tcp::SEVERAL,
    &programs_death::EXPERIMENT,
    &programs_udp::EXPERIMENT,
    &programs_quic::EXPERIMENT,
    &programs_srt::EXPERIMENT,
];

/// All.
pub fn all() -> impl Iterator<Item = &'static Experiment> {
    EXPERIMENTS.into_iter().chain(PROGRAMS)
}

/// Finds an experiment by its name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    all().find(|experiment| experiment.name == name)
}
