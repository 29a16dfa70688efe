#!/usr/bin/env bash
# Counts the files in input/, or the prompt where there are none.
set -euo pipefail

echo "counting in $KSADK_SKILL_WORKDIR" >&2
python3 "$KSADK_SKILL_ROOT_DIR/scripts/count.py" input "$KSADK_SKILL_OUTPUT_DIR"
echo "artifact=$KSADK_SKILL_OUTPUT_DIR/report.md"
echo "artifact=$KSADK_SKILL_OUTPUT_DIR/counts.json"
