//! The page with the files of a directory.

use std::fmt::Write as _;

use manyway_transfer::{Entry, EntryKind, RelativePath};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

/// What a path of a URL does not hold as it is; `/` separates components.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'`')
    .add(b'{')
    .add(b'}')
    .add(b'\'')
    .add(b'&');
/// Most rows of a page.
const MOST: usize = 10_000;

/// The path of a file in a URL, which begins with a slash.
///
/// ```
/// assert_eq!(manyway_play::url_path("a b/ü.mp4"), "/a%20b/%C3%BC.mp4");
/// ```
pub fn url_path(path: &str) -> String {
    format!("/{}", utf8_percent_encode(path, ESCAPED))
}

/// The page of a directory, `None` for everything that is served: directories first, then files.
pub(crate) fn page(directory: Option<&RelativePath>, entries: &[Entry]) -> String {
    let title = directory.map_or_else(|| "Files".to_owned(), |path| escaped(path.as_str()));
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n\
         <style>body{{font:16px sans-serif;margin:2em auto;max-width:50em}}td{{padding:.2em 1em .2em 0}}\
         td+td{{text-align:right;color:#666}}</style></head>\n<body><h1>{title}</h1>\n<table>\n"
    );
    if let Some(directory) = directory {
        let parent = directory.parent().map_or_else(|| "/".to_owned(), |path| url_path(path.as_str()) + "/");
        let _ = writeln!(out, "<tr><td><a href=\"{parent}\">..</a></td><td></td></tr>");
    }
    let is_directory = |entry: &&Entry| entry.kind == EntryKind::Directory;
    let is_file = |entry: &&Entry| entry.kind == EntryKind::File;
    for entry in entries.iter().filter(is_directory).chain(entries.iter().filter(is_file)).take(MOST) {
        let (slash, size) = if is_directory(&entry) { ("/", String::new()) } else { ("", size(entry.size)) };
        let (link, name) = (url_path(entry.path.as_str()), escaped(entry.path.last()));
        let _ = writeln!(out, "<tr><td><a href=\"{link}{slash}\">{name}{slash}</a></td><td>{size}</td></tr>");
    }
    if entries.len() > MOST {
        let _ = writeln!(out, "<tr><td>and {} more</td><td></td></tr>", entries.len() - MOST);
    }
    out.push_str("</table></body></html>\n");
    out
}

/// A text in HTML.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

/// A number of bytes for people.
fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(shift, _)| bytes >> shift > 0) {
        Some((shift, unit)) => {
            let tenths = (u128::from(bytes) * 10) >> shift;
            format!("{}.{} {unit}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use manyway_transfer::Timestamp;

    use super::*;

    #[test]
    fn names_are_escaped_in_links_and_in_text() {
        let entry = |name: &str, kind, size| Entry {
            path: RelativePath::parse(name).unwrap(),
            kind,
            size,
            room: 0,
            modified: Timestamp::default(),
            mode: 0o644,
        };
        let entries = [
            entry("d/<b>'&\"#?%.mp4", EntryKind::File, 1_500_000_000),
            entry("d/ü x", EntryKind::Directory, 0),
            entry("d/pipe", EntryKind::Stream, 0),
        ];
        let page = page(Some(&RelativePath::parse("d").unwrap()), &entries);
        assert!(
            page.contains(
                "<a href=\"/d/%3Cb%3E%27%26%22%23%3F%25.mp4\">&lt;b&gt;&#39;&amp;&quot;#?%.mp4</a>"
            )
        );
        assert!(page.contains("<a href=\"/d/%C3%BC%20x/\">ü x/</a>") && page.contains("1.3 GiB"), "{page}");
        assert!(page.find("ü x/").unwrap() < page.find("1.3 GiB").unwrap(), "directories come first");
        assert!(!page.contains("pipe") && page.contains("<a href=\"/\">..</a>"));
    }
}
