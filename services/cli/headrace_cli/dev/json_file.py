"""JSON files that other programs read while the stack changes them."""

import json
from pathlib import Path


def replace_json(path: Path, content: object, mode: int = 0o666) -> None:
    """Replace the file at `path` by `content`; a reader sees the old one or the new one, whole.

    `mode` is that of the new file, less what the umask takes away.
    """
    draft = path.with_suffix(f"{path.suffix}.new")
    draft.touch(mode)
    draft.write_text(json.dumps(content, indent=1) + "\n")
    draft.replace(path)
