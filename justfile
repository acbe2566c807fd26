# The commands people type. `just` lists them.

_list:
    @just --list --unsorted

# Everything a change must pass; installs what it needs.
ci:
    .ci/run

# The quick checks before a commit: no foreign program, no fuzzing.
check: fmt clippy test dependencies

test:
    cargo test --workspace

# Random commands against the model of the broker, many times; the ordinary tests run 256 cases.
broker-model CASES="100000":
    BROKER_CASES={{CASES}} cargo test --release -p servicebus-emulator --test broker_model

# What a message costs in the broker alone.
broker-cost:
    cargo run --release -p servicebus-emulator --example broker_cost

# All measurements, as docs/performance.md with its charts, and the tables of the README: a quarter of an hour on a machine that does nothing else.
performance *ARGUMENTS:
    cargo run --release -p servicebus-bench -- all --report docs/performance.md --readme README.md {{ARGUMENTS}}

# Formatting, without changing anything (`cargo fmt --all` changes).
fmt:
    cargo fmt --all --check

# Lints of every target, with all features and without the network layer.
clippy:
    cargo clippy --workspace --all-targets --all-features -- -D warnings
    cargo clippy -p servicebus-amqp --all-targets --no-default-features -- -D warnings

# API documentation, where a broken link is an error; the tests that docs/features.md names; the guides in docs/guides.
docs:
    scripts/check-features
    scripts/guides
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --all-features

# Licences, duplicate or banned crates, and where crates come from.
deny:
    cargo deny --all-features check licenses bans sources

# Who may know whom: rules 1 to 3 of ARCHITECTURE.md.
dependencies:
    scripts/check-dependencies

# How many crates a user of `servicebus` builds: fewer than 130.
budget:
    scripts/check-budget

# Every published crate as it would be published, built from that.
package:
    scripts/package

# The published crates with the lowest versions of their dependencies that they ask for.
minimal-versions:
    scripts/check-minimal-versions

# Compares the public API with docs/api; `scripts/public-api --write` takes a change over.
api:
    scripts/public-api

# Every published crate builds with each of its features alone and with none.
features:
    cargo hack check --workspace --ignore-private --each-feature

# Our AMQP layer against foreign programs; what cannot be had is ignored, or fails if CI is set.
interop:
    cargo test -p protocol-tests --test interop

# The emulator against the official SDKs for Python (its own live tests) and JavaScript, and azservicebus; some fifteen minutes.
sdk *ARGUMENTS:
    cargo test -p protocol-tests --test sdk -- {{ARGUMENTS}}

# Fuzzes one target until it fails or SECONDS have passed (0: no end).
fuzz TARGET SECONDS="0":
    scripts/fuzz {{TARGET}} {{SECONDS}}

# Thirty seconds of each fuzz target.
fuzz-smoke:
    scripts/fuzz --all 30
