use super::*;
use crate::directory::Directory;
use crate::entry::{Entry, EntryKind, Timestamp};
use crate::error::TransferError;
use crate::failure::{Failure, Reason};
use crate::frame::{Frame, Header, Kind, Verdict};
use crate::name::RelativePath;
use crate::progress::{NoProgress, Report};
use crate::request::Totals;
use proptest::prelude::*;
use std::path::Path;
use tempfile::TempDir;

// transfer 4.3
#[test]
fn a_file_with_a_wrong_hash_is_refused_and_the_old_one_stays() {
    let place = TempDir::new().unwrap();
    std::fs::write(place.path().join("file"), "old").unwrap();
    let stream = Stream::new().entry("file", 3).data(b"new").end([7; 32]).done(1);
    let (report, verdicts) = stream.receive_into(place.path());
    assert_eq!(report.unwrap().failures, 1);
    assert_eq!(reasons(&verdicts), [Some(Reason::Hash)]);
    assert_eq!(std::fs::read(place.path().join("file")).unwrap(), b"old");
    assert_eq!(names(place.path()), ["file"]);
}

// transfer 4.5
#[test]
fn a_truncated_stream_leaves_no_file_behind() {
    let whole = Stream::new().file("first", b"1").file("second", &[5; 300]).done(2).0;
    let first_end = Stream::new().file("first", b"1").0.len();
    for length in 0..whole.len() {
        let place = TempDir::new().unwrap();
        let (report, _) = Stream(whole[..length].to_vec()).receive_into(place.path());
        let verified = u64::from(length >= first_end) + u64::from(length >= whole.len() - 20);
        assert!(
            matches!(report, Err(TransferError::Incomplete { verified: v }) if v == verified),
            "{length} {report:?}"
        );
        let left = names(place.path());
        assert_eq!(left.len() as u64, verified, "{left:?}");
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
    assert_eq!(names(place.path()), ["right"]);
}

#[test]
fn a_file_that_its_sender_gives_up_is_not_kept() {
    let place = TempDir::new().unwrap();
    let failure = Failure::new(Reason::PermissionDenied);
    let stream = Stream::new()
        .frame(&Frame::Abandoned { name: "unreadable\u{7}".into(), failure: failure.clone() })
        .entry("half", 10)
        .data(b"12345")
        .frame(&Frame::Abandoned { name: "half".into(), failure })
        .file("whole", b"")
        .done(2);
    let (report, verdicts) = stream.receive_into(place.path());
    let report = report.unwrap();
    assert_eq!((report.verified, report.failures), (1, 2));
    assert_eq!(report.failed[0].name, "unreadable\\u{7}");
    assert_eq!(reasons(&verdicts), [Some(Reason::PermissionDenied), None]);
    assert_eq!(names(place.path()), ["whole"]);
}

// transfer 5.3
#[test]
fn a_file_that_nobody_asked_for_is_refused() {
    let place = TempDir::new().unwrap();
    let asked = Admission::Below(["asked".to_owned()].into());
    let stream = Stream::new().file(".bashrc", b"evil").file("asked/below", b"good").done(2);
    let mut verdicts = Vec::new();
    let report = stream.receive(place.path(), &asked, &mut verdicts);
    assert_eq!(report.unwrap().verified, 1);
    assert_eq!(reasons(&verdicts), [Some(Reason::Unasked), None]);
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
    for stream in [data, end, early, twice, answer, miscounted] {
        let place = TempDir::new().unwrap();
        let (report, _) = stream.receive_into(place.path());
        assert!(
            matches!(report, Err(TransferError::Unexpected { .. } | TransferError::Codec(_))),
            "{report:?}"
        );
    }
}

// transfer 4.1
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
    let source = Source::local(&top).unwrap();
    let mut found = Vec::new();
    let mut failed = Vec::new();
    for step in walk::Walk::new(std::slice::from_ref(&source)) {
        match step {
            walk::Step::Found { name, .. } => found.push(name.as_str().to_owned()),
            walk::Step::Failed { name, failure } => failed.push((name, failure.reason)),
        }
    }
    assert_eq!(found, ["top", "top/a", "top/b", "top/b/c", "top/b/c/file"]);
    #[cfg(unix)]
    assert_eq!(failed, [("top/link".to_owned(), Reason::SymbolicLink)]);
    assert_eq!(survey(&[source]), Totals { files: 5, bytes: 6 });
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

    fn entry(self, name: &str, size: u64) -> Self {
        self.frame(&Frame::Entry(Entry {
            path: RelativePath::parse(name).unwrap(),
            kind: EntryKind::File,
            size,
            modified: Timestamp { seconds: 1_600_000_000, nanos: 0 },
            mode: 0o644,
        }))
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
        let mut verdicts = Vec::new();
        let report = self.receive(place, &Admission::Anything, &mut verdicts);
        (report, verdicts)
    }

    fn receive(
        &self,
        place: &Path,
        admission: &Admission,
        verdicts: &mut Vec<Verdict>,
    ) -> Result<Report, TransferError> {
        let directory = Directory::open(place).map_err(TransferError::Local)?;
        let mut tell = |verdict| verdicts.push(verdict);
        Receiver::new(&directory, admission, &NoProgress, &mut tell).run(&mut self.0.as_slice())
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
