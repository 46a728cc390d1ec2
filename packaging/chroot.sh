# SPDX-License-Identifier: Apache-2.0
#
# Debian chroots for the checks of packages. Read by `.`; needs root and mmdebstrap. Nothing stays mounted:
# each command has a mount namespace of its own.
#   cache    folder for what may be kept between runs (base.tar, archives/, ccache/), or empty
#   sources  file in the form of sources.list

step() { printf '%-10s %s\n' "$1" "$2"; }
die() {
    step FAILED "$1"
    exit 1
}

# logged LOG COMMAND...: the end of the log, if the command fails.
logged() {
    log=$1
    shift
    "$@" >"$log" 2>&1 </dev/null || {
        tail -n 40 "$log" >&2
        die "the log is $log"
    }
}

# base TAR [MMDEBSTRAP-OPTION...]: a bare Debian 12 with apt, unless the file is there.
base() {
    tar=$1
    shift
    [ -f "$tar" ] || {
        mmdebstrap --quiet --variant=apt "$@" bookworm "$tar.new" "$sources" && mv "$tar.new" "$tar"
    }
}

# unpack TAR ROOT: a fresh chroot.
unpack() {
    mkdir -p "$2/proc"
    tar -xf "$1" -C "$2"
    cp -L /etc/resolv.conf /etc/hosts "$2/etc/"
    printf 'Acquire::Check-Valid-Until "false";\nAcquire::Check-Date "false";\nAPT::Sandbox::User "root";\n' >"$2/etc/apt/apt.conf.d/90check"
    echo force-unsafe-io >"$2/etc/dpkg/dpkg.cfg.d/unsafe-io" # nobody mourns a chroot
    chroot "$2" useradd --create-home --shell /bin/sh builder
    inside "$2" root apt-get update -qq
}

# inside ROOT USER COMMAND...: with OFFLINE=yes without a network, as packages are built.
inside() (
    root=$1 user=$2
    shift 2
    [ "${OFFLINE:-}" != yes ] || net=--net
    unshare --mount --propagation private ${net:-} sh -ec '
        root=$1 user=$2 cache=$3
        shift 3
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        mount -t tmpfs -o mode=1777 tmpfs "$root/run/lock" 2>/dev/null || true
        ! command -v ip >/dev/null || ip link set lo up 2>/dev/null || true
        path=/usr/sbin:/usr/bin:/sbin:/bin
        if [ -n "$cache" ]; then
            mkdir -p "$cache/archives/partial" "$cache/ccache" "$root/var/cache/ccache"
            chmod 1777 "$cache/ccache"
            mount --bind "$cache/archives" "$root/var/cache/apt/archives"
            mount --bind "$cache/ccache" "$root/var/cache/ccache"
            [ "$user" = root ] || path=/usr/lib/ccache:$path
        fi
        [ "$user" = root ] && home=/root || home=/nonexistent
        run="$*"
        exec env -i PATH="$path" HOME="$home" TERM=dumb LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
            CCACHE_DIR=/var/cache/ccache CCACHE_UMASK=000 DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-parallel=$(getconf _NPROCESSORS_ONLN)}" \
            chroot "$root" setpriv --reuid="$user" --regid="$user" --init-groups sh -ec "$run"
    ' sh "$root" "$user" "$cache" "$@"
)
