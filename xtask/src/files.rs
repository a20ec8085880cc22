//! Measures transfers of files, with the binary of the same build.

mod process;
mod small;
mod torture;

pub(crate) use small::run as small_files;
pub(crate) use torture::run as resume_torture;

use std::io;
use std::process::ExitCode;

/// Pseudo-random numbers, reproducible by their seed.
#[derive(Debug)]
struct Random(u64);

impl Random {
    /// The next number below `bound`, which is not 0.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }

    /// Fills a buffer with incompressible bytes.
    fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let number = self.below(u64::MAX).to_le_bytes();
            chunk.copy_from_slice(number.get(..chunk.len()).unwrap_or_default());
        }
    }
}

/// Parses `--NAME NUMBER` pairs.
fn parse(mut arguments: impl Iterator<Item = String>, known: &mut [(&str, &mut u64)]) -> Result<(), String> {
    while let Some(argument) = arguments.next() {
        let names: Vec<_> = known.iter().map(|(name, _)| (*name).to_owned()).collect();
        let Some((_, place)) = known.iter_mut().find(|(name, _)| *name == argument) else {
            return Err(format!("{argument}: not known; there are {}", names.join(" N, ") + " N"));
        };
        let value = arguments.next().and_then(|text| text.parse().ok());
        **place = value.ok_or_else(|| format!("{argument} needs a number"))?;
    }
    Ok(())
}

fn report(result: Result<String, String>) -> ExitCode {
    match result {
        Ok(table) => {
            use io::Write as _;
            let printed = io::stdout().write_all(table.as_bytes());
            if printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(reason) => {
            crate::tell(&format!("{reason}\n"));
            ExitCode::FAILURE
        }
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_pairs_of_known_names_and_numbers() {
        let read = |text: &str| {
            let (mut seed, mut kills) = (1, 5);
            let words = text.split_whitespace().map(str::to_owned);
            parse(words, &mut [("--seed", &mut seed), ("--kills", &mut kills)]).map(|()| (seed, kills))
        };
        assert_eq!(read("--kills 7"), Ok((1, 7)));
        assert!(read("--kills").is_err() && read("--kills x").is_err() && read("--other 1").is_err());
    }

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let numbers = |seed| {
            let mut random = Random(seed);
            (0..5).map(|_| random.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(numbers(3), numbers(3));
        assert_ne!(numbers(3), numbers(4));
    }
}
