# Recipes of this repository. `just` alone lists them.

# Lists the recipes.
default:
    @just --list

# Runs every check that needs no test run: what has to hold before each commit.
check: format clippy documentation rules portable

# Is the code formatted?
format:
    cargo fmt --all --check

# Do the lints agree? Warnings are errors.
clippy:
    cargo clippy --workspace --all-targets -- -D warnings

# Does the documentation build without a warning?
documentation:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# Are the rules of this repository kept that no ready tool knows?
rules:
    cargo run --quiet -p xtask -- check

# Does the network crate work without what only Linux has?
portable:
    RUSTFLAGS="--cfg manyway_portable" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/portable" cargo test -p manyway --lib

# Runs the tests.
test:
    cargo test --workspace

# Shows what Manyway does: three emulated links, one of them cut and restored.
demo *ARGUMENTS:
    cargo run --release -- demo {{ARGUMENTS}}

# Measures the figures of the README again.
figures *ARGUMENTS:
    cargo build --release -p manyway-cli
    cargo run --release -p xtask -- figures {{ARGUMENTS}}

# Measures what many connections cost a server: time for a packet, memory at rest.
scale *ARGUMENTS:
    cargo run --release -p xtask -- scale {{ARGUMENTS}}
