//! Caps: most bytes over an interface from one reset day to the next.
//!
//! The counts are in the user's directory, a file for each interface, so that all processes of the user share them
//! (`docs/caps.md`).

mod ledger;
mod period;
mod rule;

pub use ledger::{CapLedger, CapState};
pub use period::{Period, today};
pub use rule::{Cap, CapRule, CapRules, InterfaceWish, ResetDay};
