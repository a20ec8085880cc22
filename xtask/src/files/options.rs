//! Options with numbers.

/// Parses `--NAME NUMBER` pairs.
pub(super) fn parse(
    mut arguments: impl Iterator<Item = String>,
    known: &mut [(&str, &mut u64)],
) -> Result<(), String> {
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
}
