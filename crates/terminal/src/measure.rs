//! The columns that a text takes on a terminal: none for colour codes, two for characters such as those of Chinese.

use unicode_width::UnicodeWidthChar as _;

/// Columns of a text on a terminal.
pub fn text_width(text: &str) -> usize {
    let mut is_code = false;
    let is_shown = |character: &char| {
        let was_code = is_code;
        is_code = *character == '\x1b' || is_code && *character != 'm';
        !was_code && !is_code
    };
    text.chars().filter(is_shown).map(of_char).sum()
}

/// A text without colour codes of at most that many columns, without its end if it is longer.
pub fn clip(text: &str, width: usize) -> String {
    if text_width(text) <= width {
        return text.to_owned();
    }
    format!("{}…", beginning(text, width.saturating_sub(1)))
}

/// A text without colour codes of at most that many columns, without its middle if it is longer.
pub fn shortened(text: String, width: usize) -> String {
    if text_width(&text) <= width {
        return text;
    }
    let kept = width.saturating_sub(1);
    let head = beginning(&text, kept / 2);
    let tail = end(&text, kept.saturating_sub(text_width(head)));
    format!("{head}…{tail}")
}

/// The longest beginning of at most that many columns.
pub(crate) fn beginning(text: &str, width: usize) -> &str {
    let mut used = 0;
    let too_far = |(_, character): &(usize, char)| {
        used += of_char(*character);
        used > width
    };
    let at = text.char_indices().find(too_far).map_or(text.len(), |(at, _)| at);
    text.get(..at).unwrap_or_default()
}

/// The longest end of at most that many columns.
fn end(text: &str, width: usize) -> &str {
    let mut used = 0;
    let too_far = |(_, character): &(usize, char)| {
        used += of_char(*character);
        used > width
    };
    let from = text.char_indices().rev().find(too_far).map_or(0, |(at, character)| at + character.len_utf8());
    text.get(from..).unwrap_or_default()
}

fn of_char(character: char) -> usize {
    // Control characters have none.
    character.width().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clipped_line_never_wraps() {
        assert_eq!(clip("0123456789", 10), "0123456789");
        assert_eq!(clip("Grüße aus 0", 8), "Grüße a…");
        assert_eq!(clip("音楽を聴く", 8), "音楽を…");
    }

    #[test]
    fn a_long_text_loses_its_middle() {
        assert_eq!(shortened("film.mp4".to_owned(), 8), "film.mp4");
        assert_eq!(shortened("concert.mp4".to_owned(), 8), "con….mp4");
        for width in 1..20 {
            assert!(text_width(&shortened("演奏会の第二部.mp4".to_owned(), width)) <= width, "{width}");
        }
    }

    #[test]
    fn colours_take_no_column_and_wide_characters_two() {
        assert_eq!(text_width("\x1b[31merror:\x1b[0m nine chars"), 17);
        assert_eq!(
            (text_width("音楽"), text_width("é"), text_width("e\u{301}"), text_width("\t")),
            (4, 1, 1, 0)
        );
    }
}
