"""`headrace dev` that starts its children with the interpreter in its first argument."""

import sys

from headrace_cli.main import main

if __name__ == "__main__":
    sys.executable = sys.argv.pop(1)
    main(prog_name="headrace")
