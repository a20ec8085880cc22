//! All figures of a tree.

use super::circles::circles;
use super::parts::parts;
use super::sizes::{MOST_LINES, lines, long_functions};
use super::tree::Tree;
use super::types::impl_lines;
use super::walks::{DOCUMENT, NAMES, walks};
use crate::check::files::SourceFile;

/// Figures of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Section {
    /// Its key in JSON.
    pub(super) key: &'static str,
    /// Heading in the printed report.
    pub(super) title: String,
    /// In the order of display; those beyond `shown` are displayed only beside one of another tree.
    pub(super) figures: Vec<Figure>,
    pub(super) shown: usize,
}

/// A number with its name and details.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) value: usize,
    /// The counted files, if files are counted, or one remark.
    pub(super) details: Vec<String>,
}

/// Computes the figures of a tree of files; the error names a file that is no Rust.
pub(super) fn figures(files: &[SourceFile]) -> Result<Vec<Section>, String> {
    let tree = Tree::parse(files)?;
    let document = files.iter().find(|file| file.path == DOCUMENT).map_or("", |file| file.text.as_str());
    Ok(vec![
        types(&tree),
        path_parts(&tree),
        import_circles(&tree),
        walk_lengths(document),
        sizes(&tree),
        functions(&tree),
    ])
}

fn types(tree: &Tree) -> Section {
    let named = |found: super::types::ImplLines| {
        let name = format!("{} ({})", found.name, found.file);
        Figure { name, value: found.lines, details: Vec::new() }
    };
    let figures = impl_lines(tree).into_iter().map(named).collect();
    let title = "lines of impl blocks of the largest types, without tests".to_owned();
    Section { key: "types", title, figures, shown: 10 }
}

fn path_parts(tree: &Tree) -> Section {
    let parts = parts(tree);
    let mut all: Vec<_> = parts.iter().flat_map(|part| part.files.iter().cloned()).collect();
    all.sort();
    all.dedup();
    let sum = Figure { name: "any part".to_owned(), value: all.len(), details: all };
    let each = parts.into_iter().map(|part| Figure {
        name: part.name,
        value: part.files.len(),
        details: part.files.into_iter().collect(),
    });
    let figures = each.chain([sum]).collect();
    let title = "files outside of crates/proto/src/path that touch a part of a path".to_owned();
    Section { key: "path-parts", title, figures, shown: usize::MAX }
}

fn import_circles(tree: &Tree) -> Section {
    let circles = circles(tree);
    let sum = |name: &str, value| Figure { name: name.to_owned(), value, details: Vec::new() };
    let mut figures = vec![
        sum("circles", circles.len()),
        sum("files in circles", circles.iter().map(Vec::len).sum::<usize>()),
    ];
    figures.extend(circles.into_iter().map(|circle| Figure {
        name: circle.first().cloned().unwrap_or_default(),
        value: circle.len(),
        details: circle,
    }));
    let title = "files that import each other in a circle; each circle by its first file".to_owned();
    Section { key: "circles", title, figures, shown: usize::MAX }
}

fn walk_lengths(document: &str) -> Section {
    let walks = walks(document);
    let length = |name: &str| {
        let walk = walks.iter().find(|walk| walk.name == name);
        let missing = || vec![format!("{DOCUMENT} has no block below \"## Walk: {name}\"")];
        let details = walk
            .map_or_else(missing, |walk| walk.steps.iter().filter_map(|step| step.file.clone()).collect());
        Figure { name: name.to_owned(), value: walk.map_or(0, super::walks::Walk::length), details }
    };
    let title = "files of each walk through the code".to_owned();
    Section { key: "walks", title, figures: NAMES.map(length).to_vec(), shown: usize::MAX }
}

fn sizes(tree: &Tree) -> Section {
    let mut figures = Vec::new();
    let (mut source, mut tests) = (0, 0);
    let figure = |name: String, value| Figure { name, value, details: Vec::new() };
    for lines in lines(tree) {
        source += lines.source;
        tests += lines.tests;
        figures.push(figure(format!("{} source", lines.package), lines.source));
        figures.push(figure(format!("{} tests", lines.package), lines.tests));
    }
    figures.push(figure("all source".to_owned(), source));
    figures.push(figure("all tests".to_owned(), tests));
    let title = "lines by package, comments and empty ones included".to_owned();
    Section { key: "lines", title, figures, shown: usize::MAX }
}

fn functions(tree: &Tree) -> Section {
    let (tests, source): (Vec<_>, Vec<_>) =
        long_functions(tree).into_iter().partition(|function| function.is_test);
    let sum = |name: &str, value| Figure { name: name.to_owned(), value, details: Vec::new() };
    let mut figures = vec![sum("in source", source.len()), sum("in tests", tests.len())];
    figures.extend(source.into_iter().chain(tests).map(|function| Figure {
        name: format!("{} ({})", function.name, function.file),
        value: function.lines,
        details: Vec::new(),
    }));
    let title = format!("functions of more than {MOST_LINES} lines");
    Section { key: "long-functions", title, figures, shown: usize::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::files::file;

    #[test]
    fn every_kind_of_figure_is_told() {
        let files = [
            file("crates/proto/Cargo.toml", ""),
            file("crates/proto/src/lib.rs", "mod path;\nimpl path::Path {}\nfn f() { path.space.clear() }"),
            file("crates/proto/src/path/mod.rs", "pub struct Path { pub space: u8 }"),
            file(DOCUMENT, "## Walk: from a byte to a socket\n```\nproto/src/lib.rs\n```\n"),
        ];
        let sections = figures(&files).unwrap();
        let value = |key: &str, name: &str| {
            let section = sections.iter().find(|section| section.key == key).unwrap();
            section.figures.iter().find(|figure| figure.name == name).unwrap().value
        };
        assert_eq!(value("types", "Path (crates/proto/src/path/mod.rs)"), 1);
        assert_eq!((value("path-parts", "space"), value("path-parts", "any part")), (1, 1));
        assert_eq!(value("circles", "circles"), 0);
        assert_eq!(
            (
                value("walks", "from a byte to a socket"),
                value("walks", "from the death of a path to its repair")
            ),
            (1, 0)
        );
        assert_eq!((value("lines", "crates/proto source"), value("lines", "all tests")), (4, 0));
        assert_eq!(value("long-functions", "in source"), 0);
    }
}
