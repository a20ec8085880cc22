//! The blocks of a wire are encoded in the modules of that wire alone.

use super::Finding;
use super::files::{SourceFile, code_of};
use crate::shape::tree::Tree;

/// The wires, by the name of their modules.
const WIRES: [&str; 2] = ["mmsp1", "mmsp2"];
/// The codec itself, and peers that forge packets to test the others.
const EXEMPT: [&str; 4] = ["crates/fuzzing/", "crates/proto/src/fuzzing/", "crates/sim/", "crates/wire/"];
/// Files and directories that name blocks without encoding any, and what for.
const READERS: [Reader; 9] = [
    ("crates/cli/src/command/decode/", "prints captured packets"),
    ("crates/inspect/src/", "opens captured packets"),
    ("crates/lab/src/scenario/damage.rs", "finds the packets to damage"),
    ("crates/proto/src/config/connection.rs", "checks a setting against a limit of the wire"),
    ("crates/proto/src/connection/mod.rs", "passes on what the endpoint has read"),
    ("crates/proto/src/endpoint/incoming.rs", "reads headers of packets without a connection"),
    ("crates/proto/src/endpoint/mod.rs", "reads the header that leads to a connection"),
    ("crates/proto/src/error/violation.rs", "has the codes of errors"),
    ("crates/proto/src/observe/", "reports the blocks of packets"),
];
const THIS: &str = "xtask/src/check/wires.rs";

type Reader = (&'static str, &'static str);

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    // Another check reports a file that can not be parsed.
    Tree::parse(files).map(|tree| check_tree(&tree, files, &READERS)).unwrap_or_default()
}

fn check_tree(tree: &Tree, files: &[SourceFile], readers: &[Reader]) -> Vec<Finding> {
    let code: Vec<_> =
        tree.packages.iter().flat_map(|package| package.code()).map(|(path, _)| path).collect();
    let is_checked =
        |path: &str| path.starts_with("crates/") && !EXEMPT.iter().any(|it| path.starts_with(it));
    let mut findings = Vec::new();
    let mut found = vec![false; readers.len()];
    for file in files.iter().filter(|file| is_checked(&file.path) && code.contains(&file.path.as_str())) {
        let named = names_of_wires(file);
        let foreign: Vec<_> = named.iter().filter(|(_, wire)| !is_of(&file.path, wire)).collect();
        if foreign.is_empty() {
            continue;
        }
        if let Some(at) = readers.iter().position(|(place, _)| file.path.starts_with(place)) {
            found.iter_mut().skip(at).take(1).for_each(|found| *found = true);
            findings.extend(encoded(file));
        } else {
            findings.extend(foreign.into_iter().map(|(line, wire)| {
                let text = format!("blocks of {wire} are named outside of its modules: build packets there");
                Finding::new(&file.path, *line, text)
            }));
        }
    }
    for ((place, _), _) in readers.iter().zip(found).filter(|(_, found)| !found) {
        findings.push(Finding::new(THIS, 0, format!("{place} names no wire any more: take it off READERS")));
    }
    findings
}

/// The lines of a file outside of its tests.
fn lines(file: &SourceFile) -> impl Iterator<Item = (usize, String)> {
    file.lines().take_while(|(_, line)| *line != "mod tests {").map(|(number, line)| (number, code_of(line)))
}

/// Where a file names the codec of a wire.
fn names_of_wires(file: &SourceFile) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    // An import of several lines is one statement.
    let mut import = String::new();
    for (number, code) in lines(file) {
        if !import.is_empty() || words(&code).any(|word| word == "use") {
            import += &code;
        }
        let statement = if import.is_empty() { &code } else { &import };
        if words(statement).any(|word| word == "manyway_wire") {
            let is_named = |wire: &&str| words(&code).any(|word| word == *wire);
            found.extend(WIRES.into_iter().filter(is_named).map(|wire| (number, wire)));
        }
        if code.contains(';') {
            import.clear();
        }
    }
    found
}

/// Whether a file is in a module of the wire.
fn is_of(path: &str, wire: &str) -> bool {
    path.split('/').any(|directory| directory == wire)
}

/// Where a file writes blocks: nothing is encoded without a `Writer` or a call of `encode`.
fn encoded(file: &SourceFile) -> Vec<Finding> {
    let writes = |code: &str| {
        words(code).any(|word| word == "Writer" || word.starts_with("encode_")) || calls_encode(code)
    };
    let text = "this file reads blocks, and may not encode any";
    lines(file)
        .filter(|(_, code)| writes(code))
        .map(|(line, _)| Finding::new(&file.path, line, text))
        .collect()
}

/// Whether a line calls `encode` on anything but a constant, such as the alphabet of a text encoding.
fn calls_encode(code: &str) -> bool {
    code.contains("::encode(")
        || code.match_indices(".encode(").any(|(at, _)| {
            let before = code.get(..at).unwrap_or_default();
            let receiver = before.rsplit(|c: char| !is_of_word(c)).next().unwrap_or_default();
            receiver.is_empty() || receiver.contains(char::is_lowercase)
        })
}

/// The identifiers of a line.
fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !is_of_word(c))
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::super::files::file;
    use super::*;

    const READER: [Reader; 1] = [("crates/a/src/read.rs", "reads")];

    /// The findings about a file of this name, besides one that reads blocks.
    fn findings(path: &str, text: &str) -> Vec<String> {
        let mut files = vec![
            file("crates/a/Cargo.toml", ""),
            file("crates/a/src/lib.rs", "mod read; mod mmsp1; mod mmsp2; mod other; #[cfg(test)] mod tests;"),
            file("crates/a/src/mmsp1/mod.rs", ""),
            file("crates/a/src/mmsp2/mod.rs", "mod output;"),
        ];
        if path != READER[0].0 {
            files.push(file(READER[0].0, "use manyway_wire::mmsp2::Blocks;"));
        }
        files.push(file(path, text));
        let tree = Tree::parse(&files).unwrap();
        let found = check_tree(&tree, &files, &READER);
        found.into_iter().map(|finding| format!("{}:{}", finding.file, finding.line)).collect()
    }

    #[test]
    fn blocks_that_are_named_outside_the_modules_of_their_wire_are_found() {
        let other = "crates/a/src/other.rs";
        for (path, text, is_found) in [
            (other, "use manyway_wire::mmsp2::Syn;", true),
            (other, "use manyway_wire::{PathId, mmsp1};", true),
            (other, "fn f() { manyway_wire::mmsp1::seal(); }", true),
            (other, "use manyway_wire::PathId;", false),
            (other, "use crate::mmsp2::Start;", false),
            (other, "// as in manyway_wire::mmsp2", false),
            (other, "#[cfg(test)]\nmod tests {\n    use manyway_wire::mmsp2::Syn;\n}", false),
            ("crates/a/src/tests.rs", "use manyway_wire::mmsp2::Syn;", false),
            ("crates/a/src/mmsp2/output.rs", "use manyway_wire::mmsp2::Syn;", false),
            ("crates/a/src/mmsp2/output.rs", "use manyway_wire::mmsp1::Syn;", true),
        ] {
            let expected = if is_found { vec![format!("{path}:1")] } else { Vec::new() };
            assert_eq!(findings(path, text), expected, "{path}: {text}");
        }
        let import = "use manyway_wire::{\n    PathId,\n    mmsp2::Syn,\n};\nuse crate::mmsp2::Start;";
        assert_eq!(findings(other, import), [format!("{other}:3")]);
    }

    #[test]
    fn a_reader_that_encodes_is_found() {
        for (line, is_found) in [
            ("fn f() { Syn { info }.encode(w) }", true),
            ("fn f(b: Block) { b.encode(w) }", true),
            ("fn f(b: Block) { Block::encode(&b, w) }", true),
            ("use manyway_wire::mmsp2::encode_skip;", true),
            ("use manyway_wire::Writer;", true),
            ("fn f(b: &[u8]) { HEXLOWER.encode(b) }", false),
            ("fn f(b: Block) { decode(b) }", false),
        ] {
            let text = format!("use manyway_wire::mmsp2::Block;\n{line}");
            let expected = if is_found { vec![format!("{}:2", READER[0].0)] } else { Vec::new() };
            assert_eq!(findings(READER[0].0, &text), expected, "{line}");
        }
    }

    #[test]
    fn a_reader_that_names_no_wire_is_taken_off() {
        assert_eq!(findings(READER[0].0, "use manyway_wire::PathId;"), [format!("{THIS}:0")]);
    }
}
