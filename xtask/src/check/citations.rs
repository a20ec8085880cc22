//! Rules of the specification: each number is given once, each one that is cited exists, and each rule says whether it
//! binds the wire or is policy.
//!
//! A rule begins a line: `**5.80 W NAME**` or `**4.9 P** text`, in `transfer.md` and `egress.md` `3.2 text`. Code cites it
//! as `spec 5.80`, `transfer 3.2` or `egress 3.2`; further numbers may follow (`spec 4.12, 4.14`). A whole chapter is
//! cited by its number alone (`spec 6`), which a heading `## 6. …` defines. Within the specification, `rule 4.9` is a
//! citation too. Numbers of other documents, which a reader does not have, are not cited.

use std::collections::BTreeMap;

use super::Finding;
use super::files::SourceFile;

/// The files of the specification have their numbers from one of three ranges of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Book {
    Spec,
    Transfer,
    Egress,
}

impl Book {
    fn of(file: &SourceFile) -> Self {
        match file.path.rsplit('/').next() {
            Some("transfer.md") => Self::Transfer,
            Some("egress.md") => Self::Egress,
            _ => Self::Spec,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Spec => "spec",
            Self::Transfer => "transfer",
            Self::Egress => "egress",
        }
    }
}

/// Words before numbers of other documents.
const FOREIGN: [&str; 2] = ["engineering", "design"];

type Rules = BTreeMap<(Book, String), (String, usize)>;

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut rules = Rules::new();
    for file in files.iter().filter(|file| file.is_specification()) {
        collect(file, &mut rules, &mut findings);
    }
    for file in files.iter().filter(|file| file.is_rust() && file.path.starts_with("crates/")) {
        for (line, text) in file.lines() {
            for book in [Book::Spec, Book::Transfer, Book::Egress] {
                let cited = cited(text, book.word());
                findings.extend(unknown(&rules, book, cited, &file.path, line));
            }
            for number in FOREIGN.iter().flat_map(|word| cited(text, word)) {
                let text = format!("{number} is a number of a document that is not in this repository");
                findings.push(Finding::new(&file.path, line, text));
            }
        }
    }
    for file in files.iter().filter(|file| file.is_specification()) {
        for (line, text) in file.lines() {
            let cited = cited(text, "rule").chain(cited(text, "rules"));
            findings.extend(unknown(&rules, Book::of(file), cited, &file.path, line));
        }
    }
    findings
}

fn collect(file: &SourceFile, rules: &mut Rules, findings: &mut Vec<Finding>) {
    let book = Book::of(file);
    for (line, text) in file.lines() {
        let Some(number) = defined(text, book) else { continue };
        let is_chapter = !number.contains('.');
        if book == Book::Spec && !is_chapter && !is_marked(text, number) {
            let text = format!("rule {number} has no mark: W if a peer may rely on it, P for policy");
            findings.push(Finding::new(&file.path, line, text));
        }
        let before = rules.insert((book, number.to_owned()), (file.path.clone(), line));
        if let Some((other, other_line)) = before.filter(|_| !is_chapter) {
            let text = format!("rule {number} is defined in {other}:{other_line} already");
            findings.push(Finding::new(&file.path, line, text));
        }
    }
}

/// Whether a mark follows the number of a rule.
fn is_marked(line: &str, number: &str) -> bool {
    let rest = line.strip_prefix("**").and_then(|line| line.strip_prefix(number)).unwrap_or_default();
    [" W", " P"].iter().filter_map(|mark| rest.strip_prefix(mark)).any(|rest| rest.starts_with([' ', '*']))
}

fn unknown<'a>(
    rules: &Rules,
    book: Book,
    cited: impl Iterator<Item = &'a str>,
    path: &str,
    line: usize,
) -> Vec<Finding> {
    cited
        .filter(|number| !rules.contains_key(&(book, (*number).to_owned())))
        .map(|number| Finding::new(path, line, format!("there is no rule {} {number}", book.word())))
        .collect()
}

/// The number that a line of the specification gives to a rule or a chapter.
fn defined(line: &str, book: Book) -> Option<&str> {
    if let Some(heading) = line.strip_prefix("## ") {
        return number_at(heading).filter(|number| !number.contains('.'));
    }
    let rule = match book {
        Book::Spec => line.strip_prefix("**")?,
        Book::Transfer | Book::Egress => line,
    };
    number_at(rule).filter(|number| number.contains('.'))
}

/// The numbers that a line cites after `word`.
fn cited<'a>(line: &'a str, word: &'a str) -> impl Iterator<Item = &'a str> {
    line.match_indices(word).flat_map(move |(at, _)| {
        let before = line.get(..at).unwrap_or_default().chars().next_back();
        let alone = before.is_none_or(|character| !character.is_alphanumeric() && character != '_');
        let rest = line.get(at + word.len()..).and_then(|rest| rest.strip_prefix(' ')).filter(|_| alone);
        numbers(rest.unwrap_or_default())
    })
}

/// Numbers in a row, with commas or a word between.
fn numbers(mut text: &str) -> Vec<&str> {
    let mut numbers = Vec::new();
    while let Some(number) = number_at(text) {
        // Only the first may name a chapter: in "spec 6, 2 of them" the other is no citation.
        if !numbers.is_empty() && !number.contains('.') {
            break;
        }
        numbers.push(number);
        let rest = text.get(number.len()..).unwrap_or_default();
        let next = [", ", " and ", " to "].iter().find_map(|between| rest.strip_prefix(between));
        text = next.unwrap_or_default();
    }
    numbers
}

/// The rule or chapter number at the beginning of a text: digits, and optionally a point and lower hexadecimal digits.
fn number_at(text: &str) -> Option<&str> {
    let end = |from: usize, is_part: fn(char) -> bool| {
        let rest = text.get(from..).unwrap_or_default();
        from + rest.find(|character| !is_part(character)).unwrap_or(rest.len())
    };
    let chapter = end(0, |character| character.is_ascii_digit());
    if chapter == 0 {
        return None;
    }
    let is_hexadecimal = |character: char| matches!(character, '0'..='9' | 'a'..='f');
    let rule = match text.get(chapter..)?.strip_prefix('.') {
        Some(_) => end(chapter + 1, is_hexadecimal),
        None => chapter,
    };
    let length = if rule > chapter + 1 { rule } else { chapter };
    let follows = text.get(length..)?.chars().next();
    let ends = follows.is_none_or(|character| !character.is_alphanumeric() && character != '_');
    text.get(..length).filter(|_| ends)
}

#[cfg(test)]
mod tests {
    use super::super::files::file;
    use super::{check, cited};

    const SPEC: &str = "## 5. Blocks\n**5.80 W ACK**, flag\n**5.9b P** closes, see rule 5.80.\n";

    #[test]
    fn numbers_are_read_as_people_write_them() {
        for (line, numbers) in [
            ("// spec 5.80: newest first", vec!["5.80"]),
            ("(spec 5.9b).", vec!["5.9b"]),
            ("spec 4.12, 4.14 and 4.2", vec!["4.12", "4.14", "4.2"]),
            ("(spec 6)", vec!["6"]),
            ("spec 6, 2 of them", vec!["6"]),
            ("spec 4.14, RFC 8305", vec!["4.14"]),
            ("inspec 4.1 respec 4.1 spec x", vec![]),
        ] {
            assert_eq!(cited(line, "spec").collect::<Vec<_>>(), numbers, "{line}");
        }
    }

    #[test]
    fn citing_a_missing_rule_is_found() {
        let spec = file("docs/specification/blocks.md", SPEC);
        let transfer = file("docs/specification/transfer.md", "1.1 One.\n");
        let code = |text| [spec.clone(), transfer.clone(), file("crates/a.rs", text)];
        assert_eq!(check(&code("// spec 5.80, 5.9b; spec 5; transfer 1.1")), []);
        for wrong in [
            "// spec 5.81",
            "// spec 7",
            "// transfer 5.80",
            "// spec 1.1",
            "// spec 5.80, 5.82",
            "// engineering 2.1",
        ] {
            assert_eq!(check(&code(wrong)).len(), 1, "{wrong}");
        }
    }

    #[test]
    fn a_number_is_given_once() {
        let one = file("docs/specification/one.md", SPEC);
        let two = file("docs/specification/two.md", "## 5. More\n**5.80 W** again\n");
        let findings = check(&[one, two]);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].text.contains("one.md:2"), "{}", findings[0]);
    }

    #[test]
    fn a_rule_without_a_mark_is_found() {
        for (rule, findings) in
            [("**5.80 W** a", 0), ("**5.80 P NAME** a", 0), ("**5.80** a", 1), ("**5.80 PING** a", 1)]
        {
            let spec = file("docs/specification/blocks.md", rule);
            assert_eq!(check(&[spec]).len(), findings, "{rule}");
        }
        assert_eq!(check(&[file("docs/specification/transfer.md", "1.1 One.\n")]), []);
    }

    #[test]
    fn the_specification_cites_itself_correctly() {
        let spec = file("docs/specification/blocks.md", "**5.80 P** see rule 5.81\n");
        assert_eq!(check(&[spec]).len(), 1);
    }
}
