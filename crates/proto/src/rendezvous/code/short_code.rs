//! The code as people say it, such as `7-guitar-island`.

use std::fmt;
use std::str::FromStr;

use crate::Rng;

/// 1024 words in order, which differ in their first three letters.
const LIST: &str = include_str!("words.txt");
/// Bits of a word.
const BITS: u32 = 10;
/// Letters that tell a word from all others.
const DISTINCT: usize = 3;

/// A code: the number of a mailbox, and two words of 10 random bits each.
///
/// Words may be shortened to three letters when they are read.
///
/// ```
/// use manyway_proto::ShortCode;
/// let code: ShortCode = "7-guitar-island".parse()?;
/// assert_eq!(code.number(), 7);
/// assert_eq!("7-GUI-isla".parse::<ShortCode>()?.to_string(), "7-guitar-island");
/// # Ok::<(), manyway_proto::ShortCodeError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ShortCode {
    number: u32,
    words: [&'static str; 2],
}

impl ShortCode {
    /// A code with random words.
    pub(super) fn random(number: u32, rng: &mut Rng) -> Self {
        let bits = rng.next_u64();
        let word = |shift: u32| {
            let index = usize::try_from(bits >> shift & ((1 << BITS) - 1)).unwrap_or(0);
            LIST.split_whitespace().nth(index).unwrap_or_default()
        };
        Self { number, words: [word(0), word(BITS)] }
    }

    /// The number of its mailbox, which is no secret.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// All words of codes, in alphabetical order.
    pub fn words() -> impl Iterator<Item = &'static str> {
        LIST.split_whitespace()
    }
}

impl fmt::Display for ShortCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second] = self.words;
        write!(f, "{}-{first}-{second}", self.number)
    }
}

/// Without the words, which are the secret.
impl fmt::Debug for ShortCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShortCode").field("number", &self.number).finish_non_exhaustive()
    }
}

impl FromStr for ShortCode {
    type Err = ShortCodeError;

    fn from_str(text: &str) -> Result<Self, ShortCodeError> {
        let mut parts = text.trim().split('-');
        let (Some(number), Some(first), Some(second), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(ShortCodeError::Shape);
        };
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphabetic());
        let number = number.parse().ok().filter(|number| is_number && *number > 0);
        let Some(number) = number.filter(|_| is_word(first) && is_word(second)) else {
            return Err(ShortCodeError::Shape);
        };
        match (find(first), find(second)) {
            (Some(first), Some(second)) => Ok(Self { number, words: [first, second] }),
            // A host may have a name that only begins like words.
            (Some(word), None) if word == first => Err(ShortCodeError::Word(second.to_owned())),
            (None, Some(word)) if word == second => Err(ShortCodeError::Word(first.to_owned())),
            _ => Err(ShortCodeError::Shape),
        }
    }
}

/// The word of the list that begins so.
fn find(typed: &str) -> Option<&'static str> {
    let typed = typed.to_ascii_lowercase();
    let mut words = ShortCode::words().filter(|_| typed.len() >= DISTINCT);
    words.find(|word| word.starts_with(&typed))
}

/// Why a text is no code.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShortCodeError {
    /// It is no number and two words of codes.
    Shape,
    /// This word occurs in no code, but the other does.
    Word(String),
}

impl fmt::Display for ShortCodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape => f.write_str("a code is a number and two words, such as 7-guitar-island"),
            Self::Word(word) => write!(f, "{word:?} occurs in no code"),
        }
    }
}

impl std::error::Error for ShortCodeError {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    // spec 10.18
    #[test]
    fn the_list_has_1024_words_that_differ_in_their_first_three_letters() {
        let words: Vec<_> = ShortCode::words().collect();
        assert_eq!(words.len(), 1 << BITS);
        assert!(words.is_sorted());
        assert!(words.iter().all(|word| word.bytes().all(|byte| byte.is_ascii_lowercase())));
        let heads: BTreeSet<_> = words.iter().map(|word| &word[..DISTINCT]).collect();
        assert_eq!(heads.len(), words.len());
    }

    #[test]
    fn random_codes_differ_in_both_words_and_are_read_back() {
        let mut rng = Rng::from_seed([1; 32]);
        let mut occurred = [BTreeSet::new(), BTreeSet::new()];
        for number in 1..=100 {
            let code = ShortCode::random(number, &mut rng);
            assert_eq!(code.to_string().parse(), Ok(code));
            for (word, occurred) in code.words.iter().zip(&mut occurred) {
                occurred.insert(*word);
            }
        }
        assert!(occurred.iter().all(|words| words.len() > 85), "{occurred:?}");
        assert!(!format!("{:?}", ShortCode::random(7, &mut rng)).contains('-'));
    }

    #[test]
    fn a_text_that_is_no_code_is_told_from_a_mistyped_one() {
        let parse = |text: &str| text.parse::<ShortCode>();
        for other in [
            "7",
            "7-guitar",
            "7-guitar-island-abbey",
            "guitar-island",
            "0-guitar-island",
            "+7-guitar-island",
            "4294967296-guitar-island",
            "7-gu-is",
            "10-web-prod",
            "7--island",
            "mw1aaa",
            "",
        ] {
            assert_eq!(parse(other), Err(ShortCodeError::Shape), "{other}");
        }
        assert_eq!(parse("7-guitars-island"), Err(ShortCodeError::Word("guitars".to_owned())));
        assert_eq!(parse("7-guitar-islnd"), Err(ShortCodeError::Word("islnd".to_owned())));
        assert_eq!(parse(" 12-gui-ISLA\n").unwrap().to_string(), "12-guitar-island");
    }
}
