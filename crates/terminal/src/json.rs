//! Documents for programs: one JSON value a line on stdout.

use std::io::{self, Write};

use serde::Serialize;

/// Writes one value and flushes the line, so that a reader sees it at once.
///
/// # Errors
/// Standard output is closed or full.
pub fn print<T: Serialize>(value: &T) -> io::Result<()> {
    write(&mut io::stdout().lock(), value)
}

fn write<T: Serialize>(out: &mut impl Write, value: &T) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_value_is_one_line() {
        let mut out = Vec::new();
        super::write(&mut out, &serde_json::json!({"text": "two\nlines"})).unwrap();
        assert_eq!(out, b"{\"text\":\"two\\nlines\"}\n");
    }
}
