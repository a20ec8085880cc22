//! `pipe`, `forward`, `proxy` and `run`: the verbs over 127.0.0.1, and curl, ssh and git over two links of which one is
//! cut.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail")]

#[cfg(target_os = "linux")]
mod clients;
mod datagrams;
#[cfg(target_os = "linux")]
mod fairness;
#[cfg(target_os = "linux")]
mod hosts;
#[cfg(target_os = "linux")]
mod incoming;
#[cfg(target_os = "linux")]
mod name_caches;
#[cfg(target_os = "linux")]
mod pages;
#[cfg(target_os = "linux")]
mod recipes;
mod restarts;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod site;
mod slow_programs;
#[cfg(target_os = "linux")]
mod tunnel;
pub(crate) mod verbs;
