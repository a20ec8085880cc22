//! The end of a download: compares the sum, and gives the file its name.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};

use crate::error::FetchError;
use crate::part::Places;
use crate::sum::Sha256;

/// What happens to a file that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Present {
    /// It is replaced.
    #[default]
    Replace,
    /// It stays, and nothing is fetched.
    Keep,
    /// It gets the name with `~` at its end.
    BackUp,
}

/// Compares the sum if there is one, and renames. Reads the whole file for the sum.
pub(crate) async fn finish(
    places: Places,
    file: File,
    wanted: Option<Sha256>,
    present: Present,
) -> Result<(), FetchError> {
    let path = places.file.clone();
    let finishing = tokio::task::spawn_blocking(move || settle(&places, file, wanted, present));
    finishing.await.unwrap_or_else(|error| Err(FetchError::local(path)(io::Error::other(error))))
}

fn settle(
    places: &Places,
    mut file: File,
    wanted: Option<Sha256>,
    present: Present,
) -> Result<(), FetchError> {
    if let Some(wanted) = wanted {
        let found = sum(&mut file).map_err(FetchError::local(&places.part))?;
        if found != wanted {
            places.remove();
            return Err(FetchError::Sum { found, is_removed: true });
        }
    }
    let failed = FetchError::local(&places.file);
    place(places, present).map_err(failed)?;
    places.remove_record();
    Ok(())
}

fn place(places: &Places, present: Present) -> io::Result<()> {
    let is_there = places.file.symlink_metadata().is_ok();
    match present {
        Present::BackUp if is_there => std::fs::rename(&places.file, backup_of(&places.file))?,
        Present::Keep if is_there => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it appeared meanwhile and is kept"));
        }
        Present::Replace | Present::BackUp | Present::Keep => {}
    }
    std::fs::rename(&places.part, &places.file)
}

fn backup_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push("~");
    PathBuf::from(name)
}

fn sum(file: &mut File) -> io::Result<Sha256> {
    file.seek(SeekFrom::Start(0))?;
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; 1 << 18];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        context.update(buffer.get(..read).unwrap_or_default());
    }
    context.try_into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_a_file_is_that_of_all_its_bytes() {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, b"abc").unwrap();
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sum(&mut file).unwrap().to_string(), known);
    }
}
