//! The only source of randomness in the core, seeded by the driver.

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// Random numbers that are unpredictable without the seed, and reproducible with it.
#[derive(Debug, Clone)]
pub struct Rng(ChaCha12Rng);

impl Rng {
    /// Starts from 32 bytes: from the system's generator on a real machine, fixed in a simulation.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(ChaCha12Rng::from_seed(seed))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    /// An independent generator, for a part that must not disturb this one's order.
    pub fn fork(&mut self) -> Self {
        let mut seed = [0; 32];
        self.fill(&mut seed);
        Self::from_seed(seed)
    }
}
