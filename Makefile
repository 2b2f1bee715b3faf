# Run `make help` for what there is.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The program is static, and its version is what git says below.
export CGO_ENABLED := 0
export GOFLAGS := $(GOFLAGS) -buildvcs=false

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)
PREFIX  := /usr/local

.PHONY: help build install demo test lint bench sim fuzz soak generate clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' Makefile

build: ## Build bin/peer
	go build -trimpath -ldflags '$(LDFLAGS)' -o bin/peer ./cmd/peer

install: build ## Copy bin/peer to PREFIX=/usr/local; `peer install` then makes it a service
	install -D -m 755 bin/peer $(DESTDIR)$(PREFIX)/bin/peer

demo: ## Bring up three machines on this one and run the example (root)
	@scripts/packages run
	@$(MAKE) --no-print-directory build
	@examples/demo/run

test: ## Run all tests (as root, or what needs it is skipped)
	@scripts/packages test || [[ $$EUID -ne 0 ]]
	@scripts/test

lint: ## Check format, vet, staticcheck and the project's own rules
	@unformatted=$$(gofmt -l .); \
	  if [[ -n $$unformatted ]]; then echo "Not formatted (run gofmt -w):"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go vet -tags planted ./sim
	go tool staticcheck ./...
	go test -count=1 ./internal/lint

PARTS :=
bench: ## Measure, side by side with others where they are named (root; PARTS="log net" for some)
	@scripts/packages test
	go run ./internal/bench $(PARTS)

EXECUTIONS := 1000000
fuzz: ## Feed each decoder EXECUTIONS=1000000 inputs that a fuzzer makes up
	@scripts/fuzz $(EXECUTIONS)

SEEDS := 20000
FIRST := 1
sim: ## Simulate clusters under faults, one for each of SEEDS=20000 seeds from FIRST=1 on
	SEEDS=$(SEEDS) FIRST=$(FIRST) go test -count=1 -timeout 0 -v -run TestShortSeeds ./sim

ROUNDS := 1000
soak: ## Kill and cut apart peers while people write, and rot a peer's disk, ROUNDS=1000 times each (root)
	@scripts/packages test
	ROUNDS=$(ROUNDS) go test -count=1 -timeout 0 -v ./internal/soak
	STARLING_STORE_KILLS=$(ROUNDS) STARLING_STORE_FLIPS=$(ROUNDS) STARLING_STORE_POWER=$(ROUNDS) STARLING_STORE_CUTS=$(ROUNDS) \
	  go test -count=1 -timeout 0 -v -run 'TestKilledWriterLosesNothing|TestBitFlips|TestPowerLossLosesNothing|TestTruncatedFiles' ./store

generate: ## Generate code from api/v1/starling.proto
	go run ./internal/gen

clean: ## Remove what was built
	rm -rf bin
