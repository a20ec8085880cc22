//! The directory of the sockets of running commands, private to the user.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// The possible directories of a command's socket, best first: below `XDG_RUNTIME_DIR`, below `/run/user/UID`, or
/// `manyway-UID` among the temporary files.
pub fn directories() -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|value| !value.is_empty());
    let mut directories: Vec<_> =
        runtime.map(|runtime| PathBuf::from(runtime).join("manyway")).into_iter().collect();
    directories.push(format!("/run/user/{user}/manyway").into());
    directories.push(std::env::temp_dir().join(format!("manyway-{user}")));
    directories.dedup();
    directories
}

/// The first of them that belongs to this user alone, created if it does not exist.
///
/// # Errors
/// None is available.
pub fn own_directory() -> io::Result<PathBuf> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for directory in directories() {
        match prepare(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn prepare(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    check(directory)
}

/// No other user may write there, since the content of the sockets is trusted.
fn check(directory: &Path) -> io::Result<()> {
    let facts = fs::symlink_metadata(directory)?;
    let is_own = facts.uid() == rustix::process::geteuid().as_raw();
    if facts.is_dir() && is_own && facts.mode() & 0o077 == 0 {
        return Ok(());
    }
    let text = format!("{} is not a directory for this user alone", directory.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

/// The sockets of all directories, by name.
pub fn sockets() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for directory in directories().into_iter().filter(|directory| check(directory).is_ok()) {
        found.extend(sockets_in(&directory));
    }
    found.sort();
    found.dedup();
    found
}

fn sockets_in(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "sock")).collect()
}

/// Removes the sockets of commands that ended without doing so.
pub fn clean(directory: &Path) {
    for path in sockets_in(directory) {
        if is_stale(&path) {
            // Another command may have been faster.
            let _ = fs::remove_file(path);
        }
    }
}

/// Whether the socket has no listener any more.
pub fn is_stale(path: &Path) -> bool {
    let connected = std::os::unix::net::UnixStream::connect(path);
    connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_directory_that_others_may_enter_is_not_used() {
        let place = TempDir::new().unwrap();
        let own = place.path().join("manyway");
        prepare(&own).unwrap();
        assert_eq!(fs::metadata(&own).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(prepare(&own).is_err());
        let link = place.path().join("link");
        std::os::unix::fs::symlink(&own, &link).unwrap();
        assert!(prepare(&link).is_err(), "a link may lead anywhere");
        fs::write(place.path().join("file"), "").unwrap();
        assert!(prepare(&place.path().join("file")).is_err());
    }

    #[test]
    fn only_the_socket_of_a_killed_command_is_removed() {
        let place = TempDir::new().unwrap();
        let (dead, alive) = (place.path().join("send-1.sock"), place.path().join("send-2.sock"));
        drop(UnixListener::bind(&dead).unwrap());
        let _listener = UnixListener::bind(&alive).unwrap();
        fs::write(place.path().join("notes"), "").unwrap();
        clean(place.path());
        assert!(!dead.exists() && alive.exists() && place.path().join("notes").exists());
    }
}
