//! The length of ISO base media (ISO/IEC 14496-12): `mvhd` in `moov`, which stands at the beginning or the end of a file.

use std::time::Duration;

use super::step::Step;

/// Bytes of a box's header that are read at once: enough for the long form and for `mvhd` at the front of `moov`.
const READ: u64 = 4096;
/// Most boxes on the way to `moov`, so that a file of many small boxes costs little.
const MOST: u32 = 32;

/// Goes from box to box at the top of a file until it finds `moov`, then looks into that.
#[derive(Debug)]
pub(crate) struct Search {
    size: u64,
    /// Where the box begins whose header is read.
    at: u64,
    /// Boxes that were read.
    boxes: u32,
    is_inside: bool,
}

impl Search {
    pub(crate) fn new(size: u64) -> Self {
        Self { size, at: 0, boxes: 0, is_inside: false }
    }

    pub(crate) fn step(&mut self, bytes: &[u8]) -> Step {
        if self.boxes > 0 {
            let Some(Header { kind, head, length }) = Header::parse(bytes) else { return Step::Done(None) };
            let length = if length == 0 { self.size.saturating_sub(self.at) } else { length };
            let content = || usize::try_from(head).ok().and_then(|head| bytes.get(head..));
            match &kind {
                b"moov" if !self.is_inside => {
                    self.is_inside = true;
                    self.at = self.at.saturating_add(head);
                }
                b"mvhd" if self.is_inside => return Step::Done(content().and_then(movie_header)),
                // At the top everything else is skipped, and so it is in `moov`, whose other boxes are small.
                _ if length < head => return Step::Done(None),
                _ => self.at = self.at.saturating_add(length),
            }
        }
        self.boxes += 1;
        if self.boxes > MOST || self.at >= self.size {
            return Step::Done(None);
        }
        Step::Read(self.at..self.at.saturating_add(READ).min(self.size))
    }
}

/// The header of a box.
struct Header {
    kind: [u8; 4],
    /// Bytes of the header itself.
    head: u64,
    /// Bytes of the whole box; 0 for the rest of the file.
    length: u64,
}

impl Header {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (kind, rest) = rest.split_first_chunk::<4>()?;
        let (head, length) = match u32::from_be_bytes(*length) {
            1 => (16, u64::from_be_bytes(*rest.first_chunk()?)),
            length => (8, length.into()),
        };
        let is_name = kind.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ' || *byte == 0xa9);
        is_name.then_some(Self { kind: *kind, head, length })
    }
}

/// The length in the content of `mvhd`: version and flags, two times, the units of a second, the length in units.
fn movie_header(content: &[u8]) -> Option<Duration> {
    let number = |at: usize| content.get(at..)?.first_chunk().copied().map(u32::from_be_bytes);
    let (units, length) = match content.first()? {
        0 => (number(12)?, u64::from(number(16)?)),
        1 => (number(20)?, u64::from(number(24)?) << 32 | u64::from(number(28)?)),
        _ => return None,
    };
    // All bits set: unknown; 0: the fragments that follow have it.
    if units == 0 || length == 0 || length == u64::from(u32::MAX) || length == u64::MAX {
        return None;
    }
    let millis = u128::from(length) * 1000 / u128::from(units);
    u64::try_from(millis).ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::media_length;
    use super::*;

    fn boxed(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len() + 8).unwrap();
        [&length.to_be_bytes()[..], kind, content].concat()
    }

    fn movie(version: u8, units: u32, length: u64) -> Vec<u8> {
        let mut content = vec![version, 0, 0, 0];
        content.extend(vec![0; if version == 0 { 8 } else { 16 }]);
        content.extend(units.to_be_bytes());
        if version == 0 {
            content.extend(u32::try_from(length).unwrap().to_be_bytes());
        } else {
            content.extend(length.to_be_bytes());
        }
        content.extend([0; 80]);
        boxed(b"moov", &[boxed(b"mvhd", &content), boxed(b"trak", &[0; 50])].concat())
    }

    #[test]
    fn the_length_is_found_wherever_the_movie_header_stands() {
        let (kind, data) = (boxed(b"ftyp", b"isom0000isom"), boxed(b"mdat", &vec![7; 100_000]));
        for movie in [movie(0, 1000, 90_500), movie(1, 90_000, 8_145_000)] {
            for file in [
                [&kind[..], &movie, &data].concat(),
                [&kind[..], &data, &movie].concat(),
                [
                    &kind[..],
                    &[0, 0, 0, 1][..],
                    b"mdat",
                    &100_016_u64.to_be_bytes(),
                    &vec![7; 100_000],
                    &movie,
                ]
                .concat(),
            ] {
                assert_eq!(media_length("a.mp4", &file), Some(Duration::from_millis(90_500)));
            }
        }
    }

    #[test]
    fn what_is_no_media_has_no_length() {
        let (kind, data) = (boxed(b"ftyp", b"isom"), boxed(b"mdat", &[7; 100]));
        for file in [
            Vec::new(),
            b"#!/bin/sh\necho this is no film\n".to_vec(),
            [&kind[..], &data].concat(),
            [&kind[..], &movie(0, 0, 5)].concat(),
            [&kind[..], &movie(0, 1000, 0)].concat(),
            [&kind[..], &movie(0, 1000, u32::MAX.into())].concat(),
            [&kind[..], &movie(0, 1000, 5000)[..30]].concat(),
            boxed(b"free", &[]).repeat(1000),
            [0, 0, 0, 3, b'f', b'r', b'e', b'e'].repeat(9),
        ] {
            assert_eq!(media_length("a.mp4", &file), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_end_the_search(
            mut file in prop::collection::vec(any::<u8>(), 0..300),
            name in prop_oneof![Just("a.mp4"), Just("a.ts")],
            moov in any::<bool>(),
        ) {
            if moov && file.len() > 24 {
                file[4..8].copy_from_slice(b"moov");
                file[12..16].copy_from_slice(b"mvhd");
            }
            let _ = media_length(name, &file);
        }
    }
}
