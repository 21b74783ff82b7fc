"""Ganeti's ssconf files, which its master writes to every node; read anew for each question."""

from nodeagent.errors import Unavailable


def lines(folder: str, name: str, missing: list[str] | None = None) -> list[str]:
    """Return the lines of `ssconf_<name>`, `missing` without such a file, or Unavailable."""
    path = f"{folder}/ssconf_{name}"
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        if missing is not None and isinstance(error, FileNotFoundError):
            return missing
        raise Unavailable(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Unavailable(f"{path}: not UTF-8") from None
    if "\0" in text:  # a power cut may leave it so
        raise Unavailable(f"{path}: holds a NUL character")
    return [line for line in text.splitlines() if line]
