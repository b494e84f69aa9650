#!/bin/sh
# Writes the layout of a published pjrt_c_api.h beside this file, as abi_<major>_<minor>.txt, where
# the tests compare it with our own declarations: gen_abi.sh HEADER
#
# Where HEADER lies in a source tree (.../xla/pjrt/c/pjrt_c_api.h), of 0.114 or later, the layouts of
# the extensions' structs are written too, from the headers beside it, if all of them are there (packages
# that carry headers leave some out).
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

tree=${header%/xla/pjrt/c/pjrt_c_api.h}
extensions="gpu stream layouts ffi memory_descriptions triton raw_buffer shardings profiler"
transfers=xla/pjrt/extensions/cross_host_transfers/pjrt_c_api_cross_host_transfers_extension.h
complete=yes
for name in $extensions; do
  [ -f "$tree/xla/pjrt/c/pjrt_c_api_${name}_extension.h" ] || complete=no
done
[ -f "$tree/$transfers" ] || complete=no
minor=$(sed -n 's/^#define PJRT_API_MINOR \([0-9]*\)$/\1/p' "$header")
if [ "$complete" = yes ] && [ "$minor" -ge 114 ]; then
  # The newest extension names C++ types, of which only pointers are used.
  mkdir -p "$work/types/xla/pjrt"
  : > "$work/types/xla/pjrt/pjrt_common.h"
  cat > "$work/types/xla/pjrt/pjrt_client.h" <<'TYPES'
#pragma once
namespace xla {
struct GlobalDeviceId;
struct CrossHostTransferKey;
struct PjRtCrossHostRecvNotifier {};
struct PjRtBuffer { struct RemoteSendCallback {}; };
}
TYPES
  for name in $extensions; do
    echo "#include \"xla/pjrt/c/pjrt_c_api_${name}_extension.h\""
  done > "$work/extensions.h"
  echo "#include \"$transfers\"" >> "$work/extensions.h"
  set -- "-DPUBLISHED_EXTENSIONS=\"$work/extensions.h\"" "-I$work/types" "-I$tree"
else
  set --
fi
"${CXX:-c++}" -x c++ -std=gnu++17 -w "-DPUBLISHED_HEADER=\"$header\"" "$@" "-I$package" -o "$work/table" "$package/abi_table.c"
"$work/table" > "$work/table.txt"
version=$(sed -n '1s/^version \([0-9]*\)\.\([0-9]*\)$/\1_\2/p' "$work/table.txt")
cp "$work/table.txt" "$here/abi_$version.txt"
echo "wrote ${here#"$PWD"/}/abi_$version.txt"
