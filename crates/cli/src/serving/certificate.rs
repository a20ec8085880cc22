//! The certificate of `serve --cert --key`: read at the start, and again when its files change, as after a renewal.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use manyway::ServerCertificate;
use manyway_terminal::{CommandError, ExitCode};

use crate::home::Timestamp;

/// A certificate with the files that it comes from.
#[derive(Debug)]
pub struct CertificateFiles {
    chain: PathBuf,
    key: PathBuf,
    certificate: ServerCertificate,
    seen: [Option<SystemTime>; 2],
}

impl CertificateFiles {
    /// Reads a chain and its key.
    ///
    /// # Errors
    /// If a file cannot be read, they do not match, or the certificate is not valid any more.
    pub fn open(chain: &Path, key: &Path) -> Result<Self, CommandError> {
        // The times are read first: a change in between is detected later.
        let seen = [chain, key].map(changed_at);
        let certificate = read(chain, key)?;
        Ok(Self { chain: chain.to_owned(), key: key.to_owned(), certificate, seen })
    }

    /// The certificate that the server presents; follows [`refresh`](Self::refresh).
    pub fn certificate(&self) -> ServerCertificate {
        self.certificate.clone()
    }

    /// Reads the files again if they changed; returns whether they did. Unusable files change nothing: they may be in
    /// the middle of a renewal.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn refresh(&mut self) -> Result<bool, CommandError> {
        let now = [&self.chain, &self.key].map(|path| changed_at(path));
        if now == self.seen {
            return Ok(false);
        }
        self.seen = now;
        self.certificate.replace(&read(&self.chain, &self.key)?);
        Ok(true)
    }
}

fn changed_at(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|facts| facts.modified()).ok()
}

fn read(chain: &Path, key: &Path) -> Result<ServerCertificate, CommandError> {
    let failed = |text| CommandError::new(ExitCode::Failed, text);
    let file =
        |path: &Path| std::fs::read(path).map_err(|error| failed(format!("{}: {error}", path.display())));
    let certificate = ServerCertificate::from_pem(&file(chain)?, &file(key)?).map_err(|fault| {
        failed(format!("{} with the key {} can not be used: {fault}", chain.display(), key.display()))
    })?;
    match not_after(&certificate.leaf()) {
        Some(end) if end.is_past() => {
            Err(failed(format!("the certificate in {} expired at {end}; renew it", chain.display())))
        }
        Some(_) | None => Ok(certificate),
    }
}

/// The end of a certificate's validity; `None` if its form is unknown here, which clients then judge.
///
/// RFC 5280, section 4.1: `Certificate` and `TBSCertificate` are sequences; before `validity` come the version, which
/// may be absent, the serial number, the algorithm and the issuer.
fn not_after(certificate: &[u8]) -> Option<Timestamp> {
    const SEQUENCE: u8 = 0x30;
    const VERSION: u8 = 0xa0;
    let (_, certificate, _) = element(certificate).filter(|(tag, ..)| *tag == SEQUENCE)?;
    let (_, mut fields, _) = element(certificate).filter(|(tag, ..)| *tag == SEQUENCE)?;
    if let (VERSION, _, rest) = element(fields)? {
        fields = rest;
    }
    for _ in ["serialNumber", "signature", "issuer"] {
        fields = element(fields)?.2;
    }
    let (_, validity, _) = element(fields).filter(|(tag, ..)| *tag == SEQUENCE)?;
    let (_, _, rest) = element(validity)?;
    let (tag, text, _) = element(rest)?;
    time(tag, std::str::from_utf8(text).ok()?)
}

/// The tag, the content and the rest after the first element of DER.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], mut rest) = bytes.split_first_chunk::<2>()?;
    let mut length = usize::from(first);
    if first & 0x80 != 0 {
        let (digits, after) = rest.split_at_checked(usize::from(first & 0x7f))?;
        length = digits
            .iter()
            .try_fold(0_usize, |sum, digit| sum.checked_mul(256)?.checked_add(usize::from(*digit)))?;
        rest = after;
    }
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// `UTCTime` or `GeneralizedTime` of RFC 5280, section 4.1.2.5.
fn time(tag: u8, text: &str) -> Option<Timestamp> {
    const UTC_TIME: u8 = 0x17;
    const GENERALIZED_TIME: u8 = 0x18;
    let full = match tag {
        UTC_TIME if text.get(..2)?.parse::<u8>().ok()? < 50 => format!("20{text}"),
        UTC_TIME => format!("19{text}"),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let part = |range| full.get(range);
    let date = format!("{}-{}-{}", part(0..4)?, part(4..6)?, part(6..8)?);
    let clock = format!("{}:{}:{}", part(8..10)?, part(10..12)?, part(12..full.len())?);
    format!("{date}T{clock}").parse().ok()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};
    use tempfile::TempDir;

    use super::*;

    /// Writes a certificate that is valid until the first day of a year.
    fn write(place: &TempDir, until: i32) -> [PathBuf; 2] {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(["server.example".to_owned()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(until, 1, 1);
        let files = ["chain.pem", "key.pem"].map(|name| place.path().join(name));
        std::fs::write(&files[0], parameters.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(&files[1], key.serialize_pem()).unwrap();
        files
    }

    #[test]
    fn the_end_of_a_certificate_is_read_in_both_forms_of_time() {
        for year in [2001, 2049, 2051, 2100] {
            let parameters = |until| {
                let mut parameters = CertificateParams::new(["a".to_owned()]).unwrap();
                parameters.not_after = rcgen::date_time_ymd(until, 2, 3);
                parameters
            };
            let made = parameters(year).self_signed(&KeyPair::generate().unwrap()).unwrap();
            let end = not_after(made.der()).unwrap();
            assert_eq!(end.to_string(), format!("{year}-02-03T00:00:00Z"));
            // Any truncation is handled.
            assert!(
                (0..made.der().len())
                    .all(|length| { not_after(made.der().get(..length).unwrap()).is_none() })
            );
        }
    }

    #[test]
    fn unusable_files_are_named_with_the_reason() {
        let place = TempDir::new().unwrap();
        let reason = |chain: &Path, key: &Path| CertificateFiles::open(chain, key).unwrap_err().text;
        let [chain, key] = write(&place, 2001);
        assert!(reason(&chain, &key).contains("expired at 2001-01-01T00:00:00Z"), "{}", reason(&chain, &key));
        let other = TempDir::new().unwrap();
        let [_, other_key] = write(&other, 2100);
        assert!(reason(&chain, &other_key).contains("not that of the first certificate"));
        assert!(reason(&key, &key).contains("no certificate"));
        assert!(reason(Path::new("none.pem"), &key).contains("none.pem"));
    }

    #[test]
    fn a_renewed_certificate_replaces_the_old_one() {
        let place = TempDir::new().unwrap();
        let [chain, key] = write(&place, 2100);
        let mut files = CertificateFiles::open(&chain, &key).unwrap();
        let shown = files.certificate();
        let before = shown.leaf();
        assert!(!files.refresh().unwrap());
        write(&place, 2101);
        let later = SystemTime::now() + std::time::Duration::from_secs(5);
        std::fs::File::options().write(true).open(&chain).unwrap().set_modified(later).unwrap();
        assert!(files.refresh().unwrap());
        assert_ne!(shown.leaf(), before);
    }
}
