"""The program's entry: `agentengine`, `ksadk` and `python -m agentengine_cli`."""

import sys


def main() -> None:
    """Run the command line of this process. An interrupt ends it with 130, also while it still starts."""
    try:
        if sys.argv[1:2] == ["--complete"]:
            from agentengine_cli import completion

            sys.exit(completion.main(sys.argv[2:]))
        try:
            from agentengine_cli.main import run

            sys.exit(run(sys.argv[1:]))
        except ImportError:  # modules are imported when they are needed: now, or while a command runs
            _blame_a_shadow()
            raise
    except KeyboardInterrupt:
        sys.exit(130)


def _blame_a_shadow() -> None:
    """End with words when another distribution's `ksadk` is what keeps the program from starting."""
    from agentengine_cli import shadow

    wrong = shadow.explanation()
    if wrong:
        sys.exit(f"error: {wrong}\nhint: {shadow.FIX}")


if __name__ == "__main__":
    main()
