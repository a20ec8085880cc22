//! The file that the demo sends, its destination, and the hash that both must have.

use std::io;
use std::path::{Path, PathBuf};

use blake3::{Hash, Hasher};
use manyway_terminal::{CommandError, ExitCode};
use tempfile::TempDir;
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::output::cause;

/// A directory for temporary files; dropping it removes it.
#[derive(Debug)]
pub struct Workshop {
    directory: TempDir,
}

impl Workshop {
    /// Creates the directory among the system's temporary files.
    ///
    /// # Errors
    /// There is no such directory, or it is full or not writable.
    pub fn new() -> Result<Self, CommandError> {
        let directory = tempfile::Builder::new().prefix("manyway-demo-").tempdir().map_err(|error| {
            let place = std::env::temp_dir();
            failed(format!(
                "no temporary directory in {}: {error}; set TMPDIR to another place",
                place.display()
            ))
        })?;
        Ok(Self { directory })
    }

    /// Creates an empty directory in it.
    ///
    /// # Errors
    /// The disk is full.
    pub async fn directory(&self, name: &str) -> Result<PathBuf, CommandError> {
        let path = self.directory.path().join(name);
        tokio::fs::create_dir(&path)
            .await
            .map_err(|error| failed(format!("cannot make {}: {}", path.display(), cause(&error))))?;
        Ok(path)
    }
}

/// The file to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Where it is.
    pub path: PathBuf,
    /// Its size in bytes; above zero.
    pub bytes: u64,
}

impl Source {
    /// Uses a file of the user.
    ///
    /// # Errors
    /// It cannot be read, is no regular file, or is empty.
    pub async fn existing(path: &Path) -> Result<Self, CommandError> {
        let cannot = |error: io::Error| failed(format!("cannot read {}: {}", path.display(), cause(&error)));
        // Opened as well, since metadata is available even of an unreadable file.
        let file = File::open(path).await.map_err(cannot)?;
        let facts = file.metadata().await.map_err(cannot)?;
        if !facts.is_file() {
            return Err(failed(format!("{} is no file; the demo sends one file", path.display())));
        }
        if facts.len() == 0 {
            return Err(failed(format!("{} is empty; an empty file shows nothing", path.display())));
        }
        Ok(Self { path: path.to_owned(), bytes: facts.len() })
    }

    /// Creates a file of pseudo-random content, the same each time.
    ///
    /// # Errors
    /// It cannot be written.
    pub async fn made(workshop: &Workshop, bytes: u64) -> Result<Self, CommandError> {
        if bytes == 0 {
            return Err(CommandError::usage("--size: an empty file shows nothing"));
        }
        let path = workshop.directory("outgoing").await?.join("demo.bin");
        write_noise(&path, bytes).await.map_err(|error| {
            failed(format!("cannot write {}: {error}; set TMPDIR to another place", path.display()))
        })?;
        Ok(Self { path, bytes })
    }

    /// Whether the file of the same name in `directory` has the same hash.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub async fn arrived_in(&self, directory: &Path) -> Result<bool, CommandError> {
        let name = self.path.file_name().unwrap_or_default();
        Ok(hash(&self.path).await? == hash(&directory.join(name)).await?)
    }
}

/// Writes piece by piece, so that it stops when its caller is cancelled.
async fn write_noise(path: &Path, bytes: u64) -> io::Result<()> {
    let mut noise = Hasher::new().update(b"manyway demo").finalize_xof();
    let mut file = File::create(path).await?;
    let mut piece = vec![0; PIECE];
    let mut left = bytes;
    while left > 0 {
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE);
        let Some(part) = piece.get_mut(..length) else { break };
        noise.fill(part);
        file.write_all(part).await?;
        left -= u64::try_from(length).unwrap_or(left);
    }
    file.flush().await
}

async fn hash(path: &Path) -> Result<Hash, CommandError> {
    let cannot = |error: io::Error| failed(format!("cannot read {}: {}", path.display(), cause(&error)));
    let mut file = File::open(path).await.map_err(cannot)?;
    let mut hasher = Hasher::new();
    let mut piece = vec![0; PIECE];
    loop {
        let read = file.read(&mut piece).await.map_err(cannot)?;
        if read == 0 {
            return Ok(hasher.finalize());
        }
        hasher.update(piece.get(..read).unwrap_or_default());
    }
}

fn failed(text: String) -> CommandError {
    CommandError::new(ExitCode::Failed, text)
}

const PIECE: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_created_file_has_its_size_and_is_removed_with_the_workshop() {
        let workshop = Workshop::new().unwrap();
        let source = Source::made(&workshop, (1 << 20) + 7).await.unwrap();
        assert_eq!(std::fs::metadata(&source.path).unwrap().len(), (1 << 20) + 7);
        assert!(Source::made(&workshop, 0).await.is_err());
        drop(workshop);
        assert!(!source.path.exists());
    }

    #[tokio::test]
    async fn a_single_wrong_byte_is_detected() {
        let workshop = Workshop::new().unwrap();
        let source = Source::made(&workshop, 3000).await.unwrap();
        let incoming = workshop.directory("incoming").await.unwrap();
        let copy = incoming.join("demo.bin");
        let mut bytes = std::fs::read(&source.path).unwrap();
        std::fs::write(&copy, &bytes).unwrap();
        assert!(source.arrived_in(&incoming).await.unwrap());
        bytes[2999] ^= 1;
        std::fs::write(&copy, &bytes).unwrap();
        assert!(!source.arrived_in(&incoming).await.unwrap());
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_sent_is_refused_with_its_name() {
        let workshop = Workshop::new().unwrap();
        let directory = workshop.directory("d").await.unwrap();
        let error = Source::existing(&directory.join("none")).await.unwrap_err();
        assert!(error.text.contains("none"), "{error}");
        let error = Source::existing(&directory).await.unwrap_err();
        assert!(error.text.contains("is no file"), "{error}");
    }
}
