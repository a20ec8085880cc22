//! The command that people install has nothing of the lab in it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Finding;

const PRODUCT: &str = "manyway-cli";
const LAB: &str = "manyway-lab";

/// Checks what `cargo metadata` tells.
pub(super) fn check(metadata: &Value) -> Vec<Finding> {
    let list =
        |value: &Value, field: &str| value.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    let text =
        |value: &Value, field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let packages = list(metadata, "packages");
    let id_of =
        |name: &str| packages.iter().find(|package| text(package, "name") == name).map(|it| text(it, "id"));
    let nodes = metadata.get("resolve").map(|resolve| list(resolve, "nodes")).unwrap_or_default();
    let (Some(product), Some(lab)) = (id_of(PRODUCT), id_of(LAB)) else {
        return vec![Finding::new("Cargo.toml", 0, format!("there is no {PRODUCT} or no {LAB}"))];
    };
    let is_built_in = |dependency: &Value| {
        // Dependencies of tests and build scripts have a kind.
        list(dependency, "dep_kinds").iter().any(|kind| kind.get("kind").is_none_or(Value::is_null))
    };
    let (mut reached, mut next) = (BTreeSet::new(), vec![product]);
    while let Some(id) = next.pop() {
        let node = nodes.iter().find(|node| text(node, "id") == id);
        let built_in =
            node.map(|node| list(node, "deps")).unwrap_or_default().into_iter().filter(is_built_in);
        next.extend(
            built_in.map(|dependency| text(&dependency, "pkg")).filter(|id| reached.insert(id.clone())),
        );
    }
    if reached.contains(&lab) {
        return vec![Finding::new(
            "Cargo.toml",
            0,
            format!("{PRODUCT} depends on {LAB}: the lab is a program of its own"),
        )];
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_product_with_the_lab_in_it_is_found() {
        let metadata = |kind: Value| {
            let dependency = |id: &str, kind: &Value| json!({ "pkg": id, "dep_kinds": [{ "kind": kind }] });
            json!({
                "packages": [
                    { "name": PRODUCT, "id": "1" }, { "name": "between", "id": "2" }, { "name": LAB, "id": "3" }
                ],
                "resolve": { "nodes": [
                    { "id": "1", "deps": [dependency("2", &Value::Null)] },
                    { "id": "2", "deps": [dependency("3", &kind)] },
                    { "id": "3", "deps": [] }
                ] }
            })
        };
        assert_eq!(check(&metadata(Value::Null)).len(), 1);
        assert_eq!(check(&metadata("dev".into())), []);
        assert_eq!(check(&json!({})).len(), 1);
    }
}
