//! Every stored input passes its target: the corpora, and the regressions.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use manyway_fuzzing::TARGETS;

fn fuzz_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The names in a directory, sorted; none if there is no such directory.
fn names(directory: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Runs a target with every input in a directory; returns how many there were.
fn replay(directory: &Path, run: fn(&[u8])) -> usize {
    let names = names(directory);
    for name in &names {
        let path = directory.join(name);
        let input = std::fs::read(&path).unwrap();
        let result = std::panic::catch_unwind(|| run(&input));
        assert!(result.is_ok(), "{} breaks its target", path.display());
    }
    names.len()
}

#[test]
fn every_kept_input_passes_its_target() {
    std::thread::scope(|scope| {
        // The slowest first, on as many threads as there are targets.
        for (name, run) in TARGETS {
            scope.spawn(move || {
                let corpus = replay(&fuzz_directory().join("corpus").join(name), run);
                assert!(corpus > 0, "{name} has no corpus");
                replay(&fuzz_directory().join("regressions").join(name), run);
            });
        }
    });
}

#[test]
fn every_target_has_a_body_and_every_input_a_target() {
    let known: BTreeSet<_> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let wrappers = names(&fuzz_directory().join("fuzz_targets"));
    let wrappers: BTreeSet<_> = wrappers.iter().map(|name| name.trim_end_matches(".rs").to_owned()).collect();
    assert_eq!(wrappers, known);
    for kept in ["corpus", "regressions"] {
        let directories = names(&fuzz_directory().join(kept));
        assert!(directories.is_subset(&known), "{directories:?}");
    }
}

#[test]
fn targets_accept_no_bytes_and_noise() {
    let mut noise = Vec::new();
    let mut state = 1_u32;
    for _ in 0..4096 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        noise.push(state.to_be_bytes()[0]);
    }
    for (_, run) in TARGETS {
        run(&[]);
        run(&noise);
    }
}
