"""Code that a headrace.yaml may name by mistake."""

import sys

sys.exit("not to be imported")
