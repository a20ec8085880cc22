//! Texts without what people must not or need not see: secrets, and the error numbers of the system.

/// A text in which system errors have the form of all messages: without their number, in lower case.
pub fn without_numbers(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(" (os error ") {
        let Some((_, after)) = after.split_once(')') else { break };
        let start = before.rfind(": ").map_or(0, |at| at + 2);
        let (told, said) = before.split_at(start);
        let mut characters = said.chars();
        shown.push_str(told);
        shown.extend(characters.next().into_iter().flat_map(char::to_lowercase));
        shown.push_str(characters.as_str());
        rest = after;
    }
    shown + rest
}

/// A text in which every ticket, which is a secret, is cut to its beginning.
pub fn without_secrets(text: &str) -> String {
    let is_of_word = char::is_alphanumeric;
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_of_word) {
        let (between, from) = rest.split_at(start);
        let (word, after) = from.split_at(from.find(|c| !is_of_word(c)).unwrap_or(from.len()));
        shown.push_str(between);
        shown.push_str(&hidden(word).unwrap_or_else(|| word.to_owned()));
        rest = after;
    }
    shown + rest
}

/// The visible part of a word that is long enough to be a ticket and begins like one.
fn hidden(word: &str) -> Option<String> {
    let head = word.get(..3)?;
    let version = head.get(..2)?.eq_ignore_ascii_case("mw") && head.ends_with(|c: char| c.is_ascii_digit());
    (version && word.len() >= SHORTEST_SECRET).then(|| format!("{head}…"))
}

/// Any ticket, and any large part of one, has more characters.
const SHORTEST_SECRET: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_ticket_is_shown_whole() {
        let ticket = format!("mw1{}", "aeaqcaib".repeat(9));
        let upper = ticket.to_uppercase();
        let text =
            format!("error: {ticket}: no file; {upper}:4455 “{ticket}”, mw1.example.org, mw1abc, manyway");
        assert_eq!(
            without_secrets(&text),
            "error: mw1…: no file; MW1…:4455 “mw1…”, mw1.example.org, mw1abc, manyway"
        );
        assert_eq!(without_secrets(""), "");
    }

    #[test]
    fn the_numbers_of_the_system_are_left_out_of_any_text() {
        for (text, plain) in [
            (
                "cannot bind [::]:80: Permission denied (os error 13); choose",
                "cannot bind [::]:80: permission denied; choose",
            ),
            ("No such device (os error 19)", "no such device"),
            ("a: B (os error 1), c: D (os error 2)", "a: b, c: d"),
            ("A: nothing of it (os error", "A: nothing of it (os error"),
            ("Anyone: Else", "Anyone: Else"),
        ] {
            assert_eq!(without_numbers(text), plain);
        }
    }
}
