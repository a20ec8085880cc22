//! Traffic of each interface: a file for each, to which all processes of the user add.
//!
//! A file has one line of a fixed length, such as `2026-11-01 2026-12-01 00000000000123456789`: the first day of the
//! period, that of the next one, and the bytes in between. It is changed in place under a lock and with one write of 43
//! bytes, so a process that is killed leaves the old line or the new one. It is not synced: after a power failure the
//! traffic of the last half a minute may be lost.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use jiff::civil::Date;
use rustix::fs::FlockOperation;

use super::Home;
use super::file::give_to_owner;

/// The traffic of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// The first day of its period.
    pub since: Date,
    /// The first day of the next period.
    pub until: Date,
    /// In both directions, with all headers.
    pub bytes: u64,
}

/// What to do while another process holds a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Wait for it.
    Wait,
    /// Fail with [`io::ErrorKind::WouldBlock`].
    Leave,
}

impl Home {
    /// Changes the count of an interface, `None` if there is none yet, and returns the new one.
    ///
    /// # Errors
    /// If the file is damaged, or cannot be read or written.
    pub fn change_count(
        &self,
        interface: &str,
        patience: Patience,
        change: impl FnOnce(Option<Count>) -> Count,
    ) -> io::Result<Count> {
        let path = self.usage_file(interface)?;
        let open =
            || File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(0o700).create(self.usage_directory())?;
                open()?
            }
            file => file?,
        };
        let operation = match patience {
            Patience::Wait => FlockOperation::LockExclusive,
            Patience::Leave => FlockOperation::NonBlockingLockExclusive,
        };
        rustix::fs::flock(&file, operation)?;
        let old = read(&file, &path)?;
        let new = change(old);
        if old != Some(new) {
            if old.is_none() {
                give_to_owner(&file, self.directory());
            }
            file.write_all_at(line(new).as_bytes(), 0)?;
        }
        Ok(new)
    }

    /// The count of an interface; `None` if there is none yet.
    ///
    /// # Errors
    /// If the file is damaged or cannot be read.
    pub fn count(&self, interface: &str) -> io::Result<Option<Count>> {
        let path = self.usage_file(interface)?;
        match File::open(&path) {
            Ok(file) => read(&file, &path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes the count of an interface; returns false if there was none.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub fn forget_count(&self, interface: &str) -> io::Result<bool> {
        // Emptied in place: another process may hold it open and would go on to count in a deleted file.
        let path = self.usage_file(interface)?;
        let file = match File::options().write(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            file => file?,
        };
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        let was_there = file.metadata()?.len() > 0;
        file.set_len(0)?;
        Ok(was_there)
    }

    /// The interfaces with a count, by name.
    pub fn counted_interfaces(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.usage_directory()).into_iter().flatten().flatten();
        let used = entries.filter(|entry| entry.metadata().is_ok_and(|facts| facts.len() > 0));
        let mut names: Vec<_> = used.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// The directory of the counts.
    pub fn usage_directory(&self) -> PathBuf {
        self.directory().join("usage")
    }

    fn usage_file(&self, interface: &str) -> io::Result<PathBuf> {
        let is_name = !interface.is_empty() && !interface.contains('/') && !interface.starts_with('.');
        let wrong =
            || io::Error::new(io::ErrorKind::InvalidInput, "no file can have the name of this interface");
        is_name.then(|| self.usage_directory().join(interface)).ok_or_else(wrong)
    }
}

fn line(count: Count) -> String {
    format!("{} {} {:020}\n", count.since, count.until, count.bytes)
}

fn read(file: &File, path: &std::path::Path) -> io::Result<Option<Count>> {
    let mut bytes = [0; LENGTH + 1];
    let mut length = 0;
    while let Some(rest) = bytes.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, length as u64)? {
            0 => break,
            more => length += more,
        }
    }
    if length == 0 {
        return Ok(None);
    }
    let text = bytes.get(..length).and_then(|bytes| std::str::from_utf8(bytes).ok());
    let count = text.and_then(|text| {
        let (days, bytes) = text.strip_suffix('\n')?.rsplit_once(' ')?;
        let (since, until) = days.split_once(' ')?;
        Some(Count { since: since.parse().ok()?, until: until.parse().ok()?, bytes: bytes.parse().ok()? })
    });
    let damaged = || {
        let text = format!("{} is damaged; `manyway caps clear` begins it anew", path.display());
        io::Error::new(io::ErrorKind::InvalidData, text)
    };
    count.filter(|count| line(*count).len() == length).map(Some).ok_or_else(damaged)
}

/// Length of a line.
const LENGTH: usize = 43;

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> (tempfile::TempDir, Home) {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path().join("home"));
        (directory, home)
    }

    fn add(home: &Home, bytes: u64) -> io::Result<Count> {
        home.change_count("wwan0", Patience::Wait, |old| {
            let day = |text: &str| text.parse().unwrap();
            let bytes = old.map_or(0, |old| old.bytes) + bytes;
            Count { since: day("2026-11-01"), until: day("2026-12-01"), bytes }
        })
    }

    #[test]
    fn a_count_is_kept_and_can_be_forgotten() {
        let (_directory, home) = home();
        assert_eq!((home.count("wwan0").unwrap(), home.counted_interfaces()), (None, vec![]));
        assert_eq!(add(&home, 5).unwrap().bytes, 5);
        assert_eq!(add(&home, u64::from(u32::MAX)).unwrap().bytes, 4_294_967_300);
        let text = std::fs::read_to_string(home.usage_directory().join("wwan0")).unwrap();
        assert_eq!(text, "2026-11-01 2026-12-01 00000000004294967300\n");
        assert_eq!(text.len(), LENGTH);
        assert_eq!(home.counted_interfaces(), ["wwan0"]);
        assert!(home.forget_count("wwan0").unwrap() && !home.forget_count("wwan0").unwrap());
        assert!(!home.forget_count("eth0").unwrap());
        assert_eq!((home.count("wwan0").unwrap(), home.counted_interfaces()), (None, vec![]));
        assert_eq!(add(&home, 7).unwrap().bytes, 7);
    }

    #[test]
    fn simultaneous_counts_lose_nothing() {
        let (_directory, home) = home();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..100).for_each(|_| assert!(add(&home, 3).is_ok())));
            }
        });
        assert_eq!(home.count("wwan0").unwrap().map(|count| count.bytes), Some(8 * 100 * 3));
    }

    #[test]
    fn a_file_that_another_process_holds_is_skipped_on_request() {
        let (_directory, home) = home();
        add(&home, 1).unwrap();
        let held = File::open(home.usage_directory().join("wwan0")).unwrap();
        rustix::fs::flock(&held, FlockOperation::LockExclusive).unwrap();
        let error = home.change_count("wwan0", Patience::Leave, |old| old.unwrap()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(home.count("wwan0").unwrap().map(|count| count.bytes), Some(1));
    }

    #[test]
    fn a_damaged_file_is_an_error_that_says_what_to_do() {
        let (_directory, home) = home();
        add(&home, 1).unwrap();
        let path = home.usage_directory().join("wwan0");
        for text in [
            "x",
            "2026-11-01 1\n",
            "2026-13-01 2026-12-01 00000000000000000001\n",
            "2026-11-01 2026-12-01 00000000000000000001\nmore",
        ] {
            std::fs::write(&path, text).unwrap();
            let error = home.count("wwan0").unwrap_err();
            assert!(error.to_string().contains("manyway caps clear"), "{error}");
            assert!(add(&home, 1).is_err());
        }
        assert!(home.forget_count("wwan0").unwrap());
        assert_eq!(add(&home, 1).unwrap().bytes, 1);
        for name in ["", "a/b", "..", ".hidden"] {
            assert!(home.count(name).is_err());
        }
    }
}
