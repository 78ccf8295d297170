#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs shellcheck over every shell script of the project.
set -u
cd "$(dirname "$0")/../.." || exit 2
command -v shellcheck >/dev/null || { echo 'shellcheck is not installed: scripts not checked'; exit 77; }
mapfile -t scripts < <(find x .ci tools tests bench examples -type f -exec grep -lE '^#!.*\b(ba)?sh$' {} + | sort)
shellcheck -x "${scripts[@]}" && echo "${#scripts[@]} scripts are clean"
