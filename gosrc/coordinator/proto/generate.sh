#!/bin/sh
# Writes the Go code of the .proto file beside this script. Needs Go and Python; the generators
# are pinned and live in a temporary directory, so nothing is installed.
set -eu

protoc_gen_go_version=v1.36.12
protoc_gen_go_grpc_version=v1.6.2
grpcio_tools_version=1.85.1

directory=$(cd "$(dirname "$0")" && pwd)
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT INT TERM

GOBIN="$tools" go install "google.golang.org/protobuf/cmd/protoc-gen-go@$protoc_gen_go_version"
GOBIN="$tools" go install "google.golang.org/grpc/cmd/protoc-gen-go-grpc@$protoc_gen_go_grpc_version"
python3 -m venv "$tools/venv"
"$tools/venv/bin/pip" install --quiet --disable-pip-version-check "grpcio-tools==$grpcio_tools_version"
"$tools/venv/bin/python" -m grpc_tools.protoc \
  --plugin="protoc-gen-go=$tools/protoc-gen-go" \
  --plugin="protoc-gen-go-grpc=$tools/protoc-gen-go-grpc" \
  --proto_path="$directory" \
  --go_out="$directory" --go_opt=paths=source_relative \
  --go-grpc_out="$directory" --go-grpc_opt=paths=source_relative \
  coordinator.proto
