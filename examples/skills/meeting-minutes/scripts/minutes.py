"""Sorts the lines of meeting notes under headings."""

import os
import re
import sys
from pathlib import Path

HEADINGS = ("出席", "讨论", "决定", "待办")
MARKED = re.compile(r"(出席|决定|待办)\s*[:：]\s*(.+)")


def lines(directory: Path) -> list[str]:
    files = sorted(directory.iterdir()) if directory.is_dir() else []
    texts = [file.read_text("utf-8") for file in files] or [os.environ["KSADK_WORKFLOW_PROMPT"]]
    return [line.strip() for text in texts for line in text.splitlines() if line.strip()]


def main() -> None:
    source, output = map(Path, sys.argv[1:])
    sorted_lines: dict[str, list[str]] = {heading: [] for heading in HEADINGS}
    for line in lines(source):
        marked = MARKED.fullmatch(line)
        heading, text = (marked[1], marked[2]) if marked else ("讨论", line)
        sorted_lines[heading].append(text)
    if not any(sorted_lines.values()):
        sys.exit("没有会议记录")
    parts = ["# 会议纪要\n"]
    for heading, items in sorted_lines.items():
        if items:
            parts.append(f"## {heading}\n\n" + "\n".join(f"- {item}" for item in items) + "\n")
    (output / "minutes.md").write_text("\n".join(parts), "utf-8")
    print(f"{sum(map(len, sorted_lines.values()))} 条")


main()
