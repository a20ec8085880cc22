//! Scenarios, and campaigns over them in virtual time.

mod scenarios;
mod simulated;
