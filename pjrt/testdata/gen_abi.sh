#!/bin/sh
# Writes the layout of a published pjrt_c_api.h beside this file, as abi_<major>_<minor>.txt, where
# the tests compare it with our own declarations: gen_abi.sh HEADER
set -eu
if [ $# -ne 1 ] || [ ! -f "$1" ]; then
  echo "gen_abi.sh: expected the path of a pjrt_c_api.h, got '${1:-}': make gen-abi HEADER=path" >&2
  exit 1
fi
header=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
package=$(dirname "$here")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${CC:-cc}" -std=gnu11 -w -DPUBLISHED_HEADER="\"$header\"" -I"$package" -o "$work/table" "$package/abi_table.c"
"$work/table" > "$work/table.txt"
version=$(sed -n '1s/^version \([0-9]*\)\.\([0-9]*\)$/\1_\2/p' "$work/table.txt")
cp "$work/table.txt" "$here/abi_$version.txt"
echo "wrote ${here#"$PWD"/}/abi_$version.txt"
