//! The directory of persistent data: keys, tickets, authorised clients, known servers.
//!
//! Every file is small and readable text; `manyway keys` changes them. All are private to their owner. A change takes a
//! lock, reads the file again, and replaces it as a whole: two programs that change something at once lose nothing, and
//! a reader sees the old state or the new one.

mod entry;
mod error;
mod file;
mod key_hash;
mod name;
mod text;
mod timestamp;
mod usage;

pub use entry::{ClientEntry, Entry, Rights, ServerEntry, TicketEntry};
pub use error::HomeError;
pub use file::Stamp;
pub use key_hash::KeyHash;
pub use name::{EntryName, NameError};
pub use text::{HostText, NetPortsText, RateText, Secret};
pub use timestamp::Timestamp;
pub use usage::{Count, Patience};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use manyway::{HostPort, Seed};
use serde::{Deserialize, Serialize};

/// The entries of one file by their names.
pub type Entries<T> = BTreeMap<String, T>;

/// The directory, which need not exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    directory: PathBuf,
}

/// The last addresses of a server, for tickets that are made while it is not running.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reached {
    hosts: Vec<HostText>,
}

impl Home {
    /// The directory of this user: `MANYWAY_HOME`, or `manyway` below `XDG_CONFIG_HOME`, or `~/.config/manyway`.
    ///
    /// # Errors
    /// [`HomeError::Nowhere`] if none of these variables is set.
    pub fn find() -> Result<Self, HomeError> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let directory = set("MANYWAY_HOME")
            .or_else(|| Some(set("XDG_CONFIG_HOME")?.join("manyway")))
            .or_else(|| Some(set("HOME")?.join(".config/manyway")));
        directory.map(Self::at).ok_or(HomeError::Nowhere)
    }

    /// A directory of the caller's choice.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// Its path.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The file of the private key.
    pub fn identity_file(&self) -> PathBuf {
        self.directory.join("identity.pem")
    }

    /// The file of one kind of entries.
    pub fn file_of<T: Entry>(&self) -> PathBuf {
        self.directory.join(T::FILE)
    }

    /// The own identity; created at the first call, and the same ever after.
    ///
    /// # Errors
    /// If the file is damaged or readable by others, or cannot be created.
    pub fn identity(&self) -> Result<Seed, HomeError> {
        if let Some(seed) = self.existing_identity()? {
            return Ok(seed);
        }
        let _lock = file::lock(&self.directory)?;
        if let Some(seed) = self.existing_identity()? {
            return Ok(seed);
        }
        let seed = Seed::new(random()?);
        file::replace(&self.identity_file(), &seed.to_pem())?;
        Ok(seed)
    }

    /// The own identity, if there is one.
    ///
    /// # Errors
    /// If the file is damaged or readable by others.
    pub fn existing_identity(&self) -> Result<Option<Seed>, HomeError> {
        let path = self.identity_file();
        let Some(text) = file::read(&path)? else { return Ok(None) };
        text.parse().map(Some).map_err(|reason: manyway::SeedError| HomeError::damaged(&path, &reason))
    }

    /// All entries of a kind; none if there is no file.
    ///
    /// # Errors
    /// If the file is damaged or readable by others.
    pub fn entries<T: Entry>(&self) -> Result<Entries<T>, HomeError> {
        let path = self.file_of::<T>();
        let Some(text) = file::read(&path)? else { return Ok(Entries::new()) };
        toml::from_str(&text).map_err(|reason| HomeError::damaged(&path, &reason))
    }

    /// Changes the entries of a kind, while no other process changes anything here.
    ///
    /// # Errors
    /// That of `change`, which leaves everything as it was, or if the file can not be read or written.
    pub fn change<T: Entry, R, E: From<HomeError>>(
        &self,
        change: impl FnOnce(&mut Entries<T>) -> Result<R, E>,
    ) -> Result<R, E> {
        let _lock = file::lock(&self.directory)?;
        let mut entries = self.entries::<T>()?;
        let before = entries.clone();
        let result = change(&mut entries)?;
        if entries != before {
            let path = self.file_of::<T>();
            let body = toml::to_string(&entries).map_err(|reason| HomeError::damaged(&path, &reason))?;
            file::replace(&path, &format!("# {}\n\n{body}", T::TITLE))?;
        }
        Ok(result)
    }

    /// Identifies the state of the files of a kind, without reading them.
    pub fn stamp<T: Entry>(&self) -> Stamp {
        file::stamp(&self.file_of::<T>())
    }

    /// Stores the last addresses of the server.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn remember_hosts(&self, hosts: &[HostPort]) -> Result<(), HomeError> {
        let path = self.reached_file();
        let reached = Reached { hosts: hosts.iter().cloned().map(HostText).collect() };
        let text = toml::to_string(&reached).map_err(|reason| HomeError::damaged(&path, &reason))?;
        let _lock = file::lock(&self.directory)?;
        file::replace(&path, &format!("# where the server of this directory was reached last\n\n{text}"))
    }

    /// The last addresses of the server; empty if it never ran.
    ///
    /// # Errors
    /// If the file is damaged or readable by others.
    pub fn last_hosts(&self) -> Result<Vec<HostPort>, HomeError> {
        let path = self.reached_file();
        let Some(text) = file::read(&path)? else { return Ok(Vec::new()) };
        let reached: Reached = toml::from_str(&text).map_err(|reason| HomeError::damaged(&path, &reason))?;
        Ok(reached.hosts.into_iter().map(|host| host.0).collect())
    }

    fn reached_file(&self) -> PathBuf {
        self.directory.join("reached.toml")
    }
}

/// Unpredictable bytes.
///
/// # Errors
/// [`HomeError::NoRandomness`] if the system provides none.
pub fn random<const N: usize>() -> Result<[u8; N], HomeError> {
    let mut bytes = [0; N];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes)
        .map_err(|_| HomeError::NoRandomness)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
