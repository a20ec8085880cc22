//! Writes JSON incrementally, without a tree in memory.

use std::fmt::Write as _;
use std::time::Duration;

/// An object that is being written.
pub(super) struct Object<'o> {
    out: &'o mut String,
    is_empty: bool,
}

impl Object<'_> {
    /// Appends an object to `out`.
    pub(super) fn write(out: &mut String, content: impl FnOnce(&mut Object<'_>)) {
        out.push('{');
        content(&mut Object { out, is_empty: true });
        out.push('}');
    }

    pub(super) fn number(&mut self, key: &str, value: impl Into<u64>) {
        self.key(key);
        let _ = write!(self.out, "{}", value.into());
    }

    pub(super) fn flag(&mut self, key: &str, value: bool) {
        self.key(key);
        let _ = write!(self.out, "{value}");
    }

    /// Milliseconds, the unit of qlog, to the µs.
    pub(super) fn millis(&mut self, key: &str, value: Duration) {
        self.key(key);
        let micros = value.as_micros();
        let _ = write!(self.out, "{}.{:03}", micros / 1000, micros % 1000);
    }

    pub(super) fn text(&mut self, key: &str, value: impl AsRef<str>) {
        self.key(key);
        write_text(self.out, value.as_ref());
    }

    pub(super) fn object(&mut self, key: &str, content: impl FnOnce(&mut Object<'_>)) {
        self.key(key);
        Object::write(self.out, content);
    }

    pub(super) fn array(&mut self, key: &str, content: impl FnOnce(&mut Array<'_>)) {
        self.key(key);
        self.out.push('[');
        content(&mut Array { out: self.out, is_empty: true });
        self.out.push(']');
    }

    fn key(&mut self, key: &str) {
        if !std::mem::take(&mut self.is_empty) {
            self.out.push(',');
        }
        write_text(self.out, key);
        self.out.push(':');
    }
}

/// An array that is being written.
pub(super) struct Array<'o> {
    out: &'o mut String,
    is_empty: bool,
}

impl Array<'_> {
    pub(super) fn object(&mut self, content: impl FnOnce(&mut Object<'_>)) {
        self.comma();
        Object::write(self.out, content);
    }

    pub(super) fn text(&mut self, value: &str) {
        self.comma();
        write_text(self.out, value);
    }

    /// A range of numbers, as an array of its first and last.
    pub(super) fn range(&mut self, first: u64, last: u64) {
        self.comma();
        let _ = write!(self.out, "[{first},{last}]");
    }

    fn comma(&mut self) {
        if !std::mem::take(&mut self.is_empty) {
            self.out.push(',');
        }
    }
}

fn write_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_members_are_separated() {
        let mut out = String::new();
        Object::write(&mut out, |o| {
            o.text("a\"b", "line\nend \\ \u{85} ü");
            o.millis("t", Duration::from_micros(1_234_056));
            o.array("list", |a| {
                a.range(1, 2);
                a.object(|o| o.flag("x", true));
                a.text("y");
            });
            o.object("empty", |_| {});
            o.number("n", u64::MAX);
        });
        let expected = r#"{"a\"b":"line\u000aend \\ \u0085 ü","t":1234.056,"list":[[1,2],{"x":true},"y"],"empty":{},"n":18446744073709551615}"#;
        assert_eq!(out, expected);
    }
}
