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

# Are the unit and the Dockerfile good? By systemd and hadolint where they are installed; `rules` checks them always.
packaging:
    #!/usr/bin/env bash
    set -euo pipefail
    place="$(mktemp --directory)"
    trap 'rm --recursive "$place"' EXIT
    if command -v systemd-analyze >/dev/null; then
        # The program need not be installed for this.
        sed "s#^ExecStart=[^ ]*#ExecStart=$(command -v true)#" packaging/manyway.service >"$place/manyway.service"
        systemd-analyze verify "$place/manyway.service"
        systemd-analyze security --offline=true --threshold=15 --no-pager "$place/manyway.service" | tail -n 1
    else
        echo "systemd-analyze is not installed: the unit is checked by our own rules only"
    fi
    if command -v hadolint >/dev/null; then
        hadolint --failure-threshold info packaging/Dockerfile
        echo "hadolint has nothing to say about the Dockerfile"
    else
        echo "hadolint is not installed: the Dockerfile is checked by our own rules only"
    fi

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
