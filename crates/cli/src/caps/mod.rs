//! Caps: how many bytes may go over an interface from one day of a month to that of the next.
//!
//! The counts stand in the user's directory, a file for each interface, so that all processes of the user share them
//! (`docs/caps.md`).

mod ledger;
mod period;
mod rule;

pub use ledger::{CapLedger, CapState};
pub use period::{Period, today};
pub use rule::{Cap, CapRule, CapRules, InterfaceWish, ResetDay};
