//! Within the protocol machine, imports lead to the same layer or to a lower one.

use super::Finding;
use crate::shape::imports::{Graph, graph};
use crate::shape::tree::Tree;

const PACKAGE: &str = "crates/proto";

/// The layers, lowest first; modules of one layer may import each other. Modules that are not listed are the words that
/// all layers share, such as times, errors and events.
const LAYERS: [&[&str]; 11] = [
    &["collections"],
    &["packet"],
    &["congestion"],
    &["recovery"],
    &["path", "scheduler"],
    &["message", "stream"],
    &["config", "rendezvous"],
    &["engine"],
    &["mmsp1", "mmsp2", "toy", "wire"],
    &["connection"],
    &["endpoint"],
];
/// The engine is handed the enum of the wires with each call (decision 0006).
const EXCEPT: (&str, &str) = ("engine", "crates/proto/src/wire.rs");

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(package) = tree.package(PACKAGE) else { return Vec::new() };
    let is_there = |name: &str| package.sources.keys().any(|file| module(file) == name);
    let gone = LAYERS.iter().copied().flatten().filter(|name| !is_there(name));
    let mut findings: Vec<_> =
        gone.map(|name| Finding::new(PACKAGE, 0, format!("has no module {name} any more"))).collect();
    findings.extend(check_graph(&graph(package)));
    findings
}

fn check_graph(graph: &Graph) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, others) in graph {
        for other in others {
            let (Some(from), Some(to)) = (layer(file), layer(other)) else { continue };
            if from < to && (module(file), other.as_str()) != EXCEPT {
                let text = format!("imports a higher layer: {other}");
                findings.push(Finding::new(file, 0, text));
            }
        }
    }
    findings
}

fn layer(file: &str) -> Option<usize> {
    LAYERS.iter().position(|modules| modules.contains(&module(file)))
}

/// The module of the crate's root in which a file lies.
fn module(file: &str) -> &str {
    let below = file.strip_prefix(PACKAGE).and_then(|rest| rest.strip_prefix("/src/")).unwrap_or_default();
    let name = below.split('/').next().unwrap_or_default();
    name.strip_suffix(".rs").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_of_a_higher_layer_is_found() {
        for (from, to, findings) in [
            ("recovery/mod.rs", "path/mtu.rs", 1),
            ("path/mtu.rs", "recovery/mod.rs", 0),
            ("path/view.rs", "scheduler/view.rs", 0),
            ("recovery/mod.rs", "time.rs", 0),
            ("engine/output.rs", "wire.rs", 0),
            ("engine/output.rs", "connection/mod.rs", 1),
            ("stream/mod.rs", "wire.rs", 1),
        ] {
            let file = |name: &str| format!("crates/proto/src/{name}");
            let graph = Graph::from([(file(from), [file(to)].into())]);
            assert_eq!(check_graph(&graph).len(), findings, "{from} {to}");
        }
    }
}
