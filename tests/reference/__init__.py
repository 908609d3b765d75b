"""Parts of pages that are made of signatures and docstrings, so that they are written once.

``python -m tests.reference`` writes them. A part stands between ``<!-- made of KIND NAME … -->``
and ``<!-- end -->``; `parts` has the kinds.
"""
