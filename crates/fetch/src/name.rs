//! The local name of a file, from what the server says or from its address.

use percent_encoding::percent_decode_str;
use url::Url;

/// Longer names are cut, so that the name of the unfinished file fits, too.
const MOST_BYTES: usize = 200;
/// The name if there is none.
const FALLBACK: &str = "download";

/// The name under which the file is stored: that of `Content-Disposition`, or else the last part of the path.
///
/// It never leads out of its directory, is never hidden, and has no control characters.
pub(crate) fn local_name(disposition: Option<&[u8]>, url: &Url) -> String {
    let of_header = disposition.and_then(name_in_disposition).map(|name| safe(&name));
    of_header
        .filter(|name| !name.is_empty())
        .or_else(|| name_in_url(url))
        .unwrap_or_else(|| FALLBACK.to_owned())
}

fn name_in_url(url: &Url) -> Option<String> {
    let last = url.path_segments()?.next_back()?;
    let name = safe(&percent_decode_str(last).decode_utf8_lossy());
    (!name.is_empty()).then_some(name)
}

/// The file name of the header (RFC 6266): `filename*` before `filename`.
fn name_in_disposition(header: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(header);
    let mut plain = None;
    for (name, value) in parameters(&text) {
        if name.eq_ignore_ascii_case("filename*") {
            if let Some(decoded) = extended(&value) {
                return Some(decoded);
            }
        } else if name.eq_ignore_ascii_case("filename") && plain.is_none() {
            plain = Some(value);
        }
    }
    plain
}

/// The parameters after the type, with quotes and backslashes resolved.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut parameters = Vec::new();
    let Some((_, rest)) = text.split_once(';') else { return parameters };
    let mut characters = rest.chars().peekable();
    while characters.peek().is_some() {
        let mut name = String::new();
        while let Some(c) = characters.next_if(|c| !['=', ';'].contains(c)) {
            name.push(c);
        }
        let mut value = String::new();
        let mut is_quoted = false;
        while let Some(c) = characters.next() {
            match c {
                ';' if !is_quoted => break,
                '"' => is_quoted = !is_quoted,
                '\\' if is_quoted => value.extend(characters.next()),
                '=' if value.is_empty() && !is_quoted => {}
                c => value.push(c),
            }
        }
        parameters.push((name.trim().to_owned(), value.trim().to_owned()));
    }
    parameters
}

/// `CHARSET'LANGUAGE'PERCENT-ENCODED` (RFC 8187); `None` for another character set than UTF-8 and ISO-8859-1.
fn extended(value: &str) -> Option<String> {
    let (charset, rest) = value.split_once('\'')?;
    let (_, encoded) = rest.split_once('\'')?;
    let bytes: Vec<u8> = percent_decode_str(encoded).collect();
    match charset.to_ascii_lowercase().as_str() {
        "utf-8" => String::from_utf8(bytes).ok(),
        "iso-8859-1" => Some(bytes.into_iter().map(char::from).collect()),
        _ => None,
    }
}

/// One component that is harmless in every directory; empty if nothing is left.
fn safe(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let mut safe: String = last.chars().map(|c| if is_harmful(c) { '_' } else { c }).collect();
    // Neither `..` nor a hidden file, such as the settings of a shell; Windows drops dots and spaces at the end.
    safe = safe.trim_matches(|c: char| c == '.' || c.is_whitespace()).to_owned();
    cut(&safe)
}

fn is_harmful(character: char) -> bool {
    let turns =
        matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() || turns || cfg!(windows) && "<>:\"|?*".contains(character)
}

/// Cuts a long name in front of its extension.
fn cut(name: &str) -> String {
    if name.len() <= MOST_BYTES {
        return name.to_owned();
    }
    let extension =
        name.rfind('.').and_then(|dot| name.get(dot..)).filter(|end| end.len() <= 16).unwrap_or("");
    let mut length = MOST_BYTES - extension.len();
    while !name.is_char_boundary(length) {
        length -= 1;
    }
    name.get(..length).unwrap_or_default().to_owned() + extension
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(disposition: &str, url: &str) -> String {
        let header = Some(disposition.as_bytes()).filter(|header| !header.is_empty());
        local_name(header, &Url::parse(url).unwrap())
    }

    #[test]
    fn the_last_part_of_the_path_is_the_name_without_its_percent_signs() {
        for (url, name) in [
            ("http://h/a/film%20one.mp4?x=1#y", "film one.mp4"),
            ("http://h/%C3%BC.iso", "\u{fc}.iso"),
            ("http://h/", "download"),
            ("http://h/dir/", "download"),
            ("http://h/a/..%2f..%2fetc%2fpasswd", "passwd"),
            ("http://h/%2e%2e", "download"),
            ("http://h/a%5c..%5cboot.ini", "boot.ini"),
            ("http://h/.bashrc", "bashrc"),
            ("http://h/a%0a%1b%5b2J%E2%80%AEb", "a__[2J_b"),
            ("http://h/%ff", "\u{fffd}"),
        ] {
            assert_eq!(named("", url), name, "{url}");
        }
    }

    #[test]
    fn the_servers_name_wins_and_leads_nowhere_else() {
        for (header, name) in [
            ("attachment; filename=a.zip", "a.zip"),
            ("attachment; filename=\"a; b=\\\"c\\\".zip\"", "a; b=\"c\".zip"),
            ("attachment; filename=old.zip; filename*=UTF-8''%E2%82%AC%20x.zip", "\u{20ac} x.zip"),
            ("attachment; filename*=UTF-8''a.7z; filename=\"b.7z\"", "a.7z"),
            ("inline; FileName*=iso-8859-1'de'%FC.txt", "\u{fc}.txt"),
            ("attachment; filename*=koi8-r''%C1; filename=b", "b"),
            ("attachment; filename=\"../../.ssh/authorized_keys\"", "authorized_keys"),
            ("attachment; filename=\"C:\\\\windows\\\\system.ini\"", "system.ini"),
            ("attachment; filename=\"..\"", "of-url"),
            ("attachment; x-filename=b", "of-url"),
            ("attachment", "of-url"),
            ("attachment; filename=\"unfinished", "unfinished"),
        ] {
            assert_eq!(named(header, "http://h/of-url"), name, "{header}");
        }
    }

    proptest! {
        #[test]
        fn any_header_and_any_path_give_one_harmless_component(
            header in proptest::collection::vec(any::<u8>(), 0..80),
            text in "attachment; filename\\*?=\"?.{0,40}",
            path in "[/.%\\\\a-f0-9 ]{0,60}",
        ) {
            let url = Url::parse("http://h/").unwrap().join(&format!("/x{path}")).unwrap();
            for header in [Some(header.as_slice()), Some(text.as_bytes()), None] {
                let name = local_name(header, &url);
                prop_assert!(!name.is_empty() && name.len() <= MOST_BYTES, "{name:?}");
                prop_assert!(!name.starts_with('.') && !name.contains(['/', '\\', '\0', '\n']), "{name:?}");
            }
        }
    }

    #[test]
    fn a_long_name_keeps_its_extension() {
        let name = named("", &format!("http://h/{}.tar.gz", "%C3%BC".repeat(200)));
        assert!(name.len() <= MOST_BYTES && name.ends_with("\u{fc}.gz"), "{name}");
    }
}
