//! Films in many files: HLS and DASH.

use std::collections::BTreeMap;
use std::time::Duration;

use manyway_transfer::RelativePath;
use percent_encoding::percent_decode_str;

use crate::content_type::extension;
use crate::media::dash::Manifest;
use crate::media::hls::Playlist;

/// Most files of presentations that are remembered; beyond that all are forgotten.
const MOST: usize = 200_000;

/// A file with a few seconds of a film.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The playlist or manifest of the film.
    pub(crate) film: RelativePath,
    /// Which of the variants of the film.
    pub(crate) variant: usize,
    /// Its place in the film.
    pub(crate) index: usize,
    pub(crate) is_last: bool,
    /// How long it lasts.
    pub(crate) media: Duration,
}

/// What a file has to do with a presentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Member {
    /// It is a segment of the pictures.
    Segment(Segment),
    /// It belongs to one, such as the sound: its bytes tell nothing about stops.
    Other,
}

/// The presentations whose playlists or manifests were read.
#[derive(Debug, Default)]
pub(crate) struct Presentations {
    members: BTreeMap<RelativePath, Member>,
    /// The playlists of variants: the film, and which variant; `None`: a rendition.
    playlists: BTreeMap<RelativePath, (RelativePath, Option<usize>)>,
}

/// Whether a file is a playlist or manifest.
pub(crate) fn is_list(name: &str) -> bool {
    matches!(extension(name).as_str(), "m3u8" | "mpd")
}

impl Presentations {
    /// Number of files that are known.
    pub(crate) fn len(&self) -> usize {
        self.members.len() + self.playlists.len()
    }

    /// What is known about a file.
    pub(crate) fn member(&self, path: &RelativePath) -> Option<&Member> {
        self.members.get(path)
    }

    /// Reads a playlist or manifest.
    pub(crate) fn on_list(&mut self, path: &RelativePath, text: &str) {
        if self.len() > MOST {
            *self = Self::default();
        }
        if extension(path.as_str()) == "mpd" {
            let manifest = Manifest::parse(text).unwrap_or_default();
            for (variant, segments) in manifest.representations.into_iter().enumerate() {
                self.add((path, path), variant, segments, true);
            }
            return;
        }
        match Playlist::parse(text) {
            None => {}
            Some(Playlist::Master { variants, renditions }) => {
                for rendition in renditions.iter().filter_map(|uri| resolve(path, uri)) {
                    self.playlists.insert(rendition, (path.clone(), None));
                }
                for (number, uri) in variants.iter().enumerate() {
                    if let Some(variant) = resolve(path, uri) {
                        self.playlists.insert(variant, (path.clone(), Some(number)));
                    }
                }
            }
            Some(Playlist::Media { segments, first, beginnings, is_complete }) => {
                for uri in beginnings.iter().filter_map(|uri| resolve(path, uri)) {
                    self.members.insert(uri, Member::Other);
                }
                match self.playlists.get(path).cloned() {
                    Some((film, Some(variant))) => {
                        self.add((path, &film), variant, (first, segments), is_complete);
                    }
                    None => self.add((path, path), 0, (first, segments), is_complete),
                    Some((_, None)) => {
                        let others = segments.iter().filter_map(|(uri, _)| resolve(path, uri));
                        self.members.extend(others.map(|uri| (uri, Member::Other)));
                    }
                }
            }
        }
    }

    fn add(
        &mut self,
        (list, film): (&RelativePath, &RelativePath),
        variant: usize,
        (first, segments): (usize, Vec<(String, Duration)>),
        is_complete: bool,
    ) {
        let count = segments.len();
        for (index, (uri, media)) in segments.into_iter().enumerate() {
            let Some(path) = resolve(list, &uri) else { continue };
            let is_last = is_complete && index + 1 == count;
            let index = index.saturating_add(first);
            let segment = Segment { film: film.clone(), variant, index, is_last, media };
            self.members.insert(path, Member::Segment(segment));
        }
    }
}

/// The file of this server that a reference in `base` names.
fn resolve(base: &RelativePath, reference: &str) -> Option<RelativePath> {
    let end = reference.find(['?', '#']).unwrap_or(reference.len());
    let reference = percent_decode_str(reference.get(..end)?).decode_utf8().ok()?;
    if reference.is_empty() || reference.contains("://") {
        return None;
    }
    let mut components: Vec<&str> = Vec::new();
    if !reference.starts_with('/') {
        components.extend(base.components());
        components.pop();
    }
    for component in reference.split('/') {
        match component {
            "" | "." => {}
            ".." => drop(components.pop()?),
            name => components.push(name),
        }
    }
    RelativePath::parse(&components.join("/")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> RelativePath {
        RelativePath::parse(name).unwrap()
    }

    #[test]
    fn a_reference_is_relative_to_its_list_and_stays_at_the_server() {
        let resolve = |reference| resolve(&path("films/a/list.m3u8"), reference);
        for (reference, name) in [
            ("1.ts", "films/a/1.ts"),
            ("b%20c/1.ts?x=/y#z", "films/a/b c/1.ts"),
            ("../b/./1.ts", "films/b/1.ts"),
            ("/1.ts", "1.ts"),
        ] {
            assert_eq!(resolve(reference), Some(path(name)), "{reference}");
        }
        for reference in ["https://example.org/1.ts", "../../../1.ts", "", "%ff", "?x"] {
            assert_eq!(resolve(reference), None, "{reference}");
        }
    }

    #[test]
    fn segments_of_variants_belong_to_one_film_and_sound_tells_nothing() {
        let mut found = Presentations::default();
        found.on_list(
            &path("f/master.m3u8"),
            "#EXTM3U\n#EXT-X-MEDIA:URI=\"s.m3u8\"\n#EXT-X-STREAM-INF:X\nlow/l.m3u8\n#EXT-X-STREAM-INF:X\nhigh.m3u8\n",
        );
        let list =
            |name: &str| format!("#EXTM3U\n#EXTINF:2,\n{name}0.ts\n#EXTINF:3,\n{name}1.ts\n#EXT-X-ENDLIST\n");
        for name in ["f/low/l.m3u8", "f/high.m3u8", "f/s.m3u8"] {
            found.on_list(&path(name), &list(path(name).last()));
        }
        let segment = |name: &str| match found.member(&path(name)) {
            Some(Member::Segment(segment)) => segment.clone(),
            other => panic!("{name}: {other:?}"),
        };
        let high = segment("f/high.m3u81.ts");
        assert_eq!((high.film.as_str(), high.variant, high.index), ("f/master.m3u8", 1, 1));
        assert!(high.is_last && high.media == Duration::from_secs(3));
        assert_eq!((segment("f/low/l.m3u80.ts").variant, segment("f/low/l.m3u80.ts").is_last), (0, false));
        assert_eq!(found.member(&path("f/s.m3u80.ts")), Some(&Member::Other));
        assert_eq!(found.member(&path("f/none.ts")), None);
    }
}
