"""The client of maintd, with an error and an exit code for each failure."""

import json
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from nodeagent import ssconf
from nodeagent.cli import exits
from nodeagent.cli.maint.console import author, changing
from nodeagent.cli.maint.console.screen import Json, progress
from nodeagent.cli.maint.console.text import harmless
from nodeagent.errors import ConfigError, Unavailable, unmarked
from nodeagent.model.ganeti import GANETI_FOLDER

if TYPE_CHECKING:
    from nodeagent.maintd.engine.settings import Settings
    from nodeagent.web import blocking
    from nodeagent.web.blocking import Caller
    from nodeagent.web.transaction import Answered

Body: TypeAlias = dict[str, Any] | bytes | None

_IN_DOUBT = (("Nodeagent-In-Doubt", "show"),)
SOCKET = "/run/maintd/admin.sock"
_PERHAPS = "it is unknown whether the request was accepted: run gnt-maint history"
LOOKING = 120.0  # seconds an answer may take to come
CHANGING = 150.0  # the answering round may take a minute to start, and then some to end


class Refused(click.ClickException):
    """The request failed, or is impossible."""

    exit_code = exits.FAULT


class NotFound(Refused):
    """The subject of the request does not exist."""


class Stale(Refused):
    """The subject has changed since it was read."""


class Unreachable(click.ClickException):
    """maintd does not answer, or has no state yet."""

    exit_code = exits.UNAVAILABLE


class InDoubt(Unreachable):
    """maintd does not know whether its ledger is the newest, and so what is planned."""


class Absent(Unreachable):
    """Nobody listens there."""


class Noted(click.ClickException):
    """maintd keeps the request, and no round has answered it yet."""

    exit_code = exits.NOTED


@dataclass(frozen=True, slots=True)
class Where:
    """The address of maintd, from the command line or, at `place`, from a file of clusters."""

    socket: str | None = None
    config: str = ""
    url: str | None = None
    user: str | None = None
    password_file: str | None = None
    ca: str | None = None
    cluster: str | None = None
    place: str = ""

    @property
    def elsewhere(self) -> str:
        """The option that names the maintd of elsewhere; "" for the one of this machine."""
        return "--cluster" if self.cluster else "--url" if self.url is not None else ""

    def reach(self) -> "Reach":
        """Return the way to maintd; ConfigError, or a usage error, if the options make no sense."""
        from nodeagent.web.blocking import at_socket, at_url  # not for --help

        if self.url is None:
            if self.user or self.password_file or self.ca:
                raise click.UsageError("--user, --password-file and --ca go with --url")
            return Reach(at_socket(self.socket or self.default_socket()), local=True)
        if self.socket is not None:
            raise click.UsageError("--socket and --url are two places: name one")
        wrong = ConfigError if self.place else click.UsageError
        if bool(self.user) != bool(self.password_file):
            both = _options(self.place, " and ", "user", "password-file")
            raise wrong(f"{both} go together")
        if self.user and (":" in self.user or not self.user.isprintable()):
            raise wrong(f"{_options(self.place, '', 'user')} is not a name that can be sent")
        password = _password(self.password_file) if self.password_file else ""
        named = f"{self.place}.url" if self.place else "--url"
        caller = at_url(self.url, self.ca or "", self.user or "", password, named)
        return Reach(caller, local=False, place=self.place)

    def settings(self) -> "Settings | None":
        """Return the daemon's settings, if there are any; ConfigError if they are unreadable."""
        if not os.path.lexists(self.config) and not os.path.lexists(_drops(self.config)):
            return None
        from nodeagent.maintd.engine.settings import load

        return load(self.config, owner=os.geteuid())

    def default_socket(self) -> str:
        """Return the socket in the daemon's settings, if we may read them."""
        try:
            settings = self.settings()
        except ConfigError as error:
            warning = f"gnt-maint: {harmless(error)}; trying {SOCKET}"
            click.echo(warning, err=True)
            return SOCKET
        return SOCKET if settings is None else settings.maintd.socket


def _options(place: str, between: str, *names: str) -> str:
    """Write the names of options for a complaint: as typed, or after their place in a file."""
    if place:
        return f"{place}: {between.join(names)}"
    return between.join(f"--{name}" for name in names)


def _drops(config: str) -> str:
    return os.path.join(os.path.dirname(config), "maintd.conf.d")


def _password(path: str) -> str:
    """Read the first line of a file that nobody else may read."""
    try:
        with open(path, "rb") as file:
            info = os.fstat(file.fileno())
            if stat.S_ISREG(info.st_mode) and info.st_mode & 0o077:
                raise ConfigError(f"{path}: others may read it: chmod 600 {path}")
            lines = unmarked(file.read(4096).decode(), path).splitlines()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8") from None
    if not lines or not lines[0]:
        raise ConfigError(f"{path}: its first line holds no password")
    return lines[0]


class Reach:
    """Asks maintd, and turns a failure into an error with its exit code.

    `place` is where a file of clusters has its address.
    """

    def __init__(self, caller: "Caller", *, local: bool, place: str = "") -> None:
        self._caller = caller
        self._local = local
        self._place = place
        self._doubt = ""

    @property
    def doubtful(self) -> int:
        """The exit code after `plans`: of an answer that may not be true, that of none."""
        return exits.UNAVAILABLE if self._doubt else 0

    def get(self, target: str, seconds: float = LOOKING) -> Any:
        return parsed(self._ask("GET", target, seconds).body)

    def plans(self, target: str, *, as_json: bool) -> Any:
        """Get what is planned; in doubt show a person the ledger of this node, and say so.

        Programs get nothing then: InDoubt.
        """
        try:
            return self.get(target)
        except InDoubt as error:
            if as_json:
                raise
            self._tell_doubt(error)
            return self.shown(target)

    def shown(self, target: str) -> Any:
        """Get what this maintd shows, whether it is in doubt or not."""
        return parsed(self._ask("GET", target, LOOKING, more=_IN_DOUBT).body)

    def _tell_doubt(self, error: "InDoubt") -> None:
        if not self._doubt:
            self._doubt = error.message
            warning = f"the ledger of this node may be old: {harmless(self._doubt)}"
            click.echo(f"gnt-maint: {warning}", err=True)

    def get_raw(self, target: str) -> bytes:
        return self._ask("GET", target, LOOKING).body

    def shown_raw(self, target: str) -> bytes:
        """Get a document as it is; in doubt that of this node, and say so."""
        try:
            return self.get_raw(target)
        except InDoubt as error:
            body = self._ask("GET", target, LOOKING, more=_IN_DOUBT).body
            self._tell_doubt(error)
            return body

    def change(self, method: str, target: str, body: Body = None) -> Any:
        """Request a change; return once a round has accepted it. Bytes are JSON already."""
        text = b"" if body is None else body
        if not isinstance(text, bytes):
            text = json.dumps(text).encode()
        answer = parsed(self._change(method, target, text).body)
        if isinstance(answer, dict):
            _tell_kept(answer.get("kept"))
        return answer

    def put(self, target: str, body: Any, version: str = "") -> None:
        """Replace the document there; with a version only if it still has it, else Stale."""
        text = json.dumps(body).encode()
        match = [("If-Match", f'"{version}"')] if version else []
        _tell_kept(self._change("POST", target, text, match).body.decode(errors="replace"))

    def _change(
        self, method: str, target: str, body: bytes, more: Sequence[tuple[str, str]] = ()
    ) -> "Answered":
        """Send a change; if the person wants so, first show its effect, or ask."""
        more = [*more, *author.headers(local=self._local), *(_IN_DOUBT if self._doubt else ())]
        if changing.is_dry():
            changing.show(self.would(method, target, body, more))
        if changing.may_ask():
            try:
                would = self.would(method, target, body, more)
            except Unreachable:  # maintd keeps requests even before its first round
                would = None
            if would is not None and not changing.confirm(would):
                raise Refused("nothing was changed")
        with progress(quiet=True) as on:
            on.tell("waiting for the next round")
            try:
                return self._ask(method, target, CHANGING, body, more)
            except InDoubt as error:
                if self._doubt:
                    raise
                replied = self._ask(method, target, CHANGING, body, [*more, *_IN_DOUBT])
                self._tell_doubt(error)
                return replied

    def would(
        self, method: str, target: str, body: bytes, more: Sequence[tuple[str, str]] = ()
    ) -> Json:
        """Ask maintd what it would do; errors as for the change."""
        return dict(parsed(self._ask(method, f"/dry-run{target}", LOOKING, body, more).body))

    def _ask(
        self,
        method: str,
        target: str,
        seconds: float,
        body: bytes = b"",
        more: Sequence[tuple[str, str]] = (),
    ) -> "Answered":
        from nodeagent.web import blocking

        looks = method == "GET" or target.startswith("/dry-run/")
        try:
            replied = self._caller.request(method, target, seconds, body, more)
        except blocking.NotConnected as error:
            raise self._not_connected(error) from None
        except Unavailable as error:
            raise Unreachable(str(error) if looks else f"{error}; {_PERHAPS}") from None
        except KeyboardInterrupt:
            if not looks:
                click.echo(f"gnt-maint: {_PERHAPS}", err=True)
            raise
        if replied.status == 200:
            return replied
        raise self._no(replied)

    def _not_connected(self, error: "blocking.NotConnected") -> click.ClickException:
        import ssl

        if isinstance(error.__cause__, PermissionError):
            return Refused(f"{self._caller.where}: permission denied: ask as root")
        foreign = isinstance(error.__cause__, ssl.SSLCertVerificationError)
        option = f"as {self._place}.ca" if self._place else "with --ca FILE"
        remedy = f": name it, or its signer, {option}" if foreign else ""
        return Absent(self._absent(str(error)) + remedy)

    def _no(self, replied: "Answered") -> click.ClickException:
        try:
            document = json.loads(replied.body)
            why = str(document["error"])
        except (ValueError, KeyError, TypeError, RecursionError):
            document, why = {}, replied.body[:200].decode("utf-8", "replace").strip()
        why = why or "no reason given"
        if replied.status == 503:
            if document.get("doubt"):
                return InDoubt(why)
            return Noted(why) if document.get("wish") else Unreachable(why)
        if replied.status == 404:
            return NotFound(why)
        if replied.status in (401, 403) and not self._local:
            options = _options(self._place, ", ", "user", "password-file")
            return Refused(f"{self._caller.where}: {why} ({options})")
        if replied.status == 412:
            return Stale(why)
        if replied.status in (400, 403, 409) and document:
            return Refused(why)
        return Refused(f"{self._caller.where} answers {replied.status}: {why}")

    def _absent(self, why: str) -> str:
        if not self._local:
            return f"maintd cannot be reached at {why}"
        master = _master()
        remark = f", which is {master}" if master else ""
        return (
            f"maintd does not answer at {why}; it runs on the master node{remark}:"
            " see systemctl status maintd"
        )


def _tell_kept(kept: object) -> None:
    """Warn that a master failover would lose the request, if maintd says so."""
    if isinstance(kept, str) and kept:
        click.echo(f"gnt-maint: {harmless(kept)}", err=True)


def _master() -> str:
    try:
        return "".join(ssconf.lines(GANETI_FOLDER, "master_node"))
    except Unavailable:
        return ""


def parsed(body: bytes) -> Any:
    """Return the document in an answer; Unreachable if it is not JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise Unreachable("maintd's answer is not JSON") from None
