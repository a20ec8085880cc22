//! The source tree: packages, their files, and the code that only tests build.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::Modules;
use super::source::Source;
use crate::check::files::SourceFile;

/// The packages of the workspace.
pub(crate) struct Tree {
    pub(crate) packages: Vec<Package>,
}

/// A package: its directory from the root of the repository, and its Rust files by their paths from there.
pub(crate) struct Package {
    pub(crate) directory: String,
    /// The files below `src`.
    pub(crate) sources: BTreeMap<String, Source>,
    /// Lines of the files below `tests` and `benches`.
    pub(crate) lines_of_test_programs: usize,
    /// Files below `src` that only a build of the tests has.
    test_files: BTreeSet<String>,
}

impl Tree {
    /// Parses the packages among the files; the error names a file that is no Rust.
    pub(crate) fn parse(files: &[SourceFile]) -> Result<Self, String> {
        let directories = files.iter().filter_map(|file| file.path.strip_suffix("/Cargo.toml"));
        let directories = directories.filter(|directory| !directory.starts_with("fuzz"));
        let packages: Result<_, String> =
            directories.map(|directory| Package::parse(directory, files)).collect();
        Ok(Self { packages: packages? })
    }

    pub(crate) fn package(&self, directory: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.directory == directory)
    }
}

impl Package {
    fn parse(directory: &str, files: &[SourceFile]) -> Result<Self, String> {
        let below = |place: &str| {
            let place = format!("{directory}/{place}/");
            files.iter().filter(move |file| file.is_rust() && file.path.starts_with(&place))
        };
        let mut sources = BTreeMap::new();
        for file in below("src") {
            let source = Source::parse(&file.text).map_err(|error| format!("{}: {error}", file.path))?;
            sources.insert(file.path.clone(), source);
        }
        let programs = below("tests").chain(below("benches"));
        let lines_of_test_programs = programs.map(|file| file.text.lines().count()).sum();
        let mut package = Self {
            directory: directory.to_owned(),
            sources,
            lines_of_test_programs,
            test_files: BTreeSet::new(),
        };
        let test_files = package.modules().test_files();
        package.test_files = test_files;
        Ok(package)
    }

    /// The modules of all its programs.
    pub(crate) fn modules(&self) -> Modules<'_> {
        Modules::of(&self.directory, &self.sources)
    }

    /// Whether a file belongs to the tests as a whole.
    pub(crate) fn is_test_file(&self, path: &str) -> bool {
        self.test_files.contains(path)
    }

    /// The files below `src` that are in a build without tests.
    pub(crate) fn code(&self) -> impl Iterator<Item = (&str, &Source)> {
        let files = self.sources.iter().map(|(path, source)| (path.as_str(), source));
        files.filter(|(path, _)| !self.is_test_file(path))
    }
}

#[cfg(test)]
pub(crate) fn tree(files: &[(&str, &str)]) -> Tree {
    use crate::check::files::file;
    let mut all: Vec<_> = files.iter().map(|(path, text)| file(path, text)).collect();
    let directories: BTreeSet<_> = files.iter().filter_map(|(path, _)| path.split_once("/src/")).collect();
    let directories: BTreeSet<_> = directories.into_iter().map(|(directory, _)| directory).collect();
    all.extend(directories.iter().map(|directory| file(&format!("{directory}/Cargo.toml"), "")));
    Tree::parse(&all).unwrap()
}

#[cfg(test)]
mod tests {
    use super::tree;

    #[test]
    fn files_below_a_test_module_are_test_files() {
        let tree = tree(&[
            ("crates/a/src/lib.rs", "mod b; #[cfg(test)] mod tests;"),
            ("crates/a/src/b.rs", "#[cfg(test)] #[path = \"b_tests.rs\"] mod tests;"),
            ("crates/a/src/b_tests.rs", ""),
            ("crates/a/src/tests.rs", "mod deep;"),
            ("crates/a/src/tests/deep.rs", ""),
        ]);
        let code: Vec<_> = tree.package("crates/a").unwrap().code().map(|(path, _)| path).collect();
        assert_eq!(code, ["crates/a/src/b.rs", "crates/a/src/lib.rs"]);
    }

    #[test]
    fn a_file_that_is_no_rust_is_named() {
        let files = [
            crate::check::files::file("crates/a/Cargo.toml", ""),
            crate::check::files::file("crates/a/src/lib.rs", "fn"),
        ];
        let error = super::Tree::parse(&files).err().unwrap();
        assert!(error.starts_with("crates/a/src/lib.rs: "), "{error}");
    }
}
