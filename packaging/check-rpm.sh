#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The RPM packages of the last commit, with rpmbuild. On Debian its database knows no package, so that
# dependencies are not looked at (--nodeps); what is missing stops configure. Prints what was made.
#
# packaging/check-rpm.sh [OUT] (packages-out)
set -eu
cd "$(dirname "$0")/.."
mkdir -p "${1:-packages-out}"
out=$(cd "${1:-packages-out}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

git clone -q . "$work/git"
mkdir -p "$work/rpm/SOURCES"
(cd "$work/git" && ./bootstrap && ./configure -q && make -s dist-xz && mv stance-*.tar.xz "$work/rpm/SOURCES/") >"$out/rpm-dist.log" 2>&1 </dev/null
rpmbuild -bb --nodeps --define "_topdir $work/rpm" --define '_smp_mflags -j2' --define 'debug_package %{nil}' \
    packaging/stance.spec >"$out/rpm.log" 2>&1 </dev/null || {
    tail -n 40 "$out/rpm.log" >&2
    exit 1
}
for p in "$work"/rpm/RPMS/*/*.rpm; do
    cp "$p" "$out/"
    echo "${p##*/}"
    rpm -qp --nosignature --list "$p" | sed 's/^/    /'
done
# Every package belongs to one that requires the others by exact version.
rpm -qp --nosignature --requires "$work"/rpm/RPMS/*/stance-0*.rpm | grep -q '^stance-plugins-base' || {
    echo "FAILED: stance does not require its plugins"
    exit 1
}
