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
    # With any test, the features are those that tests build with: nothing is built a second time beside them.
    cargo build --quiet --workspace --bin xtask --test all
    "${CARGO_TARGET_DIR:-target}/debug/xtask" check

# Does the independent peer of MMSP/1 keep to the specification? It is Python and shares no code with the crates.
peer:
    python3 contrib/test_mmsp1_peer.py

# Are the files in packaging/ good? The units by systemd and the Dockerfile by hadolint, where they are installed;
# `rules` checks both always. The Debian package by making one of the debug build, installing it and removing it.
packaging:
    #!/usr/bin/env bash
    set -euo pipefail
    place="$(mktemp --directory)"
    trap 'rm --recursive "$place"' EXIT
    if command -v systemd-analyze >/dev/null; then
        # The tunnel needs a capability, the device, and to see the settings of the network.
        for allowed in manyway.service=15 manyway-tunnel@.service=20; do
            unit="${allowed%=*}"
            # The program need not be installed for this.
            sed "s#^ExecStart=[^ ]*#ExecStart=$(command -v true)#" "packaging/$unit" >"$place/$unit"
            systemd-analyze verify "$place/${unit/@/@home}"
            systemd-analyze security --offline=true --threshold="${allowed#*=}" --no-pager "$place/$unit" | tail -n 1
        done
        # With the rights of a server that joins sites.
        install -D -m 644 packaging/manyway-site.conf "$place/manyway.service.d/manyway-site.conf"
        systemd-analyze verify "$place/manyway.service"
        systemd-analyze security --offline=true --threshold=20 --no-pager "$place/manyway.service" | tail -n 1
    else
        echo "systemd-analyze is not installed: the units are checked by our own rules only"
    fi
    if command -v hadolint >/dev/null; then
        hadolint --failure-threshold info packaging/Dockerfile
        echo "hadolint has nothing to say about the Dockerfile"
    else
        echo "hadolint is not installed: the Dockerfile is checked by our own rules only"
    fi
    if command -v dpkg-deb >/dev/null; then
        # With any test, for the reason that `rules` gives.
        cargo build --quiet --workspace --bin manyway --test all
        packaging/collect "${CARGO_TARGET_DIR:-target}/debug/manyway" "$place/debug"
        packaging/deb "$place/debug" -Zgzip -z1
        packaging/try-deb "$place"/*.deb
    else
        echo "dpkg-deb is not installed: no Debian package was made"
    fi

# Does the Wireshark dissector show what it should? With tshark, where that is installed, and the debug build.
wireshark:
    # With any test, for the reason that `rules` gives.
    cargo build --quiet --workspace --bin manyway --test all
    contrib/wireshark/test.py --manyway "${CARGO_TARGET_DIR:-target}/debug/manyway"

# Builds the binary that is given away, static and small, with licences, completions and manual: target/dist.
dist:
    packaging/dist

# Makes a Debian package of that binary, installs it below a temporary directory, runs it and removes it again.
deb: dist
    #!/usr/bin/env bash
    set -euo pipefail
    place="${CARGO_TARGET_DIR:-target}/dist"
    # `dist` has just made it.
    newest="$(ls --directory -t "$place"/manyway-*-linux | head -n 1)"
    packaging/deb "$newest"
    package="$(ls -t "$place"/manyway_*.deb | head -n 1)"
    packaging/try-deb "$package"
    (cd "$place" && sha256sum -- *.tar.gz *.deb >SHA256SUMS)
    echo "$(stat --format=%s "$package") bytes: $package"

# Prints figures of the source tree: large types, circles of imports, long functions and others.
shape *ARGUMENTS:
    cargo run --quiet -p xtask -- shape {{ARGUMENTS}}

# Does all work without what only Linux has: netlink, offload of batches, sockets tied to interfaces?
portable *ARGUMENTS:
    #!/usr/bin/env bash
    set -euo pipefail
    # Little runs here, so what is fast to build is faster in all.
    unoptimised=()
    for name in units wire proto sim; do unoptimised+=(--config "profile.dev.package.manyway-$name.opt-level=0"); done
    RUSTC_WORKSPACE_WRAPPER="$PWD/.ci/portable-rustc" \
        cargo test "${unoptimised[@]}" -p manyway --lib --test all {{ARGUMENTS}} -- --skip choice::

# Runs a short set of scenarios with every contender, in virtual time and, as root, on real sockets; prints the tables,
# and fails if one cannot run or breaks down.
lab:
    #!/usr/bin/env bash
    set -euo pipefail
    # With any test, for the reason that `rules` gives.
    cargo build --quiet --workspace --bin manyway-lab --test all
    program="${CARGO_TARGET_DIR:-target}/debug/manyway-lab"
    "$program" sim table --repeat 1 --duration 1s --budget 60s --strict
    if [ "$(id -u)" != 0 ]; then
        echo "the lab on real sockets needs root, and was left out"
        exit 0
    fi
    contenders=manyway,tcp-cubic,possible-cubic
    # Kernels differ in what they have; what they have must run.
    if [ "$(cat /proc/sys/net/mptcp/enabled 2>/dev/null)" = 1 ]; then contenders+=,mptcp-cubic; fi
    "$program" two-50 black-hole --contenders "$contenders" --repeat 1 --duration 3s --budget 90s --strict

# Runs the tests.
test:
    cargo test --workspace

# Runs the tests thoroughly: many seeds, others each day, and full durations; then 10 000 seeds of the random operations,
# the race detector, and the limits of the lab where UDP is blocked.
nightly:
    #!/usr/bin/env bash
    set -euo pipefail
    for program in chromium-headless-shell ffmpeg; do
        command -v "$program" >/dev/null || echo "$program is not installed: the test that needs it is skipped"
    done
    export MANYWAY_NIGHTLY=1 PROPTEST_CASES=1024
    cargo test --workspace --no-fail-fast
    MANYWAY_SEEDS=10000 cargo test --workspace --test all -- --nocapture random_operations::every
    env --unset=MANYWAY_NIGHTLY MANYWAY_SEEDS=20 just races
    # Where UDP is blocked, set-up and silence take 1 s at most: on sockets, since it is the system that blocks.
    if [ "$(id -u)" = 0 ]; then
        cargo run --release -p manyway-lab-cli -- gates firewalls --repeat 3
    else
        echo "the limits where UDP is blocked need root, and were left out"
    fi
    # The binary that is given away: static, below 15 MB, and its package can be installed.
    just deb

# Does ThreadSanitizer see a data race where threads meet? Random operations of clients at a server with several threads, and
# the other tests of threads and connections. Needs nightly with rust-src.
races *ARGUMENTS:
    #!/usr/bin/env bash
    set -euo pipefail
    host="$(rustc --version --verbose | sed -n 's/^host: //p')"
    # With a standard library that was built without it, the detector would report races where there are none.
    RUSTFLAGS="-Zsanitizer=thread" cargo +nightly test -Zbuild-std --target "$host" \
        --target-dir "${CARGO_TARGET_DIR:-target}/races" -p manyway --test all \
        -- --test-threads=1 random_operations:: lanes:: threads:: connections:: {{ARGUMENTS}}

# Shows what Manyway does: three emulated links, one of them cut and restored.
demo *ARGUMENTS:
    cargo run --release -- demo {{ARGUMENTS}}

# Measures the figures of the README again.
figures *ARGUMENTS:
    cargo build --release -p manyway-cli
    cargo run --release -p xtask -- figures {{ARGUMENTS}}

# Fuzzes one target for so many seconds; what it finds goes to fuzz/artifacts. Needs nightly and cargo-fuzz.
fuzz TARGET SECONDS="600":
    mkdir -p fuzz/found/{{TARGET}}
    cargo run --quiet -p manyway-fuzzing --bin seeds -- fuzz/seeds
    cargo +nightly fuzz run -s none {{TARGET}} fuzz/found/{{TARGET}} fuzz/corpus/{{TARGET}} fuzz/seeds/{{TARGET}} -- \
        -max_total_time={{SECONDS}} -rss_limit_mb=2048 -malloc_limit_mb=256 -timeout=20 -max_len=8192 -print_final_stats=1

# Replaces the corpus of a target by a small one that covers as much, the found and the seeds included.
fuzz-corpus TARGET:
    cargo run --quiet -p manyway-fuzzing --bin seeds -- fuzz/seeds
    fuzz/minimise {{TARGET}}

# Measures what many connections cost a server: time for a packet, memory at rest.
scale *ARGUMENTS:
    cargo run --release -p xtask -- scale {{ARGUMENTS}}

# Builds the QUIC libraries that `manyway-lab cpu` measures beside Manyway, and `manyway-lab programs` over it:
# manyway-peers, in target/release beside the lab. Needs a C compiler; no crate of the workspace depends on it.
peers:
    cargo build --release --locked --manifest-path contrib/peers/Cargo.toml --target-dir "${CARGO_TARGET_DIR:-target}"
