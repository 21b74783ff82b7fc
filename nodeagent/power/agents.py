"""Fence agents: found by name, judged, and run with options that their own metadata knows.

Options go to standard input, never to the command line. An agent ignores an unknown option and
then reboots the machine, so the action comes first and each name is checked before.
"""

import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from nodeagent.errors import ConfigError
from nodeagent.folder import Unfit, opened_file
from nodeagent.power.answers import NOTHING, PowerAnswer, answer_of, fault_of, last_words
from nodeagent.power.run import Ran, run
from nodeagent.power.settings import Device
from nodeagent.secret import read_password

FOLDER = "/usr/sbin"
_ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C",
    "HOME": "/root",
    "PYTHONWARNINGS": "ignore",  # else of each old agent a warning where its last words stand
}
# A power switch can do all of these; agents that cut storage or a switch's port lack one.
_ACTIONS = {"on", "off", "reboot", "status"}
_PARAMETER = re.compile(r'<parameter name="([^"<>]{1,64})"')
_ACTION = re.compile(r'<action name="([^"<>]{1,64})"')


@dataclass(frozen=True, slots=True)
class _Metadata:
    options: frozenset[str]
    actions: frozenset[str]


class Agents:
    """The agents of one folder; each is asked for its metadata once."""

    def __init__(self, folder: str = FOLDER) -> None:
        self._folder = folder
        self._known: dict[str, _Metadata] = {}

    def status(self, device: Device, seconds: float) -> PowerAnswer:
        """Ask one device for the state of its power; every failure is an answer."""
        try:
            ran = self._run(device, "status", seconds)
        except ConfigError as error:
            return PowerAnswer(NOTHING, str(error))
        return answer_of(ran.code, ran.stdout, ran.stderr, ran.stopped)

    def switch(self, device: Device, action: str, seconds: float) -> str:
        """Have a device switch power `on` or `off`; return what went wrong, which proves nothing.

        Nor does success: the state afterwards decides.
        """
        try:
            ran = self._run(device, action, seconds)
        except ConfigError as error:
            return str(error)
        fault = fault_of(ran.stderr, ran.stopped)
        if not fault and ran.code != 0:
            fault = f"exit {ran.code}: {last_words(ran.stderr, ran.stdout)}"
        return f"{action}: {fault}" if fault else ""

    def check(self, device: Device, seconds: float = 10.0) -> None:
        """Raise ConfigError if the device's agent, options or secrets are unfit; touch nothing."""
        for why in self.faults(device, seconds):
            raise ConfigError(why)

    def faults(self, device: Device, seconds: float = 10.0) -> Iterator[str]:
        """Yield why the device's agent, options or secrets are unfit; touch nothing."""
        where = f"device {device.name}"
        for path in device.secret_files.values():
            try:
                _secret(path)
            except ConfigError as error:
                yield f"{where}: {error}"
        try:
            known = self._metadata(self._path(device.agent), device, seconds)
        except ConfigError as error:
            yield f"{where}: {error}"
            return
        if missing := _ACTIONS - known.actions:
            yield f"{where}: {device.agent} switches no power: it has no action {min(missing)}"
        for option in (*device.options, *device.secret_files):
            if option not in known.options:
                help_ = f"see {device.agent} -o metadata"
                yield f"{where}: {device.agent} has no option {option} ({help_})"

    def _run(self, device: Device, action: str, seconds: float) -> Ran:
        deadline = time.monotonic() + seconds
        self.check(device, seconds)
        if (seconds := deadline - time.monotonic()) <= 0:
            raise ConfigError("no time was left")
        secrets = [(option, _secret(path)) for option, path in device.secret_files.items()]
        lines = [f"action={action}", *(f"{k}={v}" for k, v in (*device.options.items(), *secrets))]
        environment = dict(_ENVIRONMENT)
        if device.ca_file:
            environment["REQUESTS_CA_BUNDLE"] = device.ca_file
        stdin = "".join(f"{line}\n" for line in lines).encode()
        ran = self._started(self._path(device.agent), (), stdin, seconds, environment)
        out, err = ran.stdout, ran.stderr
        for _, secret in secrets:
            out, err = out.replace(secret, "***"), err.replace(secret, "***")
        return Ran(ran.code, out, err, ran.stopped)

    def _started(
        self, path: str, words: tuple[str, ...], stdin: bytes, seconds: float, env: dict[str, str]
    ) -> Ran:
        try:
            return run((path, *words), stdin, seconds, env)
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from None

    def _path(self, agent: str) -> str:
        """Return an agent's path; ConfigError unless only root can change it and all above it."""
        path = os.path.join(self._folder, agent)
        try:
            with ExitStack() as opened:
                place, _ = opened_file(path, os.geteuid(), "root", opened)
                if not os.fstat(place).st_mode & 0o111:
                    raise ConfigError(f"{path}: it is not executable")
        except Unfit as error:
            raise ConfigError(f"{agent}: {error}") from None
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from None
        return path

    def _metadata(self, path: str, device: Device, seconds: float) -> _Metadata:
        if device.agent not in self._known:
            ran = self._started(path, ("-o", "metadata"), b"", seconds, _ENVIRONMENT)
            if ran.stopped or ran.code != 0 or "<parameter " not in ran.stdout:
                raise ConfigError(
                    f"{device.agent} -o metadata: {ran.stopped or f'exit {ran.code}'}:"
                    f" {last_words(ran.stderr, '')}"
                )
            self._known[device.agent] = _Metadata(
                frozenset(_PARAMETER.findall(ran.stdout)), frozenset(_ACTION.findall(ran.stdout))
            )
        return self._known[device.agent]


def _secret(path: str) -> str:
    secret = read_password(path)
    if secret != secret.strip() or not secret.isprintable() or secret[:1] == '"':
        raise ConfigError(
            f"{path}: agents cannot read a secret with a blank or quotation mark at its end"
        )
    return secret
