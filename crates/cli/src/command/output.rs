//! Where fetched files go: a directory, a new name, a pipe or a device.

use std::fs::File;
use std::path::{Path, PathBuf};

use manyway_terminal::{CommandError, ExitCode};
use manyway_transfer::{Failure, RelativePath};

use super::signal::until_interrupted;
use crate::args::GlobalArgs;

/// The kind of an output that is neither a regular file nor a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialFile {
    /// A device or pipe.
    Stream,
    /// A socket, to which no file can be written.
    Socket,
}

/// The kind of `path`, links followed, if it is no regular file and no directory.
pub fn special_file(path: &Path) -> Option<SpecialFile> {
    let kind = std::fs::metadata(path).ok()?.file_type();
    if kind.is_file() || kind.is_dir() {
        return None;
    }
    #[cfg(unix)]
    if std::os::unix::fs::FileTypeExt::is_socket(&kind) {
        return Some(SpecialFile::Socket);
    }
    Some(SpecialFile::Stream)
}

/// Opens an existing device or pipe, which waits for the reader of a pipe.
///
/// # Errors
/// It cannot be opened, is a socket, or the user interrupted.
pub async fn open_special(output: &Path, kind: SpecialFile) -> Result<File, CommandError> {
    if kind == SpecialFile::Socket {
        let text = format!("-o: {} is a socket, and a file can not be written to it", output.display());
        return Err(CommandError::usage(text));
    }
    let place = output.to_owned();
    let opening = tokio::task::spawn_blocking(move || File::options().write(true).open(place));
    let file = until_interrupted(async {
        let opened = opening.await.map_err(|error| CommandError::new(ExitCode::Failed, error))?;
        opened.map_err(|error| CommandError::failed(Failure::from_io(&error).at(output)))
    });
    file.await
}

/// Standard output carries the file or a document.
///
/// # Errors
/// Both are wanted.
pub fn refuse_json(global: &GlobalArgs) -> Result<(), CommandError> {
    if !global.json {
        return Ok(());
    }
    Err(CommandError::usage("with -o - the file goes to standard output; leave out --json"))
}

/// The directory and the name, if `output` is a name: it is no directory, nor does it end as one.
///
/// # Errors
/// The name is none that a file may have.
pub fn new_name(output: &Path) -> Result<Option<(PathBuf, RelativePath)>, CommandError> {
    let ends_with_slash = output.as_os_str().as_encoded_bytes().ends_with(b"/");
    let (false, false, Some(name)) = (ends_with_slash, output.is_dir(), output.file_name()) else {
        return Ok(None);
    };
    let refuse = |reason: &dyn std::fmt::Display| CommandError::usage(format!("-o: {reason}"));
    let name = name.to_str().ok_or_else(|| refuse(&"the name is not UTF-8"))?;
    let name = RelativePath::parse(name).map_err(|error| refuse(&error))?;
    let parent = output.parent().filter(|parent| !parent.as_os_str().is_empty());
    Ok(Some((parent.unwrap_or_else(|| Path::new(".")).to_owned(), name)))
}

/// Checks that a directory exists or can be created: no file stands in its place.
///
/// # Errors
/// A file stands there.
pub fn can_be_directory(output: &Path) -> Result<(), CommandError> {
    // Behind a file, a slash at the end hides it: the system finds nothing there.
    let output = output.components().as_path();
    let nearest = output.ancestors().find_map(|place| Some((place, std::fs::metadata(place).ok()?)));
    match nearest {
        Some((place, facts)) if !facts.is_dir() => Err(CommandError::usage(format!(
            "-o: not a directory: {}; name another one, or move the file away",
            place.display()
        ))),
        Some(_) | None => Ok(()),
    }
}
