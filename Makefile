# Lanyard's build. `make` alone lists what there is. No target but cluster-up needs root, none needs Docker; what is built or
# downloaded goes to Go's caches and to ~/.cache, never into the tree, but for dist/ (make image, make bench).

GO       ?= go
TOOL     := $(GO) tool -modfile=go.tools.mod
TESTSUM  := $(GO) run ./internal/testsum
FUZZTIME ?= 30s
BENCH    ?= .
COUNT    ?= 6
DEMO_ARGS ?=
IMAGE    ?= lanyard-k8s/lanyard
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
ARCHS    ?= amd64 arm64
PROGRAMS := webhook connector exchange lanyard

# The race detector needs cgo and a C compiler; without one the tests run without it, and say so.
CC_FOUND := $(shell command -v gcc || command -v clang)
RACE     ?= $(if $(CC_FOUND),-race,)

# Packages whose tests start a real control plane, a Docker Engine or build helm; those that install the whole on real nodes,
# which mostly wait and so run beside everything else; and all the others.
HEAVY = $(shell $(GO) list ./test/... $$(grep -rlE --include=*_test.go 'lanyard/test/(cluster|docker)"' . | xargs -n 1 dirname | sort -u) | \
  sort -u | grep -v -e /test/arch -e /test/podtest -e /test/e2e)
# Backwards, so that publishers begins at once: it takes the longest, waiting for a kubelet to replace a token.
E2E   = $(shell $(GO) list ./test/... | grep /test/e2e | sort -r)
# Without the race detector: CEL over a pod of 40,000 variables takes it minutes, and nothing in there runs at the same time.
PLAIN = $(shell $(GO) list ./policy)
UNITS = $(filter-out $(HEAVY) $(E2E) $(PLAIN),$(shell $(GO) list ./...))
# Three at a time on two cores: they wait for control planes more than they compute.
HEAVY_GROUP = -group cluster -count=1 -p=3 -timeout=40m $(HEAVY)
E2E_ARGS = e2e -count=1 -p=2 -timeout=55m $(E2E)
UNIT_GROUPS = -group units $(RACE) -shuffle=on -timeout=15m $(UNITS) -beside policy -shuffle=on -timeout=15m $(PLAIN)

.DEFAULT_GOAL := help
.PHONY: help demo test unit cluster e2e check fmt vet staticcheck golangci arch vuln lint generate verify bench fuzz image clean

help: ## list the targets
	@if [ -t 1 ]; then on=$$(printf '\033[36m') off=$$(printf '\033[0m'); fi; \
	awk -F ':.*## ' -v on="$$on" -v off="$$off" \
	  '/^[a-z][a-z0-9-]*:.*## / {printf "  %s%-12s%s %s\n", on, $$1, off, $$2}' $(firstword $(MAKEFILE_LIST))

demo: ## the main job on a real API server, on this machine (DEMO_ARGS=--exit to end by itself)
	@echo "building the demo (minutes the first time, seconds later)"
	@$(GO) run ./cmd/lanyard demo $(DEMO_ARGS)

test: packages race-note vet ## every test: units, then the real control plane and the chart; says what was skipped
	@$(TESTSUM) $(UNIT_GROUPS) -beside $(E2E_ARGS) $(HEAVY_GROUP)

unit: race-note ## the fast tests alone
	@$(TESTSUM) $(UNIT_GROUPS)

cluster: ## the tests on the real control plane, of the chart and on real nodes alone
	@$(TESTSUM) $(HEAVY_GROUP) -beside $(E2E_ARGS)

e2e: ## the tests on real nodes alone
	@$(TESTSUM) -group $(E2E_ARGS)

check: fmt vet staticcheck test verify vuln ## all that must be green before a commit is handed in

fmt: ## say which files gofmt would change
	@out=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go' | grep -v /testdata/)); \
	if [ -n "$$out" ]; then echo "gofmt would change:"; echo "$$out"; exit 1; fi; echo "fmt: clean"

vet: ## go vet
	@echo "vet: compiling and reading every package (minutes the first time)"; $(GO) vet ./... && echo "vet: clean"

staticcheck: ## staticcheck
	@$(TOOL) staticcheck ./... && echo "staticcheck: clean"

arch: ## the rules of the house alone (test/arch)
	@$(GO) test ./test/arch/

golangci: ## golangci-lint with .golangci.yml
	@$(GO) tool -modfile=go.lint.mod golangci-lint run ./...

lint: fmt vet staticcheck golangci arch ## fmt, vet, staticcheck, golangci-lint and arch

vuln: ## known vulnerabilities in what is linked; skipped aloud where the database is out of reach
	@out=$$($(TOOL) govulncheck ./... 2>&1); code=$$?; \
	if [ $$code -eq 0 ]; then echo "vuln: none known"; \
	elif [ $$code -eq 3 ]; then echo "$$out"; exit 1; \
	else echo "vuln: SKIPPED, govulncheck could not finish (is its database out of reach?):"; echo "$$out" | tail -n 3; fi

generate: ## write the generated files: api from its .proto, the policies of the chart, docs/reference, the transcript in README.md, the values in the chart's
	@$(GO) generate ./api/... && $(GO) run ./internal/gen && $(GO) run ./internal/gen/docs

verify: ## fail if a generated file is stale
	@./.ci/verify

bench: SHELL := bash
bench: .SHELLFLAGS := -o pipefail -c
bench: ## benchmarks in dist/bench.txt, their summary, and the webhook against a no-op (BENCH=regexp COUNT=6); see docs/performance.md
	@mkdir -p dist; $(GO) test -run='^$$' -bench='$(BENCH)' -benchmem -count=$(COUNT) -timeout=60m \
	  $$(git grep -l --untracked '^func Benchmark' -- '*_test.go' | xargs -n 1 dirname | sort -u | sed 's|^|./|') | tee dist/bench.txt
	@sed 's,^\(Benchmark[A-Za-z]*\)/\(small\|medium\|large\)\>,\1/size=\2,' dist/bench.txt > dist/bench.txt.tmp && mv dist/bench.txt.tmp dist/bench.txt
	@$(TOOL) benchstat dist/bench.txt
	@echo; echo "Against a no-op that decodes the review's uid and answers:"
	@$(TOOL) benchstat -filter '.name:(Noop OR Handler OR Validate)' -col '.name@(Noop Handler Validate)' -row /size dist/bench.txt

fuzz: ## every fuzz target for FUZZTIME (30s)
	@git grep --untracked -o 'func Fuzz[A-Za-z0-9_]*' -- '*_test.go' | sed 's/:func / /' | while read -r file name; do \
	  echo "--- $$(dirname $$file) $$name"; \
	  $(GO) test -run='^$$' -fuzz="^$$name\$$" -fuzztime=$(FUZZTIME) ./$$(dirname $$file) || exit 1; done

image: ## static programs and a loadable image per architecture in dist/, byte for byte reproducible
	@for arch in $(ARCHS); do \
	  for p in $(PROGRAMS); do \
	    echo "dist/$$arch/$$p"; \
	    CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -trimpath -buildvcs=false -ldflags='-s -w -buildid=' \
	      -o dist/$$arch/$$p ./cmd/$$p || exit 1; done; \
	  $(GO) run ./internal/image -arch $$arch -tag $(IMAGE):$(VERSION) -entrypoint /webhook \
	    -out dist/lanyard-$$arch.tar $(PROGRAMS:%=dist/$$arch/%) || exit 1; done

clean: ## remove dist/; caches stay (go clean -cache, ~/.cache/lanyard)
	@rm -rf dist

# A cluster with real nodes for people to try things in. It needs root on Linux, as nothing else here does.
.PHONY: cluster-up cluster-load cluster-down
cluster-up: ## a Kubernetes with two real nodes and cert-manager on this machine (root on Linux); minutes the first time, seconds later
	@[ "$$(id -u)" -ne 0 ] || ./.ci/packages
	@$(GO) run ./test/cluster/nodes/keeper up

cluster-load: ## load an image into its nodes (IMAGE=dist/lanyard-amd64.tar)
	@$(GO) run ./test/cluster/nodes/keeper load $(if $(filter file,$(origin IMAGE)),,$(IMAGE))

cluster-down: ## end it, and leave nothing of it
	@$(GO) run ./test/cluster/nodes/keeper down

.PHONY: packages
packages: ## what some tests run against: PostgreSQL, nginx, Lua, promtool, Docker, a node's parts (installed as root on Debian, else those tests skip aloud)
	@./.ci/packages

.PHONY: race-note
race-note:
	@if [ -z "$(RACE)" ]; then echo "SKIPPED: the race detector, for want of a C compiler"; fi
