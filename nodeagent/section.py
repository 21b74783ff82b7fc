"""One table of settings: each key is read once, into its type; a complaint names it. Pure."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from nodeagent.faults import Faults
from nodeagent.model.diagnosis import Need
from nodeagent.model.setting import settings_of
from nodeagent.model.units import SECONDS, Ms, Seconds, read_duration

T = TypeVar("T")

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
LEVELS: Mapping[str, Any] = {  # of a log
    "pattern": "debug|info|warning|error",
    "wanted": "debug, info, warning or error",
}
_SIZE = re.compile(r"(\d{1,6})(KiB|MiB|GiB)")
_EXIT_CODE = re.compile("0|[1-9][0-9]{0,2}")  # one spelling each: 2 and 02 would be two keys
_DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_LONGEST = 150  # characters of a key in a complaint
_MONTH = 30 * 86_400  # seconds: the longest time of a policy
_BYTES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


class Section:
    """One table: each key is read once, into its type; an unread key is a mistake.

    A mistake goes to `faults`, which raises ConfigError or collects. If it collects, the default
    counts instead of a wrong value: so one reading finds all mistakes.
    """

    def __init__(
        self,
        name: str,
        values: object,
        *,
        places: Mapping[str, str] | None = None,
        faults: Faults | None = None,
        written: str = "",
    ) -> None:
        self.name = name
        self.faults = Faults() if faults is None else faults
        self._places = places or {}
        self._known = set[str]()  # keys that were asked for
        self._wanted: dict[str, str] = {}
        self._wrong = set[str]()
        self._parts: list[Section] = []
        self._is_table = isinstance(values, dict)
        self._left = dict(values) if isinstance(values, dict) else {}
        if not self._is_table:
            self.complain(f"{self.shown} must be a table, written {written or f'[{_key(name)}]'}")

    def read(self, kind: type[T], default: T | None = None, **given: Any) -> T:
        """Read settings of this class: each field made by `setting`.

        Keys missing in the table come from `default`, if there is one; the others are `given`.
        """
        for setting in settings_of(kind):
            usual = setting.default if default is None else getattr(default, setting.name)
            read = getattr(self, setting.how)
            given[setting.name] = read(setting.key, default=usual, **setting.limits)
        return kind(**given)

    def complain(self, mistake: str, *keys: str) -> None:
        """Tell a mistake of the table, or of these keys."""
        self._wrong.update(keys or [""])
        self.faults.add(mistake, self._full(keys[0]) if keys else self.name)

    def is_right(self, *keys: str) -> bool:
        """Tell whether it is a table, and none of these keys has a mistake."""
        return self._is_table and self._wrong.isdisjoint(keys)

    @property
    def sound(self) -> bool:
        """Tell whether neither it nor a table in it has a mistake so far."""
        return self._is_table and not self._wrong and all(part.sound for part in self._parts)

    @property
    def whole(self) -> bool:
        """Tell whether all that is written for it was read: a list stands in one file."""
        return self._is_table and ("[" in self.name or not self.faults.incomplete)

    def require(self, values: Mapping[str, object]) -> None:
        """Complain of the keys whose value is empty, unless a wrong one was given."""
        for key, value in values.items():
            if not value and self.is_right(key) and self.whole:
                must = self._wanted[key]
                self.complain(f"{self.where(key)} is missing or empty; it must be {must}", key)

    def missing(self, key: str, because: str, why: str) -> None:
        """Complain that `key` is missing, which the present key `because` requires."""
        if self.is_right(key, because) and self.whole:
            place = self._places.get(self._full(because))
            name = _key(self._full(key))
            self.complain(f"{place + ': ' if place else ''}{name} is missing: {why}", key)

    def gone(self, key: str, why: str) -> None:
        """Complain of a key that an earlier version had."""
        del self._left[key]
        self.complain(f"{self.where(key)} is gone: {why}", key)

    def _full(self, key: str) -> str:
        return f"{self.name}.{key}" if self.name else key

    def where(self, key: str) -> str:
        """Return a key's full name, after the file that has it, if that is known."""
        full = self._full(key)
        return f"{self._file(full)}{_key(full)}"

    @property
    def shown(self) -> str:
        """Its name, after the file that has it, if that is known."""
        return f"{self._file(self.name)}{_key(self.name)}"

    def _file(self, full: str) -> str:
        place = place_of(full, self._places) or place_of(self.name, self._places)
        return f"{place}: " if place else ""

    def _take(self, key: str, default: T, read: Callable[[Any], T | None], wanted: str) -> T:
        self._known.add(key)
        self._wanted[key] = wanted
        if key not in self._left:
            return default
        value = read(self._left[key])
        if value is None:
            given = _shown(self._left[key])
            self.complain(f"{self.where(key)} is {given}; it must be {wanted}", key)
        del self._left[key]
        return default if value is None else value

    def text(
        self,
        key: str,
        default: str,
        pattern: str = r"[^\x00-\x1f\x7f]*",
        wanted: str = "a text without control characters",
    ) -> str:
        """Read a text that `pattern` matches whole; `wanted` says the same to people."""

        def read(value: Any) -> str | None:
            good = isinstance(value, str) and re.fullmatch(pattern, value)
            return value if good else None

        return self._take(key, default, read, wanted)

    def address(self, key: str, default: str) -> str:
        return self._take(key, default, _address, '"primary" or a numeric address')

    def path(self, key: str, default: str) -> str:
        return self._take(key, default, _path, "an absolute path without ..")

    def paths(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        return self._take(key, default, _each(_path), "a list of absolute paths without ..")

    def names(self, key: str, default: tuple[str, ...], most: int | None = None) -> tuple[str, ...]:
        def read(value: Any) -> tuple[str, ...] | None:
            names = _names(value)
            return names if names is None or most is None or len(names) <= most else None

        wanted = "a list of command names (letters, digits, - and _), each once"
        return self._take(key, default, read, wanted + (f", at most {most}" if most else ""))

    def pointers(self, key: str) -> tuple[str, ...]:
        wanted = 'a list of JSON pointers such as "/details/*/temperature"'
        return self._take(key, (), _each(_pointer), wanted)

    def widths(self, key: str) -> Mapping[str, float]:
        def read(value: Any) -> Mapping[str, float] | None:
            good = isinstance(value, dict) and all(
                _pointer(path) and _is_width(width) for path, width in value.items()
            )
            return value if good else None

        wanted = (
            "a table of JSON pointers and widths above 0, at most 1e300,"
            ' such as {"/details/used" = 10}'
        )
        return self._take(key, {}, read, wanted)

    def command(self, key: str, default: str) -> str:
        """Read the name of a command, or ""."""
        wanted = "a command's name (letters, digits, - and _), or empty"
        return self.text(key, default, f"({NAME.pattern})?", wanted)

    def has(self, key: str) -> bool:
        return key in self._left

    def is_off(self, key: str) -> bool:
        """Tell whether the key is `no` or false, and then count it as read."""
        off = self._left.get(key) is False or self._left.get(key) == "no"
        if off:
            del self._left[key]
        return off

    def needs(self, key: str) -> Mapping[int, Need] | None:
        wanted = (
            "a table of exit codes (0 to 255, not 3, UNKNOWN) and needs"
            ' such as {0 = "Ok", 2 = "evacuate"}'
        )
        return self._take(key, None, _needs, wanted)

    def flag(self, key: str, *, default: bool) -> bool:
        return self._take(
            key, default, lambda v: v if isinstance(v, bool) else None, "true or false"
        )

    def count(self, key: str, default: int, least: int, most: int) -> int:
        def read(value: Any) -> int | None:
            return value if type(value) is int and least <= value <= most else None

        return self._take(key, default, read, f"a whole number from {least} to {most}")

    def decimal(self, key: str, default: float, least: float, most: float) -> float:
        """Read a number, which in a tag is a text such as 0.1."""

        def read(value: Any) -> float | None:
            text = value if isinstance(value, str) else str(value) if _is_number(value) else ""
            number = float(text) if _DECIMAL.fullmatch(text) else -1.0
            return number if least <= number <= most else None

        return self._take(key, default, read, f"a number from {least:g} to {most:g}, such as 0.1")

    def seconds(self, key: str, default: int, least: int, most: int) -> Seconds:
        return Seconds(self.count(key, default, least, most))

    def count_or_none(self, key: str, least: int, most: int) -> int | None:
        return self.count(key, 0, least, most) if key in self._left else None

    def duration(self, key: str, default: float, least: float, most: float) -> float:
        def read(value: Any) -> float | None:
            seconds = read_duration(value) if isinstance(value, str) else None
            return seconds if seconds is not None and least <= seconds <= most else None

        wanted = (
            f"a duration such as 500ms, 30s, 5m, 2h, 1d, from {_lasting(least)} to {_lasting(most)}"
        )
        return self._take(key, default, read, wanted)

    def ms(self, key: str, default: Ms, least: Ms = Ms(0)) -> Ms:
        """Read a duration from `least` up to 30 days, in ms."""
        return Ms(round(self.duration(key, default / 1000, least / 1000, _MONTH) * 1000))

    def ms_or_no(self, key: str, default: Ms | None) -> Ms | None:
        """Read a duration of up to 30 days, in ms; None for no."""
        off = self.is_off(key) or (default is None and not self.has(key))
        return None if off else self.ms(key, default or Ms(0))

    def percent(self, key: str, default: float) -> float:
        """Read a percentage as a share, from 0 to 1."""
        return self.count(key, round(default * 100), 0, 100) / 100

    def choice(self, key: str, default: str, words: Sequence[str]) -> str:
        """Read one of these words."""
        wanted = f"{', '.join(words[:-1])} or {words[-1]}"
        return self.text(key, default, "|".join(words), wanted)

    def word_or_no(self, key: str, *, default: bool, word: str) -> bool:
        """Read whether this word is there, and not no."""
        if self.is_off(key):
            return False
        return self.choice(key, word if default else "no", (word, "no")) == word

    def size(self, key: str, default: int, least: int, most: int) -> int:
        def read(value: Any) -> int | None:
            match = _SIZE.fullmatch(value) if isinstance(value, str) else None
            size = int(match[1]) * _BYTES[match[2]] if match else -1
            return size if least <= size <= most else None

        wanted = f"a size such as 256KiB, 512MiB, 2GiB, from {_sized(least)} to {_sized(most)}"
        return self._take(key, default, read, wanted)

    def table(self, key: str) -> "Section":
        return self._part(self._full(key), self._left.pop(key, {}))

    def tables(self, key: str) -> list["Section"]:
        """Read a list of tables, written [[…]]; the first is number 0."""

        def read(value: Any) -> list[Any] | None:
            return value if isinstance(value, list) else None

        values: list[Any] = self._take(key, [], read, "a list of tables, written [[…]]")
        name = self._full(key)
        return [self._part(f"{name}[{n}]", v, f"[[{name}]]") for n, v in enumerate(values)]

    def _part(self, name: str, values: object, written: str = "") -> "Section":
        part = Section(name, values, places=self._places, faults=self.faults, written=written)
        self._parts.append(part)
        return part

    def words(
        self,
        key: str,
        pattern: str,
        wanted: str = "a list of words (letters, digits, . - and _), each once",
    ) -> tuple[str, ...]:
        """Read a list of texts that `pattern` matches whole, each once."""

        def read(value: Any) -> tuple[str, ...] | None:
            if not isinstance(value, list) or len(set(map(str, value))) != len(value):
                return None
            good = all(isinstance(word, str) and re.fullmatch(pattern, word) for word in value)
            return tuple(value) if good else None

        return self._take(key, (), read, wanted)

    def name_lists(self, key: str, most: int) -> tuple[tuple[str, ...], ...]:
        """Read a list of lists of names, none empty, each at most `most` long."""

        def read(value: Any) -> tuple[tuple[str, ...], ...] | None:
            if not isinstance(value, list) or not 1 <= len(value) <= most:
                return None
            lists = [_names(element) for element in value]
            good = all(lists) and all(len(names or ()) <= most for names in lists)
            return tuple(names for names in lists if names) if good else None

        wanted = f'a list of lists of names, such as [["bmc"], ["pdu-a", "pdu-b"]], at most {most}'
        return self._take(key, (), read, wanted)

    def scalar(self, key: str, most: int = 1024) -> str:
        """Read a text, a whole number, or true and false as 1 and 0; a blank end is refused."""

        def read(value: Any) -> str | None:
            text = str(int(value)) if isinstance(value, int) and abs(value) < 2**63 else value
            good = isinstance(text, str) and len(text) <= most and text == text.strip()
            return text if good and text.isprintable() else None

        wanted = f"a text of at most {most} characters without blanks at its ends, or a number"
        return self._take(key, "", read, wanted)

    def keys(self) -> list[str]:
        return list(self._left)

    def done(self) -> None:
        """Refuse unread keys."""
        if not self._left:
            return
        from difflib import get_close_matches

        for unknown in sorted(self._left):
            near = get_close_matches(unknown, self._known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            self.complain(f"{self.where(unknown)} is not a known setting{hint}", unknown)


def each_once(sections: Sequence[Section], key: str, values: Sequence[Collection[str]]) -> None:
    """Complain of each table that has a value of this key which an earlier one has too."""
    owners: dict[str, Section] = {}
    for section, own in zip(sections, values, strict=True):
        if not section.is_right(key):
            continue
        for value in own:
            first = owners.setdefault(value, section)
            if value and first is not section:
                mistake = f"has {value!r}, which {first.name} has too; each may be there once"
                section.complain(f"{section.where(key)} {mistake}", key)


def place_of(full: str, places: Mapping[str, str]) -> str:
    """Return the file that has a key or a table; of one in a list, the list's."""
    return places.get(full) or places.get(full.partition("[")[0]) or ""


def _lasting(seconds: float) -> str:
    """Write a duration in the largest unit that fits."""
    ms = round(seconds * 1000)
    each = {unit: round(value * 1000) for unit, value in SECONDS.items()}
    fits = [unit for unit in each if unit != "ms" and ms % each[unit] == 0]
    unit = (fits[-1] if ms else "s") if fits else "ms"
    return f"{ms // each[unit]}{unit}"


def _sized(size: int) -> str:
    """Write a size in the largest unit that fits."""
    unit = [unit for unit in _BYTES if size % _BYTES[unit] == 0][-1]
    return f"{size // _BYTES[unit]}{unit}"


def _key(name: str) -> str:
    """Write a key for a complaint: cut, and escaped where a terminal would obey it."""
    short = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
    return short if short.isprintable() else ascii(short)


def _shown(value: object) -> str:
    """Write a value for a complaint: one short line."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, a deep table
        return "much too large"
    return text if len(text) <= 200 else f"{text[:200]}…"


def _address(value: Any) -> str | None:
    if value == "primary":
        return "primary"
    from ipaddress import ip_address

    try:
        return value if isinstance(value, str) and ip_address(value) else None
    except ValueError:
        return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_width(value: Any) -> bool:
    """Tell whether a number can be rounded to multiples of this one; false for inf and NaN."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1e300


def _path(value: Any) -> str | None:
    good = isinstance(value, str) and value.startswith("/") and "\0" not in value
    return value if good and ".." not in value.split("/") else None


def _pointer(value: Any) -> str | None:
    return value if isinstance(value, str) and re.fullmatch(r"(/[^/\x00-\x1f]+)+", value) else None


def _each(read: Callable[[Any], str | None]) -> Callable[[Any], tuple[str, ...] | None]:
    def read_all(value: Any) -> tuple[str, ...] | None:
        if not isinstance(value, list):
            return None
        items = [read(item) for item in value]
        return tuple(item for item in items if item is not None) if None not in items else None

    return read_all


def _names(value: Any) -> tuple[str, ...] | None:
    if value == [""]:  # the design's way to name no command
        return ()
    if not isinstance(value, list) or len(set(map(str, value))) != len(value):
        return None
    good = all(isinstance(name, str) and NAME.fullmatch(name) for name in value)
    return tuple(value) if good else None


def _needs(value: Any) -> Mapping[int, Need] | None:
    if not isinstance(value, dict):
        return None
    if not all(_EXIT_CODE.fullmatch(code) and int(code) <= 255 for code in value):
        return None
    try:
        needs = {int(code): Need.from_wire(need) for code, need in value.items()}
    except (KeyError, TypeError):
        return None
    return None if 3 in needs else needs  # UNKNOWN is doubt, and never mapped
