use super::*;
use crate::answer::{Answer, Mark};
use crate::directory::Directory;
use crate::entry::{Entry, EntryKind, Timestamp};
use crate::error::TransferError;
use crate::failure::{Failure, Reason};
use crate::frame::{Frame, Header, Kind, Verdict};
use crate::name::RelativePath;
use crate::pipe::Arriving;
use crate::progress::{NoProgress, Report};
use crate::request::Totals;
use crate::rules::Rules;
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::sync::mpsc;

// transfer 5.3
#[test]
fn a_file_with_a_wrong_hash_is_refused_and_the_old_one_stays() {
    let place = TempDir::new().unwrap();
    std::fs::write(place.path().join("file"), "old").unwrap();
    let stream = Stream::new().entry("file", 3).data(b"new").end([7; 32]).done(1);
    let (report, verdicts) = stream.receive_into(place.path());
    assert_eq!(report.unwrap().failures, 1);
    assert_eq!(reasons(&verdicts), [Some(Reason::Hash)]);
    assert_eq!(std::fs::read(place.path().join("file")).unwrap(), b"old");
    assert_eq!(names(place.path()), [".file.manyway-part", "file"]);
}

// transfer 5.6
#[test]
fn a_truncated_stream_leaves_a_part_and_no_name() {
    let whole = Stream::new().file("first", b"1").file("second", &[5; 300]).done(2).0;
    let first_end = Stream::new().file("first", b"1").0.len();
    for length in (0..whole.len()).step_by(3) {
        let place = TempDir::new().unwrap();
        let (report, _) = Stream(whole[..length].to_vec()).receive_into(place.path());
        let verified = u64::from(length >= first_end) + u64::from(length >= whole.len() - 20);
        assert!(
            matches!(report, Err(TransferError::Incomplete { verified: v }) if v == verified),
            "{length} {report:?}"
        );
        let finished = names(place.path()).into_iter().filter(|name| !name.starts_with('.')).count();
        assert_eq!(finished as u64, verified);
    }
}

#[test]
fn more_or_fewer_bytes_than_announced_are_refused() {
    let place = TempDir::new().unwrap();
    let hash = |data: &[u8]| *blake3::hash(data).as_bytes();
    let stream = Stream::new()
        .entry("long", 2)
        .data(b"abc")
        .data(b"d")
        .end(hash(b"abcd"))
        .entry("short", 5)
        .data(b"abc")
        .end(hash(b"abc"))
        .file("right", b"fine")
        .done(3);
    let (report, verdicts) = stream.receive_into(place.path());
    assert_eq!(report.unwrap().verified, 1);
    assert_eq!(reasons(&verdicts), [Some(Reason::Changed), Some(Reason::Changed), None]);
    assert_eq!(verdicts.iter().map(|v| v.index).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(names(place.path()), [".short.manyway-part", "right"]);
}

#[test]
fn a_file_that_its_sender_abandons_gets_no_name() {
    let place = TempDir::new().unwrap();
    let failure = Failure::new(Reason::PermissionDenied);
    let stream = Stream::new()
        .frame(&Frame::Abandoned { entry: None, name: "unreadable\u{7}".into(), failure: failure.clone() })
        .entry("half", 10)
        .data(b"12345")
        .frame(&Frame::Abandoned { entry: Some(0), name: "half".into(), failure: failure.clone() })
        .announce("never", 10)
        .frame(&Frame::Abandoned { entry: Some(1), name: "never".into(), failure })
        .file("whole", b"")
        .done(3);
    let (report, verdicts) = stream.receive_into(place.path());
    let report = report.unwrap();
    assert_eq!((report.verified, report.failures), (1, 3));
    assert_eq!(report.failed[0].name, "unreadable\\u{7}");
    let denied = Some(Reason::PermissionDenied);
    assert_eq!(reasons(&verdicts), [denied, denied, None]);
    assert_eq!(names(place.path()), [".half.manyway-part", "whole"]);
}

// transfer 7.3
#[test]
fn a_file_that_was_not_requested_is_refused() {
    let place = TempDir::new().unwrap();
    let admission = Admission::Below(["asked".to_owned()].into());
    let asked = Wanted { admission, ..Wanted::default() };
    let stream = Stream::new().announce(".bashrc", 4).file("asked/below", b"good").done(2);
    let mut said = Vec::new();
    let report = stream.receive(place.path(), &asked, &mut said);
    assert_eq!(report.unwrap().verified, 1);
    assert!(
        matches!(&said[0], Frame::Verdict(v) if v.outcome.as_ref().unwrap_err().reason == Reason::NotRequested)
    );
    assert_eq!(names(place.path()), ["asked"]);
}

#[test]
fn frames_out_of_place_end_the_transfer() {
    let data = Stream::new().data(b"x");
    let end = Stream::new().end([0; 32]);
    let early = Stream::new().entry("a", 1).done(1);
    let twice = Stream::new().entry("a", 1).entry("b", 1);
    let answer = Stream::new().frame(&Frame::Accepted(Totals::default()));
    let miscounted = Stream::new().file("a", b"").done(2);
    let forgotten = Stream::new().announce("a", 1).done(1);
    let skipped = Stream::new().announce("a", 1).entry("b", 1);
    let unknown = Stream::new().start(0, 0);
    let again = Stream::new().file("a", b"").start(0, 0);
    let inside = Stream::new().entry("a", 1).announce("b", 1);
    let not_offered = Stream::new().announce("a", 9).start(0, 3);
    let order = [data, end, early, twice, answer, miscounted, forgotten, skipped, unknown, again, inside];
    for stream in order.into_iter().chain([not_offered]) {
        let place = TempDir::new().unwrap();
        let (report, _) = stream.receive_into(place.path());
        assert!(
            matches!(report, Err(TransferError::Unexpected { .. } | TransferError::Codec(_))),
            "{report:?}"
        );
    }
}

// transfer 5.1
#[test]
fn a_directory_is_walked_in_order_without_links_and_unfinished_files() {
    let place = TempDir::new().unwrap();
    let top = place.path().join("top");
    std::fs::create_dir_all(top.join("b/c")).unwrap();
    std::fs::write(top.join("b/c/file"), "12345").unwrap();
    std::fs::write(top.join("a"), "1").unwrap();
    std::fs::write(top.join(".a.manyway-part"), "half").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("/etc/passwd", top.join("link")).unwrap();
    let source = Source::Tree(Tree::local(&top).unwrap());
    let mut found = Vec::new();
    let mut failed = Vec::new();
    for step in Walk::new(vec![source.clone()], Rules::default()) {
        match step {
            Step::Found { entry, .. } => found.push(entry.path.as_str().to_owned()),
            Step::Failed { name, failure } => failed.push((name, failure.reason)),
        }
    }
    assert_eq!(found, ["top", "top/a", "top/b", "top/b/c", "top/b/c/file"]);
    #[cfg(unix)]
    assert_eq!(failed, [("top/link".to_owned(), Reason::LeftOut)]);
    assert_eq!(survey(&[source], &Rules::default()), Totals { files: 5, bytes: 6 });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_stream_writes_outside_or_panics(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        name in "[./a]{1,12}",
    ) {
        let outer = TempDir::new().unwrap();
        let inner = outer.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let mut bytes = Stream::new().file("0123456789ab/x", b"content").file("b", b"").done(2).0;
        // The name's length field stands before it; a shorter name is padded with harmless characters.
        let padded = format!("{name:x<14}");
        let start = bytes.windows(14).position(|w| w == b"0123456789ab/x").unwrap();
        bytes[start..start + 14].copy_from_slice(padded.as_bytes());
        for (index, value) in edits {
            let position = index.index(bytes.len());
            bytes[position] = value;
        }
        let _ = Stream(bytes).receive_into(&inner);
        prop_assert_eq!(names(outer.path()), ["inner"]);
    }
}

// transfer 4.1
#[test]
fn a_sender_that_announces_too_much_is_refused() {
    let mut many = Stream::new();
    for index in 0..WINDOW {
        many = many.announce(&format!("f{index}"), 1);
    }
    let place = TempDir::new().unwrap();
    let (report, _) = Stream(many.0.clone()).receive_into(place.path());
    assert!(matches!(report, Err(TransferError::Incomplete { .. })), "{report:?}");
    let (report, _) = many.announce("one more", 1).receive_into(place.path());
    assert!(matches!(report, Err(TransferError::Codec(_))), "{report:?}");

    let long = ["x"; 20].map(|part| part.repeat(200)).join("/");
    let mut heavy = Stream::new();
    for index in 0..300 {
        heavy = heavy.announce(&format!("{index}{long}"), 1);
    }
    let (report, _) = heavy.receive_into(place.path());
    assert!(matches!(report, Err(TransferError::Codec(_))), "{report:?}");
}

// transfer 4.13
#[test]
fn existing_data_is_reported_by_its_hash() {
    let place = TempDir::new().unwrap();
    std::fs::write(place.path().join(".part.manyway-part"), b"123").unwrap();
    std::fs::write(place.path().join("whole"), b"12345").unwrap();
    std::fs::write(place.path().join("other"), b"of another size").unwrap();
    let mut stream =
        Stream::new().announce("part", 5).announce("whole", 5).announce("other", 5).announce("none", 5);
    for entry in 0..4 {
        let failure = Failure::new(Reason::Abandoned);
        stream = stream.frame(&Frame::Abandoned { entry: Some(entry), name: String::new(), failure });
    }
    let stream = stream.done(4);
    let mut said = Vec::new();
    stream.receive(place.path(), &Wanted::default(), &mut said).unwrap();
    let answers: Vec<_> = said
        .into_iter()
        .filter_map(|frame| if let Frame::Answer(answer) = frame { Some(answer) } else { None })
        .collect();
    let mark = |text: &[u8]| Mark { length: text.len() as u64, hash: *blake3::hash(text).as_bytes() };
    let answer = |entry, marks| Answer { entry, marks };
    let wanted = [
        answer(0, vec![mark(b"123")]),
        answer(1, vec![mark(b"12345")]),
        answer(2, vec![]),
        answer(3, vec![]),
    ];
    assert_eq!(answers, wanted);
}

// transfer 4.4, 4.15
#[test]
fn a_sender_resumes_where_both_agree_or_starts_again() {
    let hash = *blake3::hash(b"12345").as_bytes();
    for (offset, rest, resumed) in [(3, &b"45"[..], 3), (0, b"12345", 0)] {
        let place = TempDir::new().unwrap();
        std::fs::write(place.path().join(".part.manyway-part"), b"123").unwrap();
        let stream = Stream::new().announce("part", 5).start(0, offset).data(rest).end(hash).done(1);
        let (report, verdicts) = stream.receive_into(place.path());
        let report = report.unwrap();
        assert_eq!(reasons(&verdicts), [None]);
        assert_eq!((report.resumed, report.moved), (resumed, rest.len() as u64));
        assert_eq!(std::fs::read(place.path().join("part")).unwrap(), b"12345");
        assert_eq!(names(place.path()), ["part"]);
    }
    // A whole file that agrees: only its metadata is set.
    let place = TempDir::new().unwrap();
    std::fs::write(place.path().join("whole"), b"12345").unwrap();
    let stream = Stream::new().announce("whole", 5).start(0, 5).end(hash).done(1);
    assert_eq!(stream.receive_into(place.path()).0.unwrap().verified, 1);
    let modified = place.path().join("whole").metadata().unwrap().modified().unwrap();
    assert_eq!(Timestamp::from(modified).seconds, 1_600_000_000);
}

// transfer 4.5
#[test]
fn holes_are_kept_and_show_no_old_content() {
    let place = TempDir::new().unwrap();
    std::fs::write(place.path().join(".sparse.manyway-part"), vec![9; 300_000]).unwrap();
    let mut content = vec![0; 1_000_000];
    content.extend(b"end");
    let stream = Stream::new()
        .announce("sparse", 1_000_003)
        .start(0, 0)
        .frame(&Frame::Hole { length: 1_000_000 })
        .data(b"end")
        .end(*blake3::hash(&content).as_bytes())
        .entry("too long", 5)
        .frame(&Frame::Hole { length: 6 })
        .end([0; 32])
        .done(2);
    let (report, verdicts) = stream.receive_into(place.path());
    assert_eq!(reasons(&verdicts), [None, Some(Reason::Changed)]);
    assert_eq!(report.unwrap().holes, 1_000_000);
    assert!(std::fs::read(place.path().join("sparse")).unwrap() == content);
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::MetadataExt;
        assert!(place.path().join("sparse").metadata().unwrap().blocks() < 100);
    }
}

impl Arriving for &[u8] {
    fn is_drained(&self) -> bool {
        self.is_empty()
    }
}

/// A stream of frames, made by hand.
struct Stream(Vec<u8>);

impl Stream {
    fn new() -> Self {
        Self(Vec::new())
    }

    fn frame(mut self, frame: &Frame) -> Self {
        frame.encode(&mut self.0);
        self
    }

    fn announce(self, name: &str, size: u64) -> Self {
        self.announce_as(name, EntryKind::File, size)
    }

    fn announce_as(self, name: &str, kind: EntryKind, size: u64) -> Self {
        self.frame(&Frame::Entry(Entry {
            path: RelativePath::parse(name).unwrap(),
            kind,
            size,
            room: 0,
            modified: Timestamp { seconds: 1_600_000_000, nanos: 0 },
            mode: 0o644,
        }))
    }

    fn start(self, entry: u64, offset: u64) -> Self {
        self.frame(&Frame::Start { entry, offset })
    }

    /// Announces a file and begins it.
    fn entry(self, name: &str, size: u64) -> Self {
        let entry = self.entries();
        self.announce(name, size).start(entry, 0)
    }

    fn entries(&self) -> u64 {
        let mut rest = self.0.as_slice();
        let mut entries = 0;
        while let Some((header, body)) = rest.split_first_chunk::<4>() {
            let header = Header::decode(*header).unwrap();
            entries += u64::from(header.kind == Kind::Entry);
            rest = &body[header.length..];
        }
        entries
    }

    fn data(mut self, data: &[u8]) -> Self {
        self.0.extend(Header { kind: Kind::Data, length: data.len() }.encode());
        self.0.extend(data);
        self
    }

    fn end(self, hash: [u8; 32]) -> Self {
        self.frame(&Frame::End { hash })
    }

    fn file(self, name: &str, data: &[u8]) -> Self {
        self.entry(name, data.len() as u64).data(data).end(*blake3::hash(data).as_bytes())
    }

    fn done(self, files: u64) -> Self {
        self.frame(&Frame::Done(Totals { files, bytes: 0 }))
    }

    fn receive_into(&self, place: &Path) -> (Result<Report, TransferError>, Vec<Verdict>) {
        let mut said = Vec::new();
        let report = self.receive(place, &Wanted::default(), &mut said);
        let verdict = |frame| if let Frame::Verdict(verdict) = frame { Some(verdict) } else { None };
        let mut verdicts: Vec<_> = said.into_iter().filter_map(verdict).collect();
        verdicts.sort_by_key(|verdict| verdict.index);
        (report, verdicts)
    }

    fn receive(&self, place: &Path, wanted: &Wanted, said: &mut Vec<Frame>) -> Result<Report, TransferError> {
        let directory = Directory::open(place).map_err(TransferError::Local)?;
        let store = Arc::new(Store::new(directory));
        let (answers, mut queue) = mpsc::channel(10_000);
        let reception = Reception::new(store, wanted.clone(), Arc::new(NoProgress), answers);
        let report = reception.run(&mut self.0.as_slice());
        while let Ok(frames) = queue.try_recv() {
            said.extend(frames);
        }
        report
    }
}

fn reasons(verdicts: &[Verdict]) -> Vec<Option<Reason>> {
    verdicts.iter().map(|v| v.outcome.as_ref().err().map(|f| f.reason)).collect()
}

fn names(place: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(place).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The sender checks its links, and the receiver does not trust that check.
// transfer 2.6, 5.10
#[cfg(unix)]
#[test]
fn a_link_of_a_malicious_sender_leads_nowhere_and_nothing_is_written_through_one() {
    let outer = TempDir::new().unwrap();
    let inner = outer.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    let link = |target: &str| EntryKind::Link(crate::link::LinkTarget::parse(target).unwrap());
    let stream = Stream::new()
        .announce_as("tree", EntryKind::Directory, 0)
        .announce_as("tree/out", link(".."), 0)
        .announce_as("tree/up", link("../../x"), 0)
        .announce_as("top", link("tree"), 0)
        .announce_as("tree/in", link("./d"), 0)
        .announce_as("tree/in/sub", EntryKind::Directory, 0)
        .file("tree/in/file", b"through")
        .done(7);
    let (report, verdicts) = stream.receive_into(&inner);
    assert_eq!(names(outer.path()), ["inner"], "{report:?}");
    for index in [2, 3] {
        let failure = verdicts[index].outcome.as_ref().unwrap_err();
        assert_eq!(failure.reason, Reason::Name, "{failure}");
        assert!(failure.text.contains("leads out of the tree"), "{failure}");
    }
    assert!(!inner.join("tree/up").exists() && !inner.join("top").exists());
    assert!(!inner.join("tree/d").exists(), "nothing went through the link");
    // The directory was created before the turn of the link, or the link refused what is below it: never both.
    let place = inner.join("tree/in").symlink_metadata().unwrap();
    assert!(place.is_symlink() != inner.join("tree/in/file").exists());
}

#[cfg(unix)]
#[test]
fn no_data_is_written_through_a_link_that_was_received_before() {
    let outer = TempDir::new().unwrap();
    let inner = outer.path().join("inner");
    std::fs::create_dir_all(inner.join("tree/real")).unwrap();
    let target = EntryKind::Link(crate::link::LinkTarget::parse("real").unwrap());
    let stream = Stream::new().announce_as("tree/in", target, 0).done(1);
    assert_eq!(stream.receive_into(&inner).0.unwrap().verified, 1);
    let stream = Stream::new()
        .announce("tree/in/file", 3)
        .announce_as("tree/in/sub", EntryKind::Directory, 0)
        .file("tree/in", b"new")
        .done(3);
    let (report, verdicts) = stream.receive_into(&inner);
    assert_eq!(
        reasons(&verdicts),
        [Some(Reason::SymbolicLink), Some(Reason::SymbolicLink), None],
        "{report:?}"
    );
    assert_eq!(names(&inner.join("tree/real")), [] as [&str; 0]);
    assert_eq!(std::fs::read(inner.join("tree/in")).unwrap(), b"new", "the link itself is replaced");
}

// transfer 4.11
#[test]
fn content_of_unknown_length_is_as_long_as_it_is() {
    let place = TempDir::new().unwrap();
    std::fs::write(place.path().join(".feed.manyway-part"), "left by another").unwrap();
    let stream = Stream::new()
        .announce_as("feed", EntryKind::Stream, 0)
        .start(0, 0)
        .data(b"some")
        .data(b"thing")
        .end(*blake3::hash(b"something").as_bytes())
        .announce_as("torn", EntryKind::Stream, 0)
        .start(1, 0)
        .data(b"half")
        .end([0; 32])
        .done(2);
    let (report, verdicts) = stream.receive_into(place.path());
    assert_eq!(reasons(&verdicts), [None, Some(Reason::Hash)]);
    assert_eq!(report.unwrap().bytes, 9);
    assert_eq!(std::fs::read(place.path().join("feed")).unwrap(), b"something");
}
