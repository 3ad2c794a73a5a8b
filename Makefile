# Daily commands. Everything lives in .venv and build/; a second run does only what changed.
#
#   make replay        the main job on a real log, Spark embedded: groups as tables
#   make test          the tests of the reader, the coordinator and the commands
#   make test-server   a suite each, as the next five: the server and its protocol
#   make test-designs  the designs, old and new
#   make test-clients  real clients
#   make test-browser  pages in a browser
#   make test-spark    Spark in this process: replays, questions, functions, streams
#   make test-package  the wheel, a Spark cluster that has only that, Spark Connect
#   make test-suites   these six in one run; test-all: every test
#   make lint types    ruff and cython-lint; mypy strict and stubtest
#   make sanitize      the codec's tests under the address and undefined-behaviour sanitizers
#   make docs          the pages of docs/ and the reference of the API, in build/docs, tried in a browser
#   make bench fuzz    benchmarks beside their peers; the fuzz target (FUZZ_SECONDS=120)
#   make bench-full    benchmarks in all sizes
#   make wheel clean   sdist and wheel in dist/; remove all that was made here
#   make standalone    the command in one folder, for a Linux without Python (docs/standalone.md)
#   make test-pythons  all tests under each Python that is found (PYTHONS="python3.12 ...")
#   make chart-library  fetch the charts of pages from npm
#   make pictures      the pictures of pages in docs/, by a browser (chromium, chromedriver)
#   make test-lowest   all tests with the lowest dependencies that pyproject.toml allows
#   make answers       what is answered to 2,000 random and all golden logs, against what is recorded
#   make large         every command over logs of real size (MB=3000 of all together)
#   make kafka-release VERSION=4.5.0  what a release of Kafka has that nobody has decided
#   make faults        make faults in a copy, and see which the tests catch (N=40 SEED=7)

SHELL   := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

PYTHON  ?= python3
VENV    ?= .venv
PY      := $(VENV)/bin/python
PIP     := $(PY) -m pip --disable-pip-version-check -q
UV      := $(VENV)/bin/uv
# Packages come by uv, which takes a fifth of pip's time, or by pip where uv cannot be had or fails.
install = { test -x $(UV) && $(UV) pip install -q --python $(PY) --native-tls $(1); } \
          || $(PIP) install $(1)
# A step of the build: its name, then its time.
step = echo "coterie: $(1)"; SECONDS=0; $(2); echo "coterie: $(1): $$SECONDS s"
PYTEST  ?= -q
WORKERS ?= 2
PARALLEL = -n $(WORKERS) --dist loadgroup --no-loadscope-reorder
LOG     ?= tests/golden/logs/basic
OUT     ?= build/replay
FUZZ_SECONDS ?= 120
FUZZ_SEED ?=
# Suites of tests by their folders. That of `make test` has all that is in none of these.
SERVER  := tests/wire tests/server
DESIGNS := tests/designs
CLIENTS := tests/clients
BROWSER := tests/browser
SPARK   := tests/spark
PACKAGE := tests/package
SITE    := tests/site
# What reads bytes; of the wire's tests neither those of its table nor those beside peers' codecs.
READS_BYTES := $(filter-out %/test_table.py %/test_peers.py,$(wildcard tests/codec \
               tests/wire/test_*.py tests/fold/test_columns*.py tests/fold/test_fold*.py \
               tests/fold/test_fuzz*.py tests/fold/test_apply_records*.py))

COMPILED := CMakeLists.txt pyproject.toml tools/stub_docs.py tools/transpile.py \
            $(shell find src pycore/coterie/_core -name '*.p[xy][xdi]' -o -name '*.h')
MODULES  := $(shell find pycore spark_udfs -name '*.py' -o -name '*.pyi' -o -name py.typed | sort)

.PHONY: all env build dev ready installed replay test test-server test-designs test-clients test-browser test-spark test-package test-suites test-all lint types docs sanitize bench bench-full fuzz wheel standalone clean \
        test-pythons test-lowest faults large kafka-release spark-home chart-library pictures answers FORCE
all: build

# ---- environment: created once, installed again when pyproject.toml changes ------------------
env: $(VENV)/.env
$(VENV)/.env: pyproject.toml tools/check_machine.py
	@$(PYTHON) tools/check_machine.py
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(call step,creating $(VENV) with the packages of the build (once),\
	    $(PIP) install uv 2> /dev/null || true; \
	    $(call install,'pip>=25.1' -r <($(PY) tools/needs.py build)))  # pip reads groups
	@touch $@

# ---- build: again when a compiled source changed, or a Python module came or went ------------
build: $(VENV)/.env build/modules  # what it runs with comes while it is compiled
	@$(MAKE) -s --no-print-directory -j2 $(VENV)/.built $(VENV)/.needs
$(VENV)/.built: $(VENV)/.env $(COMPILED) build/modules
	@$(call step,compiling the library,\
	    $(PIP) install --no-build-isolation --check-build-dependencies --no-deps -e .)
	@touch $@
$(VENV)/.needs: $(VENV)/.env
	@$(call step,installing the packages of its users (once),\
	    $(call install,-r <($(PY) tools/needs.py run)))
	@touch $@
build/modules: FORCE
	@mkdir -p build
	@echo '$(MODULES)' | cmp -s - $@ || echo '$(MODULES)' > $@

# What developers need besides: tests, linters, type checkers (once).
dev: $(VENV)/.dev
$(VENV)/.dev: pyproject.toml $(VENV)/.env
	@$(call step,installing the packages of tests and checks (once),$(call install,--group dev))
	@touch $@

# Both in one, for .ci/run: all packages come while the library is compiled.
ready: $(VENV)/.env build/modules
	@$(MAKE) -s --no-print-directory -j2 $(VENV)/.built installed
installed: $(VENV)/.needs
	@$(MAKE) -s --no-print-directory dev

# ---- the main job and the tests ---------------------------------------------------------------
replay: build
	@$(VENV)/bin/coterie replay $(LOG) --engine spark --conf spark.coterie.driverBytes=-1 \
		--out $(OUT) --overwrite
	@$(PY) tools/show_tables.py $(OUT)

# Compiled tests are kept in build/, whatever the environment says: each worker would rewrite all
# asserts again, which takes as long as a hundred tests.
KEEPING := env -u PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX=$(abspath build/pycache)
TESTED = $(KEEPING) $(PY) -m pytest $(PARALLEL)
# A home from which Spark starts in half the time: without it, tests take longer, and nothing else.
spark-home: $(VENV)/.spark
$(VENV)/.spark: $(VENV)/.dev tests/support/spark_home.py | build
	@echo "coterie: making a home for Spark in tests (once)"
	@PYTHONPATH=tests $(KEEPING) $(PY) -m support.spark_home tests/golden/logs/transactions
	@touch $@
test: build dev  # a path that PYTEST names is tested, wherever it lies
	@$(TESTED) $(addprefix --ignore=,$(SERVER) $(DESIGNS) $(CLIENTS) $(BROWSER) $(SPARK) $(PACKAGE) $(SITE)) $(PYTEST)
test-server: build dev
	@$(TESTED) $(SERVER) $(PYTEST)
test-designs: build dev
	@$(TESTED) $(DESIGNS) $(PYTEST)
test-clients: build dev $(VENV)/.spark
	@$(TESTED) $(CLIENTS) $(PYTEST)
test-browser: build dev
	@$(TESTED) $(BROWSER) $(PYTEST)
test-spark: build dev $(VENV)/.spark
	@$(TESTED) $(SPARK) $(PYTEST)
test-package: build dev $(VENV)/.spark
	@$(TESTED) $(PACKAGE) $(PYTEST)
# More processes than cores: programs of other languages mostly wait.
test-suites: WORKERS := 3
test-suites: build dev $(VENV)/.spark
	@$(TESTED) $(SERVER) $(DESIGNS) $(CLIENTS) $(BROWSER) $(SPARK) $(PACKAGE) $(PYTEST)
test-all: build dev $(VENV)/.spark
	@$(TESTED) $(PYTEST)

lint: dev
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@PATH="$(abspath $(VENV))/bin:$$PATH" cython-lint src

types: build dev
	@$(VENV)/bin/mypy
	@$(PY) -m mypy.stubtest --ignore-missing-stub coterie._core

# ---- the documentation: it links to where the pages lie, and every link has to lead somewhere ----
# Its tests are all that is read of tests/: they need no compiled library, as the pages need none.
$(VENV)/.docs: $(VENV)/.dev
	@echo "coterie: installing what the documentation is made with (once)"
	@$(call install,--group docs)
	@touch $@
docs: $(VENV)/.docs
	@mkdir -p build/pages
	@for page in README.md CONTRIBUTING.md CHANGELOG.md docs benchmarks; do \
	    ln -sfn ../../$$page build/pages/$$page; done
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build 2>&1 | sed "/^INFO /d"  # --quiet counts no warning
	@COTERIE_SITE=build/docs $(KEEPING) $(PY) -m pytest --confcutdir=$(SITE) $(SITE) -q
	@echo "coterie: open build/docs/index.html"

# ---- the same tests over a build that stops at the first bad read ------------------------------
sanitize: build dev
	@$(KEEPING) tools/sanitize $(PY) -m pytest -p no:cacheprovider --capture=sys $(PARALLEL) $(READS_BYTES) \
	    $(PYTEST)

$(VENV)/.peers: $(VENV)/.dev
	@$(call install,--group bench-peers) || echo "coterie: no peers; those that are missing are skipped"
	@touch $@
# The sizes that the table of ratios names; bench-full: all sizes, which takes long. Kafka's own
# classes are built by Maven where that and a JDK are. BENCH="--benchmark-timer=time.process_time"
# counts CPU time, for a machine that others keep busy; what works in other processes goes by the
# clock. SUBJECTS="spark udfs" measures only those; the tables keep what is in results/ of the rest.
SUBJECTS ?= start wire log cores last timers votes expiry coordinator growth history questions \
            spark small udfs
bench bench-full: build $(VENV)/.peers
	@mkdir -p benchmarks/results
	@for subject in $(SUBJECTS); do \
	    $(PY) -m pytest benchmarks/test_$${subject}_bench.py $(PYTEST) --benchmark-only $(BENCH) \
	        --coterie-sizes $(if $(filter bench-full,$@),full,short) \
	        --benchmark-columns=min,median,rounds --benchmark-min-rounds=5 --benchmark-max-time=0.5 \
	        --benchmark-json=benchmarks/results/$$subject.json; done
	@$(PY) benchmarks/report.py benchmarks/results benchmarks/README.md

fuzz: build
	@tools/sanitize $(PY) tools/fuzz.py $(FUZZ_SECONDS) $(FUZZ_SEED)

# Every question, view and table over many logs: ANSWERS="--record" records them anew, after a change
# that is meant; ANSWERS="--old DIR", a checkout as it was, built there, shows both answers.
answers: build dev
	@$(PY) tools/check_answers.py --jobs $(WORKERS) $(ANSWERS)

# Every command over large logs, cut in two ways, growing, and on Spark (LARGE=--spark).
MB ?= 3000
LARGE ?= --spark
large: build dev
	@$(KEEPING) $(PY) tools/large.py --mb $(MB) $(LARGE)

# What a release of Kafka has otherwise than coterie: docs/rules/releases.md. Maven brings its jars, or
# FROM has them: a folder or a jar.
kafka-release: build
	@$(PY) tools/kafka_release.py $(VERSION) $(if $(FROM),--from $(FROM))

# N faults, drawn by SEED, in copies of the sources; which tests catch each. FAULTS="--rooms cli log"
# draws in some rooms, "--only ID" plants one again, "--list" only shows what is drawn.
N    ?= 40
SEED ?= 7
faults: build dev
	@PYTHONPATH=tools $(PY) -m faults --count $(N) --seed $(SEED) $(FAULTS)

# ---- packages and other environments ----------------------------------------------------------
wheel: dev
	@$(PY) -m build --outdir dist .

# PyInstaller sees what a clean environment has, so this one has no Spark. The product answers last,
# without an environment, as the command of $(VENV) does; `-c` is how `watch` starts its processes.
STANDALONE := build/standalone
FROZEN     := report,cluster,serve,regex,histories,mcp
standalone: build
	@rm -rf $(STANDALONE)
	@$(call step,building the wheel,\
	    $(PIP) wheel --no-build-isolation --no-deps -w $(STANDALONE) .)
	@$(PY) -m venv --without-pip $(STANDALONE)/venv
	@$(call step,installing the wheel and PyInstaller,\
	    $(PIP) --python $(STANDALONE)/venv install --group standalone \
	        "$$(echo $(STANDALONE)/*.whl)[$(FROZEN)]")
	@$(call step,freezing,\
	    $(STANDALONE)/venv/bin/pyinstaller --log-level WARN --onedir --name coterie \
	        --collect-submodules coterie --collect-data coterie \
	        $(addprefix --recursive-copy-metadata=,coterie aiokafka google-re2 jinja2 uvloop) \
	        --exclude-module coterie_spark --specpath $(STANDALONE) --workpath $(STANDALONE)/work \
	        --distpath $(STANDALONE) tools/standalone.py)
	@for ask in "explain $(LOG)" "rehearse tests/golden/logs/basic --group grp-java-sticky"; do \
	    cmp <($(VENV)/bin/coterie $$ask) <(env -i $(STANDALONE)/coterie/coterie $$ask); done
	@env -i $(STANDALONE)/coterie/coterie -c 'from coterie.live.page_worker import main'
	@tar czf $(STANDALONE)/coterie-linux-$$(uname -m).tar.gz -C $(STANDALONE) coterie
	@ls -sh $(STANDALONE)/*.tar.gz

test-pythons: dev
	@PYTHONS="$${PYTHONS:-}" tools/test_pythons $(PYTEST)

test-lowest: dev
	@tools/test_lowest $(PYTHON) $(PYTEST)

# ---- the chart library of pages, as the npm packages of these names and digests have it --------
VENDOR := pycore/coterie/report/assets/vendor
chart-library:
	@home=$$(mktemp -d); trap 'rm -rf "$$home"' EXIT; vendor=$(CURDIR)/$(VENDOR); cd $$home; \
	    sed -E 's/.* (.*)-(.*)\.tgz/\1@\2/' $$vendor/packages.sha256 | xargs npm pack --silent; \
	    sha256sum --check $$vendor/packages.sha256; \
	    for name in echarts zrender; do mkdir $$name; tar xzf $$name-*.tgz -C $$name; done; \
	    cp echarts/package/{LICENSE,NOTICE,licenses/*,dist/echarts.min.js} $$vendor; \
	    cp zrender/package/LICENSE $$vendor/LICENSE-zrender; \
	    sed -En 's/.*echarts-(.*)\.tgz/\1/p' $$vendor/packages.sha256 > $$vendor/VERSION

pictures: dev
	@$(PY) tools/pictures.py

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
