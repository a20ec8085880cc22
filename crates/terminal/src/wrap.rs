//! Wraps sentences at the width of a terminal.

use crate::measure::{beginning, text_width};

/// Breaks lines of more than `width` columns at spaces. Indented lines, and commands in backticks, are meant to be
/// copied: they stay whole, as every word does.
pub fn wrap(text: &str, width: usize) -> String {
    let lines: Vec<_> = text.split('\n').map(|line| wrap_line(line, width)).collect();
    lines.join("\n")
}

/// Breaks a text between words into lines of at most `width` columns; a longer word is broken, too.
pub fn wrap_strictly(text: &str, width: usize) -> Vec<String> {
    if text_width(text) <= width && !text.contains('\n') {
        return vec![text.to_owned()];
    }
    fill(text.split_whitespace().flat_map(|word| pieces(word, width)), width)
}

fn wrap_line(line: &str, width: usize) -> String {
    if line.starts_with(' ') || text_width(line) <= width {
        return line.to_owned();
    }
    fill(words(line), width).join("\n")
}

/// As many words on each line as it has room for; a longer word has a line of its own.
fn fill<'a>(words: impl Iterator<Item = &'a str>, width: usize) -> Vec<String> {
    let (mut lines, mut line, mut used) = (Vec::new(), String::new(), 0);
    for word in words {
        let length = text_width(word);
        if used > 0 && used + 1 + length > width {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += length;
    }
    lines.push(line);
    lines
}

/// The parts of a word that fit a line each. A character that is wider than a line is one of them.
fn pieces(mut word: &str, width: usize) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let first = word.chars().next()?;
        let (piece, rest) = word.split_at(beginning(word, width).len().max(first.len_utf8()));
        word = rest;
        Some(piece)
    })
}

/// The parts between spaces, except for spaces between backticks.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let has_pairs = line.matches('`').count().is_multiple_of(2);
    let mut is_command = false;
    let words = line.split(move |character| {
        is_command ^= character == '`' && has_pairs;
        character == ' ' && !is_command
    });
    words.filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_breaks_at_spaces_and_not_within_words() {
        let ticket = "mw1".to_owned() + &"x".repeat(40);
        let text = format!("the ticket {ticket} was revoked by its owner");
        assert_eq!(wrap(&text, 20), format!("the ticket\n{ticket}\nwas revoked by its\nowner"));
        assert_eq!(wrap("exactly twenty chars\nand one", 20), "exactly twenty chars\nand one");
        assert_eq!(wrap("", 20), "");
    }

    #[test]
    fn a_strict_line_is_never_too_wide() {
        assert_eq!(wrap_strictly("2001:db8:1234::7 ok", 8), ["2001:db8", ":1234::7", "ok"]);
        assert_eq!(wrap_strictly("演奏会 第二部", 5), ["演奏", "会", "第二", "部"]);
        assert_eq!(wrap_strictly("演奏", 1), ["演", "奏"]);
        assert_eq!(wrap_strictly("two  spaces", 20), ["two  spaces"]);
        assert_eq!(wrap_strictly("", 8), [""]);
    }

    #[test]
    fn commands_stay_whole() {
        let text = "run `manyway keys remove default` there, or\n  manyway keys remove default --all";
        assert_eq!(
            wrap(text, 20),
            "run\n`manyway keys remove default`\nthere, or\n  manyway keys remove default --all"
        );
        assert_eq!(wrap("a backtick ` alone is no command", 20), "a backtick ` alone\nis no command");
    }

    #[test]
    fn colours_take_no_room() {
        let text = "\x1b[31merror:\x1b[0m nine chars";
        assert_eq!(wrap(text, 17), text);
        assert_eq!(wrap(text, 16), "\x1b[31merror:\x1b[0m nine\nchars");
    }
}
