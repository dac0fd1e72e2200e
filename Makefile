# All commands of this project; `make` without a target lists them. STACK=name chooses the stack,
# dev by default.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
ifneq ($(CURDIR),$(realpath $(dir $(firstword $(MAKEFILE_LIST)))))
    $(error run make in the folder of this Makefile: make -C $(dir $(firstword $(MAKEFILE_LIST))) $(MAKECMDGOALS))
endif

PYTHON ?= python3
# Version of the embedded control plane; empty for the default version (embedded/gpu_cluster_lab/toolchain/pins.py).
KUBERNETES ?=
# Use UTF-8 in each locale, and ignore the user's warning filters: they are for other programs.
export PYTHONUTF8 := 1
unexport PYTHONWARNINGS

# Targets for users of a cluster, in the order of the help; the other targets are listed in the
# order of this file.
USERS := up preview validate evidence verify-evidence why report status who support-bundle new adopt leave host-keys env start down destroy forget images tools comment probe-key preview-state preview-secrets
define HELP
/^[a-z-]+:.*## / {
    name = text = $$0; sub(/:.*/, "", name); sub(/^[^#]*## /, "", text); gsub(/\$$\$$/, "$$", text)
    line[name] = sprintf("make %-15s # %s\n", name, text)
    if (index(" " users " ", " " name " ")) next
    if (name ~ /^(test|bench|fuzz|check)/) proofs = proofs line[name]; else rest = rest line[name]
}
END {
    print "Begin with `make up`, which needs no cluster; `make down` removes all of it."
    print "STACK=name chooses the stack, dev by default. EMBEDDED=1 runs on a fake of the"
    print "stack's cluster, VERBOSE=1 prints more, JSON=1 prints one JSON document."
    print "`venv/bin/gpu-cluster VERB --help` shows the options and an example of each."
    print "\nYour cluster:"
    count = split(users, names, " "); for (i = 1; i <= count; i++) printf "%s", line[names[i]]
    printf "\nProofs:\n%s\nFor maintainers:\n%s", proofs, rest
}
endef
export HELP

# Values of variables reach the commands as they are: `make` expands nothing in them, and no shell
# reads them as a command.
GIVEN = $(foreach name,$(.VARIABLES),$(if $(filter command line,$(origin $(name))),$(name)))
$(foreach name,$(GIVEN),$(eval override export $(name) := $$(value $(name))))

# The last file that the environment gets, so that one without it is made complete.
VENV := venv/bin/gpu-cluster
MODULE := venv/bin/python -m
COMMAND := $(MODULE) gpu_cluster.commands
# The options of the command for variables of `make`: NODES=gpu-1 is --nodes=gpu-1, SCAN=1 is --scan.
option = $(shell printf %s $(1) | tr A-Z_ a-z-)
options = $(foreach name,$(1),$${$(name):+"--$(call option,$(name))=$$$(name)"})
switches = $(foreach name,$(1),$(if $(filter 1 true,$(value $(name))),--$(call option,$(name))))
# Run the proof $(1) with the options $(2) of pytest; tests/proofs/__init__.py lists its files.
proof = files=$$($(MODULE) tests.proofs $(1)) && venv/bin/python -m pytest $(2) $$files

$(VENV): requirements.lock
	@echo "venv: installing requirements.lock (a minute or more without output)" >&2
	@$(PYTHON) -c 'import sys; sys.exit("Python %d.%d found; wanted >= 3.11; cure: make PYTHON=python3.12" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv venv
	@venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@# The packages in components/, embedded/ and policies/; relative, so that the project may move.
	@cd venv/lib/python3*/site-packages && printf '../../../../%s\n' components embedded policies > gpu_cluster.pth
	@printf '#!/bin/sh\nexec "$$(dirname "$$0")/python" -m gpu_cluster.commands "$$@"\n' > $@
	@chmod +x $@

.PHONY: help
help:
	@awk -v users='$(USERS)' "$$HELP" $(MAKEFILE_LIST)

.PHONY: up
up: $(VENV) ## create or update the stack, and validate its GPUs
	@$(COMMAND) up

.PHONY: validate
validate: $(VENV) ## validate GPUs again: NODES=gpu-[1-2]; TESTS=name
	@$(COMMAND) validate $(call options,NODES TESTS JUNIT CTRF)

.PHONY: evidence
evidence: $(VENV) ## sign what the validation found: KEY=evidence.key; DAYS=30
	@$(COMMAND) evidence $(call options,KEY DAYS) $${EVIDENCE:+"--file=$$EVIDENCE"}

.PHONY: verify-evidence
verify-evidence: $(VENV) ## check evidence offline: FILE=evidence.json PUBLIC=a.pub
	@$(COMMAND) verify-evidence $(call options,FILE PUBLIC) $(call switches,SIMULATED)

.PHONY: why
why: $(VENV) ## say why a pod waits or a node lacks GPUs: POD= or NODE=
	@$(COMMAND) why -- "$${POD:-$${NODE:-}}"

.PHONY: comment
comment: $(VENV) ## print or post the comment of a pull request
	@$(COMMAND) comment $(call options,CHANGE FORGE PULL HEAD COMMIT BASE RUN JOB BASE_JOB FORKS CONCLUSION) $(call switches,EXPECTED BY_BASE)

.PHONY: preview
preview: $(VENV) ## show what `make up` would change, judged by the rules
	@$(COMMAND) preview

.PHONY: status
status: $(VENV) ## show drift, due work, faults and lost GPUs; only reads
	@$(COMMAND) status

.PHONY: who
who: $(VENV) ## show which pods use which GPUs, and how many are free
	@$(COMMAND) who

.PHONY: report
report: $(VENV) ## write a page: GPUs, changes, findings, measurements
	@$(COMMAND) report $(call options,CHANGE) $${REPORT:+"--file=$$REPORT"}

.PHONY: new
new: $(VENV) ## write a stack file: STACK=lab FROM_CLUSTER=context
	@$(COMMAND) new $(call options,FROM_CLUSTER FROM_INVENTORY CONTEXT PLATFORM NODES GPUS) $(call switches,SCAN)

.PHONY: adopt
adopt: $(VENV) ## adopt a running cluster: write the stack file, preview
	@$(COMMAND) adopt $(call options,CONTEXT)

.PHONY: leave
leave: $(VENV) ## stop managing the cluster, or a part: POOL= or HOSTS=
	@$(COMMAND) leave $(call options,POOL HOSTS)

.PHONY: host-keys
host-keys: $(VENV) ## scan the keys of new hosts; CONFIRM=code writes them
	@$(COMMAND) host-keys $(call options,HOSTS CONFIRM)

.PHONY: support-bundle
support-bundle: $(VENV) ## write an archive for support; LIST=1 only lists it
	@$(COMMAND) support-bundle $${BUNDLE:+"--file=$$BUNDLE"} $(if $(filter 1,$(value LIST)),--only-list)

.PHONY: down
down: $(VENV) ## destroy the stack and stop its embedded cluster
	@$(COMMAND) down

.PHONY: start
start: $(VENV) ## start the embedded cluster and its hosts, without a stack
	@$(COMMAND) start

.PHONY: destroy
destroy: $(VENV) ## destroy the stack; asks if its cluster is real
	@$(COMMAND) destroy

.PHONY: forget
forget: $(VENV) ## remove a host that no longer exists: HOST=gpu-2
	@$(COMMAND) forget -- "$${HOST:-}"

.PHONY: env
env: $(VENV) ## environment for plain pulumi: eval "$$(make env)"
	@$(COMMAND) env

.PHONY: probe-key
probe-key: $(VENV) ## create an SSH key for previews, and check it on hosts
	@$(COMMAND) probe-key $${PROBE_KEY:+"--file=$$PROBE_KEY"}

.PHONY: preview-state
preview-state: $(VENV) ## write a copy of the state without its secrets
	@$(COMMAND) preview-state

.PHONY: preview-secrets
preview-secrets: $(VENV) ## replace the secrets in this checkout's stack file
	@$(COMMAND) preview-secrets

.PHONY: audit
audit: $(VENV) ## find known vulnerabilities, and secrets in the history
	@$(MAKE) --silent venv-audit/.complete || echo "audit: pip-audit and zizmor can't be had" >&2
	@$(MODULE) maintenance.audit

venv-audit/.complete: requirements-audit.lock
	@$(PYTHON) -m venv venv-audit
	@venv-audit/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

.PHONY: sbom
sbom: $(VENV) ## print the bill of materials (CycloneDX)
	@$(MODULE) maintenance.sbom

.PHONY: site
site: $(VENV) venv-site/.complete ## build the documentation as a site, in site/
	@$(MODULE) maintenance.site.build

venv-site/.complete: requirements-site.lock
	@$(PYTHON) -m venv venv-site
	@venv-site/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

.PHONY: changelog
changelog: $(VENV) ## date the unreleased changes in CHANGELOG.md
	@$(MODULE) maintenance.changelog

.PHONY: release
release: $(VENV) venv-site/.complete ## write a release to dist/: packages, site, checksums
	@$(MODULE) maintenance.release

.PHONY: rehearse-release
rehearse-release: $(VENV) venv-site/.complete ## do in a clone what the release workflow does
	@$(MODULE) maintenance.rehearsal

.PHONY: release-sums
release-sums:
	@echo "sums=$$(sha256sum dist/SHA256SUMS | cut -d ' ' -f 1)" >> "$${GITHUB_OUTPUT:-/dev/stdout}"

.PHONY: tools
tools: $(VENV) ## show the toolchain and build what is missing
	@$(COMMAND) tools

.PHONY: images
images: $(VENV) ## list all images and charts that STACK needs
	@$(COMMAND) images $${PACKAGES:+"--packages=$$PACKAGES"}

.PHONY: facts
facts: $(VENV) ## write the tables of facts: CSAF=folder of bulletins
	@$(MODULE) maintenance.facts

.PHONY: test
test: $(VENV) ## run the tests, about ten minutes on two idle threads
	@# Build the tools first: the time limits of the tests are too short for a build.
	@$(MODULE) gpu_cluster_lab.toolchain
	@venv/bin/python -m pytest -q --progress --numprocesses 4 --dist loadfile --no-loadscope-reorder

.PHONY: test-full
test-full: $(VENV) ## run the tests that `make test` skips for their length
	@$(MODULE) gpu_cluster_lab.toolchain
	@venv/bin/python -m pytest -q --progress -m 'slow and not full' --numprocesses 4 --dist loadfile --no-loadscope-reorder --durations 60 --durations-min 10

.PHONY: test-e2e
test-e2e: $(VENV) ## whole runs with the real engine, also when killed
	@$(call proof,e2e,-m '' --numprocesses 2 --dist loadfile)

.PHONY: test-simulator
test-simulator: $(VENV) ## the simulator, and what the program does to it
	@$(call proof,simulator,-m '' --numprocesses 2 --dist loadfile)

.PHONY: test-hosts
test-hosts: $(VENV) ## the preparation of hosts and container engines
	@$(call proof,hosts,-m '' --numprocesses 2 --dist loadfile)

.PHONY: test-platform
test-platform: $(VENV) ## the platforms: KUBERNETES=1.37.2
	@export GPU_CLUSTER_KUBERNETES="$${KUBERNETES:-}"; $(call proof,platform,-m '' --numprocesses 3 --dist worksteal)

.PHONY: test-clusters
test-clusters: $(VENV) ## clusters that run already: adopted, left, stale objects
	@$(call proof,clusters,-m clusters --numprocesses 2 --dist loadfile)

.PHONY: test-logins
test-logins: $(VENV) ## failed logins on real SSH servers, hand-overs, messages
	@$(call proof,logins,-m logins)

.PHONY: test-documents
test-documents: $(VENV) ## each line of five guides, recipes and HAMi's cases
	@$(call proof,documents,-m documents --numprocesses 2 --dist loadfile)

.PHONY: test-advice
test-advice: $(VENV) ## follow the cures of errors, values and rules
	@$(call proof,advice,-m advice --numprocesses 2 --dist worksteal)

.PHONY: test-validation
test-validation: $(VENV) ## the validation in nine ways, each GPU by its UUID
	@$(call proof,validation,-m '' --numprocesses 2 --dist loadfile)

.PHONY: test-rollout
test-rollout: $(VENV) ## rollouts in waves: kills, disruption budgets, B8
	@$(MODULE) lab.benchmarks B8
	@$(call proof,rollout,-m '' --numprocesses 2 --dist loadfile)

.PHONY: test-reach
test-reach: $(VENV) ## the components in programs of other people
	@$(call proof,reach,-m '' --numprocesses 2 --dist loadfile)

.PHONY: test-install
test-install: $(VENV) ## a site that has only the wheels of a release
	@$(call proof,install,-m '' -n 2 --dist loadfile)

.PHONY: test-change
test-change: $(VENV) ## what previews, comments, page and status report
	@$(MODULE) lab.benchmarks B9
	@$(call proof,change,-m '' --numprocesses 2 --dist loadfile)

.PHONY: test-rules
test-rules: $(VENV) ## the rules
	@rm -rf tests/results
	@$(call proof,rules,-m '' --numprocesses 2 --dist loadfile --no-loadscope-reorder)
	@$(MODULE) tests.proofs.rules.mutate
	@$(MODULE) tests.proofs.rules.world
	@$(MODULE) tests.proofs.rules.results

.PHONY: test-attacks
test-attacks: $(VENV) ## run each known attack as a test
	@$(call proof,attacks,-m '' --numprocesses 2 --dist loadfile --no-loadscope-reorder)

.PHONY: test-promises
test-promises: $(VENV) ## each promise of README and docs, also after kills
	@venv/bin/python -m pytest -m promise --numprocesses 2 --dist loadfile --no-loadscope-reorder tests

.PHONY: test-docs
test-docs: $(VENV) ## run each command of README, tutorial and how-tos
	@$(MODULE) gpu_cluster_lab.toolchain
	@$(call proof,docs,-m '')
	@$(MODULE) tests.proofs.docs

.PHONY: test-versions
test-versions: $(VENV) ## each supported version
	@$(call proof,versions,-m versions --numprocesses 2 --dist worksteal --no-loadscope-reorder)

.PHONY: proofs
proofs: $(VENV) ## run proofs: ONLY="rules logins"; ROWS=1 runs none
	@$(MODULE) tests.ledger $(if $(value ROWS),--rows) $${ONLY:-}

.PHONY: promises
promises: $(VENV) ## write docs/promises.md from the marks of the tests
	@$(MODULE) tests.promises

.PHONY: errors
errors: $(VENV) ## write docs/reference/errors.md from the code
	@$(MODULE) tests.error_texts

.PHONY: pictures
pictures: $(VENV) ## draw README's pictures: needs Chromium
	@$(MODULE) tests.pictures

.PHONY: change-schema
change-schema: $(VENV) ## write docs/change.schema.json, the schema of previews
	@$(MODULE) maintenance.change_schema

.PHONY: verbs
verbs: $(VENV) ## write docs/reference/verbs.md from the table of the verbs
	@$(MODULE) maintenance.verbs_page

.PHONY: stack-schema
stack-schema: $(VENV) ## write docs/stack.schema.json and the page of settings
	@$(MODULE) maintenance.stack_schema

.PHONY: roles
roles: $(VENV) ## write policies/roles/ again, from recorded requests
	@$(MODULE) tests.proofs.attacks.record_requests

.PHONY: fuzz
fuzz: $(VENV) ## send hostile input to all readers: INPUTS=1000000
	@$(MODULE) tests.proofs.attacks.fuzz $${INPUTS:-}

.PHONY: test-newcomer
test-newcomer: $(VENV) ## the tasks of docs/contributing.md on a copy: ONLY=rule
	@$(MODULE) tests.newcomer $${ONLY:-}

.PHONY: house
house: $(VENV) ## measure the structure; LIST=1 names all
	@$(MODULE) lab.house $(if $(value LIST),--list)

.PHONY: test-real
test-real: $(VENV) ## real kubelet and plugins on a mock of NVML: needs root
	@$(call proof,real,-m '')
	@$(MODULE) lab.real

.PHONY: test-ha
test-ha: $(VENV) ## three control planes of real parts: needs root, haproxy
	@$(call proof,ha,-m ha)

.PHONY: test-gpu
test-gpu: $(VENV) ## this machine's own GPUs, with real kernels: needs root
	@$(MODULE) lab.real.gpu

.PHONY: check
check: $(VENV) ## run the linters, the type check, and the layer contracts
	@venv/bin/ruff check .
	@venv/bin/ruff format --check .
	@venv/bin/mypy
	@venv/bin/lint-imports
	@$(MODULE) maintenance.lint_shell

.PHONY: bench
bench: $(VENV) ## run the benchmarks, each a ratio: make bench ONLY=B4
	@$(MODULE) lab.benchmarks $${ONLY:-}

.PHONY: lock
lock: $(VENV) ## write the locks, with hashes, from requirements*.txt
	@for files in requirements.lock:requirements-dev.txt requirements-site.lock:requirements-site.txt \
	  requirements-audit.lock:requirements-audit.txt lab/benchmarks/requirements.lock:lab/benchmarks/requirements.txt; do \
	  venv/bin/pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe --no-emit-index-url --no-emit-find-links \
	    --output-file $${files%:*} $${files#*:} || exit 1; \
	done
	@$(MODULE) maintenance.constraints

.PHONY: clean
clean: ## remove the environments and what tools left
	@rm -rf venv venv-audit venv-site dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache lab/benchmarks/results
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
