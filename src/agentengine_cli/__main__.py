"""The program's entry: `agentengine`, `ksadk` and `python -m agentengine_cli`."""

import sys


def main() -> None:
    """Run the command line of this process. An interrupt ends it with 130, also while it still starts."""
    try:
        from agentengine_cli.main import run

        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
