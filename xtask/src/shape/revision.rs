//! The files of another revision.

use std::io;
use std::path::Path;
use std::process::Command;

use crate::check::files::SourceFile;

/// Reads the text files of a revision by way of `git archive` and a temporary directory.
pub(super) fn files(root: &Path, revision: &str) -> io::Result<Vec<SourceFile>> {
    let place = tempfile::tempdir()?;
    let archive = place.path().join("archive.tar");
    let tree = place.path().join("tree");
    std::fs::create_dir(&tree)?;
    run(Command::new("git")
        .args(["archive", "--format=tar", "--output"])
        .arg(&archive)
        .arg(revision)
        .current_dir(root))?;
    run(Command::new("tar").arg("--extract").arg("--file").arg(&archive).arg("--directory").arg(&tree))?;
    let mut found = Vec::new();
    collect(&tree, "", &mut found)?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

fn collect(directory: &Path, prefix: &str, found: &mut Vec<SourceFile>) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), &format!("{path}/"), found)?;
            continue;
        }
        match std::fs::read_to_string(entry.path()) {
            Ok(text) => found.push(SourceFile { path, text }),
            // Not text, or a dangling link.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_read_as_it_was_and_not_as_it_is() {
        let root = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| {
            let identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"];
            run(Command::new("git").args(identity).args(arguments).current_dir(root.path())).unwrap();
        };
        git(&["init", "--quiet"]);
        std::fs::create_dir(root.path().join("a")).unwrap();
        std::fs::write(root.path().join("a/b.rs"), "before").unwrap();
        std::fs::write(root.path().join("c.bin"), [0xff]).unwrap();
        git(&["add", "."]);
        git(&["commit", "--quiet", "--message", "x"]);
        std::fs::write(root.path().join("a/b.rs"), "after").unwrap();

        let expected = SourceFile { path: "a/b.rs".to_owned(), text: "before".to_owned() };
        assert_eq!(files(root.path(), "HEAD").unwrap(), [expected]);
        assert!(files(root.path(), "no-such-revision").is_err());
    }
}
