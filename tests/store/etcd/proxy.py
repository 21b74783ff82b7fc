"""A proxy before a member that loses answers, or holds requests back."""

import socket
import threading
from contextlib import suppress


class Proxy:
    """Forward whole requests to a port of loopback.

    `mode`: "pass"; "swallow": the request arrives and its answer never does; "break": the
    connection ends instead of the answer; "hold": the request arrives once `release` is set.
    `left` bounds how many requests the mode is for.
    """

    def __init__(self, port: int) -> None:
        self.mode, self.left = "pass", 1000
        self.release = threading.Event()
        self.delivered = 0  # of held requests
        self._port = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def set(self, mode: str, left: int = 1000) -> None:
        self.mode, self.left = mode, left

    def close(self) -> None:
        self._server.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            request = _whole(client)
            mode = self.mode
            if b'"request_put"' not in request or self.left <= 0:
                mode = "pass"  # it changes nothing
            elif mode != "pass":
                self.left -= 1
            if mode == "hold":
                self.release.wait(30)
            with socket.create_connection(("127.0.0.1", self._port)) as upstream:
                upstream.sendall(request)
                answer = b"".join(iter(lambda: upstream.recv(65536), b""))
            if mode == "pass":
                client.sendall(answer)
            elif mode == "hold":
                self.delivered += 1
            elif mode == "swallow":
                client.recv(1)  # until the client gives up


def _whole(client: socket.socket) -> bytes:
    found = b""
    while b"\r\n\r\n" not in found:
        if not (more := client.recv(65536)):
            raise OSError
        found += more
    head, _, body = found.partition(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    (length,) = (int(x.partition(":")[2]) for x in lines if x.startswith("content-length"))
    while len(body) < length:
        if not (more := client.recv(65536)):
            raise OSError
        found += more
        body += more
    return found
