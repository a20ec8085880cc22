//! Links, contenders and measures: one scenario file for virtual time and for real sockets.
//!
//! * [`scenario`]: the description of a run: hosts, interfaces, links, routes, events, traffic; read from TOML;
//! * [`contender`]: the contenders: Manyway with its settings, kernel TCP on one path or on all, MPTCP, others;
//! * [`outcome`]: the results, measured in the same way for every contender, at the receiving application;
//! * [`simulated`]: scenarios in virtual time;
//! * `real` (Linux): real sockets in network namespaces, over links emulated in user space;
//! * `hosts` (Linux): two network namespaces with TUN devices as interfaces;
//! * `emulator` (Linux): the links of a scenario between the interfaces of the hosts;
//! * `validation` (Linux): the emulator against theory;
//! * `cpu` (Linux): processor time per byte, without any emulation;
//! * `flows` (Linux): thousands of connections at once over `manyway forward`;
//! * [`campaign`]: many runs, interleaved; [`measures`]: the figures of each;
//! * [`experiment`]: the experiments of the documents that the project implements;
//! * [`report`]: tables, figures and documents; [`gates`]: the goals;
//! * [`Runner`]: runs a contender once through a scenario, in virtual time or on real sockets.

#[cfg(target_os = "linux")]
pub mod agent;
#[cfg(target_os = "linux")]
pub mod agreement;
pub mod campaign;
pub mod contender;
#[cfg(target_os = "linux")]
pub mod cpu;
pub mod dealing;
#[cfg(target_os = "linux")]
pub mod emulator;
mod error;
pub mod experiment;
#[cfg(target_os = "linux")]
pub mod flows;
pub mod gates;
#[cfg(target_os = "linux")]
pub mod hosts;
pub mod measures;
pub mod outcome;
#[cfg(target_os = "linux")]
pub mod real;
pub mod report;
pub mod scenario;
pub mod sharing;
pub mod simulated;
pub mod stop;
#[cfg(target_os = "linux")]
pub mod validation;

pub use contender::Contender;
pub use error::LabError;
pub use outcome::Outcome;
pub use scenario::Scenario;
pub use stop::Stop;

/// Runs contenders through scenarios, one at a time.
pub trait Runner {
    /// Runs one contender once.
    ///
    /// A failing contender is no error here: [`Outcome::failure`] describes the failure, with what was delivered until
    /// then.
    ///
    /// # Errors
    /// The environment is insufficient: [`LabError::Unsupported`] skips the contender with a sentence, any other error
    /// ends the campaign.
    fn run(&mut self, scenario: &Scenario, contender: &Contender, seed: u64) -> Result<Outcome, LabError>;

    /// Whether a contender can run here.
    ///
    /// # Errors
    /// [`LabError::Unsupported`] with the reason and the alternative.
    fn supports(&self, contender: &Contender) -> Result<(), LabError>;
}
