//! The length of Matroska and `WebM` (RFC 9559): `Duration` in the element `Info` of the segment.

use std::time::Duration;

use super::step::Step;

/// Bytes that are read at once: `Info` is short.
const READ: u64 = 4096;
/// Most elements on the way to `Info`, which stands before the media.
const MOST: u32 = 16;

// IDs with their length bits.
const HEAD: u64 = 0x1a45_dfa3;
const SEGMENT: u64 = 0x1853_8067;
const INFO: u64 = 0x1549_a966;
const CLUSTER: u64 = 0x1f43_b675;
const SCALE: u64 = 0x2a_d7b1;
const DURATION: u64 = 0x4489;

/// Goes from element to element until it finds `Info`.
#[derive(Debug)]
pub(crate) struct Search {
    size: u64,
    at: u64,
    elements: u32,
}

impl Search {
    pub(crate) fn new(size: u64) -> Self {
        Self { size, at: 0, elements: 0 }
    }

    pub(crate) fn step(&mut self, bytes: &[u8]) -> Step {
        if self.elements > 0 {
            let Some(Element { id, content, length }) = Element::parse(bytes) else {
                return Step::Done(None);
            };
            let head = (bytes.len() - content.len()) as u64;
            match id {
                HEAD if self.at > 0 => return Step::Done(None),
                _ if self.at == 0 && id != HEAD => return Step::Done(None),
                // Its elements follow its head.
                SEGMENT => self.at = self.at.saturating_add(head),
                INFO => return Step::Done(information(content, length)),
                CLUSTER => return Step::Done(None),
                _ => match length {
                    Some(length) => self.at = self.at.saturating_add(head).saturating_add(length),
                    None => return Step::Done(None),
                },
            }
        }
        self.elements += 1;
        if self.elements > MOST || self.at >= self.size {
            return Step::Done(None);
        }
        Step::Read(self.at..self.at.saturating_add(READ).min(self.size))
    }
}

/// The head of an element, and the bytes behind it.
struct Element<'a> {
    id: u64,
    content: &'a [u8],
    /// `None` if it is unknown.
    length: Option<u64>,
}

impl<'a> Element<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (id, rest) = number(bytes, 4)?;
        let (length, content) = number(rest, 8)?;
        let width = (rest.len() - content.len()) * 7;
        let value = length & ((1 << width) - 1);
        Some(Self { id, content, length: (value != (1 << width) - 1).then_some(value) })
    }
}

/// A number whose first byte tells by its leading zeros how many bytes follow; with that mark.
fn number(bytes: &[u8], most: usize) -> Option<(u64, &[u8])> {
    let length = usize::try_from(bytes.first()?.leading_zeros()).ok()? + 1;
    let (own, rest) = bytes.split_at_checked(length).filter(|_| length <= most)?;
    Some((own.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)), rest))
}

/// The length in the content of `Info`.
fn information(content: &[u8], length: Option<u64>) -> Option<Duration> {
    let own = usize::try_from(length?).ok()?.min(content.len());
    let mut rest = content.get(..own)?;
    let (mut scale, mut length) = (1e6, None);
    while let Some(Element { id, content, length: Some(own) }) = Element::parse(rest) {
        let (value, behind) = content.split_at_checked(usize::try_from(own).ok()?)?;
        match id {
            SCALE => scale = value.iter().fold(0.0, |sum, byte| sum * 256.0 + f64::from(*byte)),
            DURATION => length = float(value),
            _ => {}
        }
        rest = behind;
    }
    Duration::try_from_secs_f64(length? * scale / 1e9).ok()
}

fn float(value: &[u8]) -> Option<f64> {
    match value.len() {
        4 => value.first_chunk().map(|bytes| f32::from_be_bytes(*bytes).into()),
        8 => value.first_chunk().map(|bytes| f64::from_be_bytes(*bytes)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::media_length;
    use super::*;

    fn element(id: u64, content: &[u8]) -> Vec<u8> {
        let id: Vec<u8> = id.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect();
        let length = (1 << 56 | content.len() as u64).to_be_bytes();
        [&id[..], &length, content].concat()
    }

    fn film(info: &[u8]) -> Vec<u8> {
        let inside = [element(0xec, &[0; 6000]), element(INFO, info), element(CLUSTER, &[7; 100])].concat();
        let segment = [&[0x18, 0x53, 0x80, 0x67, 0xff][..], &inside].concat();
        [element(HEAD, b"webm"), segment].concat()
    }

    #[test]
    fn the_length_stands_in_the_information_of_the_segment() {
        let scale = element(SCALE, &500_000_u32.to_be_bytes());
        let length = element(DURATION, &180_000_f64.to_be_bytes());
        let short = element(DURATION, &90_000_f32.to_be_bytes());
        let title = element(0x7ba9, b"title");
        for info in [[&title[..], &scale, &length].concat(), [&length[..], &scale].concat(), short] {
            assert_eq!(media_length("a.mkv", &film(&info)), Some(Duration::from_secs(90)));
        }
    }

    #[test]
    fn what_is_no_matroska_has_no_length() {
        let length = |value: f64| element(DURATION, &value.to_be_bytes());
        for info in [Vec::new(), length(f64::NAN), length(-1.0), length(1e300), element(DURATION, &[1; 3])] {
            assert_eq!(media_length("a.webm", &film(&info)), None);
        }
        let cluster = [element(HEAD, b"webm"), element(SEGMENT, &element(CLUSTER, &[7; 50]))].concat();
        for file in [b"no film".to_vec(), Vec::new(), cluster, element(INFO, &length(1e6))] {
            assert_eq!(media_length("a.mkv", &file), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_end_the_search(mut file in prop::collection::vec(any::<u8>(), 0..200), place in 0..30_usize) {
            let whole = film(&element(DURATION, &90_000_f32.to_be_bytes()));
            let _ = media_length("a.mkv", &file);
            file.splice(0..0, whole);
            if let Some(byte) = file.get_mut(place) {
                *byte = byte.wrapping_add(1);
            }
            let _ = media_length("a.mkv", &file);
        }
    }
}
