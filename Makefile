# Tutti: a small front for CMake.
#   make          builds build/tutti and build/libtutti.so; installs no packages
#   make test     a slice of every kind of test, under 3 minutes on 2 cores after a build
#   make demo, make check
#                 set everything up by themselves on a fresh Debian or Ubuntu machine
# `make help` lists the rest. CONTRIBUTING.md says more.
BUILD ?= build
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local

.PHONY: all build help test demo check check-torch check-mpi check-optimum check-differential \
	check-exit coverage docs pictures screenshots lint fuzz faults bench bench-beside bench-builds bench-flood \
	bench-forest bench-networks bench-peers bench-predict bench-scale bench-seal bench-simgrid bench-torch \
	bench-torch-latency bench-tracing bench-frames bench-uneven soak soak-elastic \
	install clean uninstall

all: build

# When it cannot be configured, what is missing is named, and the command that installs it.
build:
	@cmake -S . -B $(BUILD) -DTUTTI_TESTS=OFF -DCMAKE_INSTALL_PREFIX=$(PREFIX) > $(BUILD).log 2>&1 || \
	    { cat $(BUILD).log; rm -f $(BUILD).log; tools/setup --check build; exit 1; }
	@rm -f $(BUILD).log
	@cmake --build $(BUILD) -j$(JOBS) -- --no-print-directory

help:
	@echo "make             build/tutti and build/libtutti.so"
	@echo "make test        a slice of every kind of test (TEST=regex: those tests alone)"
	@echo "make check       all tests; PART=static|plain|asan|tsan|fuzz: that part alone"
	@echo "make demo        plans, proves, explains and runs an all-reduce; writes a picture"
	@echo "make docs        the site in build-docs/, links checked"
	@echo "make pictures    the pictures of README and docs from docs/data; make screenshots: of pages"
	@echo "make coverage    line coverage of the tests of make test, module by module"
	@echo "make lint        layout, static analysis, may-use table, sizes, documents"
	@echo "make install     PREFIX=/usr/local; make uninstall removes it again"
	@echo "make fuzz, faults, soak, check-torch, check-mpi, check-optimum, check-differential,"
	@echo "     check-exit, bench, bench-peers, bench-builds, ...: CONTRIBUTING.md"

# TEST: a regular expression of names (ctest -R); without it the tests with the label quick.
TEST ?=
test:
	@cmake -S . -B build-check -DTUTTI_WERROR=ON > build-check.log 2>&1 || \
	    { cat build-check.log; rm -f build-check.log; tools/setup --check build test; exit 1; }
	@rm -f build-check.log
	@cmake --build build-check -j$(JOBS) -- --no-print-directory > build-check/build.log 2>&1 || \
	    { tail -40 build-check/build.log; exit 1; }
	@ctest --test-dir build-check -j$(JOBS) --output-on-failure $(if $(TEST),-R '$(TEST)',-L quick)

demo:
	@tools/setup build
	@$(MAKE) --no-print-directory build
	@tools/torch > /dev/null || echo "PyTorch could not be installed: the training at the end is skipped"
	@tools/demo $(BUILD)

# PART: static, plain, asan, tsan, fuzz, or several of them; TEST: of the tests, those whose names match.
PART ?=
check:
	@tools/setup build test
	@for group in mpi samples torch hosts docs; do tools/setup $$group || \
	    echo "$$group: not everything could be installed; tests that need it say so"; done
	@tools/torch 2 > /dev/null || echo "tests of PyTorch 2 are skipped"
	@TEST='$(TEST)' tools/check $(PART)

coverage:
	@tools/setup build test
	@tools/coverage $(TEST)

# The site of the documents, with links checked: build-docs/site/index.html.
docs: build
	@tools/setup --check docs
	@tools/docs $(BUILD)/tutti

# The pictures of README.md and docs/, from the tool's own plans and the measured files in docs/data.
pictures: build
	@tools/draw all $(BUILD)/tutti

# The pictures of pages, in Chromium; some are of runs on emulated hosts (root).
screenshots: build
	@tools/screenshots $(BUILD)/tutti

TORCH ?= # names of tests
check-torch: build
	@tools/setup torch
	@TUTTI_LIBRARY=$(CURDIR)/$(BUILD)/libtutti.so PYTHONDONTWRITEBYTECODE=1 $${TUTTI_PYTHON:-/usr/bin/python3} test/torch/driver.py $(TORCH)

check-mpi:
	@tools/setup build test mpi samples programs
	@cmake -S . -B build-check > /dev/null && cmake --build build-check -j$(JOBS) -- --no-print-directory
	@ctest --test-dir build-check -R '^mpi/' --output-on-failure
	@test/mpi/programs.sh build-check all
	@test/mpi/lab.sh build-check/tutti build-check/libtutti-mpi-openmpi.so build-check/test/mpi/mpi_requests_openmpi

SEED ?= 0
COUNT ?= 400
check-optimum: build
	@tools/setup test
	@PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 test/optimum/check.py $(BUILD)/tutti --seed $(SEED) --count $(COUNT)

PYTHON ?= $$(tools/torch)
PYTHON_HERE = PYTHONPATH=$(CURDIR)/python PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 TUTTI_LIBRARY=$(CURDIR)/$(BUILD)/libtutti.so
check-differential: build
	@$(PYTHON_HERE) $(PYTHON) test/python/differential/compare.py --jobs $(JOBS) --tool $(BUILD)/tutti --seed $(SEED) --count $(COUNT)

EXIT ?= --all # names of endings, --policy P
check-exit: build
	@$(PYTHON_HERE) $(PYTHON) test/python/exits.py $(EXIT)

lint:
	@tools/setup build test lint
	@tools/lint

FUZZ_SECONDS ?= 300
fuzz:
	@tools/setup build test
	@tools/fuzz $(FUZZ_SECONDS)

FAULTS ?= # options of test/fault/campaign.py, e.g. --quick, or --seed 106 --count 1 --phase many
KILLS ?= 20
faults:
	@tools/setup build test peers torch
	@cmake -S . -B build-check > /dev/null && cmake --build build-check -j$(JOBS) -- --no-print-directory > /dev/null
	@PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 test/fault/campaign.py build-check $(FAULTS)
	@[ "$(KILLS)" = 0 ] || PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 test/fault/peers.py build-check --kills $(KILLS)

bench: build
	@bench/foundation $(BUILD)

BUILDS ?= # options of bench/builds, e.g. --quick
bench-builds: build
	@[ -n "$(OLD)" ] || { echo "make bench-builds OLD=folder: the build folder to compare with is needed"; exit 2; }
	@bench/builds "$(OLD)" $(BUILD) $(BUILDS)

bench-beside: build
	@[ -n "$(OLD)" ] || { echo "make bench-beside OLD=folder: the build folder to compare with is needed"; exit 2; }
	@bench/beside "$(OLD)" $(BUILD)

PREDICT ?= # options of bench/predict, e.g. --quick
bench-predict: build
	@bench/predict $(BUILD) $(PREDICT)

bench-networks: build
	@bench/networks $(BUILD) --seed $(SEED) --count $(COUNT)
bench-forest: build
	@$(BUILD)/bench/bench_forest

bench-simgrid:
	@tools/setup build test
	@cmake -S . -B build-check > /dev/null && cmake --build build-check -j$(JOBS) --target simgrid_transfers simgrid_replay bench_measure -- --no-print-directory
	@bench/simgrid build-check
	@bench/simgrid_random build-check --seed $(SEED) --count 100
	@bench/simgrid_random build-check --seed $(SEED) --count 100 --short

PEERS ?= # options of bench/peers, e.g. --quick
bench-peers: build
	@tools/setup peers
	@bench/peers $(BUILD) $(PEERS)

TORCH_SHM ?= # options of bench/torch_shm
# PYTHON=path: another interpreter than the one that tools/torch chooses
bench-uneven: build
	@bench/uneven $(BUILD)

SEAL ?= # options of bench/seal, e.g. --quick
FLOOD ?= # e.g. --rate 20000 --runs 9
bench-flood:
	@tools/setup build test
	@cmake -S . -B build-check > /dev/null && cmake --build build-check --target flood -- --no-print-directory > /dev/null
	@build-check/test/flood $(FLOOD)

SCALE ?= 256 # ranks
bench-scale:
	@tools/setup build test
	@cmake -S . -B build-check > /dev/null && cmake --build build-check -j$(JOBS) --target scale tutti_tool -- --no-print-directory > /dev/null
	@bench/scale build-check $(SCALE)

bench-seal: build
	@bench/seal $(BUILD) $(SEAL)

bench-tracing: build
	@bench/tracing $(BUILD)

bench-frames: build
	@bench/frames $(BUILD)

bench-torch: build
	@TUTTI_PYTHON=$(PYTHON) bench/torch_shm $(BUILD) $(TORCH_SHM)

bench-torch-latency: build
	@python=$(PYTHON) && for n in 2 4; do TUTTI_PYTHON=$$python bench/torch_latency $(BUILD) -n $$n; done

soak:
	@tools/setup build test mpi programs
	@tools/soak

soak-elastic: build # CHANGES changes of members at random moments (300); of a trainer with POLICY; LAB=4: on emulated hosts
	@cmake -S . -B build-check >/dev/null && cmake --build build-check -j$$(nproc) --target elastic elastic_train
	@ELASTIC_POLICY=$(POLICY) python3 test/run/elastic.py build-check/test/elastic$(if $(POLICY),_train) soak \
	  --changes $(or $(CHANGES),300) --seed $(or $(SEED),1) $(if $(filter dear-sharded,$(POLICY)),--apart) $(if $(LAB),--lab $(LAB) --tool $(BUILD)/tutti)

install: build
	@tools/install $(BUILD) $(PREFIX)

uninstall:
	@tools/install --remove $(PREFIX)

clean:
	rm -rf build build-check build-asan build-tsan build-fuzz build-soak build-coverage build-docs
