//! TOML with positions: every value knows its line and the path of its field, so that each error can name both.

use std::fmt::{self, Display};
use std::io;
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;
use std::time::Duration;

use manyway_proto::{ByteCount, Rate};
use manyway_sim::link::Probability;
use manyway_units::text;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::LabError;

/// Reads a file that a scenario names, such as a trace.
pub type Files<'a> = &'a dyn Fn(&str) -> io::Result<String>;

/// A text; errors in a file name file, line and field, errors in a single line the field alone.
#[derive(Debug)]
pub(super) struct Source<'a> {
    pub(super) file: Option<&'a str>,
    pub(super) text: &'a str,
}

impl Source<'_> {
    /// An error at a position of the text; `field` may be empty.
    pub(super) fn error(&self, span: &Range<usize>, field: &str, what: impl Display) -> LabError {
        let Some(file) = self.file else {
            let colon = if field.is_empty() { "" } else { ": " };
            return LabError::Scenario(format!("{field}{colon}{what}"));
        };
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let field = if field.is_empty() { String::new() } else { format!(", {field}") };
        LabError::Scenario(format!("{file}, line {line}{field}: {what}"))
    }
}

/// A value with its position and the path of its field.
#[derive(Debug, Clone)]
pub(super) struct Value<'a> {
    source: &'a Source<'a>,
    pub(super) field: String,
    pub(super) span: Range<usize>,
    value: &'a DeValue<'a>,
}

impl<'a> Value<'a> {
    pub(super) fn error(&self, what: impl Display) -> LabError {
        self.source.error(&self.span, &self.field, what)
    }

    fn refuse<T>(&self, wanted: &str) -> Result<T, LabError> {
        let found = match self.value {
            DeValue::String(text) => format!("{text:?}"),
            DeValue::Integer(number) => number.as_str().to_owned(),
            DeValue::Float(number) => number.as_str().to_owned(),
            DeValue::Boolean(value) => value.to_string(),
            DeValue::Datetime(_) => "a date".to_owned(),
            DeValue::Array(_) => "a list".to_owned(),
            DeValue::Table(_) => "a section".to_owned(),
        };
        Err(self.error(format_args!("{found} is not {wanted}")))
    }

    pub(super) fn is_table(&self) -> bool {
        self.value.is_table()
    }

    /// Any text.
    pub(super) fn text(&self) -> Result<&'a str, LabError> {
        self.value.as_str().map_or_else(|| self.refuse("text; write it in quotation marks"), Ok)
    }

    /// A quantity with its unit, in quotation marks.
    fn quantity<T, E: Display>(
        &self,
        example: &str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, LabError> {
        let Some(text) = self.value.as_str() else {
            return self.refuse(&format!("written like \"{example}\""));
        };
        read(text).map_err(|error| self.error(error))
    }

    pub(super) fn rate(&self) -> Result<Rate, LabError> {
        self.quantity("20Mbit", text::parse_rate)
    }

    pub(super) fn share(&self) -> Result<Probability, LabError> {
        self.quantity("1%", text::parse_share).map(Probability::from_billionths)
    }

    /// A time within a range.
    pub(super) fn time(&self, range: RangeInclusive<Duration>) -> Result<Duration, LabError> {
        let time = self.quantity("15ms", text::parse_duration)?;
        if range.contains(&time) {
            return Ok(time);
        }
        let [least, most] = [range.start(), range.end()].map(|time| Time(*time));
        Err(self.error(format_args!("{} is out of range: from {least} to {most}", Time(time))))
    }

    /// A number of bytes, of at least `least`: text with a unit, or a bare number.
    pub(super) fn size(&self, least: u64) -> Result<ByteCount, LabError> {
        let size = if self.value.is_integer() {
            self.integer(0..=u64::MAX)?
        } else {
            self.quantity("16MiB", text::parse_size)?
        };
        if size >= least {
            return Ok(ByteCount(size));
        }
        Err(self.error(format_args!("{size} bytes are too few: at least {least}")))
    }

    /// A bare number within a range.
    pub(super) fn integer<T>(&self, range: RangeInclusive<T>) -> Result<T, LabError>
    where
        T: TryFrom<i64> + PartialOrd + Display,
    {
        let number = self.value.as_integer().and_then(|number| {
            i64::from_str_radix(number.as_str(), number.radix())
                .ok()
                .and_then(|number| T::try_from(number).ok())
        });
        match number {
            Some(number) if range.contains(&number) => Ok(number),
            _ => self.refuse(&format!("a whole number from {} to {}", range.start(), range.end())),
        }
    }

    /// Yes or no.
    pub(super) fn boolean(&self) -> Result<bool, LabError> {
        self.value.as_bool().map_or_else(|| self.refuse("true or false, without quotation marks"), Ok)
    }

    /// A value with its own parser, such as an address.
    pub(super) fn parsed<T: FromStr>(&self, wanted: &str) -> Result<T, LabError> {
        self.value.as_str().and_then(|text| text.parse().ok()).map_or_else(|| self.refuse(wanted), Ok)
    }

    /// One of several words.
    pub(super) fn word<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, LabError> {
        let found = self.value.as_str().and_then(|text| words.iter().find(|(word, _)| *word == text));
        match found {
            Some((_, meaning)) => Ok(*meaning),
            None => self.refuse(&format!("one of: {}", listed(words.iter().map(|(word, _)| *word)))),
        }
    }

    /// The values of a list.
    pub(super) fn list(&self) -> Result<Vec<Self>, LabError> {
        let Some(array) = self.value.as_array() else { return self.refuse("a list") };
        let values = array.iter().zip(1..).map(|(value, number)| Self {
            source: self.source,
            field: format!("{}[{number}]", self.field),
            span: value.span(),
            value: value.get_ref(),
        });
        Ok(values.collect())
    }

    /// A section, in which only these fields are allowed.
    pub(super) fn table(&self, allowed: &[&str]) -> Result<Table<'a>, LabError> {
        let Some(table) = self.value.as_table() else { return self.refuse("a section") };
        Table::new(self.source, (&self.field, self.span.clone()), table, allowed)
    }

    /// The subsections of this one, by name and in order, such as the links.
    pub(super) fn named(&self) -> Result<Vec<(&'a str, Self)>, LabError> {
        let Some(table) = self.value.as_table() else { return self.refuse("a section") };
        let mut entries: Vec<_> = table.iter().collect();
        // The map sorts by name; the order of the text is the intended one.
        entries.sort_by_key(|(key, _)| key.span().start);
        let values = entries.into_iter().map(|(key, value)| {
            let name: &'a str = key.get_ref();
            let field = format!("{}.{name}", self.field);
            (name, Self { source: self.source, field, span: key.span(), value: value.get_ref() })
        });
        Ok(values.collect())
    }
}

/// A section with its position.
#[derive(Debug)]
pub(super) struct Table<'a> {
    source: &'a Source<'a>,
    pub(super) field: String,
    pub(super) span: Range<usize>,
    entries: &'a DeTable<'a>,
}

impl<'a> Table<'a> {
    pub(super) fn new(
        source: &'a Source<'a>,
        (field, span): (&str, Range<usize>),
        entries: &'a DeTable<'a>,
        allowed: &[&str],
    ) -> Result<Self, LabError> {
        let mut unknown: Vec<_> =
            entries.keys().filter(|key| !allowed.contains(&key.get_ref().as_ref())).collect();
        unknown.sort_by_key(|key| key.span().start);
        if let Some(key) = unknown.first() {
            let what =
                format_args!("no such field; there are: {}", listed(allowed.iter().copied())).to_string();
            return Err(source.error(&key.span(), &joined(field, key.get_ref()), what));
        }
        Ok(Self { source, field: field.to_owned(), span, entries })
    }

    pub(super) fn error(&self, what: impl Display) -> LabError {
        self.source.error(&self.span, &self.field, what)
    }

    /// An optional field. Its position is that of its name, where a reader looks.
    pub(super) fn get(&self, name: &str) -> Option<Value<'a>> {
        let (key, value) = self.entries.get_key_value(name)?;
        let (field, span) = (joined(&self.field, name), key.span());
        Some(Value { source: self.source, field, span, value: Spanned::get_ref(value) })
    }

    /// A required field.
    pub(super) fn need(&self, name: &str) -> Result<Value<'a>, LabError> {
        self.get(name).ok_or_else(|| self.error(format_args!("the field {name} is missing")))
    }

    /// The value of an optional field.
    pub(super) fn read<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Value<'a>) -> Result<T, LabError>,
    ) -> Result<Option<T>, LabError> {
        self.get(name).as_ref().map(read).transpose()
    }

    /// Refuses two contradictory fields.
    pub(super) fn not_both(&self, one: &str, other: &str) -> Result<(), LabError> {
        match (self.get(one), self.get(other)) {
            (Some(_), Some(second)) => {
                Err(second.error(format_args!("give either {one} or {other}, not both")))
            }
            _ => Ok(()),
        }
    }
}

fn joined(section: &str, name: &str) -> String {
    if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") }
}

/// Words with commas between.
pub(super) fn listed<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.collect::<Vec<_>>().join(", ")
}

/// A time as written in a file, in its largest whole unit.
pub(super) struct Time(pub(super) Duration);

impl Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        let units = [(3_600_000_000_000, "h"), (1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
        let whole = units.into_iter().find(|(unit, _)| nanos > 0 && nanos.is_multiple_of(*unit));
        match whole {
            Some((unit, name)) => write!(f, "{}{name}", nanos / unit),
            None => write!(f, "{nanos}ns"),
        }
    }
}
