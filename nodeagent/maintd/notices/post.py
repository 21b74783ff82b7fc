"""Send one message: a signed webhook, Alertmanager's API v2, or a mail."""

import json
from dataclasses import dataclass, field

from nodeagent.errors import ConfigError
from nodeagent.maintd.notices import mail as smtp
from nodeagent.maintd.notices.letter import Letter
from nodeagent.maintd.notices.render import payload, rendered
from nodeagent.maintd.owners.webhook import signed
from nodeagent.model.notice import Way
from nodeagent.model.units import Ms
from nodeagent.secret import read_token
from nodeagent.web.blocking import is_url, post, wrong_port

_ANSWER = 64 * 1024  # bytes read of an answer
_DELAY = 10_000_000  # seconds that a Retry-After may name
_DIGITS = 20  # of it that are read: int() refuses thousands


@dataclass(frozen=True, slots=True)
class Target:
    """Address of a sink, by its name; `url_file`, `secret`, `token` and `password` are files.

    `seconds` bounds one try. `number` is that of its table, for complaints.
    """

    name: str
    url: str = ""
    url_file: str = ""
    secret: str = ""
    token: str = ""
    ca: str = ""
    seconds: float = 10.0
    mail: smtp.Server | None = None
    number: int = field(default=0, compare=False)


def read_url(path: str) -> str:
    """The URL in the first line of a private file; ConfigError does not show its content."""
    url = read_token(path)
    if not is_url(url) or wrong_port(url):
        raise ConfigError(f"{path}: its first line is not a URL such as https://HOST:PORT/PATH")
    return url


def send(target: Target, letter: Letter, now: Ms) -> tuple[Ms, str]:
    """Try it once; return the ms to wait before the next try, and why it failed, or ""."""
    sink = letter.sink
    if sink.kind is Way.SMTP:
        assert target.mail is not None
        title, body = rendered(sink, letter.values)
        smtp.send(target.mail, letter.message, title, body, target.ca, target.seconds)
        return Ms(0), ""
    token = read_token(target.token) if target.token else ""
    alerting = sink.kind is Way.ALERTMANAGER
    text = json.dumps(letter.alerts) if alerting else payload(sink, letter.values, token)
    url = read_url(target.url_file) if target.url_file else target.url
    headers = [("X-Maintd-Delivery", letter.message)]
    if not alerting:
        headers += signed(target.secret, text.encode(), now)
    if token and "token" not in sink.body:
        headers.append(("Authorization", f"Bearer {token}"))
    answer = post(
        f"{url.rstrip('/')}/api/v2/alerts" if alerting else url,
        text.encode(),
        seconds=target.seconds,
        ca=target.ca,
        headers=headers,
        most=_ANSWER,
    )
    if 200 <= answer.status < 300:
        return Ms(0), ""
    after = answer.retry_after if answer.status in (429, 503) else ""
    seconds = int(after[:_DIGITS]) if after.isdecimal() and after.isascii() else 0
    wait = Ms(min(seconds, _DELAY) * 1000)
    return wait, f"it answered with HTTP status {answer.status}"
