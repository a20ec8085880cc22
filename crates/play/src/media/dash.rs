//! Manifests of DASH (ISO/IEC 23009-1) whose segments have names by a template.

use std::time::Duration;

use super::xml::{Tag, tags};

/// Names of segments, and how long each lasts.
type Segments = Vec<(String, Duration)>;

/// What a manifest names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Manifest {
    /// The segments of each representation, in their order, of the pictures or, without pictures, of the sound; and the
    /// number of the first one.
    pub(crate) representations: Vec<(usize, Segments)>,
}

/// Most segments of all representations together.
const MOST: usize = 50_000;

/// How the names of segments are made.
#[derive(Debug, Clone, Default)]
struct Template {
    media: String,
    units: u64,
    first: u64,
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
}

#[derive(Debug, Default)]
struct Representation {
    id: String,
    bandwidth: String,
    template: Option<Template>,
}

/// Walks over the tags of a manifest.
#[derive(Debug, Default)]
struct Reader {
    total: Duration,
    set: Set,
    representation: Option<Representation>,
    sets: Vec<Set>,
    segments: usize,
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
        let chosen = reader.sets.into_iter().nth(video.unwrap_or(0));
        let representations = chosen.map(|set| set.found).unwrap_or_default();
        is_manifest.then_some(Self { representations })
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
                self.entries += self.template().as_mut().map_or(0, |template| template.add(tag, room));
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
            let room = MOST.saturating_sub(self.segments);
            let names = template.segments(self.total, room, (&id, &bandwidth));
            self.segments += names.len();
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
        Self {
            media: tag.attribute("media").unwrap_or_default(),
            units: number("timescale").unwrap_or(1).max(1),
            first: number("startNumber").unwrap_or(1),
            length: number("duration").filter(|length| *length > 0),
            timeline: Vec::new(),
            next: 0,
        }
    }

    /// Adds an `S` of the timeline: where it begins, how long it is, how often it is repeated. Returns how many entries
    /// of at most `room` it became.
    fn add(&mut self, tag: &Tag<'_>, room: usize) -> usize {
        let number = |name| tag.attribute(name).and_then(|value| value.parse::<u64>().ok());
        self.next = number("t").unwrap_or(self.next);
        let Some(length) = number("d") else { return 0 };
        let count =
            usize::try_from(number("r").unwrap_or(0)).unwrap_or(usize::MAX).saturating_add(1).min(room);
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

    /// Names and lengths of the segments, at most so many.
    fn segments(&self, total: Duration, most: usize, names: (&str, &str)) -> Vec<(String, Duration)> {
        let named =
            |(number, (time, length)): (u64, (u64, u64))| (self.name(number, time, names), self.time(length));
        if let Some(length) = self.length.filter(|_| self.timeline.is_empty()) {
            let equal = (0_u64..).map(|number| (number.saturating_mul(length), length));
            let within = equal.take_while(|(time, _)| self.time(*time) < total).take(most);
            return (self.first..).zip(within).map(named).collect();
        }
        (self.first..).zip(self.timeline.iter().copied().take(most)).map(named).collect()
    }

    /// Fills in the template: text between two dollars is a name, perhaps with the width of a number.
    fn name(&self, number: u64, time: u64, (id, bandwidth): (&str, &str)) -> String {
        let mut out = String::new();
        for (place, piece) in self.media.split('$').enumerate() {
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
        out
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
      <AdaptationSet contentType=\"audio\"><Representation id=\"9\" bandwidth=\"1\"><SegmentTemplate media=\"a.m4s\" \
                        duration=\"1\"/></Representation></AdaptationSet>
      <AdaptationSet><SegmentTemplate timescale=\"1000\" duration=\"4000\" startNumber=\"3\"
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
        let found = Manifest::parse(&manifest(SETS)).unwrap().representations;
        assert_eq!(
            found,
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
            prop_assert!(found.representations.iter().map(|(_, names)| names.len()).sum::<usize>() <= MOST);
        }
    }
}
