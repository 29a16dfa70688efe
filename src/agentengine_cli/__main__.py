"""`python -m agentengine_cli`."""

from agentengine_cli.main import main

if __name__ == "__main__":
    main()
