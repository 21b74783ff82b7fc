"""A real Alertmanager that tells what it has to a receiver."""

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import needs
from tests.patience import until
from tests.ports import free_port

MANAGER = needs.where("prometheus-alertmanager")


class Manager:
    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def get(self, path: str) -> Any:
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=10) as answer:
                text = answer.read()
        except OSError:
            return None
        return json.loads(text) if text.startswith((b"[", b"{")) else text

    @property
    def alerts(self) -> dict[tuple[str, str], Any]:
        """What fires, by name and node."""
        found = self.get("/api/v2/alerts") or []
        return {(a["labels"]["alertname"], a["labels"].get("node", "")): a for a in found}


@contextmanager
def alertmanager(folder: Path, hook: int) -> Iterator[Manager]:
    """One that tells what it has to our receiver."""
    config = {
        "route": {
            "receiver": "ours",
            "group_by": ["alertname"],
            "group_wait": "100ms",
            "group_interval": "500ms",
        },
        "receivers": [{"name": "ours", "webhook_configs": [{"url": f"http://127.0.0.1:{hook}/"}]}],
    }
    (file := folder / "alertmanager.json").write_text(json.dumps(config))
    port = free_port()
    assert MANAGER
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen(
            [
                *(MANAGER, f"--config.file={file}", f"--storage.path={folder}"),
                *(f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="),
            ],
            stdout=log,
            stderr=log,
        )
        try:
            one = Manager(port)
            until(lambda: one.get("/-/ready"))
            yield one
        finally:
            running.terminate()
            running.wait(20)
