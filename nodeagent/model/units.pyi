from typing import overload

class Ms(int):
    """Milliseconds: how long something lasts, or a moment of unix time."""
    @overload
    def __add__(self, other: Seconds | Nanoseconds) -> int: ...  # type: ignore[overload-overlap]
    @overload
    def __add__(self, other: int) -> Ms: ...
    @overload
    def __sub__(self, other: Seconds | Nanoseconds) -> int: ...  # type: ignore[overload-overlap]
    @overload
    def __sub__(self, other: int) -> Ms: ...

class Seconds(int):
    """Seconds: how long something lasts, or a moment of unix time."""
    @overload
    def __add__(self, other: Ms | Nanoseconds) -> int: ...  # type: ignore[overload-overlap]
    @overload
    def __add__(self, other: int) -> Seconds: ...
    @overload
    def __sub__(self, other: Ms | Nanoseconds) -> int: ...  # type: ignore[overload-overlap]
    @overload
    def __sub__(self, other: int) -> Seconds: ...

class Nanoseconds(int):
    """Nanoseconds, as Mesos' schedule has them."""
    @overload
    def __add__(self, other: Ms | Seconds) -> int: ...  # type: ignore[overload-overlap]
    @overload
    def __add__(self, other: int) -> Nanoseconds: ...

SECONDS: dict[str, float]

def read_duration(text: str) -> float | None: ...
def in_seconds(ms: Ms) -> Seconds: ...
def in_ms(seconds: Seconds) -> Ms: ...
def in_ns(seconds: Seconds) -> Nanoseconds: ...
def ms_of(value: object) -> Ms | None: ...
