//! The only source of randomness in the core, seeded by the driver.

use std::fmt;

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// Random numbers that are unpredictable without the seed, and reproducible with it.
#[derive(Clone)]
pub struct Rng {
    seed: [u8; 32],
    /// Words of 32 bits that were taken before the last rest.
    taken: u64,
    /// The generator with its buffer of numbers, made when one is needed.
    awake: Option<Box<ChaCha12Rng>>,
}

/// Secrets follow from the seed.
impl fmt::Debug for Rng {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rng").finish_non_exhaustive()
    }
}

impl Rng {
    /// Starts from 32 bytes: from the system's generator on a real machine, fixed in a simulation.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self { seed, taken: 0, awake: None }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.awake().next_u64()
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.awake().fill_bytes(bytes);
    }

    /// An independent generator, for a part that must not disturb this one's order.
    pub fn fork(&mut self) -> Self {
        let mut seed = [0; 32];
        self.fill(&mut seed);
        Self::from_seed(seed)
    }

    /// Frees the buffer until a number is needed; the numbers stay the same.
    pub(crate) fn rest(&mut self) {
        if let Some(awake) = self.awake.take() {
            // More words than fit into 64 bits are never taken.
            self.taken = u64::try_from(awake.get_word_pos()).unwrap_or(u64::MAX);
        }
    }

    fn awake(&mut self) -> &mut ChaCha12Rng {
        let (seed, taken) = (self.seed, self.taken);
        self.awake.get_or_insert_with(|| {
            let mut awake = ChaCha12Rng::from_seed(seed);
            awake.set_word_pos(taken.into());
            Box::new(awake)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn the_seed_is_not_printed() {
        let mut rng = Rng::from_seed([77; 32]);
        rng.next_u64();
        assert_eq!(format!("{rng:?}"), "Rng { .. }");
    }

    #[test]
    fn rests_do_not_change_the_numbers() {
        let (mut steady, mut resting) = (Rng::from_seed([3; 32]), Rng::from_seed([3; 32]));
        for step in 0..300_u64 {
            if step % 3 == 0 {
                resting.rest();
            }
            assert_eq!(resting.next_u64(), steady.next_u64());
            let (mut ours, mut theirs) = ([0; 5], [0; 5]);
            resting.fill(&mut ours);
            steady.fill(&mut theirs);
            assert_eq!(ours, theirs);
        }
        assert!(resting.awake.is_some() && size_of::<Rng>() <= 48);
    }
}
