use std::fs;
use std::path::Path;

use manyway_lab::scenario::Library;

use super::parse;

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scenarios.md");
    fs::read_to_string(path).unwrap()
}

#[test]
fn every_example_of_the_page_is_read() {
    let page = page();
    let examples: Vec<_> =
        page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default()).collect();
    assert_eq!(examples.len(), 7);
    for example in examples {
        let scenario = parse(example);
        assert!(scenario.is_ok(), "{}\n{example}", scenario.unwrap_err());
    }
}

#[test]
fn the_page_names_every_built_in_scenario() {
    let page = page();
    for scenario in Library::builtin().unwrap().all() {
        assert!(page.contains(&format!("`{}`", scenario.name)), "{}", scenario.name);
        assert!(page.contains(&format!("`{}`", scenario.group)), "{}", scenario.group);
    }
}

/// The fields that an error lists are those that the page explains.
#[test]
fn the_page_explains_every_field() {
    let page = page();
    for wrong in [
        "[links.a]\nx = 1\n",
        "[links.a]\njitter = { x = 1 }\n",
        "[links.a]\nqueue = { x = 1 }\n",
        "[links.a]\nloss = { x = 1 }\n",
        "[links.a]\nrate = { x = 1 }\n",
        "[links.a]\n[client.a]\nx = 1\n",
        "[links.a]\n[client.a]\nnat = { x = 1 }\n",
        "[links.a]\n[[traffic]]\nx = 1\n",
        "[links.a]\n[[events]]\nx = 1\n",
        "end = { x = 1 }\n[links.a]\n",
        "[links.a]\n[damage]\nx = 1\n",
        "x = 1\n",
    ] {
        let error = parse(wrong).unwrap_err().to_string();
        let (_, fields) = error.split_once("no such field; there are: ").unwrap();
        for field in fields.split(", ") {
            let written =
                [format!("`{field}`"), format!("{field} = "), format!("[{field}."), format!("[[{field}]]")];
            assert!(written.iter().any(|written| page.contains(written)), "{field} is not explained");
        }
    }
}
