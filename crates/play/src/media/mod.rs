//! How long the media in a file lasts, read from a few small parts of it.

pub(crate) mod dash;
pub(crate) mod hls;
mod matroska;
mod mp4;
mod step;
mod ts;
mod xml;

use std::time::Duration;

use manyway_transfer::RelativePath;

use crate::content_type::extension;
use crate::feed::open;
use crate::source::Source;
use step::Step;

/// The form of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// ISO base media: boxes.
    Mp4,
    /// Matroska and `WebM`: elements.
    Matroska,
    /// An MPEG transport stream.
    Ts,
    /// Media whose length is not looked for.
    Other,
}

impl Kind {
    /// The form of media by its name; `None` if it is none.
    pub(crate) fn of(name: &str) -> Option<Self> {
        match extension(name).as_str() {
            "mp4" | "m4v" | "m4a" | "mov" => Some(Self::Mp4),
            "ts" | "m2ts" | "mts" => Some(Self::Ts),
            "mkv" | "mka" | "webm" => Some(Self::Matroska),
            "mpg" | "mpeg" | "avi" | "ogv" | "mp3" | "aac" | "flac" | "ogg" | "opus" | "wav" => {
                Some(Self::Other)
            }
            _ => None,
        }
    }
}

/// A search for the length of media: takes the bytes of its last step, none for the first, and says what it needs next.
enum Search {
    Matroska(matroska::Search),
    Mp4(mp4::Search),
    Ts(ts::Search),
    None,
}

impl Search {
    fn new(kind: Kind, size: u64) -> Self {
        match kind {
            Kind::Mp4 => Self::Mp4(mp4::Search::new(size)),
            Kind::Matroska => Self::Matroska(matroska::Search::new(size)),
            Kind::Ts => Self::Ts(ts::Search::new(size)),
            Kind::Other => Self::None,
        }
    }

    fn step(&mut self, bytes: &[u8]) -> Step {
        match self {
            Self::Mp4(search) => search.step(bytes),
            Self::Matroska(search) => search.step(bytes),
            Self::Ts(search) => search.step(bytes),
            Self::None => Step::Done(None),
        }
    }
}

/// The length of the media in a file of the server; `None` if it is unknown, or no media.
pub(crate) async fn length<S: Source>(
    source: &S,
    path: &RelativePath,
    size: u64,
    kind: Kind,
) -> Option<Duration> {
    let mut search = Search::new(kind, size);
    let mut bytes = Vec::new();
    loop {
        let range = match search.step(&bytes) {
            Step::Read(range) => range,
            Step::Done(length) => return length.filter(|length| PLAUSIBLE.contains(length)),
        };
        let mut part = open(source, path, range).await?.ok()?.part;
        bytes.clear();
        while let Some(piece) = part.next().await.ok()? {
            bytes.extend_from_slice(&piece);
        }
    }
}

/// A length beyond these is an error of the file.
const PLAUSIBLE: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(30 * 24 * 3600);

/// The length of the media in a file of this name; `None` if it is unknown, or no media. Any bytes may be given.
///
/// MP4 and its relatives tell it in `moov`, Matroska in `Info`, MPEG transport streams by their clock references; what the name says counts.
///
/// ```
/// assert_eq!(manyway_play::media_length("film.mp4", b"this is no film"), None);
/// ```
pub fn media_length(name: &str, file: &[u8]) -> Option<Duration> {
    let mut search = Search::new(Kind::of(name)?, file.len() as u64);
    let mut bytes: &[u8] = &[];
    loop {
        match search.step(bytes) {
            Step::Done(length) => return length.filter(|length| PLAUSIBLE.contains(length)),
            Step::Read(range) => {
                let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(file.len());
                bytes = file.get(place(range.start)..place(range.end)).unwrap_or_default();
            }
        }
    }
}
