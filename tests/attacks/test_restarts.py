"""Front and runner killed, hung or started elsewhere while the other goes on: real processes."""

import json
import os
import signal
import socket
from pathlib import Path

import pytest

from tests.web.live import agent, wait_for


def test_only_the_primary_address_is_listened_on() -> None:
    with agent(address="127.0.0.77") as running:
        config = Path(running.place.config)
        text = config.read_text().replace('address = "127.0.0.77"', 'address = "primary"')
        config.write_text(text)
        running.stop("front")
        running.start("front")
        wait_for(lambda: running.get("/readyz").status == 200, running)
        for other in ("127.0.0.1", "127.0.0.78"):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((other, running.port), 2).close()
        with pytest.raises(OSError, match=r"refused|assign|unreachable|supported"):
            socket.create_connection(("::1", running.port), 2).close()


def test_runner_killed_or_hung_is_said_and_the_load_is_still_reported() -> None:
    with agent() as running:
        os.kill(running.pid("runner"), signal.SIGSTOP)
        try:
            assert running.get("/1/report/default/cpu-avg-load").status == 200
            assert running.get("/healthz").status == 200
            assert running.get("/1/report/node/diagnose").status == 503
        finally:
            os.kill(running.pid("runner"), signal.SIGCONT)
        wait_for(lambda: running.get("/readyz").status == 200, running)
        running.stop("runner", kill=True)
        assert running.get("/1/report/node/diagnose").status == 503
        assert running.get("/readyz").status == 503
        running.start("runner")
        wait_for(lambda: running.get("/readyz").status == 200, running)
        assert json.loads(running.get("/1/report/node/diagnose").body)["data"]["hmac"]
