//! The files that access the parts of a path.
//!
//! A part is a field of `Path` that other modules see, or a method of it by which they change its state. Types are not
//! known here, so a part is recognised by names: `path.part`, or another name that is bound to a path in the same file;
//! and whatever stands before the dot, if nothing else in the package is called like the part.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{
    Expr, ExprField, ExprForLoop, ExprLet, ExprMethodCall, FnArg, ImplItem, ImplItemFn, ItemFn, ItemImpl,
    ItemMod, ItemStruct, Local, Macro, Member, Pat, PatIdent, PatType, ReceiverKind, Type, Visibility,
};

use super::source::is_for_tests;
use super::tree::{Package, Tree};

const PACKAGE: &str = "crates/proto";
/// The file that defines `Path`; its own accesses are not counted.
const HOME: &str = "crates/proto/src/path/";
const TYPE: &str = "Path";
/// The collection of paths, and its names elsewhere.
const COLLECTION: &str = "paths";
/// Its methods, and those of its iterators, that give paths.
const GIVES_PATHS: [&str; 6] = ["get", "get_mut", "iter", "iter_mut", "filter", "find"];
/// The ID of a path; reading it is no access to a part.
const NO_PART: &str = "id";

/// A part of a path, and the files that access it outside of its own file and of tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) files: BTreeSet<String>,
}

/// The parts in the order of their definition; none if there is no `Path`.
pub(crate) fn parts(tree: &Tree) -> Vec<Part> {
    let Some(package) = tree.package(PACKAGE) else { return Vec::new() };
    let names = parts_of_a_path(package);
    let unique = unique_names(package, &names);
    let mut parts: Vec<_> = names.into_iter().map(|name| Part { name, files: BTreeSet::new() }).collect();
    for (file, source) in package.code().filter(|(file, _)| !file.starts_with(HOME)) {
        let mut bound = Bound::default();
        bound.visit_file(&source.syntax);
        let mut touched = Touched { paths: bound.names, unique: &unique, names: BTreeSet::new() };
        touched.visit_file(&source.syntax);
        for part in parts.iter_mut().filter(|part| touched.names.contains(&part.name)) {
            part.files.insert(file.to_owned());
        }
    }
    parts
}

/// The fields of `Path` that are not private, then its methods of that kind that take `&mut self`.
fn parts_of_a_path(package: &Package) -> Vec<String> {
    let mut defined = Defined::default();
    let home = package.code().filter(|(file, _)| file.starts_with(HOME));
    home.for_each(|(_, source)| defined.visit_file(&source.syntax));
    let of_a_path = defined.found.into_iter().filter(|found| found.owner == TYPE && found.is_seen);
    let (fields, methods): (Vec<_>, Vec<_>) = of_a_path.partition(|found| found.kind == Kind::Field);
    let methods = methods.into_iter().filter(|found| found.kind == Kind::Change);
    let names = fields.into_iter().chain(methods).map(|found| found.name);
    names.filter(|name| name != NO_PART).collect()
}

/// Those of the names that only a path has.
fn unique_names(package: &Package, names: &[String]) -> BTreeSet<String> {
    let mut defined = Defined::default();
    package.code().for_each(|(_, source)| defined.visit_file(&source.syntax));
    let mut owners = BTreeMap::<&str, usize>::new();
    for found in &defined.found {
        *owners.entry(&found.name).or_default() += 1;
    }
    names.iter().filter(|name| owners.get(name.as_str()) == Some(&1)).cloned().collect()
}

/// A field or method, and the name of its type.
#[derive(Debug, PartialEq, Eq)]
struct Definition {
    owner: String,
    name: String,
    kind: Kind,
    /// Whether other modules see it.
    is_seen: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Field,
    /// A method that changes its value.
    Change,
    /// Any other method.
    Query,
}

#[derive(Default)]
struct Defined {
    found: Vec<Definition>,
}

impl<'a> Visit<'a> for Defined {
    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &'a ItemStruct) {
        for field in &item.fields {
            let Some(name) = &field.ident else { continue };
            self.found.push(Definition {
                owner: item.ident.to_string(),
                name: name.to_string(),
                kind: Kind::Field,
                is_seen: !matches!(field.vis, Visibility::Inherited),
            });
        }
    }

    fn visit_item_impl(&mut self, item: &'a ItemImpl) {
        let Type::Path(owner) = &*item.self_ty else { return };
        let owner = owner.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
        for method in item.items.iter().filter_map(as_function) {
            self.found.push(Definition {
                owner: owner.clone(),
                name: method.sig.ident.to_string(),
                kind: if changes_self(method) { Kind::Change } else { Kind::Query },
                is_seen: !matches!(method.vis, Visibility::Inherited),
            });
        }
    }
}

fn as_function(item: &ImplItem) -> Option<&ImplItemFn> {
    if let ImplItem::Fn(method) = item { Some(method) } else { None }
}

/// Whether a method takes `&mut self`.
fn changes_self(method: &ImplItemFn) -> bool {
    let Some(FnArg::Receiver(receiver)) = method.sig.inputs.first() else { return false };
    matches!(receiver.kind, ReceiverKind::Reference(_, _, Some(_)))
}

/// The names that a file binds to a path: by their type, or by the value from which they are taken.
#[derive(Default)]
struct Bound {
    names: BTreeSet<String>,
}

impl Bound {
    /// Binds the names of a pattern if the value is a path of the collection.
    fn bind(&mut self, pattern: &Pat, value: &Expr) {
        if comes_from_collection(value) {
            let mut names = NamesOf(&mut self.names);
            names.visit_pat(pattern);
        }
    }
}

impl<'a> Visit<'a> for Bound {
    fn visit_pat_type(&mut self, pattern: &'a PatType) {
        if let (Pat::Ident(name), Type::Reference(kind)) = (&*pattern.pat, &*pattern.ty)
            && let Type::Path(kind) = &*kind.elem
            && kind.path.segments.last().is_some_and(|last| last.ident == TYPE)
        {
            self.names.insert(name.ident.to_string());
        }
        visit::visit_pat_type(self, pattern);
    }

    fn visit_local(&mut self, local: &'a Local) {
        if let Some(init) = &local.init {
            self.bind(&local.pat, &init.expr);
        }
        visit::visit_local(self, local);
    }

    fn visit_expr_let(&mut self, condition: &'a ExprLet) {
        self.bind(&condition.pat, &condition.expr);
        visit::visit_expr_let(self, condition);
    }

    fn visit_expr_for_loop(&mut self, each: &'a ExprForLoop) {
        self.bind(&each.pat, &each.expr);
        visit::visit_expr_for_loop(self, each);
    }
}

struct NamesOf<'n>(&'n mut BTreeSet<String>);

impl<'a> Visit<'a> for NamesOf<'_> {
    fn visit_pat_ident(&mut self, name: &'a PatIdent) {
        self.0.insert(name.ident.to_string());
    }
}

/// Whether an expression is one path of the collection, or all of them in turn.
fn comes_from_collection(value: &Expr) -> bool {
    if let Expr::Try(inner) = value {
        return comes_from_collection(&inner.expr);
    }
    if let Expr::Reference(inner) = value {
        return comes_from_collection(&inner.expr);
    }
    let Expr::MethodCall(call) = value else { return false };
    let is_collection = last_word(&call.receiver).is_some_and(|word| word == COLLECTION);
    GIVES_PATHS.iter().any(|name| call.method == name)
        && (is_collection || comes_from_collection(&call.receiver))
}

/// The last name of an expression: of a variable or of a field.
fn last_word(value: &Expr) -> Option<String> {
    if let Expr::Field(ExprField { member: Member::Named(name), .. }) = value {
        return Some(name.to_string());
    }
    let Expr::Path(path) = value else { return None };
    path.path.get_ident().map(ToString::to_string)
}

/// The parts that the code of a file accesses.
struct Touched<'p> {
    /// Names that are bound to paths.
    paths: BTreeSet<String>,
    /// Parts that nothing else has.
    unique: &'p BTreeSet<String>,
    names: BTreeSet<String>,
}

impl Touched<'_> {
    fn is_path(&self, word: &str) -> bool {
        word == "path" || word.ends_with("_path") || self.paths.contains(word)
    }

    fn on_member(&mut self, owner: &Expr, name: &str) {
        let is_path =
            comes_from_collection(owner) || last_word(owner).is_some_and(|word| self.is_path(&word));
        if is_path || self.unique.contains(name) {
            self.names.insert(name.to_owned());
        }
    }

    /// Finds `owner.name` in the arguments of a macro.
    fn on_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        for three in tokens.windows(3) {
            if let [TokenTree::Ident(owner), TokenTree::Punct(dot), TokenTree::Ident(name)] = three
                && dot.as_char() == '.'
                && self.is_path(&owner.to_string())
            {
                self.names.insert(name.to_string());
            }
        }
        for token in tokens {
            if let TokenTree::Group(group) = token {
                self.on_tokens(group.stream());
            }
        }
    }
}

impl<'a> Visit<'a> for Touched<'_> {
    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'a ItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_expr_field(&mut self, field: &'a ExprField) {
        if let Member::Named(name) = &field.member {
            self.on_member(&field.base, &name.to_string());
        }
        visit::visit_expr_field(self, field);
    }

    fn visit_expr_method_call(&mut self, call: &'a ExprMethodCall) {
        self.on_member(&call.receiver, &call.method.to_string());
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, call: &'a Macro) {
        self.on_tokens(call.tokens.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::tree;
    use super::parts;

    const PATH: &str = "pub(crate) struct Path { pub(crate) id: u8, pub(crate) space: Space, role: u8 }\n\
        impl Path { pub(crate) fn advance(&mut self) {} pub(crate) fn reset(&mut self) {} fn own(&mut self) {} \
        pub(crate) fn role(&self) -> u8 { self.role } }";

    /// The parts that a file accesses.
    fn touched_by(text: &str) -> Vec<String> {
        let tree = tree(&[
            (
                "crates/proto/src/lib.rs",
                "mod engine; mod path; struct Other; impl Other { fn reset(&self) {} }",
            ),
            ("crates/proto/src/path/mod.rs", PATH),
            ("crates/proto/src/engine.rs", text),
        ]);
        let parts = parts(&tree);
        assert_eq!(
            parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>(),
            ["space", "advance", "reset"]
        );
        parts.into_iter().filter(|part| !part.files.is_empty()).map(|part| part.name).collect()
    }

    #[test]
    fn a_part_is_recognised_by_its_name_and_its_owner() {
        for (text, expected) in [
            ("fn f(x: &mut X) { x.path.reset() }", &["reset"][..]),
            ("fn f(old: &Path) { old.reset() }", &["reset"]),
            ("fn f() { self.paths.get_mut(id)?.reset() }", &["reset"]),
            ("fn f() { let Some(x) = self.paths.get_mut(id) else { return }; x.reset() }", &["reset"]),
            ("fn f() { for x in self.paths.iter_mut() { x.reset() } }", &["reset"]),
            ("fn f() { if let Some(x) = paths.get(id) { debug!(x.reset()) } }", &["reset"]),
            // No other item has this name.
            ("fn f() { x.space.y = 1; z.advance() }", &["space", "advance"]),
        ] {
            assert_eq!(touched_by(text), expected, "{text}");
        }
    }

    #[test]
    fn other_fields_and_methods_are_not_counted() {
        for text in [
            "fn f() { other.reset() }",
            "fn f() { path.role(); path.id }",
            "#[cfg(test)] mod tests { fn f() { path.reset() } }",
            "#[test] fn f() { path.reset() }",
        ] {
            assert_eq!(touched_by(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn without_a_path_there_are_no_parts() {
        assert_eq!(parts(&tree(&[("crates/proto/src/lib.rs", "")])), []);
    }
}
