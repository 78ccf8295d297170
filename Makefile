# SPDX-License-Identifier: MIT
# Names that people try first; the work is done by ./x and meson. `make help` lists them.
all: build

build demo test check bench asan ubsan tsan fuzz soak help:
	@./x $@

fuzz-smoke:
	@FUZZ_SECONDS=5 ./x fuzz

install:
	@./x install $(or $(PREFIX),/usr/local)

format:
	@tools/check-format --fix

format-check:
	@tools/check-format

layers:
	@tools/check-layers

headers:
	@tools/check-headers

hooks:
	@printf '#!/bin/sh\nexec tools/pre-commit\n' >.git/hooks/pre-commit && chmod +x .git/hooks/pre-commit

clean:
	rm -rf build build-*

.PHONY: golden all build demo test check bench asan ubsan tsan fuzz soak help fuzz-smoke install format \
	format-check layers headers hooks clean

golden:
	@meson setup build >/dev/null 2>&1 || true; ninja -C build tests/report/test_report_report && MT_GOLDEN_UPDATE=1 build/tests/report/test_report_report
