"""``python -m headrace_cli``: the command line without its console script."""

from headrace_cli.main import main

if __name__ == "__main__":
    main(prog_name="headrace")
