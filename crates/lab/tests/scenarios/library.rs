use manyway_lab::LabError;
use manyway_lab::scenario::Library;

#[test]
fn scenarios_are_found_by_name_by_group_and_all() {
    let library = Library::builtin().unwrap();
    let found = |name: &str| library.find(name).unwrap().len();
    assert_eq!(
        library.groups(),
        [
            "table",
            "environments",
            "simult-flows",
            "unequal",
            "failures",
            "fades",
            "fast",
            "sharing",
            "firewalls",
            "multitcp",
            "cross"
        ]
    );
    assert_eq!(
        library.groups().into_iter().map(found).collect::<Vec<_>>(),
        [12, 16, 5, 6, 5, 8, 1, 1, 3, 6, 6]
    );
    assert_eq!(found("all"), 69);
    assert_eq!(library.find("black-hole").unwrap()[0].name, "black-hole");
}

#[test]
fn an_unknown_name_is_answered_with_the_known_ones() {
    let library = Library::builtin().unwrap();
    assert_eq!(
        library.find("two-5").unwrap_err().to_string(),
        "no scenario or group is called \"two-5\" (did you mean two-50?); known are `all`, the groups table, \
         environments, simult-flows, unequal, failures, fades, fast, sharing, firewalls, multitcp, cross, 69 scenarios, 31 experiments, and files whose names \
         end in .toml"
    );
    assert!(!library.find("parsecs").unwrap_err().to_string().contains("did you mean"));
    assert!(matches!(library.find("nowhere/mine.toml"), Err(LabError::Io { .. })));
}

#[test]
fn a_file_is_found_by_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    std::fs::write(&file, "[links.a]\n").unwrap();
    let found = Library::builtin().unwrap().find(file.to_str().unwrap()).unwrap();
    assert_eq!((found.len(), found[0].name.as_str()), (1, "mine"));
}
