//! Wraps sentences at the width of a terminal.

/// Breaks lines of more than `width` characters at spaces. Indented lines, and commands in backticks, are meant to be
/// copied: they stay whole, as every word does.
pub fn wrap(text: &str, width: usize) -> String {
    let lines: Vec<_> = text.split('\n').map(|line| wrap_line(line, width)).collect();
    lines.join("\n")
}

fn wrap_line(line: &str, width: usize) -> String {
    if line.starts_with(' ') || shown_width(line) <= width {
        return line.to_owned();
    }
    let mut wrapped = String::new();
    let mut used = 0;
    for word in words(line) {
        let length = shown_width(word);
        if used > 0 {
            let fits = used + 1 + length <= width;
            wrapped.push(if fits { ' ' } else { '\n' });
            used = if fits { used + 1 } else { 0 };
        }
        wrapped.push_str(word);
        used += length;
    }
    wrapped
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

/// The visible characters of a text: without colour codes.
fn shown_width(text: &str) -> usize {
    let mut is_code = false;
    let is_shown = |character: &char| {
        let was_code = is_code;
        is_code = *character == '\x1b' || is_code && *character != 'm';
        !was_code && !is_code
    };
    text.chars().filter(is_shown).count()
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
