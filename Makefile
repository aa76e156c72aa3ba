# Everything that a developer and CI do. `make` shows this list.

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/tidemark
# The linter lives in its own module: its dependencies are not ours.
LINT_VERSION := v2.15.0
LINT := $(CACHE)/golangci-lint-$(LINT_VERSION)/golangci-lint

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.release=$(VERSION)

FUZZTIME ?= 10s
BENCHTIME ?= 500ms
BENCHCOUNT ?= 6
BENCH_PACKAGES ?= ./decimal ./event ./aggregator ./store ./api

.PHONY: help
help: ## Show this help
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the static binary into dist/
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o dist/tidemark ./cmd/tidemark

.PHONY: test
test: unit integration ## All tests: Go's with the race detector, then those on real servers

.PHONY: unit
unit: ## The Go tests with the race detector; no server is needed
	go test -race $$(go list ./... | grep -v /bench$$)
	go test ./bench

.PHONY: integration
integration: setup ## The tests on a real Kafka and a real search node
	go test -tags integration -count=1 -p 1 -timeout 25m ./internal/testkit/servers ./integration

.PHONY: setup
setup: ## Install what the real servers and the page's tests need (a JDK, Maven, Chromium), where it is missing
	@internal/testkit/servers/setup
	@internal/testkit/servers/setup browser

.PHONY: deploy-check
deploy-check: ## Check deploy/ by the tools it is for: promtool, Prometheus, helm, hadolint and others
	CACHE=$(CACHE) deploy/check

.PHONY: stores
stores: setup-stores ## Snapshots on servers with the interfaces of S3, Google and Azure, with faults (STORES=s3,gs,azblob)
	STORES=$${STORES:-s3,gs,azblob} go test -race -tags integration,stores -count=1 -timeout 60m -run 'ObjectStores|Stores|Bucket' \
		-p 1 -v ./internal/testkit/servers ./snapshot ./integration

.PHONY: setup-stores
setup-stores: setup ## Install what those servers need (Python with pip, Node with npm), where it is missing
	@internal/testkit/servers/setup stores

.PHONY: soak
soak: setup setup-stores ## An hour of trouble on real servers (SOAK_DURATION, SOAK_SEED, SOAK_RATE), long crash runs (SOAK_EVENTS, SOAK_KILLS), stores with long faults
	STORES_SOAK=1 $(MAKE) stores
	SOAK_DURATION=$${SOAK_DURATION:-1h} SOAK_SEED=$${SOAK_SEED:-1} SOAK_RATE=$${SOAK_RATE:-500} SOAK_POINTS=all \
	SOAK_EVENTS=$${SOAK_EVENTS:-1000000} SOAK_KILLS=$${SOAK_KILLS:-20} \
		go test -tags integration -count=1 -timeout 48h -parallel 2 -v -run 'Soak|Sleeper|Kill|CrashAt' ./integration

.PHONY: check
check: fmt vet lint test clean-tree ## What a change must pass: fmt, vet, lint, all tests, generated files up to date

.PHONY: fmt
fmt: ## Fail where a file is not formatted
	@files=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$files" ]; then echo "not formatted (gofmt -w mends it):"; echo "$$files"; exit 1; fi

.PHONY: vet
vet: ## go vet, the suites on real servers too
	go vet -race ./...
	go vet -tags integration,stores ./integration ./internal/testkit/servers ./snapshot
	go vet -tags live ./deploy
	go vet -tags bench ./bench
	go vet -tags crashpoints ./internal/crashpoint

.PHONY: lint
lint: $(LINT) ## golangci-lint; the first run builds it, which takes some minutes
	$(LINT) run ./...
	$(LINT) run --build-tags integration,stores ./integration/... ./internal/testkit/servers/... ./snapshot/...
	$(LINT) run --build-tags live ./deploy/...
	$(LINT) run --build-tags bench ./bench/...

$(LINT):
	@mkdir -p $(@D)
	GOBIN=$(@D) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

.PHONY: generate
generate: ## Write the generated files anew (docs/configuration.md, docs/troubles.md, golden files)
	go generate ./...

.PHONY: clean-tree
clean-tree: generate ## Fail where generating changes a file
	@changed=$$(git status --porcelain --untracked-files=no); \
	if [ -n "$$changed" ]; then echo "changed by make generate:"; echo "$$changed"; exit 1; fi

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (10s)
	@for pkg in $$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...); do \
		for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "$$pkg $$target"; go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

.PHONY: bench
bench: ## Measure everything against a real Kafka and write docs/performance.md (BENCH_ONLY, BENCH_EVENTS, ...)
	@internal/testkit/servers/setup || echo "no Java: going on with the broker in memory"
	go test -tags bench -count=1 -timeout 0 -v -run '^TestBench$$' ./bench
	@if [ -z "$${BENCH_ONLY:-}" ]; then $(MAKE) --no-print-directory microbench; fi

.PHONY: microbench
microbench: ## Go's benchmarks of the packages on the path of an event, for benchstat (BENCHTIME, BENCHCOUNT)
	@mkdir -p bench/results
	go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) -count $(BENCHCOUNT) $(BENCH_PACKAGES) | tee bench/results/micro.txt

.PHONY: image
image: ## Build the container image (needs docker)
	docker build --build-arg VERSION=$(VERSION) -t tidemark:$(VERSION) .

.PHONY: clean
clean: ## Remove what was built here; jars and the linter stay in the cache
	rm -rf dist
