//! The end of a download: compares the sum, and gives the file its name.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256, SHA256_OUTPUT_LEN};

use crate::error::FetchError;
use crate::part::Places;

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

/// A SHA-256 sum.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Sha256([u8; SHA256_OUTPUT_LEN]);

impl Sha256 {
    /// Reads 64 hexadecimal digits; `None` if they are not that.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = data_encoding::HEXLOWER_PERMISSIVE.decode(text.trim().as_bytes()).ok()?;
        bytes.try_into().ok().map(Self)
    }
}

impl std::fmt::Display for Sha256 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}

impl std::fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sha256({self})")
    }
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
            return Err(FetchError::Sum { found: found.to_string() });
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
    let digest = context.finish();
    let bytes = <[u8; SHA256_OUTPUT_LEN]>::try_from(digest.as_ref()).map_err(io::Error::other)?;
    Ok(Sha256(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_has_64_hexadecimal_digits() {
        let text = "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855";
        assert_eq!(Sha256::parse(text).unwrap().to_string(), text.to_lowercase());
        for wrong in ["", "e3", &text[1..], &text.replace('E', "g")] {
            assert_eq!(Sha256::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_sum_of_a_file_is_that_of_all_its_bytes() {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, b"abc").unwrap();
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sum(&mut file).unwrap().to_string(), known);
    }
}
