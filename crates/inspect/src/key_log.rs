//! The secrets of TLS connections, in the format of `SSLKEYLOGFILE`.

use std::collections::BTreeMap;
use std::fmt;

use manyway_wire::Side;

/// Most bytes of a secret: a SHA-512 hash. Longer ones are no secrets of TLS 1.3.
const LONGEST_SECRET: usize = 64;

/// The kind of secret of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Label {
    /// For handshake packets of this side.
    Handshake(Side),
    /// For 1-RTT packets of this side, before the first key update.
    Traffic(Side),
}

impl Label {
    const ALL: [Self; 4] = [
        Self::Handshake(Side::Client),
        Self::Handshake(Side::Server),
        Self::Traffic(Side::Client),
        Self::Traffic(Side::Server),
    ];

    /// The label at the start of the line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Handshake(Side::Client) => "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
            Self::Handshake(Side::Server) => "SERVER_HANDSHAKE_TRAFFIC_SECRET",
            Self::Traffic(Side::Client) => "CLIENT_TRAFFIC_SECRET_0",
            Self::Traffic(Side::Server) => "SERVER_TRAFFIC_SECRET_0",
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Secrets by the client random. Never printed.
#[derive(Clone, Default)]
pub struct KeyLog {
    secrets: BTreeMap<([u8; 32], Label), Vec<u8>>,
}

impl KeyLog {
    /// Adds the lines of a key log; ignores lines that are no secrets of TLS 1.3, as all readers of this format do.
    /// Returns how many were added.
    pub fn add(&mut self, text: &[u8]) -> usize {
        text.split(|byte| *byte == b'\n').filter(|line| self.add_line(line).is_some()).count()
    }

    fn add_line(&mut self, line: &[u8]) -> Option<()> {
        let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
        let name = words.next()?;
        let label = Label::ALL.into_iter().find(|label| label.name() == name)?;
        let random = from_hex(words.next()?)?.try_into().ok()?;
        let secret = from_hex(words.next()?).filter(|secret| secret.len() <= LONGEST_SECRET)?;
        self.secrets.insert((random, label), secret);
        Some(())
    }

    /// How many secrets there are.
    pub fn len(&self) -> usize {
        self.secrets.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    pub(crate) fn secret(&self, random: &[u8; 32], label: Label) -> Option<&[u8]> {
        self.secrets.get(&(*random, label)).map(Vec::as_slice)
    }
}

impl fmt::Debug for KeyLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyLog").field("secrets", &self.secrets.len()).finish()
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let pairs = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(pairs.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| (byte << 4) | digit)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_found_by_client_random_and_label_and_other_lines_are_ignored() {
        let mut log = KeyLog::default();
        let (random, other) = ("07".repeat(32), "08".repeat(32));
        let text = format!(
            "# comment\nCLIENT_TRAFFIC_SECRET_0 {random} aabb\r\nSERVER_TRAFFIC_SECRET_0 {other} 0102\n\
             EXPORTER_SECRET {random} 00\nCLIENT_TRAFFIC_SECRET_0 {random}\nCLIENT_TRAFFIC_SECRET_0 07 aabb\n\
             CLIENT_HANDSHAKE_TRAFFIC_SECRET {random} abc\n\u{fffd}\n"
        );
        assert_eq!(log.add(text.as_bytes()), 2);
        let label = Label::Traffic(Side::Client);
        assert_eq!(log.secret(&[7; 32], label), Some(&[0xaa, 0xbb][..]));
        assert_eq!(log.secret(&[8; 32], label), None);
        assert_eq!(format!("{log:?}"), "KeyLog { secrets: 2 }", "no secret is ever printed");
    }
}
