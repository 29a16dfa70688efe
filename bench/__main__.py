"""`python -m bench`: every benchmark, one after the other; fails when a limit is missed."""

import subprocess
import sys
from pathlib import Path

BENCHMARKS = sorted(path for path in Path(__file__).parent.glob("*.py") if not path.name.startswith("_"))


def main() -> int:
    missed = []
    for path in BENCHMARKS:
        print(f"== {path.stem}", flush=True)
        if subprocess.run([sys.executable, str(path)], check=False).returncode != 0:
            missed.append(path.stem)
    if missed:
        print(f"missed: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
