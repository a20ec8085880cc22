//! Bytes written as text.

use std::fmt;
use std::ops::ControlFlow;

use super::item::{Datagram, Item};
use super::link;

/// Longest text that is read.
pub(super) const MOST_TEXT: u64 = 64 << 20;

/// Why a text is no hex text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HexError {
    /// A line has a character that is no hexadecimal digit.
    Digit {
        /// The line, from 1.
        line: usize,
    },
    /// A word on a line has an odd number of digits.
    Odd {
        /// The line, from 1.
        line: usize,
    },
    /// There is no byte.
    Empty,
}

impl fmt::Display for HexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Digit { line } => write!(f, "line {line} has other characters than hexadecimal digits"),
            Self::Odd { line } => write!(f, "line {line} has an odd number of digits"),
            Self::Empty => write!(f, "there are no bytes"),
        }
    }
}

impl std::error::Error for HexError {}

/// Reads a text as one run of bytes, without offsets: digits with or without spaces, colons, commas and `0x` between
/// them, and comments from `#` to the end of a line.
///
/// # Errors
/// If there is anything else, or no byte.
pub fn parse_bytes(text: &[u8]) -> Result<Vec<u8>, HexError> {
    let mut bytes = Vec::new();
    for (line, text) in lines(text) {
        plain(line, text, &mut bytes)?;
    }
    if bytes.is_empty() { Err(HexError::Empty) } else { Ok(bytes) }
}

/// Reads datagrams: one a line, or from the lines of a dump with offsets.
pub(super) fn read(text: &[u8], each: &mut dyn FnMut(Item<'_>) -> ControlFlow<()>) -> Result<(), HexError> {
    let mut datagrams = Datagrams { number: 0, dump: Vec::new(), each };
    for (line, text) in lines(text) {
        if let Some((offset, rest)) = dump_line(text) {
            if offset == 0 && datagrams.flush().is_break() {
                return Ok(());
            }
            plain(line, rest, &mut datagrams.dump)?;
            continue;
        }
        if datagrams.flush().is_break() {
            return Ok(());
        }
        if is_head_of_tcpdump(text) {
            continue;
        }
        let mut bytes = Vec::new();
        plain(line, text, &mut bytes)?;
        if !bytes.is_empty() && datagrams.give(&bytes).is_break() {
            return Ok(());
        }
    }
    if datagrams.flush().is_continue() && datagrams.number == 0 {
        return Err(HexError::Empty);
    }
    Ok(())
}

struct Datagrams<'e> {
    number: u64,
    /// The bytes of a dump so far.
    dump: Vec<u8>,
    each: &'e mut dyn FnMut(Item<'_>) -> ControlFlow<()>,
}

impl Datagrams<'_> {
    /// Ends the current dump.
    fn flush(&mut self) -> ControlFlow<()> {
        let bytes = std::mem::take(&mut self.dump);
        if bytes.is_empty() { ControlFlow::Continue(()) } else { self.give(&bytes) }
    }

    fn give(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        self.number += 1;
        let number = self.number;
        let (addresses, payload) = match link::certain_ip(bytes) {
            Some((source, destination, payload, _)) => (Some((source, destination)), payload),
            None => (None, bytes),
        };
        (self.each)(Item::Datagram(Datagram { number, time: None, addresses, payload, missing: 0 }))
    }
}

/// The lines with their numbers, without comments.
fn lines(text: &[u8]) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.split(|byte| *byte == b'\n')).map(|(number, line)| {
        let line = line.split(|byte| *byte == b'#').next().unwrap_or_default();
        // A line that is not UTF-8 has no digits either.
        (number, std::str::from_utf8(line).unwrap_or("?"))
    })
}

/// The line that `tcpdump -x` prints before each packet.
fn is_head_of_tcpdump(line: &str) -> bool {
    !line.starts_with(char::is_whitespace) && (line.contains(" IP ") || line.contains(" IP6 "))
}

/// Offset and bytes of a line of a dump, without the text column: `00000010: 4006 …  @.…` (xxd), `\t0x0010:  4006 …`
/// (tcpdump) or `00000010  40 06 …  |@.…|` (hexdump -C).
fn dump_line(line: &str) -> Option<(usize, &str)> {
    let line = line.trim();
    let (offset, rest) = match line.split_once(':') {
        // xxd and tcpdump separate the columns by two spaces.
        Some((offset, rest)) if rest.starts_with(' ') => {
            (offset, rest.trim_start().split("  ").next().unwrap_or_default())
        }
        Some(_) | None => {
            let (offset, rest) = line.split_once("  ")?;
            (offset, rest.split('|').next().unwrap_or_default())
        }
    };
    let digits = offset.strip_prefix("0x").unwrap_or(offset);
    if digits.len() < 4 {
        return None;
    }
    Some((usize::from_str_radix(digits, 16).ok()?, rest))
}

/// Takes the bytes of a line.
fn plain(number: usize, line: &str, bytes: &mut Vec<u8>) -> Result<(), HexError> {
    let words = line.split(|c: char| c.is_whitespace() || matches!(c, ':' | ',' | ';'));
    for word in words.filter(|word| !word.is_empty()) {
        let word = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")).unwrap_or(word);
        let digits: Option<Vec<u8>> =
            word.chars().map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
        let digits = digits.ok_or(HexError::Digit { line: number })?;
        if digits.len() % 2 != 0 {
            return Err(HexError::Odd { line: number });
        }
        bytes.extend(digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagrams(text: &str) -> Result<Vec<Vec<u8>>, HexError> {
        let mut found = Vec::new();
        read(text.as_bytes(), &mut |item| {
            if let Item::Datagram(datagram) = item {
                found.push(datagram.payload.to_vec());
            }
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    #[test]
    fn a_line_is_a_datagram_with_any_separators() {
        let found = datagrams("0102ff\n\n01 02 FF # three\n0x01,0x02,0xff\n01:02:ff\r\n0x0102ff\n").unwrap();
        assert_eq!(found, vec![vec![1, 2, 0xff]; 5]);
    }

    #[test]
    fn dumps_are_joined_until_the_offset_is_zero_again() {
        let xxd = "00000000: 4000 0102 0304 0506 0708 090a 0b0c 0d0e  @...............\n\
                   00000010: 6162                                     ab\n\
                   00000000: 41                                       A\n";
        let hexdump = "00000000  40 00 01 02 03 04 05 06  07 08 09 0a 0b 0c 0d 0e  |@.. ....|\n\
                       00000010  61 62                                             |ab|\n\n41\n";
        let mut long: Vec<u8> = vec![0x40];
        long.extend(0..15);
        long.extend(b"ab");
        for text in [xxd, hexdump] {
            assert_eq!(datagrams(text).unwrap(), [long.clone(), vec![0x41]]);
        }
    }

    #[test]
    fn a_dump_of_tcpdump_begins_with_its_ip_header() {
        let text = "12:00:00.1 IP 10.0.0.1.1 > 10.0.0.2.2: UDP, length 3\n\
                    \t0x0000:  4500 001f 0000 4000 4011 26cc 0a00 0001  E.....@.@.&.....\n\
                    \t0x0010:  0a00 0002 0001 0002 000b 0000 6162 63    ............abc\n";
        assert_eq!(datagrams(text).unwrap(), [b"abc"]);
    }

    #[test]
    fn invalid_hex_text_is_refused_with_its_line() {
        assert_eq!(datagrams("0102\nhello\n"), Err(HexError::Digit { line: 2 }));
        assert_eq!(datagrams("0102\n010\n"), Err(HexError::Odd { line: 2 }));
        assert_eq!(datagrams("# nothing\n\n"), Err(HexError::Empty));
        assert_eq!(parse_bytes(b"01 02 # a\n 03"), Ok(vec![1, 2, 3]));
        assert_eq!(parse_bytes(b"\xff\xfe"), Err(HexError::Digit { line: 1 }));
    }
}
