//! Manifests of DASH (ISO/IEC 23009-1) whose segments have names by a template.

use std::time::Duration;

use manyway_transfer::RelativePath;

use super::xml::{Tag, tags};

/// Names of segments, and how long each lasts.
type Segments = Vec<(String, Duration)>;

/// What a manifest names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Manifest {
    /// The segments of each representation, in their order, of the pictures or, without pictures, of the sound; and the
    /// number of the first one.
    pub(crate) representations: Vec<(usize, Segments)>,
    /// What players read beside them: initialization segments, and the segments of the other sets.
    pub(crate) others: Vec<String>,
    /// Whether segments will be added.
    pub(crate) is_live: bool,
}

/// Most segments of all representations together, and most bytes of their names.
const MOST: usize = 50_000;
const MOST_BYTES: usize = 8 << 20;

/// How the names of segments are made.
#[derive(Debug, Clone, Default)]
struct Template {
    media: String,
    initialization: String,
    units: u64,
    first: u64,
    /// Where the period begins, in units.
    offset: u64,
    /// Units of each segment, where they are equal.
    length: Option<u64>,
    /// When the next of these begins, in units, and their lengths.
    timeline: Vec<(u64, u64)>,
    next: u64,
}

#[derive(Debug, Default)]
struct Set {
    is_video: bool,
    template: Option<Template>,
    found: Vec<(usize, Segments)>,
    beginnings: Vec<String>,
}

#[derive(Debug, Default)]
struct Representation {
    id: String,
    bandwidth: String,
    template: Option<Template>,
}

/// How many more segments are named, and with how many bytes.
#[derive(Debug)]
struct Room {
    segments: usize,
    bytes: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { segments: MOST, bytes: MOST_BYTES }
    }
}

impl Room {
    /// Takes the room of a name; false if there is none.
    fn take(&mut self, name: &str) -> bool {
        let left = self.segments.checked_sub(1).zip(self.bytes.checked_sub(name.len()));
        if let Some((segments, bytes)) = left {
            (self.segments, self.bytes) = (segments, bytes);
        }
        left.is_some()
    }
}

/// Walks over the tags of a manifest.
#[derive(Debug, Default)]
struct Reader {
    total: Duration,
    set: Set,
    representation: Option<Representation>,
    is_live: bool,
    sets: Vec<Set>,
    room: Room,
    /// Entries of all timelines together.
    entries: usize,
    periods: u32,
}

impl Manifest {
    /// Reads a manifest; `None` if the text is none. Only its first period counts.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut reader = Reader::default();
        let mut is_manifest = false;
        for tag in tags(text) {
            is_manifest |= tag.name == "MPD";
            if reader.periods <= 1 {
                reader.on_tag(&tag);
            }
        }
        let video = reader.sets.iter().position(|set| set.is_video);
        let mut manifest = Self { is_live: reader.is_live, ..Self::default() };
        for (place, set) in reader.sets.into_iter().enumerate() {
            manifest.others.extend(set.beginnings);
            if place == video.unwrap_or(0) {
                manifest.representations = set.found;
            } else {
                let names = set.found.into_iter().flat_map(|(_, names)| names);
                manifest.others.extend(names.map(|(name, _)| name));
            }
        }
        is_manifest.then_some(manifest)
    }
}

impl Reader {
    fn on_tag(&mut self, tag: &Tag<'_>) {
        match (tag.name, tag.is_end) {
            ("MPD", false) => {
                self.total = tag
                    .attribute("mediaPresentationDuration")
                    .and_then(|it| duration(&it))
                    .unwrap_or_default();
                self.is_live = tag.attribute("type").is_some_and(|kind| kind == "dynamic");
            }
            ("Period", false) => self.periods += 1,
            ("AdaptationSet", false) => {
                self.set = Set { is_video: is_video(tag), ..Set::default() };
            }
            ("AdaptationSet", true) => {
                self.sets.push(std::mem::take(&mut self.set));
            }
            ("Representation", false) => {
                self.set.is_video |= is_video(tag);
                let text = |name| tag.attribute(name).unwrap_or_default();
                let (id, bandwidth) = (text("id"), text("bandwidth"));
                self.representation = Some(Representation { id, bandwidth, template: None });
                if tag.is_empty {
                    self.end_representation();
                }
            }
            ("Representation", true) => self.end_representation(),
            ("SegmentTemplate", false) => *self.template() = Some(Template::of(tag)),
            ("S", false) => {
                let room = MOST.saturating_sub(self.entries);
                let total = self.total;
                self.entries += self.template().as_mut().map_or(0, |template| template.add(tag, total, room));
            }
            _ => {}
        }
    }

    /// The template at the place where the reader is.
    fn template(&mut self) -> &mut Option<Template> {
        match &mut self.representation {
            Some(representation) => &mut representation.template,
            None => &mut self.set.template,
        }
    }

    fn end_representation(&mut self) {
        let Some(Representation { id, bandwidth, template }) = self.representation.take() else { return };
        if let Some(template) = template.as_ref().or(self.set.template.as_ref()) {
            let beginning = Template::fill_in(&template.initialization, (0, 0), (&id, &bandwidth));
            let beginning = beginning.filter(|name| !name.is_empty() && self.room.take(name));
            self.set.beginnings.extend(beginning);
            let names = template.segments(self.total, &mut self.room, (&id, &bandwidth));
            let first = usize::try_from(template.first).unwrap_or(0);
            self.set.found.push((first, names));
        }
    }
}

fn is_video(tag: &Tag<'_>) -> bool {
    let is = |name| tag.attribute(name).is_some_and(|value| value.starts_with("video"));
    is("contentType") || is("mimeType")
}

impl Template {
    fn of(tag: &Tag<'_>) -> Self {
        let number = |name| tag.attribute(name).and_then(|value| value.parse().ok());
        let name = |name| tag.attribute(name).filter(|name| name.len() <= RelativePath::MAX_LENGTH);
        let offset = number("presentationTimeOffset").unwrap_or(0);
        Self {
            media: name("media").unwrap_or_default(),
            initialization: name("initialization").unwrap_or_default(),
            offset,
            next: offset,
            units: number("timescale").unwrap_or(1).max(1),
            first: number("startNumber").unwrap_or(1),
            length: number("duration").filter(|length| *length > 0),
            timeline: Vec::new(),
        }
    }

    /// Adds an `S` of the timeline: where it begins, how long it is, how often it is repeated; a negative number repeats
    /// it until the next one, or the end of the media. Returns how many entries of at most `room` it became.
    fn add(&mut self, tag: &Tag<'_>, total: Duration, room: usize) -> usize {
        let number = |name| tag.attribute(name).and_then(|value| value.parse::<u64>().ok());
        if let Some(time) = number("t") {
            self.next = time;
            while self.timeline.last().is_some_and(|(before, _)| *before >= time) {
                self.timeline.pop();
            }
        }
        let Some(length) = number("d") else { return 0 };
        let count = if tag.attribute("r").is_some_and(|value| value.starts_with('-')) {
            let units = total.as_millis().saturating_mul(self.units.into()) / 1000;
            let end = u64::try_from(units).unwrap_or(u64::MAX).saturating_add(self.offset);
            end.saturating_sub(self.next).div_ceil(length.max(1)).max(1)
        } else {
            number("r").unwrap_or(0).saturating_add(1)
        };
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(room);
        for _ in 0..count {
            self.timeline.push((self.next, length));
            self.next = self.next.saturating_add(length);
        }
        count
    }

    fn time(&self, units: u64) -> Duration {
        let millis = u128::from(units) * 1000 / u128::from(self.units);
        Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
    }

    /// Names and lengths of the segments, as far as there is room, until one is too long.
    fn segments(&self, total: Duration, room: &mut Room, names: (&str, &str)) -> Segments {
        let named = |(number, (time, length)): (u64, (u64, u64))| {
            let name = Self::fill_in(&self.media, (number, time), names)?;
            room.take(&name).then(|| (name, self.time(length)))
        };
        if let Some(length) = self.length.filter(|_| self.timeline.is_empty()) {
            let equal = (0_u64..).map(|number| (number.saturating_mul(length), length));
            let within = equal.take_while(|(time, _)| self.time(*time) < total);
            return (self.first..).zip(within).map_while(named).collect();
        }
        (self.first..).zip(self.timeline.iter().copied()).map_while(named).collect()
    }

    /// Fills in a template: text between two dollars is a name, perhaps with the width of a number. `None` if that is
    /// longer than any name of a file.
    fn fill_in(template: &str, (number, time): (u64, u64), (id, bandwidth): (&str, &str)) -> Option<String> {
        let mut out = String::new();
        for (place, piece) in template.split('$').enumerate() {
            if out.len().max(id.len()).max(bandwidth.len()) > RelativePath::MAX_LENGTH {
                return None;
            }
            if place % 2 == 0 {
                out.push_str(piece);
                continue;
            }
            let (name, format) = piece.split_once('%').unwrap_or((piece, "d"));
            let width =
                format.trim_start_matches('0').trim_end_matches('d').parse().unwrap_or(0_usize).min(20);
            match name {
                "RepresentationID" => out.push_str(id),
                "Bandwidth" => out.push_str(bandwidth),
                "Number" => out.push_str(&format!("{number:0width$}")),
                "Time" => out.push_str(&format!("{time:0width$}")),
                // Two dollars stand for one.
                _ => out.push('$'),
            }
        }
        (out.len() <= RelativePath::MAX_LENGTH).then_some(out)
    }
}

/// A duration of XML, such as `PT1H2M3.5S`; days at most, no months.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('P')?;
    let (mut seconds, mut is_time) = (0.0, false);
    while !rest.is_empty() {
        if let Some(time) = rest.strip_prefix('T') {
            (rest, is_time) = (time, true);
            continue;
        }
        let end = rest.find(|letter: char| letter.is_ascii_alphabetic())?;
        let (number, tail) = rest.split_at_checked(end)?;
        let number: f64 = number.parse().ok()?;
        let unit = tail.chars().next()?;
        seconds += number
            * match (unit, is_time) {
                ('D', false) => 86_400.0,
                ('H', true) => 3600.0,
                ('M', true) => 60.0,
                ('S', true) => 1.0,
                _ => return None,
            };
        rest = tail.get(1..)?;
    }
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SETS: &str = "
      <AdaptationSet contentType=\"audio\"><Representation id=\"9\" bandwidth=\"1\"><SegmentTemplate \
                        media=\"a$Number$.m4s\" initialization=\"a$RepresentationID$.mp4\" duration=\"5\"/>\
                        </Representation></AdaptationSet>
      <AdaptationSet><SegmentTemplate timescale=\"1000\" duration=\"4000\" startNumber=\"3\" initialization=\"v$RepresentationID$.mp4\"
        media=\"v$RepresentationID$-$Number%03d$-$Bandwidth$.m4s\"/>
        <Representation id=\"low\" mimeType=\"video/mp4\" bandwidth=\"100\"/>
        <Representation id=\"high\" mimeType=\"video/mp4\" bandwidth=\"200\"></Representation>
      </AdaptationSet>";

    fn manifest(sets: &str) -> String {
        format!(
            "<?xml version=\"1.0\"?>\n<MPD mediaPresentationDuration='PT0M10.0S'><Period>{sets}</Period></MPD>"
        )
    }

    fn seconds(names: &[(&str, u64)]) -> Vec<(String, Duration)> {
        names.iter().map(|(name, seconds)| ((*name).to_owned(), Duration::from_secs(*seconds))).collect()
    }

    #[test]
    fn a_template_names_the_segments_of_each_representation_of_the_pictures() {
        let found = Manifest::parse(&manifest(SETS)).unwrap();
        assert_eq!(found.others, ["a9.mp4", "a1.m4s", "a2.m4s", "vlow.mp4", "vhigh.mp4"]);
        assert!(!found.is_live);
        assert!(Manifest::parse("<MPD type='dynamic'><Period/></MPD>").unwrap().is_live);
        assert_eq!(
            found.representations,
            [
                (3, seconds(&[("vlow-003-100.m4s", 4), ("vlow-004-100.m4s", 4), ("vlow-005-100.m4s", 4)])),
                (3, seconds(&[("vhigh-003-200.m4s", 4), ("vhigh-004-200.m4s", 4), ("vhigh-005-200.m4s", 4)])),
            ]
        );
    }

    #[test]
    fn a_timeline_names_segments_by_their_times() {
        let sets = "<AdaptationSet><Representation id=\"0\"><SegmentTemplate timescale=\"10\" media=\"s$Time$.m4s\">\
                    <SegmentTimeline><S t=\"5\" d=\"20\" r=\"1\"/><S d=\"10\"/></SegmentTimeline></SegmentTemplate>\
                    </Representation></AdaptationSet>";
        let found = Manifest::parse(&manifest(sets)).unwrap().representations;
        assert_eq!(found, [(1, seconds(&[("s5.m4s", 2), ("s25.m4s", 2), ("s45.m4s", 1)]))]);
    }

    #[test]
    fn a_negative_repetition_goes_on_to_the_next_entry_or_the_end() {
        let times = |timeline: &str| {
            let sets = format!(
                "<AdaptationSet><Representation id=\"0\"><SegmentTemplate timescale=\"10\" media=\"$Time$\" \
                 presentationTimeOffset=\"5\"><SegmentTimeline>{timeline}</SegmentTimeline></SegmentTemplate>\
                 </Representation></AdaptationSet>"
            );
            let found = Manifest::parse(&manifest(&sets)).unwrap().representations;
            let names = found.into_iter().flat_map(|(_, names)| names);
            names.map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(times("<S t=\"5\" d=\"30\" r=\"-1\"/>"), ["5", "35", "65", "95"]);
        assert_eq!(times("<S d=\"30\" r=\"-1\"/><S t=\"65\" d=\"40\"/>"), ["5", "35", "65"]);
    }

    #[test]
    fn names_without_end_take_a_bounded_number_of_bytes() {
        let timeline = "<SegmentTimeline><S d=\"1\" r=\"49999\"/></SegmentTimeline>";
        for (id, media) in [
            ("x".repeat(4000), "$RepresentationID$$Number$".to_owned()),
            ("x".repeat(60_000), "$RepresentationID$".repeat(100)),
            (String::new(), "$RepresentationID$".repeat(100_000)),
            (String::new(), "$$".repeat(100_000)),
        ] {
            let sets = format!(
                "<AdaptationSet><SegmentTemplate media=\"{media}\" initialization=\"{media}\">{timeline}\
                 </SegmentTemplate><Representation id=\"{id}\"/></AdaptationSet>"
            );
            let found = Manifest::parse(&manifest(&sets)).unwrap();
            let names =
                found.representations.iter().flat_map(|(_, names)| names.iter().map(|(name, _)| name));
            let lengths: Vec<_> = names.chain(&found.others).map(String::len).collect();
            assert!(lengths.iter().all(|length| *length <= RelativePath::MAX_LENGTH));
            assert!(lengths.iter().sum::<usize>() <= MOST_BYTES, "{}", lengths.len());
        }
    }

    #[test]
    fn durations_of_xml_are_read() {
        let read = |text| duration(text).map(|time| time.as_millis());
        assert_eq!(read("PT1H2M3.5S"), Some(3_723_500));
        assert_eq!(read("P1DT1S"), Some(86_401_000));
        for text in ["", "1S", "PT", "P1Y", "PTxS", "PT-1S", "PT1"] {
            assert!(read(text).is_none_or(|millis| millis == 0), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        #[test]
        fn any_text_is_a_manifest_or_none(
            pieces in prop::collection::vec(
                prop_oneof![
                    Just("<MPD mediaPresentationDuration=\"PT9S\">"), Just("<Period>"), Just("<AdaptationSet>"),
                    Just("<SegmentTemplate media=\"$Number%09d$$$\" duration=\"1\">"), Just("<S d=\"1\" r=\"999999999\"/>"),
                    Just("<Representation id='x'/>"), Just("</AdaptationSet>"), Just("<"), Just("=\""), Just("é$%"),
                ],
                0..20,
            ),
        ) {
            let found = Manifest::parse(&pieces.concat()).unwrap_or_default();
            let segments: usize = found.representations.iter().map(|(_, names)| names.len()).sum();
            prop_assert!(segments + found.others.len() <= MOST);
        }
    }
}
