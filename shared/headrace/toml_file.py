"""Reading a TOML file that a setting names."""

import tomllib
from pathlib import Path

from pydantic import BaseModel, ValidationError

from headrace.model.errors import SettingInvalid
from headrace.model.field_rule import problems


def read_toml[Content: BaseModel](
    path: Path, content: type[Content], unreadable: type[SettingInvalid]
) -> Content:
    """Return what a file contains.

    Raises:
        SettingInvalid: as an `unreadable`: the file is missing or not TOML, or keys break rules;
            the message names the file, and each key with its rule.
    """
    try:
        return content.model_validate(tomllib.loads(path.read_text()))
    except ValidationError as invalid:
        raise unreadable(f"{path}: {'; '.join(problems(invalid, 'file'))}") from None
    except (OSError, ValueError) as error:
        raise unreadable(f"{path}: {error}") from None
