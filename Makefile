# Run `make help` for what there is.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

export CGO_ENABLED := 0

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)
PREFIX  := /usr/local

.PHONY: help build install demo test lint bench sim soak generate clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' Makefile

build: ## Build bin/peer
	go build -trimpath -ldflags '$(LDFLAGS)' -o bin/peer ./cmd/peer

install: build ## Copy bin/peer to $(PREFIX)/bin; `peer install` then makes it a service
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
	go tool staticcheck ./...
	go test -count=1 ./internal/lint

bench: ## Measure, side by side with others where they are named
	@scripts/packages test
	go run ./internal/bench

SEEDS := 20000
sim: build ## Simulate many seeds (SEEDS=20000)
	bin/peer sim --seeds $(SEEDS)

soak: build ## Torture a lab for hours (root)
	go run ./internal/soak

generate: ## Generate code from api/v1/starling.proto
	go run ./internal/gen

clean: ## Remove what was built
	rm -rf bin
