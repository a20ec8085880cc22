//! The imports between the files of a package.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Expr, ExprCall, ItemFn, ItemImpl, ItemMod, ItemUse, Macro, Path};

use super::modules::{Found, Leaf, is_private, leaves};
use super::source::is_for_tests;
use super::tree::Package;

/// For each file the others whose definitions it names, outside of tests.
pub(crate) type Graph = BTreeMap<String, BTreeSet<String>>;

/// The graph of a package.
///
/// A name counts where it is used, imported or fully qualified, and leads to the file that defines it, whatever modules
/// re-export it. Declaring a module, importing one as a whole, and re-exporting a name are no uses.
pub(crate) fn graph(package: &Package) -> Graph {
    let modules = package.modules();
    let mut graph = Graph::new();
    for (id, module) in modules.iter().filter(|(_, module)| !module.is_test) {
        let mut names = Names::default();
        module.items.iter().for_each(|item| names.visit_item(item));
        let others = graph.entry(module.file.to_owned()).or_default();
        for path in names.found {
            let Some(Found::Item { module: other, .. }) = modules.resolve(id, &path) else { continue };
            others.extend(modules.file_of(other).filter(|other| *other != module.file).map(str::to_owned));
        }
    }
    graph
}

/// The paths that the code of a module names.
#[derive(Default)]
struct Names {
    found: BTreeSet<Vec<String>>,
}

impl Names {
    fn add(&mut self, path: Vec<String>) {
        self.found.insert(path);
    }

    /// The paths in the arguments of a macro.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut colons, mut dots) = (Vec::new(), 0, 0);
        for token in tokens {
            if let TokenTree::Ident(ident) = &token {
                if colons != 2 {
                    self.add_word(std::mem::take(&mut path));
                }
                // After one dot is a field or a method; after two the end of a range begins.
                if dots != 1 {
                    path.push(ident.to_string());
                }
            }
            let mark = if let TokenTree::Punct(punct) = &token { punct.as_char() } else { ' ' };
            colons = if mark == ':' { colons + 1 } else { 0 };
            dots = if mark == '.' { dots + 1 } else { 0 };
            if let TokenTree::Group(group) = token {
                self.add_tokens(group.stream());
            }
        }
        self.add_word(path);
    }

    /// A path that may be a variable, if it is one word in small letters.
    fn add_word(&mut self, path: Vec<String>) {
        let is_variable = |word: &String| !word.starts_with(char::is_uppercase);
        if path.len() > 1 || path.first().is_some_and(|word| !is_variable(word)) {
            self.add(path);
        }
    }
}

impl<'a> Visit<'a> for Names {
    fn visit_item_mod(&mut self, _item: &'a ItemMod) {
        // It is a module of its own.
    }

    fn visit_item_fn(&mut self, item: &'a ItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'a ItemImpl) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        if is_private(item) && !is_for_tests(&item.attrs) {
            for leaf in leaves(item) {
                match leaf {
                    Leaf::Name { path, .. } | Leaf::Glob(path) => self.add(path),
                }
            }
        }
    }

    fn visit_path(&mut self, path: &'a Path) {
        self.add_word(words(path));
        visit::visit_path(self, path);
    }

    fn visit_expr_call(&mut self, call: &'a ExprCall) {
        if let Expr::Path(function) = &*call.func {
            self.add(words(&function.path));
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_macro(&mut self, call: &'a Macro) {
        self.add_tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }
}

fn words(path: &Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree::tree;
    use super::graph;

    /// What `b.rs` names in a package where `c.rs` defines `C` and `c`, and `d.rs` exports them again.
    fn named_by(text: &str) -> Vec<String> {
        let tree = tree(&[
            ("crates/a/src/lib.rs", "mod b; mod c; mod d; pub struct A;"),
            ("crates/a/src/b.rs", text),
            ("crates/a/src/c.rs", "pub enum C { One } pub fn c() {}"),
            ("crates/a/src/d.rs", "pub use crate::c::{C, c}; pub struct D;"),
        ]);
        let graph = graph(tree.package("crates/a").unwrap());
        let names = graph.get("crates/a/src/b.rs").unwrap().iter();
        names.map(|path| path.rsplit('/').next().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_name_leads_to_the_file_that_defines_it() {
        for (text, expected) in [
            ("use crate::c::C;", &["c.rs"][..]),
            ("use crate::d::C;", &["c.rs"]),
            ("use super::{A, d::{self, D}};", &["d.rs", "lib.rs"]),
            ("use crate::d; fn f() { d::c() }", &["c.rs"]),
            ("fn f(x: crate::c::C) {}", &["c.rs"]),
            ("use super::*; fn f(x: A) {}", &["lib.rs"]),
            ("use crate::c::C::*;", &["c.rs"]),
            ("fn f() { matches!(x, crate::d::C::One) }", &["c.rs"]),
            ("fn f() { assert!(a { b: crate::c::c() }) }", &["c.rs"]),
            ("use crate::d; fn f() { format!(\"{}\", x.y(0..d::C)) }", &["c.rs"]),
            ("pub use crate::c::c; fn f() { c() }", &["c.rs"]),
        ] {
            assert_eq!(named_by(text), expected, "{text}");
        }
    }

    #[test]
    fn reexports_whole_modules_and_tests_are_no_imports() {
        for text in [
            "pub use crate::c::C;",
            "pub(crate) use crate::c::c; fn f(c: u8) -> u8 { c }",
            "use crate::c;",
            "use super::*;",
            "use std::fmt;",
            "#[cfg(test)] use crate::c::C;",
            "#[cfg(test)] mod tests { use crate::c::C; }",
            "#[test] fn f() { crate::c::c() }",
            "use crate::c; fn f() { debug!(x.c) }",
        ] {
            assert_eq!(named_by(text), [""; 0], "{text}");
        }
    }
}
