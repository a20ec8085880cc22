//! Files that import each other in a circle.

use std::collections::BTreeSet;

use super::imports::{Graph, graph};
use super::tree::Tree;

/// Files of which each reaches every other by imports: at least two, in order.
pub(crate) type Circle = Vec<String>;

/// The circles of every package, in the order of their first files.
pub(crate) fn circles(tree: &Tree) -> Vec<Circle> {
    tree.packages.iter().flat_map(|package| of_graph(&graph(package))).collect()
}

fn of_graph(graph: &Graph) -> Vec<Circle> {
    let reach: Vec<_> = graph.keys().map(|file| (file.as_str(), reachable(graph, file))).collect();
    let mut found: Vec<Circle> = Vec::new();
    for (file, own) in reach.iter().filter(|(file, own)| own.contains(file)) {
        if found.iter().flatten().any(|seen| seen == file) {
            continue;
        }
        let mutual = reach.iter().filter(|(other, theirs)| own.contains(other) && theirs.contains(file));
        found.push(mutual.map(|(other, _)| (*other).to_owned()).collect());
    }
    found
}

/// The files that a file reaches by imports; the file itself is among them if it lies in a circle.
fn reachable<'a>(graph: &'a Graph, from: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut next = vec![from];
    while let Some(file) = next.pop() {
        let others = graph.get(file).into_iter().flatten();
        next.extend(others.map(String::as_str).filter(|other| found.insert(*other)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tree::tree;
    use super::circles;

    #[test]
    fn files_that_reach_each_other_are_one_circle() {
        let tree = tree(&[
            ("crates/a/src/lib.rs", "mod b; mod c; mod d; mod e; mod f; pub use d::D;"),
            ("crates/a/src/b.rs", "use crate::c::C; pub struct B;"),
            ("crates/a/src/c.rs", "use crate::D; pub struct C;"),
            ("crates/a/src/d.rs", "use crate::b::B; use crate::e::E; pub struct D;"),
            ("crates/a/src/e.rs", "use crate::f::F; pub struct E;"),
            ("crates/a/src/f.rs", "pub struct F; #[cfg(test)] mod tests { use crate::e::E; }"),
            ("xtask/src/lib.rs", "mod b; use b::B; pub struct A;"),
            ("xtask/src/b.rs", "use super::A; pub struct B;"),
        ]);
        assert_eq!(
            circles(&tree),
            [
                vec!["crates/a/src/b.rs", "crates/a/src/c.rs", "crates/a/src/d.rs"],
                vec!["xtask/src/b.rs", "xtask/src/lib.rs"],
            ]
        );
    }
}
