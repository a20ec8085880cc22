//! Standard error, which may be full or closed: a message that cannot be written is dropped and counted.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

/// Messages dropped since the last one that was written.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Writes a line for people. A full disk or a closed reader stops no transfer.
pub fn line(text: &str) {
    write_to(&mut io::stderr().lock(), &DROPPED, format!("{text}\n").as_bytes());
}

/// A writer to standard error that never fails, for `tracing`: each call of `write` is a message.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Log;

impl Write for Log {
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        write_to(&mut io::stderr().lock(), &DROPPED, message);
        Ok(message.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a message, after a note about dropped ones before it.
fn write_to(out: &mut impl Write, dropped: &AtomicU64, message: &[u8]) {
    let missing = dropped.load(Ordering::Relaxed);
    let written = match missing {
        0 => out.write_all(message),
        _ => writeln!(out, "manyway: {missing} messages could not be written here")
            .and_then(|()| out.write_all(message)),
    };
    match written.and_then(|()| out.flush()) {
        // A message that another thread dropped meanwhile stays counted.
        Ok(()) => drop(dropped.fetch_sub(missing, Ordering::Relaxed)),
        Err(_) => drop(dropped.fetch_add(1, Ordering::Relaxed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accepts this many more bytes.
    struct Disk {
        room: usize,
        written: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let length = bytes.len().min(self.room);
            if length == 0 && !bytes.is_empty() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.room -= length;
            self.written.extend_from_slice(&bytes[..length]);
            Ok(length)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn dropped_messages_are_counted_and_reported_once_there_is_room() {
        let (mut disk, dropped) = (Disk { room: 4, written: Vec::new() }, AtomicU64::new(0));
        for text in ["one\n", "two\n", "three\n"] {
            write_to(&mut disk, &dropped, text.as_bytes());
        }
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
        disk.room = 1000;
        write_to(&mut disk, &dropped, b"four\n");
        write_to(&mut disk, &dropped, b"five\n");
        let text = String::from_utf8(disk.written).unwrap();
        assert_eq!(text, "one\nmanyway: 2 messages could not be written here\nfour\nfive\n");
    }
}
