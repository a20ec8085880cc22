//! Pending results of tests are no part of the repository.

use super::Finding;
use super::files::SourceFile;

/// Suffixes of files that insta writes beside a snapshot that differs, or a source file with an inline one.
const ENDS: [&str; 2] = [".snap.new", ".pending-snap"];

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let left = files.iter().filter(|file| ENDS.iter().any(|end| file.path.ends_with(end)));
    left.map(|file| Finding::new(&file.path, 0, "an unreviewed snapshot: accept it or delete it")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::files::file;
    use super::check;

    #[test]
    fn a_pending_snapshot_is_found() {
        for path in ["tests/snapshots/a__b.snap.new", "src/.a.rs.pending-snap"] {
            assert_eq!(check(&[file(path, "")]).len(), 1, "{path}");
        }
        assert_eq!(check(&[file("tests/snapshots/a__b.snap", ""), file("src/snap.new.rs", "")]), []);
    }
}
