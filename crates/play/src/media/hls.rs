//! Playlists of HLS (RFC 8216).

use std::time::Duration;

/// A playlist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Playlist {
    /// It names variants of the same media, and renditions that belong to all of them.
    Master {
        /// The playlists of the variants.
        variants: Vec<String>,
        /// Those of sound or text alone.
        renditions: Vec<String>,
    },
    /// It names segments, each with how long it lasts.
    Media {
        /// The segments in their order.
        segments: Vec<(String, Duration)>,
        /// The number of the first one: those of a live playlist before it are gone.
        first: usize,
        /// What players read before them.
        beginnings: Vec<String>,
        /// Whether nothing will be added.
        is_complete: bool,
    },
}

/// Most entries of a playlist.
const MOST: usize = 50_000;

impl Playlist {
    /// Reads a playlist; `None` if the text is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().map(str::trim);
        if lines.next()?.trim_start_matches('\u{feff}') != "#EXTM3U" {
            return None;
        }
        let (mut variants, mut renditions) = (Vec::new(), Vec::new());
        let (mut segments, mut beginnings) = (Vec::new(), Vec::new());
        let (mut length, mut is_variant, mut is_complete, mut first) = (None, false, false, 0);
        for line in lines.filter(|line| !line.is_empty()).take(4 * MOST) {
            if let Some(info) = line.strip_prefix("#EXTINF:") {
                length = info.split(',').next().and_then(seconds);
            } else if line.starts_with("#EXT-X-STREAM-INF:") {
                is_variant = true;
            } else if let Some(rendition) = line.strip_prefix("#EXT-X-MEDIA:") {
                renditions.extend(uri_attribute(rendition).map(str::to_owned));
            } else if let Some(map) = line.strip_prefix("#EXT-X-MAP:") {
                beginnings.extend(uri_attribute(map).map(str::to_owned));
            } else if let Some(number) = line.strip_prefix("#EXT-X-MEDIA-SEQUENCE:") {
                first = number.trim().parse().unwrap_or(0);
            } else if line == "#EXT-X-ENDLIST" {
                is_complete = true;
            } else if !line.starts_with('#') {
                if std::mem::take(&mut is_variant) {
                    variants.push(line.to_owned());
                } else if let Some(length) = length.take() {
                    segments.push((line.to_owned(), length));
                }
            }
        }
        segments.truncate(MOST);
        Some(if variants.is_empty() {
            Self::Media { segments, first, beginnings, is_complete }
        } else {
            Self::Master { variants, renditions }
        })
    }
}

/// The attribute `URI` of a list of attributes.
fn uri_attribute(attributes: &str) -> Option<&str> {
    let (_, rest) = attributes.split_once("URI=\"")?;
    rest.split_once('"').map(|(uri, _)| uri)
}

fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim().parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok().filter(|length| *length < Duration::from_secs(3600))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_media_playlist_names_segments_with_their_lengths() {
        let text = "#EXTM3U\r\n#EXT-X-MEDIA-SEQUENCE:7\r\n#EXT-X-MAP:URI=\"i.mp4\"\r\n#EXTINF:4.5,\r\na.ts\r\n#EXTINF:2,title\r\n#EXT-X-X\r\nsub/b.ts\r\n\
                    #EXTINF:NaN,\r\nc.ts\r\n#EXT-X-ENDLIST";
        let segments = [("a.ts", 4500), ("sub/b.ts", 2000)]
            .map(|(name, millis)| (name.to_owned(), Duration::from_millis(millis)));
        let expected = Playlist::Media {
            segments: segments.to_vec(),
            first: 7,
            beginnings: vec!["i.mp4".to_owned()],
            is_complete: true,
        };
        assert_eq!(Playlist::parse(text), Some(expected));
    }

    #[test]
    fn a_master_playlist_names_variants_and_renditions() {
        let text = "#EXTM3U\n#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",URI=\"audio.m3u8\"\n\
                    #EXT-X-STREAM-INF:BANDWIDTH=1\nlow.m3u8\n\n#EXT-X-STREAM-INF:BANDWIDTH=2\nhigh.m3u8\n";
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let expected = Playlist::Master {
            variants: names(&["low.m3u8", "high.m3u8"]),
            renditions: names(&["audio.m3u8"]),
        };
        assert_eq!(Playlist::parse(text), Some(expected));
        assert_eq!(Playlist::parse("<html>"), None);
        assert_eq!(Playlist::parse(""), None);
    }

    proptest! {
        #[test]
        fn any_text_is_a_playlist_or_none(text in "(#EXTM3U\n)?(#EXTINF:[0-9.e+-]{0,9},?|\\PC{0,9}|\n|[a-z]\n){0,20}") {
            let _ = Playlist::parse(&text);
        }
    }
}
