"""A module that exits when it is imported, for headrace.yaml files that name it by mistake."""

import sys

sys.exit("not to be imported")
