#!/usr/bin/env bash
# Runs the Postgres store's suite through a PgBouncer in transaction mode that has two server connections per database.
# Takes "unnamed" (default: statements are prepared in a transaction of their own, for any PgBouncer) or "named" (needs
# PgBouncer 1.21 and tracked statements) and, after it, what to give to `cargo test`.
# Installs PgBouncer by apt-get where there is none.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ "${1:-}" != --behind ]; then
    case ${1:-unnamed} in
        unnamed) statements=IDEM_TEST_UNNAMED_STATEMENTS=1 ;;
        named) statements=IDEM_TEST_UNNAMED_STATEMENTS= ;;
        *) echo "usage: $0 [unnamed|named [argument of cargo test]…]" >&2; exit 2 ;;
    esac
    [ $# -eq 0 ] || shift
    [ $# -gt 0 ] || set -- -p idem-postgres --test suite
    if ! command -v pgbouncer >/dev/null; then
        as_root=()
        [ "$(id -u)" = 0 ] || as_root=(sudo)
        "${as_root[@]}" apt-get update
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends pgbouncer
    fi
    cargo test "$@" --no-run
    cargo build -p idem-test-support --bin with-postgres
    exec env "$statements" "${CARGO_TARGET_DIR:-target}/debug/with-postgres" "$0" --behind "$@"
fi
shift

server=${IDEM_TEST_POSTGRES_URL#*@}
server=${server%%/*}
folder=$(mktemp -d)
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >"$folder/pgbouncer.ini" <<INI
[databases]
* = host=${server%:*} port=${server#*:}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
max_client_conn = 2000
server_idle_timeout = 2
ignore_startup_parameters = extra_float_digits
logfile = $folder/log
INI
version=$(pgbouncer --version | sed -n 's/^PgBouncer //p')
[ "$(printf '%s\n' 1.21 "$version" | sort -V | head -n 1)" != 1.21 ] \
    || echo 'max_prepared_statements = 200' >>"$folder/pgbouncer.ini"
sed -i "s/^\* = .*/& user=postgres/" "$folder/pgbouncer.ini"

as=()
if [ "$(id -u)" = 0 ]; then
    chown -R nobody "$folder"
    as=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
fi
"${as[@]}" pgbouncer -q "$folder/pgbouncer.ini" &
pooler=$!
trap 'kill "$pooler" 2>/dev/null || true; rm -rf "$folder"' EXIT
for _ in $(seq 100); do
    (: >"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
    sleep 0.1
done
echo "PgBouncer $version in transaction mode, two server connections per database"
IDEM_TEST_POSTGRES_URL=postgres://postgres@127.0.0.1:$port/postgres \
    timeout --kill-after=30s 15m cargo test "$@" -- --test-threads=4
