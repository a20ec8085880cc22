//! The modules of a package, and the file that defines a name.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Expr, Item, ItemMod, ItemUse, Lit, Meta, UseTree, Visibility};

use super::source::{Source, is_for_tests};

/// Names are followed through so many re-exports; a name that leads to itself ends there.
const MOST_STEPS: u8 = 12;

/// Files by their paths.
type Sources = BTreeMap<String, Source>;

/// The modules of a package; each program of it has a root of its own.
pub(crate) struct Modules<'a> {
    modules: Vec<Module<'a>>,
}

/// A module: a file, or a part of one in braces.
pub(crate) struct Module<'a> {
    pub(crate) file: &'a str,
    pub(crate) items: &'a [Item],
    pub(crate) is_test: bool,
    root: usize,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    defined: BTreeSet<String>,
    /// Names that `use` imports here, with their origins.
    imported: BTreeMap<String, Vec<String>>,
    /// Modules of which `use …::*` imports every name.
    globs: Vec<Vec<String>>,
}

/// The target of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Found {
    Module(usize),
    /// An item, whatever follows it in the path.
    Item {
        module: usize,
        name: String,
    },
}

/// One name that a `use` imports, or all of a module.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Leaf {
    Name { name: String, path: Vec<String> },
    Glob(Vec<String>),
}

/// Where a module is searched: its file, and the directory of its children.
struct Place<'a> {
    file: &'a str,
    directory: String,
    parent: Option<usize>,
    is_test: bool,
}

impl<'a> Modules<'a> {
    /// The modules of a package in a directory, which has these files.
    pub(super) fn of(directory: &str, sources: &'a Sources) -> Self {
        let source = format!("{directory}/src");
        let programs = format!("{source}/bin/");
        let mut modules = Self { modules: Vec::new() };
        for path in sources.keys() {
            let is_program = path
                .strip_prefix(&programs)
                .is_some_and(|name| !name.contains('/') || name.ends_with("/main.rs"));
            if *path == format!("{source}/lib.rs") || *path == format!("{source}/main.rs") || is_program {
                let directory = parent_of(path).to_owned();
                modules.add_file(sources, Place { file: path, directory, parent: None, is_test: false });
            }
        }
        modules
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Module<'a>)> {
        self.modules.iter().enumerate()
    }

    pub(crate) fn file_of(&self, module: usize) -> Option<&'a str> {
        Some(self.modules.get(module)?.file)
    }

    /// Files of which every module is for tests.
    pub(super) fn test_files(&self) -> BTreeSet<String> {
        let files = |tests: bool| self.modules.iter().filter(move |module| module.is_test == tests);
        let code: BTreeSet<_> = files(false).map(|module| module.file).collect();
        let tests = files(true).map(|module| module.file).filter(|file| !code.contains(file));
        tests.map(str::to_owned).collect()
    }

    /// Resolves a path within a module; `None` if it leads out of the package.
    pub(crate) fn resolve(&self, from: usize, path: &[String]) -> Option<Found> {
        self.follow(from, path, MOST_STEPS)
    }

    fn follow(&self, from: usize, path: &[String], steps: u8) -> Option<Found> {
        let steps = steps.checked_sub(1)?;
        let (first, rest) = path.split_first()?;
        let start = match first.as_str() {
            "crate" => Found::Module(self.modules.get(from)?.root),
            name => self.step(from, name, steps)?,
        };
        rest.iter().try_fold(start, |found, name| match found {
            Found::Item { .. } => Some(found),
            Found::Module(module) => self.step(module, name, steps),
        })
    }

    fn step(&self, from: usize, name: &str, steps: u8) -> Option<Found> {
        let module = self.modules.get(from)?;
        if name == "self" {
            return Some(Found::Module(from));
        }
        if name == "super" {
            return module.parent.map(Found::Module);
        }
        if let Some(child) = module.children.get(name) {
            return Some(Found::Module(*child));
        }
        if module.defined.contains(name) {
            return Some(Found::Item { module: from, name: name.to_owned() });
        }
        if let Some(path) = module.imported.get(name) {
            return self.follow(from, path, steps);
        }
        let steps = steps.checked_sub(1)?;
        module.globs.iter().find_map(|path| match self.follow(from, path, steps)? {
            Found::Module(module) if module != from => self.step(module, name, steps),
            Found::Module(_) | Found::Item { .. } => None,
        })
    }

    fn add_file(&mut self, sources: &'a Sources, place: Place<'a>) -> Option<usize> {
        let source = sources.get(place.file)?;
        Some(self.add(sources, &source.syntax.items, place))
    }

    fn add(&mut self, sources: &'a Sources, items: &'a [Item], place: Place<'a>) -> usize {
        let own = self.modules.len();
        let root = place.parent.and_then(|parent| self.modules.get(parent)).map_or(own, |parent| parent.root);
        let (mut imported, mut globs) = (BTreeMap::new(), Vec::new());
        for item in items.iter().filter_map(|item| if let Item::Use(item) = item { Some(item) } else { None })
        {
            for leaf in leaves(item) {
                match leaf {
                    Leaf::Name { name, path } => drop(imported.insert(name, path)),
                    Leaf::Glob(path) => globs.push(path),
                }
            }
        }
        self.modules.push(Module {
            file: place.file,
            items,
            is_test: place.is_test,
            root,
            parent: place.parent,
            children: BTreeMap::new(),
            defined: items.iter().filter_map(name_of).collect(),
            imported,
            globs,
        });
        for item in items.iter().filter_map(|item| if let Item::Mod(item) = item { Some(item) } else { None })
        {
            let child = self.add_child(sources, item, &place, own);
            if let (Some(child), Some(module)) = (child, self.modules.get_mut(own)) {
                module.children.entry(item.ident.to_string()).or_insert(child);
            }
        }
        own
    }

    fn add_child(
        &mut self,
        sources: &'a Sources,
        item: &'a ItemMod,
        place: &Place<'a>,
        own: usize,
    ) -> Option<usize> {
        let directory = format!("{}/{}", place.directory, item.ident);
        let is_test = place.is_test || is_for_tests(&item.attrs);
        let parent = Some(own);
        if let Some((_, items)) = &item.content {
            return Some(self.add(sources, items, Place { file: place.file, directory, parent, is_test }));
        }
        let named = attribute_path(item).map(|path| format!("{}/{path}", parent_of(place.file)));
        let (path, directory) = match named {
            Some(path) => (path.clone(), parent_of(&path).to_owned()),
            None => {
                let files = [format!("{directory}.rs"), format!("{directory}/mod.rs")];
                (files.into_iter().find(|path| sources.contains_key(path))?, directory)
            }
        };
        let (file, _) = sources.get_key_value(&path)?;
        self.add_file(sources, Place { file, directory, parent, is_test })
    }
}

fn parent_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// The file that `#[path = "…"]` gives to a module.
fn attribute_path(item: &ItemMod) -> Option<String> {
    item.attrs.iter().find_map(|attribute| {
        let Meta::NameValue(pair) = &attribute.meta else { return None };
        let Expr::Lit(value) = &pair.value else { return None };
        let Lit::Str(text) = &value.lit else { return None };
        pair.path.is_ident("path").then(|| text.value())
    })
}

/// The name that an item defines in its module; modules and imports are kept apart from these.
fn name_of(item: &Item) -> Option<String> {
    if let Item::Macro(item) = item {
        return item.ident.as_ref().map(ToString::to_string);
    }
    let ident = if let Item::Struct(item) = item {
        &item.ident
    } else if let Item::Enum(item) = item {
        &item.ident
    } else if let Item::Trait(item) = item {
        &item.ident
    } else if let Item::Fn(item) = item {
        &item.sig.ident
    } else if let Item::Const(item) = item {
        &item.ident
    } else if let Item::Type(item) = item {
        &item.ident
    } else if let Item::Static(item) = item {
        &item.ident
    } else if let Item::Union(item) = item {
        &item.ident
    } else {
        return None;
    };
    Some(ident.to_string())
}

/// Whether a `use` is for its own module only, so that it is no re-export.
pub(crate) fn is_private(item: &ItemUse) -> bool {
    matches!(item.vis, Visibility::Inherited)
}

/// The names that a `use` imports.
pub(crate) fn leaves(item: &ItemUse) -> Vec<Leaf> {
    let mut found = Vec::new();
    collect(&item.tree, &mut Vec::new(), &mut found);
    found
}

fn collect(tree: &UseTree, before: &mut Vec<String>, found: &mut Vec<Leaf>) {
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            collect(&path.tree, before, found);
            before.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| collect(tree, before, found)),
        UseTree::Glob(_) => found.push(Leaf::Glob(before.clone())),
        UseTree::Name(name) => found.push(leaf(before, &name.ident.to_string(), None)),
        UseTree::Rename(rename) => {
            found.push(leaf(before, &rename.ident.to_string(), Some(rename.rename.to_string())));
        }
    }
}

fn leaf(before: &[String], last: &str, renamed: Option<String>) -> Leaf {
    let mut path = before.to_vec();
    if last != "self" {
        path.push(last.to_owned());
    }
    let name = renamed.or_else(|| path.last().cloned()).unwrap_or_default();
    Leaf::Name { name, path }
}

#[cfg(test)]
mod tests {
    use super::super::tree::tree;
    use super::Found;

    #[test]
    fn a_name_is_found_in_the_file_that_defines_it() {
        let tree = tree(&[
            ("crates/a/src/lib.rs", "mod b; pub use b::Deep as D; mod e { pub struct Inner; }"),
            ("crates/a/src/b/mod.rs", "mod c; pub use c::*; use crate::e; use std::fmt; use loops::loops;"),
            ("crates/a/src/b/c.rs", "pub enum Deep { One } pub mod d { pub fn f() {} }"),
        ]);
        let modules = tree.package("crates/a").unwrap().modules();
        let module = |file: &str| modules.iter().find(|(_, module)| module.file.ends_with(file)).unwrap().0;
        let resolve = |from: &str, path: &str| {
            let path: Vec<_> = path.split("::").map(str::to_owned).collect();
            match modules.resolve(module(from), &path)? {
                Found::Item { module, name } => Some((modules.file_of(module)?, name)),
                Found::Module(module) => Some((modules.file_of(module)?, String::new())),
            }
        };
        let (lib, c) = ("crates/a/src/lib.rs", "crates/a/src/b/c.rs");
        for (from, path, expected) in [
            ("lib.rs", "D::One", Some((c, "Deep"))),
            ("lib.rs", "b::Deep", Some((c, "Deep"))),
            ("c.rs", "super::super::D", Some((c, "Deep"))),
            ("c.rs", "d::f", Some((c, "f"))),
            ("c.rs", "self::d", Some((c, ""))),
            ("mod.rs", "crate::e::Inner", Some((lib, "Inner"))),
            ("mod.rs", "e::Inner", Some((lib, "Inner"))),
            ("mod.rs", "d::f", Some((c, "f"))),
            ("mod.rs", "fmt::Display", None),
            ("mod.rs", "loops", None),
            ("mod.rs", "missing", None),
        ] {
            let expected = expected.map(|(file, name)| (file, name.to_owned()));
            assert_eq!(resolve(from, path), expected, "{path} in {from}");
        }
    }
}
