#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The same commit gives the same tarball, and the same tarball the same installed files: everything is
# made twice, in folders of other names and depths, with another umask, time zone and language, and
# compared byte for byte. Takes two builds; prints one line a step.
#
# packaging/check-reproducible.sh [--dist-only]
set -eu
cd "$(dirname "$0")/.."
top=$(pwd) cores=$(getconf _NPROCESSORS_ONLN)
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
unset SOURCE_DATE_EPOCH CFLAGS
# A compile cache would give the second build the first one's files.
CCACHE_DISABLE=1
export CCACHE_DISABLE

step() { printf '%-10s %s\n' "$1" "$2"; }
die() {
    step FAILED "$1"
    exit 1
}
# quietly LOG COMMAND...
quietly() {
    log=$folder/$1
    shift
    "$@" >"$log" 2>&1 </dev/null || {
        tail -n 25 "$log" >&2
        die "$*"
    }
}

one=$folder/one two=$folder/a/longer/name/two
mkdir -p "$folder/a/longer/name"
git clone -q "$top" "$one"
(umask 077 && git clone -q "$top" "$two")

# In the folder of the sources; and outside it, called by its relative name.
dist_one() {
    cd "$one" && ./bootstrap && ./configure -q && make -s dist
}
dist_two() {
    umask 077
    TZ=Asia/Kathmandu LC_ALL=C.UTF-8 XZ_OPT=-0
    export TZ LC_ALL XZ_OPT
    cd "$two" && ./bootstrap && mkdir ../build && cd ../build && ../two/configure -q --prefix=/opt/elsewhere && make -s dist
}
quietly dist1.out dist_one
quietly dist2.out dist_two
tarball=$(cd "$one" && echo stance-*.tar.xz)
cmp "$one/$tarball" "$two/../build/$tarball" || die "make dist: two tarballs differ"
step dist "$tarball, $(wc -c <"$one/$tarball") bytes: the same from two clones"

# And from itself.
mkdir "$folder/again"
tar -xf "$one/$tarball" -C "$folder/again"
dist_again() {
    cd "$folder/again/${tarball%.tar.xz}" && ./configure -q && make -s dist
}
quietly dist3.out dist_again
cmp "$one/$tarball" "$folder/again/${tarball%.tar.xz}/$tarball" || die "make dist from the tarball: another one"
step dist "and the same again from the unpacked tarball"
[ "${1:-}" != --dist-only ] || exit 0

# build SOURCES BUILD CONFIGURE DESTDIR: the default flags, debug information included.
build() {
    mkdir -p "$2" && cd "$2" && "$3" -q --disable-static --prefix=/usr &&
        make -s -j "$cores" && make -s install DESTDIR="$4"
}
mkdir "$folder/x"
tar -xf "$one/$tarball" -C "$folder/x"
quietly build1.out build "$folder/x/${tarball%.tar.xz}" "$folder/x/${tarball%.tar.xz}" ./configure "$folder/i1"
step build "in the folder of the sources"
mkdir -p "$folder/y/z"
tar -xf "$one/$tarball" -C "$folder/y/z"
quietly build2.out build "$folder/y/z/${tarball%.tar.xz}" "$folder/y/b/c" "$folder/y/z/${tarball%.tar.xz}/configure" "$folder/i2"
step build "in a folder outside, configure called by its absolute name"
diff -r "$folder/i1" "$folder/i2" || die "two installations differ"
! grep -rl "$folder" "$folder/i1" || die "the files above name the folder they were built in"
step install "$(find "$folder/i1" -type f | wc -l) installed files, $(find "$folder/i1" -name '*.so*' -type f | wc -l) of them shared objects: the same"
