"""The search engine where ripgrep is absent: a program of its own, so that it can be killed.

Python's regular expressions can take forever on a short line, and hold the interpreter while they do. This
file is run by its path, and imports nothing of its package. Standard input: `{"pattern", "files", "limit"}`
as JSON, the files relative to the current directory. Standard output: `[file, line, start, end]` as JSON, a
line for each hit, at most `limit` for one file; `start` and `end` count characters; at last `"done"`.
"""

import json
import os
import re
import sys

BOM = b"\xef\xbb\xbf"


def main() -> None:
    order = json.load(sys.stdin)
    search = re.compile(order["pattern"]).search
    for path in order["files"]:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        with open(descriptor, "rb") as file:  # noqa: PTH123  # of a descriptor
            text = file.read().removeprefix(BOM).decode("utf-8", "surrogateescape")
        left = order["limit"]
        for number, line in enumerate(text.split("\n"), 1):
            found = search(line)
            if found is not None:
                print(json.dumps([path, number, *found.span()]))  # noqa: T201
                left -= 1
                if not left:
                    break
        sys.stdout.flush()  # what was found is kept if the next file is the one that never ends
    print('"done"')  # noqa: T201


if __name__ == "__main__":
    main()
