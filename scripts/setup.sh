# SPDX-License-Identifier: Apache-2.0
#
# What ./quickstart and ./check share: packages and a build. Read by `.`, in the top folder.

packages_build="build-essential autoconf automake libtool libltdl-dev autoconf-archive pkg-config libyaml-dev
libjansson-dev libturbojpeg0-dev libjpeg-dev libpng-dev libzip-dev uthash-dev librandom123-dev libcairo2-dev"
# The tests besides: several processes by Open MPI, and by Slurm in front of it.
packages_check="check openmpi-bin libopenmpi-dev slurm-wlm munge"
# oneDNN is built for these; elsewhere the reference device does the work.
case $(dpkg --print-architecture 2>/dev/null || true) in
amd64 | arm64 | ppc64el | s390x) packages_build="$packages_build libdnnl-dev" ;;
esac

cores=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
top=$(pwd)
bold= dim= red= green= plain=
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
    esc=$(printf '\033')
    bold="$esc[1m" dim="$esc[2m" red="$esc[31m" green="$esc[32m" plain="$esc[0m"
fi

step() { printf '%s%-10s%s %s\n' "$bold" "$1" "$plain" "$2"; }
note() { printf '%-10s %s\n' '' "$1"; }
die() {
    printf '%s: %s\n' "${0##*/}" "$1" >&2
    exit "${2:-1}"
}

# The end of a log, for a command that failed.
die_log() {
    tail -n 25 "$2" >&2
    die "$1; all of it is in $2"
}

is_installed() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# need_packages LOG PACKAGE...: installs those that are missing; asks apt nothing if none is.
need_packages() {
    log=$1
    shift
    if ! command -v dpkg-query >/dev/null 2>&1; then
        step packages "not a Debian system: configure will name what is missing"
        return
    fi
    missing=
    for p in "$@"; do
        is_installed "$p" || missing="$missing $p"
    done
    if [ -z "$missing" ]; then
        step packages "all $# are installed"
        return
    fi
    sudo=
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null 2>&1 ||
            die "these packages are missing; as root: apt-get install$missing"
        sudo=sudo
    fi
    total=$#
    set -- $missing
    step packages "installing $# of $total with apt-get"
    printf '%s ' $missing | fold -s -w 66 | while read -r words || [ -n "$words" ]; do
        note "$dim$words$plain"
    done
    {
        $sudo env DEBIAN_FRONTEND=noninteractive apt-get update -qq &&
            $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
    } >"$log" 2>&1 </dev/null || die_log "apt-get failed" "$log"
}

# passing TEXT: on a terminal, a line that the next one is written over.
passing() {
    [ -z "$bold" ] || printf '\r%-10s %s%s' '' "$1" "$esc[K"
}

# counted LOG: on one line that is written over, what the make writing to LOG has done; until killed.
counted() {
    while :; do
        sleep 0.5
        tests=$(grep -c '^[A-Z]*: tests/' "$1" || true)
        [ "$tests" -eq 0 ] || then_text=", $tests tests"
        ! grep -q '^libtool: install: ' "$1" || then_text=", installing"
        passing "$(grep -c '^  CC ' "$1" || true) files compiled${then_text:-}"
    done
}

# run_make FOLDER LOG TARGET...: quietly, with a count of the files on a terminal.
run_make() {
    folder=$1 log=$2 watcher= status=0
    shift 2
    : >"$log"
    if [ -n "$bold" ]; then
        counted "$log" &
        watcher=$!
    fi
    # config.h first: after an update of the sources make would renew it beside the files that include it.
    { make -C "$folder" config.h && make -C "$folder" -j "$cores" "$@"; } >"$log" 2>&1 </dev/null || status=$?
    if [ -n "$watcher" ]; then
        kill "$watcher" 2>/dev/null || true
        wait "$watcher" 2>/dev/null || true
    fi
    [ -z "$bold" ] || printf '\r%s' "$esc[K"
    [ "$status" -eq 0 ] || die_log "make $* failed in $folder" "$log"
}

# prepare FOLDER CONFIGURE-ARGUMENT...: makes the folder and its Makefile, unless they are there.
prepare() {
    folder=$1
    shift
    mkdir -p "$folder"
    log=$top/$folder/configure.out
    if [ ! -x configure ] || [ configure.ac -nt configure ]; then
        passing "making configure"
        ./bootstrap >"$log" 2>&1 || die_log "bootstrap failed" "$log"
    fi
    if [ ! -f "$folder/Makefile" ] || [ "$(cat "$folder/configured" 2>/dev/null)" != "$*" ]; then
        passing "looking at the system"
        (cd "$folder" && "$top/configure" -q "$@") >"$log" 2>&1 || die_log "configure failed" "$log"
        printf '%s\n' "$*" >"$folder/configured"
    fi
}
