//! The lines of code of each type.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};
use syn::{ItemFn, ItemImpl, ItemMod, Type};

use super::modules::Found;
use super::source::is_for_tests;
use super::tree::{Package, Tree};

/// Lines of the `impl` blocks of a type, traits included, outside of tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImplLines {
    pub(crate) name: String,
    /// Where the type is defined; where its first block is, if it comes from another package or a macro.
    pub(crate) file: String,
    pub(crate) lines: usize,
}

/// Every type of `crates/*/src` that has `impl` blocks, the largest first.
pub(crate) fn impl_lines(tree: &Tree) -> Vec<ImplLines> {
    let packages = tree.packages.iter().filter(|package| package.directory.starts_with("crates/"));
    let mut all: Vec<_> = packages.flat_map(of_package).collect();
    all.sort_by(|a, b| (b.lines, &a.file, &a.name).cmp(&(a.lines, &b.file, &b.name)));
    all
}

fn of_package(package: &Package) -> Vec<ImplLines> {
    let modules = package.modules();
    let mut lines = BTreeMap::<(String, String), usize>::new();
    for (id, module) in modules.iter().filter(|(_, module)| !module.is_test) {
        let mut blocks = Blocks::default();
        module.items.iter().for_each(|item| blocks.visit_item(item));
        for (path, length) in blocks.found {
            let place = match modules.resolve(id, &path) {
                Some(Found::Item { module, name }) => modules.file_of(module).map(|file| (file, name)),
                Some(Found::Module(_)) | None => path.last().map(|name| (module.file, name.clone())),
            };
            if let Some((file, name)) = place {
                *lines.entry((file.to_owned(), name)).or_default() += length;
            }
        }
    }
    lines.into_iter().map(|((file, name), lines)| ImplLines { name, file, lines }).collect()
}

/// The blocks of one module: the path of the type as it is written, and how many lines the block has.
#[derive(Default)]
struct Blocks {
    found: Vec<(Vec<String>, usize)>,
}

impl<'a> Visit<'a> for Blocks {
    fn visit_item_mod(&mut self, _item: &'a ItemMod) {
        // It is a module of its own.
    }

    fn visit_item_fn(&mut self, item: &'a ItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'a ItemImpl) {
        if is_for_tests(&item.attrs) {
            return;
        }
        let (first, last) = (item.impl_token.span.start().line, item.brace_token.span.close().end().line);
        let path = path_of(&item.self_ty);
        if !path.is_empty() {
            self.found.push((path, last + 1 - first));
        }
        visit::visit_item_impl(self, item);
    }
}

/// The path of a type, without references and arguments; empty if it has none.
fn path_of(kind: &Type) -> Vec<String> {
    if let Type::Reference(reference) = kind {
        return path_of(&reference.elem);
    }
    let Type::Path(path) = kind else { return Vec::new() };
    path.path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree::tree;
    use super::impl_lines;

    #[test]
    fn all_blocks_of_a_type_count_wherever_they_stand() {
        let tree = tree(&[
            ("crates/a/src/lib.rs", "mod b;\npub struct Big<T>(T);\nimpl<T> Big<T> {\n}\n"),
            (
                "crates/a/src/b.rs",
                "use super::Big;\nimpl Drop for Big<u8> {\n    fn drop(&mut self) {}\n}\n\
                 impl std::fmt::Debug for &super::Big<u8> {\n}\nstruct Small;\nimpl Small {}\n\
                 #[cfg(test)]\nimpl Small {\n}\n#[cfg(test)]\nmod tests {\nimpl Small {\n}\n}\n",
            ),
            ("crates/c/src/lib.rs", "struct Big;\nimpl Big {}\n"),
            ("xtask/src/lib.rs", "struct Big;\nimpl Big {}\n"),
        ]);
        let found = impl_lines(&tree);
        let found: Vec<_> =
            found.iter().map(|found| (found.name.as_str(), found.file.as_str(), found.lines)).collect();
        assert_eq!(
            found,
            [
                ("Big", "crates/a/src/lib.rs", 7),
                ("Small", "crates/a/src/b.rs", 1),
                ("Big", "crates/c/src/lib.rs", 1)
            ]
        );
    }
}
