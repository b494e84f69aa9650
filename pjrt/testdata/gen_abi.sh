#!/bin/sh
# Prints the layout of a published pjrt_c_api.h: gen_abi.sh HEADER > abi_<major>_<minor>.txt
set -eu
header=$(realpath "$1")
source=$(dirname "$(dirname "$(realpath "$0")")")
program=$(mktemp)
trap 'rm -f "$program"' EXIT
"${CC:-cc}" -std=gnu11 -w -DPUBLISHED_HEADER="\"$header\"" -I"$source" -o "$program" "$source/abi_table.c"
"$program"
