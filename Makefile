# `make help` lists the targets. Nothing but Go, Python and g++ needs to be installed by hand.

PYTHON ?= python3
# The wheel is built, linted and its Go side tested with BUILD (small); TEST holds the newest torch,
# the tests' packages and the wheel, and serves the tests and the demo; OLDEST the oldest torch.
BUILD  := $(CURDIR)/.venv-build
TEST   := $(CURDIR)/.venv
OLDEST := $(CURDIR)/.venv-oldest
PEERS  := $(CURDIR)/.peers
PYPJRT := $(CURDIR)/.peers-pypjrt
# Plugins of other makers, in a directory that no environment knows of.
PLUGINS := $(CURDIR)/.plugins
OLDEST_TORCH := torch==2.9.*

STAMPS := build/stamps
PIP    := -m pip --disable-pip-version-check --quiet

GO_SOURCES     := $(shell find gosrc pjrt -type f \( -name '*.go' -o -name '*.c' -o -name '*.h' \)) go.mod go.sum
PYTHON_SOURCES := $(shell find python -type f \( -name '*.py' -o -name '*.cpp' -o -name '*.h' -o -name 'py.typed' \))
WHEEL_SOURCES  := $(GO_SOURCES) $(PYTHON_SOURCES) setup.py pyproject.toml README.md LICENSE
ADAPTER_FILES  := $(wildcard python/xla_go/torch_adapter/*.cpp python/xla_go/torch_adapter/*.h)
EXTENSION_FILES := $(wildcard gosrc/bind/extension/*.c gosrc/bind/extension/*.h)
ADAPTER        := $(ADAPTER_FILES) $(wildcard gosrc/dispatch/*.h) python/xla_go/_adapter.py

# The plugin that the Go tests run on.
export XLA_GO_TEST_PLUGIN ?= $(shell ls $(BUILD)/lib/python3*/site-packages/fastatomstruct_xla_cpu/libpjrt_cpu.so 2>/dev/null)

# Those that more tests run on, with colons between them.
OTHER_PLUGINS := $(addprefix $(PLUGINS)/,xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so)
export XLA_GO_TEST_PLUGINS ?= $(shell ls $(OTHER_PLUGINS) 2>/dev/null | paste -sd : -)

.DEFAULT_GOAL := help
.PHONY: help venv wheel wheels try-wheel develop demo test test-go fuzz fuzz-python soak sanitize valgrind audit reliability test-python test-oldest test-full conform test-memory lint docs bench gen gen-check gen-abi fallbacks peers torch-xla-suite clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- environments ---------------------------------------------------------------------------

$(STAMPS)/build-venv: tests/requirements-build.txt
	$(PYTHON) -m venv $(BUILD)
	$(BUILD)/bin/python $(PIP) install -r $<
	@mkdir -p $(@D) && touch $@

$(STAMPS)/test-venv: tests/requirements-test.txt
	$(PYTHON) -m venv $(TEST)
	$(TEST)/bin/python $(PIP) install "torch>=2.9" numpy fastatomstruct-xla-cpu -r $<
	@mkdir -p $(@D) && touch $@

# torchaudio does not say which torch it loads with: the one of the same release.
$(STAMPS)/oldest-venv: tests/requirements-test.txt
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python $(PIP) install "$(OLDEST_TORCH)" "$(subst torch,torchaudio,$(OLDEST_TORCH))" numpy fastatomstruct-xla-cpu -r $<
	@mkdir -p $(@D) && touch $@

$(STAMPS)/plugins: tests/requirements-plugins.txt $(STAMPS)/build-venv
	rm -rf $(PLUGINS)
	$(BUILD)/bin/python $(PIP) install --no-deps --target $(PLUGINS) -r $<
	@mkdir -p $(@D) && touch $@

venv: $(STAMPS)/build-venv $(STAMPS)/test-venv ## make the environments for building and testing (downloads torch once)

# --- building -------------------------------------------------------------------------------

# The rows are the operators' names as the adapter registers them.
ROWS := gosrc/dispatch/rows_gen.h
$(ROWS): $(wildcard gosrc/ops/*.go gosrc/ops/genrows/*.go)
	go run ./gosrc/ops/genrows $@

# One adapter per torch: the newest, and the oldest where its environment is there. For any other
# torch the wheel builds it at first use.
PREBUILT := $(STAMPS)/prebuilt-newest $(if $(wildcard $(OLDEST)/bin/python),$(STAMPS)/prebuilt-oldest)

$(STAMPS)/prebuilt-newest: $(ADAPTER) $(ROWS) $(STAMPS)/test-venv
	$(TEST)/bin/python -I python/xla_go/_adapter.py --prebuild build/prebuilt
	@touch $@

$(STAMPS)/prebuilt-oldest: $(ADAPTER) $(ROWS) $(STAMPS)/oldest-venv
	$(OLDEST)/bin/python -I python/xla_go/_adapter.py --prebuild build/prebuilt
	@touch $@

# $(1): where the wheel goes. Two builds at once would share build/.
define build_wheel
flock build/lock sh -c "rm -rf $(1) build/lib* build/bdist* && $(BUILD)/bin/python $(PIP) wheel --no-deps --no-build-isolation --no-index --wheel-dir $(1) ."
endef

$(STAMPS)/wheel: $(WHEEL_SOURCES) $(ROWS) $(PREBUILT) | $(STAMPS)/build-venv
	export XLA_GO_PREBUILT=$(CURDIR)/build/prebuilt; $(call build_wheel,dist)
	@touch $@

$(STAMPS)/develop-wheel: $(WHEEL_SOURCES) $(ROWS) | $(STAMPS)/build-venv
	$(call build_wheel,build/develop)
	@touch $@

wheel: $(STAMPS)/wheel ## build dist/xla_go-*.whl
	@ls dist/*.whl

# The CPythons of this machine that xla_go supports.
PYTHONS = $(shell for minor in 10 11 12 13 14; do python3.$$minor -c 'import sys; print(sys.executable)' 2>/dev/null; done)

wheels: $(STAMPS)/build-venv $(ROWS) ## wheels to give away, in wheels/: PYTHONS="python ..." (default: all here), each with adapters for all of torch's releases
	$(BUILD)/bin/python packaging/torch_headers.py build/torch-headers
	flock build/lock $(BUILD)/bin/python packaging/wheels.py --headers build/torch-headers --output wheels $(PYTHONS)

try-wheel: ## install WHEEL=path into environments of their own with the oldest and the newest torch, and run README's example and the demo
	@test -n "$(WHEEL)" || { echo "make try-wheel: expected WHEEL=path of a wheel for $(PYTHON)"; exit 2; }
	$(PYTHON) packaging/try_wheel.py $(WHEEL) "$(OLDEST_TORCH)" torch

# --force-reinstall: between releases the version, which pip goes by, stays the same.
define install_wheel
$(1)/bin/python $(PIP) install --no-deps --no-index --force-reinstall $(2)/*.whl
endef

$(STAMPS)/test-installed: $(STAMPS)/wheel $(STAMPS)/test-venv
	$(call install_wheel,$(TEST),dist)
	@touch $@

$(STAMPS)/oldest-installed: $(STAMPS)/wheel $(STAMPS)/oldest-venv
	$(call install_wheel,$(OLDEST),dist)
	@touch $@

develop: $(STAMPS)/develop-wheel ## build and install into an environment of yours: make develop VENV=path
	@test -n "$(VENV)" || { echo "make develop: expected VENV=path of a virtual environment that has torch"; exit 2; }
	$(call install_wheel,$(VENV),build/develop)

# --- running --------------------------------------------------------------------------------

demo: $(STAMPS)/test-installed ## install the wheel and train a small convolutional net on device xla
	mkdir -p demo-output && cd demo-output && $(TEST)/bin/python $(CURDIR)/examples/digits.py

# --- testing --------------------------------------------------------------------------------

test: test-go test-python ## Go tests with the race detector, then pytest against the installed wheel

test-go: $(STAMPS)/build-venv $(STAMPS)/plugins ## go vet and go test -race
	go vet ./...
	go test -race ./...

# What they find is kept in testdata/fuzz and is tried by every `go test` from then on.
FUZZTIME := 10m
fuzz: ## every fuzz target of the Go code for FUZZTIME (10m); FUZZ=--note keeps the numbers for docs/reliability.md
	$(PYTHON) tests/reliability/fuzz.py $(FUZZTIME) $(FUZZ)

# atheris is for CPython up to 3.13 or so, so it is no package of every test environment.
fuzz-python: $(STAMPS)/test-installed ## every fuzz target of the Python code for FUZZTIME (10m); TARGETS="name ..." some of them, FUZZ=--note keeps the numbers
	$(TEST)/bin/python $(PIP) install atheris
	$(TEST)/bin/python tests/reliability/fuzz_python.py $(FUZZTIME) $(TARGETS) $(FUZZ)

SOAK_MINUTES := 120
soak: $(STAMPS)/test-installed ## one process that trains, reads, fails, forks and compiles for SOAK_MINUTES (120); nothing may grow
	mkdir -p build/soak && cd build/soak && $(TEST)/bin/python $(CURDIR)/benchmarks/soak.py --minutes $(SOAK_MINUTES)

# From an empty directory, so that only the installed wheel can be imported.
define run_pytest
mkdir -p build/pytest && cd build/pytest && $(1)/bin/python -m pytest -n 2 --dist worksteal --rootdir $(CURDIR) -c $(CURDIR)/pyproject.toml $(CURDIR)/tests $(2) $(PYTEST)
endef

test-python: $(STAMPS)/test-installed $(STAMPS)/plugins ## pytest against the installed wheel with the newest torch; PYTEST=... adds arguments
	$(call run_pytest,$(TEST),-m "not slow")

test-oldest: $(STAMPS)/oldest-installed $(STAMPS)/plugins ## pytest with the oldest supported torch, without what depends little on torch's release
	$(call run_pytest,$(OLDEST),-m "not slow and not once" --share 3)

test-full: test-go $(STAMPS)/test-installed ## everything, slow tests included
	$(call run_pytest,$(TEST),)

# The plugin that fails on demand, as testplugin.go builds it.
build/testplugin.so: $(wildcard pjrt/testplugin/source/*) pjrt/pjrt_abi.h
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O1 -g -shared -fPIC -pthread -Wall -Werror -Wno-unused-function -fvisibility=hidden -Ipjrt -Ipjrt/testplugin/source -o $@ $(wildcard pjrt/testplugin/source/*.c)

conform: $(STAMPS)/test-installed $(STAMPS)/plugins build/testplugin.so ## the table of the conformance suite: both clients over four plugins; CONFORM=... adds arguments
	mkdir -p build/conform && cd build/conform && $(TEST)/bin/python -m xla_go conform $(foreach plugin,$(XLA_GO_TEST_PLUGIN) $(OTHER_PLUGINS) $(CURDIR)/build/testplugin.so,--plugin $(plugin)) --json conform.json $(CONFORM)

CGO_ROOMS := ./pjrt/... ./gosrc/dispatch/... ./gosrc/bind/...
test-memory: $(STAMPS)/build-venv ## the rooms that have C in them, with the address sanitizer and with all checks of cgo
	go test -asan $(CGO_ROOMS)
	GOEXPERIMENT=cgocheck2 go test $(CGO_ROOMS)

# The adapter and the C parts of the Go library are built anew, and installed into a directory of their own, for an ordinary Python:
# the sanitizers' libraries come first, but not where the compiler runs, so the adapter is built before, by an import that cannot
# load it yet. The detector of leaks is off: Python and torch keep what they have to their end. Checks of vptr need torch's types.
SANITIZE := -fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=undefined
SANITIZED := tests/test_step.py tests/test_views.py
sanitize: $(STAMPS)/build-venv $(STAMPS)/test-venv $(ROWS) ## all our C and C++ with the address and the undefined-behaviour sanitizer, over SANITIZED
	rm -rf build/sanitize build/native && mkdir -p build/sanitize
	export CGO_CFLAGS="-O1 -g $(SANITIZE)" CGO_LDFLAGS="$(SANITIZE)"; $(call build_wheel,build/sanitize/wheel); status=$$?; rm -rf build/native; exit $$status
	$(BUILD)/bin/python $(PIP) install --no-deps --no-index --target build/sanitize/packages build/sanitize/wheel/*.whl
	cd build/sanitize && export PYTHONPATH=$(CURDIR)/build/sanitize/packages CXX="g++ $(SANITIZE)" XLA_GO_CACHE_DIR=$(CURDIR)/build/sanitize/cache && { $(TEST)/bin/python -c "import xla_go" 2>&1 | tail -1; } && \
	  ASAN_OPTIONS=detect_leaks=0:handle_segv=0 UBSAN_OPTIONS=print_stacktrace=1 \
	  LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so) $$(g++ -print-file-name=libstdc++.so)" \
	  $(TEST)/bin/python -m pytest -q --rootdir $(CURDIR) -c $(CURDIR)/pyproject.toml -m "not slow" $(addprefix $(CURDIR)/,$(SANITIZED)) $(PYTEST)

# Go's own functions are suppressed by their names, which have a dot: stacks that Go moves look uninitialised. Of C no clones are made,
# whose names have one too, and its debug information is in the form that valgrind reads.
VALGRINDED := ^(TestLoadRefusesInWords|TestOutOfOrder|TestErrorPayload|TestPack|TestCopyOfStrides|TestCopyBackwards|TestKeyValueCallbacks|TestHostMemory|TestHostTransferFailures)$$
valgrind: ## the C parts of the PJRT layer with valgrind's memcheck, over VALGRINDED
	CGO_CFLAGS="-O1 -g -gdwarf-4 -fno-ipa-cp -fno-ipa-sra -fno-partial-inlining" go test -c -o build/pjrt.test ./pjrt
	cd pjrt && valgrind --error-exitcode=9 --leak-check=no --max-stackframe=100000000000000 --suppressions=../tests/reliability/valgrind.supp ../build/pjrt.test -test.run '$(VALGRINDED)'

# They ask databases on the network; the rules of ruff on security are part of `make lint`.
audit: $(STAMPS)/build-venv ## known faults of what we depend on (govulncheck, pip-audit) and gosec
	go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...
	go run github.com/securego/gosec/v2/cmd/gosec@v2.30.0 -quiet -exclude=G103,G104,G115,G204,G304 -exclude-generated ./...
	$(BUILD)/bin/python $(PIP) install pip-audit
	$(BUILD)/bin/python -m pip_audit --requirement tests/requirements-build.txt

lint: $(STAMPS)/build-venv ## gofmt, go vet, staticcheck, ruff, mypy, clang-format
	@$(MAKE) --no-print-directory -n test-python | grep -q -- "-m pytest" || { echo "make test-python: expected it to run pytest"; exit 1; }
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$unformatted" || { echo "gofmt -w is needed for:"; echo "$$unformatted"; exit 1; }
	go vet ./...
	go tool staticcheck ./...
	$(BUILD)/bin/ruff check .
	$(BUILD)/bin/mypy
	$(BUILD)/bin/clang-format --dry-run -Werror $(ADAPTER_FILES) $(EXTENSION_FILES)

docs: $(STAMPS)/build-venv ## the pages as a site, in build/site; what is wrong in them fails
	NO_MKDOCS_2_WARNING=1 $(BUILD)/bin/mkdocs build --strict --quiet

bench: $(STAMPS)/test-installed ## the benchmarks, beside torch CPU and go-xla and, after `make peers`, torch_xla, JAX and pypjrt
	mkdir -p build/bench && cd build/bench && $(TEST)/bin/python $(CURDIR)/benchmarks/run.py $(if $(wildcard $(PEERS)/bin/python),--peers $(PEERS)/bin/python)
	cd build/bench && $(TEST)/bin/python $(CURDIR)/benchmarks/dispatch.py $(if $(wildcard $(PEERS)/bin/python),--jax $(PEERS)/bin/python) $(if $(wildcard $(PYPJRT)/bin/python),--pypjrt $(PYPJRT)/bin/python --plugin $(XLA_GO_TEST_PLUGIN))
	cd build/bench && $(TEST)/bin/python $(CURDIR)/benchmarks/devices.py
	cd benchmarks/goxla && go test -v .
	cd build/bench && $(TEST)/bin/python $(CURDIR)/benchmarks/transfer.py $(if $(wildcard $(PEERS)/bin/python),--peers $(PEERS)/bin/python)
	go test ./gosrc/client/pjrtclient ./gosrc/client/ifrtclient -p 1 -run '^$$' -bench 'Transfer$$' -benchtime 1x

peers: ## environments with torch_xla 2.9, JAX and pypjrt to compare with (downloads)
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python $(PIP) install "torch==2.9.0" "torch_xla==2.9.0" jax numpy
	$(PYTHON) -m venv $(PYPJRT)
	$(PYPJRT)/bin/python $(PIP) install "pypjrt==0.1.1" numpy

torch-xla-suite: ## torch_xla's own tests on xla_go, from its checkout: make torch-xla-suite TORCH_XLA=path; SUITE=... adds arguments
	@test -n "$(TORCH_XLA)" || { echo "make torch-xla-suite: expected TORCH_XLA=path of a checkout of torch_xla v2.9.0"; exit 2; }
	$(MAKE) $(STAMPS)/oldest-installed
	$(OLDEST)/bin/python $(PIP) install absl-py parameterized rich jax torchax
	mkdir -p build/torch-xla-suite && cd build/torch-xla-suite && $(OLDEST)/bin/python $(CURDIR)/tests/peers/torch_xla_suite.py "$(abspath $(TORCH_XLA))" --json suite.json $(SUITE)

# --- generated files ------------------------------------------------------------------------

gen: $(STAMPS)/build-venv ## write the generated files anew
	sh gosrc/hlo/proto/generate.sh
	sh gosrc/coordinator/proto/generate.sh
	go run ./gosrc/ops/genrows $(ROWS)

gen-check: gen ## fail where a generated file is not what `make gen` writes
	git diff --exit-code -- gosrc pjrt

fallbacks: $(STAMPS)/test-installed ## write docs/fallbacks.md anew from the data files of tests/opinfo
	PYTHONPATH=tests $(TEST)/bin/python -m opinfo --fallbacks

reliability: ## write the tables of docs/reliability.md anew from the data files of tests/reliability
	$(PYTHON) tests/reliability/page.py

gen-abi: ## write the layout of a PJRT header for the tests: make gen-abi HEADER=path
	sh pjrt/testdata/gen_abi.sh "$(HEADER)"

clean: ## remove what was built; environments stay (rm -rf .venv* removes them)
	rm -rf build/lib* build/bdist* build/_native build/native build/prebuilt build/develop build/pytest build/torch-xla-suite build/conform build/site build/testplugin.so dist demo-output $(STAMPS)/*wheel $(STAMPS)/prebuilt-* $(STAMPS)/*-installed
