#!/usr/bin/env bash
# Installs or finds a Postgres and a NATS, then checks and tests everything. Needs a Rust toolchain; takes no arguments.
# What cannot run fails: nothing is skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# A test that hangs must not hang its caller.
if [ -z "${IDEM_TEST_BOUNDED:-}" ] && command -v timeout >/dev/null; then
    IDEM_TEST_BOUNDED=1 exec timeout --kill-after=30s 45m ./test.sh "$@"
fi

step() {
    printf '\n== %s\n' "$*"
    "$@"
}

give_up() {
    printf 'test.sh: %s\n' "$*" >&2
    exit 1
}

has_postgres() {
    [ -n "${IDEM_TEST_POSTGRES_URL:-}" ] || [ "${IDEM_TEST_SERVERS:-}" = docker ] && return
    local folder
    for folder in "${IDEM_PG_BIN:-}" /usr/lib/postgresql/*/bin /opt/homebrew/opt/postgresql@*/bin; do
        [ -x "$folder/initdb" ] && [ -x "$folder/postgres" ] && return
    done
    { command -v initdb && command -v postgres; } >/dev/null && return
    docker info >/dev/null 2>&1
}

has_nats() {
    [ -n "${IDEM_TEST_NATS_URL:-}" ] && return
    command -v nats-server >/dev/null && return
    local program
    for program in "${IDEM_TEST_NATS_PROGRAM:-}" /usr/sbin/nats-server /opt/homebrew/bin/nats-server; do
        [ -x "$program" ] && return
    done
    return 1
}

install() { # <package>…
    local as_root=()
    local by_hand="install what is missing (Debian: apt-get install -y --no-install-recommends $*), or set"
    by_hand="$by_hand IDEM_TEST_POSTGRES_URL to a Postgres whose user may create databases, IDEM_TEST_NATS_URL to a NATS with JetStream"
    command -v apt-get >/dev/null || give_up "there is no $* and no apt-get here: $by_hand"
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || give_up "there is no $*, and this is neither root nor has sudo: $by_hand"
        as_root=(sudo)
        [ -t 0 ] || as_root=(sudo -n)
    fi
    # The tests start servers of their own; Debian's would only take ports and memory.
    local policy=/etc/postgresql-common/createcluster.conf
    case " $* " in
        *" postgresql "*)
            [ -e $policy ] || "${as_root[@]}" sh -c "mkdir -p ${policy%/*} && echo 'create_main_cluster = false' >$policy"
            ;;
    esac
    step "${as_root[@]}" apt-get -o DPkg::Lock::Timeout=180 update || give_up "apt-get update failed: $by_hand"
    step "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=180 \
        -o Dpkg::Options::=--force-confold install -y --no-install-recommends "$@" \
        || give_up "apt-get install failed: $by_hand"
    case " $* " in
        *" nats-server "*) [ ! -d /run/systemd/system ] || step "${as_root[@]}" systemctl disable --now nats-server || true ;;
    esac
}

command -v cargo >/dev/null || [ ! -r "$HOME/.cargo/env" ] || . "$HOME/.cargo/env"
command -v cargo >/dev/null || give_up "there is no cargo: install Rust from https://rustup.rs"
missing=()
has_postgres || missing+=(postgresql)
has_nats || missing+=(nats-server)
[ ${#missing[@]} -eq 0 ] || install "${missing[@]}"

# One set of flags for everything that compiles, so that nothing compiles twice.
all=(--workspace --all-features)
step cargo fmt --all --check
step .ci/arrows
step cargo clippy "${all[@]}" --all-targets -- -D warnings
RUSTDOCFLAGS="-D warnings" step cargo doc "${all[@]}" --no-deps
step cargo test "${all[@]}" --no-run
step cargo run --release --package idem-model
# A workspace of its own: it puts another `std` and `tokio` before the sources.
interleavings=(--manifest-path tests/interleavings/Cargo.toml)
step cargo fmt "${interleavings[@]}" --all --check
step cargo test "${interleavings[@]}" --target-dir "${CARGO_TARGET_DIR:-target}/interleavings"
# The tests of all crates share one server; those that kill servers start their own.
step "${CARGO_TARGET_DIR:-target}/debug/with-postgres" cargo test "${all[@]}" --no-fail-fast

printf '\n== everything passed in %d s\n' "$SECONDS"
