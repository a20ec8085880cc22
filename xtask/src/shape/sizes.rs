//! Lines of code and of tests, and long functions.

use syn::token::Brace;
use syn::visit::{self, Visit};
use syn::{ImplItemFn, ItemFn, ItemImpl, ItemMod, Signature, TraitItemFn};

use super::source::{Source, is_for_tests};
use super::tree::{Package, Tree};

/// Most lines of a function, from its `fn` to its last brace.
pub(crate) const MOST_LINES: usize = 80;

/// Lines of a package, comments and empty ones included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lines {
    pub(crate) package: String,
    pub(crate) source: usize,
    /// Test programs, test files, and test modules and functions within other files.
    pub(crate) tests: usize,
}

/// A function of more than [`MOST_LINES`] lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LongFunction {
    pub(crate) file: String,
    pub(crate) name: String,
    pub(crate) lines: usize,
    pub(crate) is_test: bool,
}

pub(crate) fn lines(tree: &Tree) -> Vec<Lines> {
    tree.packages.iter().map(lines_of).collect()
}

fn lines_of(package: &Package) -> Lines {
    let (mut source, mut tests) = (0, package.lines_of_test_programs);
    for (path, file) in &package.sources {
        let for_tests = if package.is_test_file(path) { file.lines } else { look(file).lines_for_tests };
        source += file.lines - for_tests.min(file.lines);
        tests += for_tests;
    }
    Lines { package: package.directory.clone(), source, tests }
}

/// The long functions below the `src` directories, the longest first.
pub(crate) fn long_functions(tree: &Tree) -> Vec<LongFunction> {
    let mut found = Vec::new();
    for package in &tree.packages {
        for (path, file) in &package.sources {
            let in_tests = package.is_test_file(path);
            found.extend(look(file).long_functions.into_iter().map(|function| LongFunction {
                file: path.clone(),
                is_test: function.is_test || in_tests,
                ..function
            }));
        }
    }
    found.sort_by(|a, b| (b.lines, &a.file, &a.name).cmp(&(a.lines, &b.file, &b.name)));
    found
}

fn look(file: &Source) -> Look {
    let mut look = Look::default();
    look.visit_file(&file.syntax);
    look
}

#[derive(Default)]
struct Look {
    lines_for_tests: usize,
    long_functions: Vec<LongFunction>,
    /// Whether the visited item lies within test code.
    in_tests: bool,
}

impl Look {
    /// Visits an item; the lines of a test item count from its first attribute to its closing brace.
    fn visit_within(
        &mut self,
        attributes: &[syn::Attribute],
        brace: Option<&Brace>,
        visit: impl FnOnce(&mut Self),
    ) {
        let before = self.in_tests;
        if !before && is_for_tests(attributes) {
            self.in_tests = true;
            let first = attributes.first().map(|attribute| attribute.pound_token.span.start().line);
            let last = brace.map(|brace| brace.span.close().end().line);
            self.lines_for_tests += first.zip(last).map_or(2, |(first, last)| last + 1 - first);
        }
        visit(self);
        self.in_tests = before;
    }

    fn on_function(&mut self, signature: &Signature, brace: &Brace) {
        let lines = brace.span.close().end().line + 1 - signature.fn_token.span.start().line;
        if lines > MOST_LINES {
            let name = signature.ident.to_string();
            let function = LongFunction { file: String::new(), name, lines, is_test: self.in_tests };
            self.long_functions.push(function);
        }
    }
}

impl<'a> Visit<'a> for Look {
    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        let brace = item.content.as_ref().map(|(brace, _)| brace);
        self.visit_within(&item.attrs, brace, |look| visit::visit_item_mod(look, item));
    }

    fn visit_item_impl(&mut self, item: &'a ItemImpl) {
        self.visit_within(&item.attrs, Some(&item.brace_token), |look| visit::visit_item_impl(look, item));
    }

    fn visit_item_fn(&mut self, item: &'a ItemFn) {
        let brace = &item.block.brace_token;
        self.visit_within(&item.attrs, Some(brace), |look| {
            look.on_function(&item.sig, brace);
            visit::visit_item_fn(look, item);
        });
    }

    fn visit_impl_item_fn(&mut self, item: &'a ImplItemFn) {
        let brace = &item.block.brace_token;
        self.visit_within(&item.attrs, Some(brace), |look| {
            look.on_function(&item.sig, brace);
            visit::visit_impl_item_fn(look, item);
        });
    }

    fn visit_trait_item_fn(&mut self, item: &'a TraitItemFn) {
        if let Some(block) = &item.default {
            self.on_function(&item.sig, &block.brace_token);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::{Tree, tree};
    use super::{Lines, MOST_LINES, lines, long_functions};
    use crate::check::files::file;

    #[test]
    fn lines_of_tests_are_told_from_those_of_the_source() {
        let files = [
            file("crates/a/Cargo.toml", ""),
            file(
                "crates/a/src/lib.rs",
                "mod b;\n#[cfg(test)]\nmod tests;\n\nfn f() {}\n\
                 #[cfg(test)]\nmod more {\n    #[test]\n    fn g() {}\n}\n",
            ),
            file(
                "crates/a/src/b.rs",
                "impl A {\n    /// For tests.\n    #[cfg(test)]\n    fn g() {\n    }\n}\n",
            ),
            file("crates/a/src/tests.rs", "fn h() {\n}\n"),
            file("crates/a/tests/main.rs", "fn main() {\n\n}\n"),
        ];
        let tree = Tree::parse(&files).unwrap();
        // The declaration of a test module is two lines of tests.
        assert_eq!(lines(&tree), [Lines { package: "crates/a".to_owned(), source: 5, tests: 16 }]);
    }

    #[test]
    fn a_function_is_long_from_one_line_too_many() {
        let function = |lines: usize| format!("fn f() {{{}}}\n", "\n".repeat(lines - 1));
        let of = |text: &str| long_functions(&tree(&[("crates/a/src/lib.rs", text)]));
        assert_eq!(of(&function(MOST_LINES)), []);
        for (before, after, is_test) in [
            ("", "", false),
            ("impl A {", "}", false),
            ("trait A {", "}", false),
            ("#[test]", "", true),
            ("#[cfg(test)] mod tests {", "}", true),
        ] {
            let found = of(&format!("{before}{}{after}", function(MOST_LINES + 1)));
            let found: Vec<_> = found.iter().map(|found| (found.lines, found.is_test)).collect();
            assert_eq!(found, [(MOST_LINES + 1, is_test)], "{before}");
        }
    }
}
