"""What every table in the file of credentials has in common."""

from pydantic import BaseModel, ConfigDict


class Table(BaseModel):
    """A table of the file: a misspelt key must not pass for one that is left out."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)
