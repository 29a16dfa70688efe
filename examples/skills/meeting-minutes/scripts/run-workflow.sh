#!/usr/bin/env bash
# 把会议记录整理成纪要。
set -euo pipefail

python3 "$KSADK_SKILL_ROOT_DIR/scripts/minutes.py" input "$KSADK_SKILL_OUTPUT_DIR"
echo "artifact=$KSADK_SKILL_OUTPUT_DIR/minutes.md"
