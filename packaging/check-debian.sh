#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The Debian packages of the last commit, from a bare Debian 12 each time: built where nothing but
# Build-Depends is installed and no network is reached, looked through by lintian, installed elsewhere,
# tried, tested by autopkgtest and purged. Prints one line a step; status 0 if all went well.
set -eu

usage() {
    cat <<'END'
Usage: packaging/check-debian.sh [--cache DIR] [--sources FILE] [--out DIR]

As root, with mmdebstrap and git installed.

  --cache DIR     keep the base system, the downloads and the compile cache there
  --sources FILE  the apt sources of the chroots, in the form of sources.list
  --out DIR       put the packages and the logs there (packages-out)
END
}

cache= sources=deb\ http://deb.debian.org/debian\ bookworm\ main out=packages-out
while [ $# -gt 0 ]; do
    case $1 in
    --cache) mkdir -p "$2" && cache=$(cd "$2" && pwd) && shift 2 ;;
    --sources) sources=$2 && shift 2 ;;
    --out) out=$2 && shift 2 ;;
    --help | -h) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
    esac
done
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
out=$(cd "$out" && pwd)
. "$here/chroot.sh"
top=$(cd "$here/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
started=$(date +%s)

tar=${cache:-$work}/base.tar
logged "$out/base.log" base "$tar"

# What a release would be: the tarball of `make dist` and debian/ beside it. A chroot of its own, since
# this needs git.
source=$(dpkg-parsechangelog -l"$top/debian/changelog" -SSource)
version=$(dpkg-parsechangelog -l"$top/debian/changelog" -SVersion)
upstream=${version%-*}
dir=$source-$upstream

logged "$out/unpack.log" unpack "$tar" "$work/build"
mkdir "$work/build/build"
git clone -q "$top" "$work/build/build/git"
chroot "$work/build" chown -R builder: /build
logged "$out/build-dep.log" inside "$work/build" root "apt-get install -y -qq --no-install-recommends git ${cache:+ccache} >/dev/null
    cd /build/git
    apt-get build-dep -y -qq --no-install-recommends ."
logged "$out/dist.log" inside "$work/build" builder "cd /build/git
    ./bootstrap
    ./configure -q
    make -s dist-xz
    mv $dir.tar.xz ../${source}_$upstream.orig.tar.xz
    cd ..
    tar -xf ${source}_$upstream.orig.tar.xz
    cp -r git/debian $dir/"
rm -r "$work/build/build/git"
inside "$work/build" root "apt-get purge -y -qq git >/dev/null 2>&1"
step source "$dir, tarball of $(wc -c <"$work/build/build/${source}_$upstream.orig.tar.xz") bytes"

from=$(date +%s)
OFFLINE=yes logged "$out/build.log" inside "$work/build" builder "cd /build/$dir; dpkg-buildpackage -us -uc"
rm -f "$out"/*.deb "$out/$source"_*
find "$work/build/build" -maxdepth 1 -type f -exec cp {} "$out/" \;
step build "$(ls "$out"/*.deb | wc -l) packages in $(($(date +%s) - from)) s; tests: $(grep -c '^PASS: ' "$out/build.log" || true) passed, $(grep -c '^SKIP: ' "$out/build.log" || true) skipped, $(grep -c '^FAIL: ' "$out/build.log" || true) failed"
grep -E 'warning: ' "$out/build.log" | grep -v 'libtool: \|dpkg-' >"$out/warnings.txt" || true
[ ! -s "$out/warnings.txt" ] || { cat "$out/warnings.txt" && die "the compiler warns"; }
! grep -E '^(PRAGMA|dpkg-gensymbols: warning|dh_missing: warning|dpkg-shlibdeps: warning)' "$out/build.log" || die "the build warns"
for d in "$out"/*.deb; do step package "${d##*/} $(wc -c <"$d") bytes, $(dpkg-deb -c "$d" | grep -c '^[-l]') files"; done

logged "$out/lintian-install.log" inside "$work/build" root "apt-get install -y -qq --no-install-recommends lintian"
inside "$work/build" builder "cd /build; lintian --profile debian --display-info --pedantic --fail-on error,warning *.changes" \
    >"$out/lintian.txt" 2>&1 || { grep '^[EW]' "$out/lintian.txt" || cat "$out/lintian.txt"; die "lintian"; }
step lintian "no errors, no warnings; $(grep -c '^I' "$out/lintian.txt" || true) informations, $(grep -c '^P' "$out/lintian.txt" || true) pedantic, in $out/lintian.txt"
rm -rf --one-file-system "$work/build"

# Installed elsewhere: what they depend on first, so that only their own files come and go after it.
logged "$out/unpack2.log" unpack "$tar" "$work/install"
mkdir "$work/install/debs"
cp "$out"/*.deb "$work/install/debs/"
rm -f "$work/install/debs/"*-dbgsym_*
ours=$(for d in "$work/install/debs/"*.deb; do dpkg-deb -f "$d" Package; done | tr '\n' ' ')
logged "$out/depends.log" inside "$work/install" root "
    others=\$(apt-get -s install --no-install-recommends /debs/*.deb | sed -n 's/^Inst \([^ ]*\).*/\1/p' |
        grep -Fxv \"\$(printf '%s\n' $ours)\")
    apt-get install -y -qq --no-install-recommends --mark-auto \$others"
# Not the package manager's own records, nor caches that belong to others.
files() {
    find "$work/install" -xdev -mindepth 1 \( -path "$work/install/var/lib/dpkg" -o -path "$work/install/var/lib/apt" \
        -o -path "$work/install/var/log" -o -path "$work/install/var/cache/apt" -o -path "$work/install/debs" \
        -o -path "$work/install/var/cache/ldconfig" \) -prune -o -printf '%P %y %s\n' |
        grep -v '^etc/ld.so.cache \|^var/cache/man/\|^var/cache/fontconfig/\|^var d \|^etc d ' | sort
}
files >"$out/files-before.txt"
logged "$out/install.log" inside "$work/install" root "apt-get install -y -qq --no-install-recommends /debs/*.deb"
step install "$(echo $ours | wc -w) packages"
inside "$work/install" builder "mkdir -p /tmp/try; cd /tmp/try; stance train synthetic_hrnet_w16_128x96 --max-steps 2 \
    --set data.train.samples=64 --set data.val.samples=16 --work-dir run" >"$out/train.log" 2>&1 || {
    cat "$out/train.log"
    die "two steps of training"
}
step train "two steps: $(grep -h '^step\|^epoch' "$out/train.log" | tail -n 1)"
rm -rf "$work/install/tmp/try"
logged "$out/purge.log" inside "$work/install" root "apt-get purge -y -qq $ours"
files >"$out/files-after.txt"
diff "$out/files-before.txt" "$out/files-after.txt" || die "purge leaves the files above"
step purge "leaves nothing behind"
rm -rf --one-file-system "$work/install"

logged "$out/unpack3.log" unpack "$tar" "$work/test"
mkdir "$work/test/debs"
cp "$out"/*.deb "$out/$source"_*.dsc "$out/$source"_*.tar.xz "$work/test/debs/"
rm -f "$work/test/debs/"*-dbgsym_*
logged "$out/autopkgtest.log" inside "$work/test" root "apt-get install -y -qq --no-install-recommends autopkgtest dpkg-dev >/dev/null
    cd /debs
    autopkgtest --no-built-binaries *.deb *.dsc -- null"
step tests "autopkgtest: $(sed '1,/@@@@@* summary/d' "$out/autopkgtest.log" | grep -E '^[a-z-]+ +(PASS|SKIP)' | tr -s ' ' | tr '\n' ' ')"
step time "$((($(date +%s) - started + 59) / 60)) min"
