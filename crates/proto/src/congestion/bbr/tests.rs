//! The cases of the draft's appendix and further ones, on a simulated path.

mod cases;
mod laws;
mod path;
mod variation;

use super::*;
use path::Path;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn mbit(megabits: u64) -> Rate {
    Rate::from_bits_per_second(megabits * 1_000_000)
}
