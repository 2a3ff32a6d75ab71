#!/usr/bin/env bash
# MLflow's tracking server on PostgreSQL, on this machine, for whoever calls: start | stop | status.
#
#   deploy/mlflow-postgres.sh start            then: smoothsweep run SWEEP.yaml --tracking-uri http://127.0.0.1:5000
#   deploy/mlflow-postgres.sh stop             stops both; every run stays in DIR
#
# Nothing listens beyond 127.0.0.1. The database has a user and a password of its own (DIR/password, mode 600; DIR/pgpass
# is what libpq reads), which is on no command line and in no log. Starting what runs already, or stopping what does not,
# changes nothing. PostgreSQL refuses to run as root: for root the database belongs to the system's user postgres, and
# DIR must be a folder which that user can reach.
#
#   --dir DIR          database, artifacts, logs, passwords    (default: ~/smoothsweep-mlflow; root: /var/lib/smoothsweep-mlflow)
#   --port PORT        of the MLflow server                    (default: 5000)
#   --pg-port PORT     of the database                         (default: 5433, beside a system's own PostgreSQL)
#   --artifacts DEST   where artifacts go: a folder or s3://   (default: DIR/artifacts)
#   --python PYTHON    one that has mlflow and psycopg2        (default: .venv/bin/python of this tree, else python3)
#   --workers N        processes of the server                 (default: 2)
# Exit codes: 0 done; 2 wrong arguments or something is missing (one line says what); 3 (status) not running.
set -euo pipefail

say() { printf '%s\n' "$*"; }
die() { printf 'mlflow-postgres: %s\n' "$*" >&2; exit 2; }

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
command=${1:-}; [ $# -gt 0 ] && shift
port=5000 pg_port=5433 dir='' artifacts='' python='' workers=2
while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || die "$1: expected a value, got none"
    case $1 in
        --dir) dir=$2 ;;
        --port) port=$2 ;;
        --pg-port) pg_port=$2 ;;
        --artifacts) artifacts=$2 ;;
        --python) python=$2 ;;
        --workers) workers=$2 ;;
        *) die "expected --dir, --port, --pg-port, --artifacts, --python or --workers, got $1" ;;
    esac
    shift 2
done
for number in "$port" "$pg_port" "$workers"; do
    [[ $number =~ ^[1-9][0-9]{0,4}$ ]] || die "expected a number for --port, --pg-port and --workers, got $number"
done
if [ "$(id -u)" = 0 ]; then owner=postgres default_dir=/var/lib/smoothsweep-mlflow
else owner=$(id -un) default_dir=$HOME/smoothsweep-mlflow; fi
dir=${dir:-$default_dir}
[[ $dir = /* ]] || dir=$PWD/$dir
artifacts=${artifacts:-$dir/artifacts}
if [ -z "$python" ]; then python=$here/.venv/bin/python; [ -x "$python" ] || python=python3; fi

as_owner() {  # as the user to whom the database belongs, in a folder that this user can enter
    if [ "$(id -u)" = 0 ]; then (cd / && runuser -u "$owner" -- "$@"); else (cd / && "$@"); fi
}

find_postgres() {  # sets `bin`: the folder of the newest PostgreSQL, or one that is on the PATH
    local found
    found=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
    if [ -z "$found" ] && command -v initdb >/dev/null && command -v pg_ctl >/dev/null; then
        found=$(dirname "$(readlink -f "$(command -v initdb)")")
    fi
    [ -n "$found" ] && [ -x "$found/initdb" ] && bin=$found
}

install_postgres() {
    find_postgres && return
    if [ "$(id -u)" != 0 ]; then
        die "PostgreSQL is not installed: apt-get install postgresql (as root), or start this script as root"
    fi
    command -v apt-get >/dev/null || die "PostgreSQL is not installed, and there is no apt-get: install it, then start again"
    say "installing PostgreSQL"
    # The package would start a cluster of its own on port 5432: this machine is not asked for one.
    mkdir -p /etc/postgresql-common
    [ -e /etc/postgresql-common/createcluster.conf ] ||
        say 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq postgresql >/dev/null ||
        die "apt-get install postgresql failed; after apt-get update, start again"
    find_postgres || die "PostgreSQL was installed, but there is no /usr/lib/postgresql/*/bin/initdb"
}

secret() {  # secret FILE: a password of 32 letters and digits, made at first use, readable by the caller alone
    if [ ! -s "$1" ]; then
        (umask 077 && head -c 96 /dev/urandom | base64 -w 0 | tr -d '+/=' | cut -c 1-32 > "$1.new" && mv "$1.new" "$1")
    fi
    cat "$1"
}

postgres_runs() { [ -d "$dir/postgres" ] && as_owner "$bin/pg_ctl" status -s -D "$dir/postgres" >/dev/null 2>&1; }
mlflow_pid() {  # of the server that this script started, if it is alive
    local pid
    pid=$(cat "$dir/mlflow.pid" 2>/dev/null) && ps -o args= -p "$pid" 2>/dev/null | grep -q 'mlflow' && say "$pid"
}
listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
healthy() {
    "$python" -c 'import sys, urllib.request as u; sys.exit(u.urlopen(sys.argv[1], timeout=5).read() != b"OK")' \
        "http://127.0.0.1:$port/health" 2>/dev/null
}
query() {  # SQL comes on stdin: command lines are public on a machine
    PGPASSFILE=$dir/pgpass "$bin/psql" -h 127.0.0.1 -p "$pg_port" -U admin -d postgres -qtA -v ON_ERROR_STOP=1 -f -
}
password_file() {  # where libpq finds both passwords; as private as they are
    (umask 077 && printf '127.0.0.1:*:*:%s:%s\n' admin "$(secret "$dir/admin-password")" mlflow "$(secret "$dir/password")" > "$dir/pgpass.new")
    mv "$dir/pgpass.new" "$dir/pgpass"
}

start_postgres() {
    if postgres_runs; then say "PostgreSQL already runs on 127.0.0.1:$pg_port"; return; fi
    listens "$pg_port" && die "--pg-port $pg_port: expected a free port, got one that something else listens on"
    if [ ! -s "$dir/postgres/PG_VERSION" ]; then
        rm -rf "$dir/postgres"
        mkdir -p "$dir/postgres"
        (umask 077 && secret "$dir/admin-password" > "$dir/postgres.pw")
        [ "$(id -u)" != 0 ] || chown -R "$owner" "$dir/postgres" "$dir/postgres.pw"
        chmod 700 "$dir/postgres"
        as_owner test -r "$dir/postgres.pw" || { rm -f "$dir/postgres.pw"; die "--dir $dir: expected a folder that user $owner can reach"; }
        as_owner "$bin/initdb" -D "$dir/postgres" -U admin --auth=scram-sha-256 --pwfile="$dir/postgres.pw" \
            --encoding=UTF8 --locale=C.UTF-8 >"$dir/initdb.log" 2>&1 || { rm -rf "$dir/postgres" "$dir/postgres.pw"; die "initdb failed, see $dir/initdb.log"; }
        rm -f "$dir/postgres.pw" "$dir/initdb.log"
    fi
    # No socket file: its path may be too long, and a password is asked for on both.
    as_owner "$bin/pg_ctl" start -s -w -t 60 -D "$dir/postgres" -l "$dir/postgres/server.log" \
        -o "-c listen_addresses=127.0.0.1 -c port=$pg_port -c unix_socket_directories=''" ||
        die "PostgreSQL did not start, see $dir/postgres/server.log"
    say "PostgreSQL on 127.0.0.1:$pg_port"
}

create_database() {  # user and database `mlflow`, once
    password_file
    [ "$(query <<< "select 1 from pg_roles where rolname = 'mlflow'")" = 1 ] ||
        printf "create role mlflow login password '%s'" "$(secret "$dir/password")" | query
    [ "$(query <<< "select 1 from pg_database where datname = 'mlflow'")" = 1 ] || query <<< "create database mlflow owner mlflow"
}

start_mlflow() {
    if [ -n "$(mlflow_pid)" ] && healthy; then say "MLflow already runs on http://127.0.0.1:$port"; return; fi
    [ -z "$(mlflow_pid)" ] || stop_mlflow
    listens "$port" && die "--port $port: expected a free port, got one that something else listens on"
    "$python" -c 'import mlflow, psycopg2' 2>/dev/null || die "--python $python: expected mlflow and psycopg2 in it (pip install 'smoothsweep[postgres]')"
    case $artifacts in *://*) ;; *) mkdir -p "$artifacts" ;; esac
    # The URI has no password, so that no log can: libpq reads it from the file.
    (cd "$dir" && umask 077 && PGPASSFILE=$dir/pgpass MLFLOW_BACKEND_STORE_URI="postgresql+psycopg2://mlflow@127.0.0.1:$pg_port/mlflow" \
        MLFLOW_DISABLE_TELEMETRY=true MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false exec setsid "$python" -m mlflow server --host 127.0.0.1 --port "$port" \
        --workers "$workers" --artifacts-destination "$artifacts" >>"$dir/mlflow.log" 2>&1 </dev/null) &
    local pid=$! waited=0
    say "$pid" > "$dir/mlflow.pid"
    until healthy; do
        kill -0 "$pid" 2>/dev/null || { rm -f "$dir/mlflow.pid"; die "the MLflow server ended at once, see $dir/mlflow.log"; }
        waited=$((waited + 1))
        [ "$waited" -lt 300 ] || { stop_mlflow; die "the MLflow server does not answer, see $dir/mlflow.log"; }
        sleep 0.4
    done
    say "MLflow on http://127.0.0.1:$port"
}

stop_mlflow() {  # the server and its workers: it leads a process group of its own
    local pid waited=0
    pid=$(mlflow_pid) || true
    if [ -n "$pid" ]; then
        kill -TERM -- "-$pid" 2>/dev/null || true
        while pgrep -g "$pid" >/dev/null && [ "$waited" -lt 75 ]; do waited=$((waited + 1)); sleep 0.2; done
        kill -KILL -- "-$pid" 2>/dev/null || true
        say "MLflow stopped"
    fi
    rm -f "$dir/mlflow.pid"
}

case $command in
    start)
        install_postgres
        mkdir -p "$dir" 2>/dev/null && [ -w "$dir" ] || die "--dir $dir: expected a writable folder"
        start_postgres
        create_database
        start_mlflow
        ;;
    stop)
        find_postgres || die "PostgreSQL is not installed"
        stop_mlflow
        if postgres_runs; then
            as_owner "$bin/pg_ctl" stop -s -w -m fast -D "$dir/postgres"
            say "PostgreSQL stopped"
        fi
        ;;
    status)
        find_postgres || die "PostgreSQL is not installed"
        state=0
        postgres_runs && say "PostgreSQL runs" || { say "PostgreSQL does not run"; state=3; }
        [ -n "$(mlflow_pid)" ] && healthy && say "MLflow answers on http://127.0.0.1:$port" || { say "MLflow does not answer"; state=3; }
        exit $state
        ;;
    *) die "expected start, stop or status, got ${command:-nothing} (deploy/mlflow-postgres.sh start --dir DIR)" ;;
esac
