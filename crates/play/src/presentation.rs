//! Films in many files: HLS and DASH.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use manyway_transfer::RelativePath;
use percent_encoding::percent_decode_str;

use crate::content_type::extension;
use crate::media::dash::Manifest;
use crate::media::hls::Playlist;

/// Most files of all presentations that are remembered, and most bytes of their names; beyond that the presentations that
/// were played least lately are forgotten.
const MOST: usize = 200_000;
const MOST_BYTES: usize = 32 << 20;

/// A file with a few seconds of a film.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The playlist or manifest of the film.
    pub(crate) film: Arc<RelativePath>,
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

/// What is known about a file, and the presentation that it belongs to.
#[derive(Debug, Clone)]
enum Known {
    Member(Member),
    /// The playlist of a variant, with its number; `None`: of a rendition.
    Playlist(Option<usize>),
}

/// The presentations whose playlists or manifests were read.
#[derive(Debug, Default)]
pub(crate) struct Presentations {
    known: BTreeMap<RelativePath, (Arc<RelativePath>, Known)>,
    /// When each presentation was last read or played: the number of that use.
    films: BTreeMap<Arc<RelativePath>, u64>,
    bytes: usize,
    uses: u64,
}

/// Whether a file is a playlist or manifest.
pub(crate) fn is_list(name: &str) -> bool {
    matches!(extension(name).as_str(), "m3u8" | "mpd")
}

impl Presentations {
    /// Number of files that are known.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// Bytes of their names.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What is known about a file that is played.
    pub(crate) fn member(&mut self, path: &RelativePath) -> Option<Member> {
        let (film, known) = self.known.get(path)?;
        let Known::Member(member) = known else { return None };
        let (film, member) = (Arc::clone(film), member.clone());
        self.touch(&film);
        Some(member)
    }

    /// Reads a playlist or manifest.
    pub(crate) fn on_list(&mut self, path: &RelativePath, text: &str) {
        let (film, playlist) = match self.known.get(path) {
            Some((film, Known::Playlist(variant))) => (Arc::clone(film), Some(*variant)),
            Some(_) | None => (Arc::new(path.clone()), None),
        };
        let named = named(path, text, &film, playlist);
        self.touch(&film);
        if !self.add(&film, &named) {
            // Files that the presentation named earlier, such as those of a live one, make room.
            self.forget(&film, |known| matches!(known, Known::Member(_)));
            self.add(&film, &named);
        }
    }

    fn touch(&mut self, film: &Arc<RelativePath>) {
        self.uses += 1;
        self.films.insert(Arc::clone(film), self.uses);
    }

    /// Adds files of a presentation; returns false if there is no room for all.
    fn add(&mut self, film: &Arc<RelativePath>, named: &[(RelativePath, Known)]) -> bool {
        for (path, known) in named {
            let length = path.as_str().len();
            let is_new = !self.known.contains_key(path);
            while is_new && (self.known.len() >= MOST || self.bytes + length > MOST_BYTES) {
                let others = self.films.iter().filter(|(other, _)| *other != film);
                let oldest = others.min_by_key(|(_, used)| **used).map(|(oldest, _)| Arc::clone(oldest));
                let Some(oldest) = oldest else { return false };
                self.forget(&oldest, |_| true);
            }
            if self.known.insert(path.clone(), (Arc::clone(film), known.clone())).is_none() {
                self.bytes += length;
            }
        }
        true
    }

    /// Forgets files of a presentation.
    fn forget(&mut self, film: &Arc<RelativePath>, is_wanted: fn(&Known) -> bool) {
        self.known.retain(|_, (of, known)| of != film || !is_wanted(known));
        self.bytes = self.known.keys().map(|path| path.as_str().len()).sum();
        if !self.known.values().any(|(of, _)| of == film) {
            self.films.remove(film);
        }
    }
}

/// The files that a playlist or manifest names, in their order.
fn named(
    path: &RelativePath,
    text: &str,
    film: &Arc<RelativePath>,
    playlist: Option<Option<usize>>,
) -> Vec<(RelativePath, Known)> {
    let mut named = Vec::new();
    let mut add = |uri: &str, known: Known| named.extend(resolve(path, uri).map(|path| (path, known)));
    if extension(path.as_str()) == "mpd" {
        let manifest = Manifest::parse(text).unwrap_or_default();
        manifest.others.iter().for_each(|uri| add(uri, Known::Member(Member::Other)));
        for (variant, segments) in manifest.representations.into_iter().enumerate() {
            let segments = members(film, variant, segments, !manifest.is_live);
            segments.for_each(|(uri, member)| add(&uri, Known::Member(member)));
        }
        return named;
    }
    match Playlist::parse(text) {
        None => {}
        Some(Playlist::Master { variants, renditions }) => {
            renditions.iter().for_each(|uri| add(uri, Known::Playlist(None)));
            for (number, uri) in variants.iter().enumerate() {
                add(uri, Known::Playlist(Some(number)));
            }
        }
        Some(Playlist::Media { segments, first, beginnings, is_complete }) => {
            beginnings.iter().for_each(|uri| add(uri, Known::Member(Member::Other)));
            match playlist.unwrap_or(Some(0)) {
                Some(variant) => members(film, variant, (first, segments), is_complete)
                    .for_each(|(uri, member)| add(&uri, Known::Member(member))),
                None => segments.iter().for_each(|(uri, _)| add(uri, Known::Member(Member::Other))),
            }
        }
    }
    named
}

/// The segments of a variant.
fn members(
    film: &Arc<RelativePath>,
    variant: usize,
    (first, segments): (usize, Vec<(String, Duration)>),
    is_complete: bool,
) -> impl Iterator<Item = (String, Member)> {
    let count = segments.len();
    segments.into_iter().enumerate().map(move |(index, (uri, media))| {
        let is_last = is_complete && index + 1 == count;
        let index = index.saturating_add(first);
        (uri, Member::Segment(Segment { film: Arc::clone(film), variant, index, is_last, media }))
    })
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
        let mut segment = |name: &str| match found.member(&path(name)) {
            Some(Member::Segment(segment)) => segment,
            other => panic!("{name}: {other:?}"),
        };
        let high = segment("f/high.m3u81.ts");
        assert_eq!((high.film.as_str(), high.variant, high.index), ("f/master.m3u8", 1, 1));
        assert!(high.is_last && high.media == Duration::from_secs(3));
        assert_eq!((segment("f/low/l.m3u80.ts").variant, segment("f/low/l.m3u80.ts").is_last), (0, false));
        assert_eq!(found.member(&path("f/s.m3u80.ts")), Some(Member::Other));
        assert_eq!(found.member(&path("f/none.ts")), None);
    }

    #[test]
    fn sound_and_initialization_of_dash_are_no_films_and_a_live_manifest_has_no_end() {
        for (kind, is_last) in [("static", true), ("dynamic", false)] {
            let mut found = Presentations::default();
            let manifest = format!(
                "<MPD type='{kind}' mediaPresentationDuration='PT4S'><Period>\
                 <AdaptationSet contentType='video'><SegmentTemplate media='v$Number$' initialization='vi' duration='2'/>\
                 <Representation id='0'/></AdaptationSet>\
                 <AdaptationSet contentType='audio'><SegmentTemplate media='a$Number$' initialization='ai' duration='2'/>\
                 <Representation id='1'/></AdaptationSet></Period></MPD>"
            );
            found.on_list(&path("f/x.mpd"), &manifest);
            for name in ["f/vi", "f/ai", "f/a1", "f/a2"] {
                assert_eq!(found.member(&path(name)), Some(Member::Other), "{name}");
            }
            let Some(Member::Segment(last)) = found.member(&path("f/v2")) else { panic!("{found:?}") };
            assert_eq!(last.is_last, is_last, "{kind}");
        }
    }

    fn playlist(name: &str, files: std::ops::Range<u32>) -> String {
        let files: Vec<_> = files.map(|number| format!("#EXTINF:2,\n{name}{number}\n")).collect();
        format!("#EXTM3U\n{}", files.concat())
    }

    #[test]
    fn the_presentation_that_is_played_is_not_forgotten_for_others() {
        let mut found = Presentations::default();
        found.on_list(&path("played.m3u8"), &playlist("p", 0..3));
        for number in 0..5 {
            found.on_list(&path(&format!("{number}.m3u8")), &playlist(&format!("x{number}-"), 0..50_000));
            assert!(found.len() <= MOST && found.bytes() <= MOST_BYTES);
            assert!(found.member(&path("p1")).is_some(), "{number}");
        }
        assert!(found.member(&path("x0-1")).is_none() && found.member(&path("x4-49999")).is_some());
    }

    #[test]
    fn long_names_are_bounded_and_a_live_presentation_forgets_its_own_earlier_files() {
        let mut found = Presentations::default();
        let directory = ["d"; 60].map(|name| name.repeat(60)).join("/");
        for number in 0..3 {
            let files = number * 3500..(number + 1) * 3500;
            found.on_list(&path(&format!("{directory}/live.m3u8")), &playlist("s", files.clone()));
            assert!(found.bytes() <= MOST_BYTES, "{}", found.bytes());
            assert!(found.member(&path(&format!("{directory}/s{}", files.end - 1))).is_some(), "{number}");
        }
    }
}
