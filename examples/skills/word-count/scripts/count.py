"""Counts the texts in a directory, or the workflow's prompt, and writes a report."""

import json
import os
import re
import sys
from collections import Counter
from pathlib import Path

WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")


def texts(directory: Path) -> dict[str, str]:
    found = {}
    for file in sorted(directory.iterdir()) if directory.is_dir() else []:
        try:
            found[file.name] = file.read_text("utf-8")
        except UnicodeDecodeError:
            sys.exit(f"{file.name} is no UTF-8 text")
    return found or {"the prompt": os.environ["KSADK_WORKFLOW_PROMPT"]}


def counted(text: str) -> dict[str, object]:
    words = WORD.findall(text.lower())
    return {
        "lines": len(text.splitlines()),
        "words": len(words),
        "characters": len(text),
        "frequent": Counter(words).most_common(10),
    }


def report(counts: dict[str, dict]) -> str:
    rows = ["| text | lines | words | characters | most frequent |", "| --- | ---: | ---: | ---: | --- |"]
    for name, count in counts.items():
        frequent = ", ".join(f"{word} ({times})" for word, times in count["frequent"])
        rows.append(
            f"| {name} | {count['lines']} | {count['words']} | {count['characters']} | {frequent} |"
        )
    return "# Word count\n\n" + "\n".join(rows) + "\n"


def main() -> None:
    source, output = map(Path, sys.argv[1:])
    counts = {name: counted(text) for name, text in texts(source).items()}
    (output / "counts.json").write_text(json.dumps(counts, ensure_ascii=False, indent=2) + "\n", "utf-8")
    (output / "report.md").write_text(report(counts), "utf-8")
    for name, count in counts.items():
        print(f"{name}: {count['words']} words")


main()
