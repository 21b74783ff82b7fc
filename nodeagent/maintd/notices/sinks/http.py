"""A sink's URL with its token, and one request to it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nodeagent.errors import ConfigError
from nodeagent.maintd.notices.delivery import Delivered, Delivery, Refused, Retry, Secret
from nodeagent.model.units import Ms
from nodeagent.secret import read_token
from nodeagent.section import Section
from nodeagent.web.blocking import URL, is_url, request, wrong_port
from nodeagent.web.transaction import Answered

_ANSWER = 64 * 1024  # bytes read of an answer
_DELAY = 10_000_000  # seconds that a Retry-After may name
_DIGITS = 20  # of it that are read: int() refuses thousands
_NEVER = (413, 422)  # HTTP status codes: the message itself is too large, or unacceptable


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A URL, or the private file that has it; the private file `token` has a bearer token.

    `ca` is a file with the certificates to trust instead of the system's; `seconds` bounds one try.
    """

    url: str = ""
    url_file: str = ""
    token: str = ""
    ca: str = ""
    seconds: float = 10.0

    def read_token(self) -> str:
        """The token; "" if there is none."""
        return read_token(self.token) if self.token else ""

    def post(self, text: str, headers: Sequence[tuple[str, str]], path: str = "") -> Delivery:
        """Send JSON to the URL, or to a `path` below it; or raise Unavailable."""
        answer = request(
            self._address(path),
            text.encode(),
            seconds=self.seconds,
            ca=self.ca,
            headers=headers,
            most=_ANSWER,
        )
        if 200 <= answer.status < 300:
            return Delivered()
        why = f"it answered with HTTP status {answer.status}"
        if answer.status in _NEVER:
            return Refused(why)
        after = answer.retry_after if answer.status in (429, 503) else ""
        seconds = int(after[:_DIGITS]) if after.isdecimal() and after.isascii() else 0
        return Retry(why, Ms(min(seconds, _DELAY) * 1000))

    def get(self, path: str, seconds: float, limit: int) -> Answered:
        """Return what is at a `path` below the URL, of `limit` bytes; or raise Unavailable."""
        return request(
            self._address(path),
            seconds=min(seconds, self.seconds),
            ca=self.ca,
            headers=bearer(self.read_token()),
            most=limit,
        )

    def _address(self, path: str) -> str:
        url = read_url(self.url_file) if self.url_file else self.url
        return f"{url.rstrip('/')}{path}" if path else url

    def secrets(self) -> Iterator[Secret]:
        yield "url-file", self.url_file, read_url
        yield "token", self.token, read_token


def bearer(token: str) -> list[tuple[str, str]]:
    return [("Authorization", f"Bearer {token}")] if token else []


def read_url(path: str) -> str:
    """The URL in the first line of a private file; ConfigError does not show its content."""
    url = read_token(path)
    if not is_url(url) or wrong_port(url):
        raise ConfigError(f"{path}: its first line is not a URL such as https://HOST:PORT/PATH")
    return url


def endpoint_of(section: Section, seconds: float) -> Endpoint:
    endpoint = Endpoint(
        url=section.text("url", "", f"({URL})?", "of the form https://HOST:PORT/PATH"),
        url_file=section.path("url-file", ""),
        token=section.path("token", ""),
        ca=section.path("ca", ""),
        seconds=seconds,
    )
    both = endpoint.url and endpoint.url_file
    neither = not (endpoint.url or endpoint.url_file)
    if both or (neither and section.is_right("kind", "url", "url-file")):
        section.complain(f"{section.shown} needs url, or url-file, and not both", "url")
    if endpoint.url.startswith("http:"):
        for key, value in (("ca", endpoint.ca), ("token", endpoint.token)):
            if value:
                section.complain(f"{section.where(key)} needs an https: url", key)
    if why := wrong_port(endpoint.url):
        section.complain(f"{section.where('url')} {why}", "url")
    return endpoint
