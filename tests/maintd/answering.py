"""Small servers on loopback: HTTP that answers as told, and sockets that say what they like."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import TypeAlias

# The head and the body of a request, to a status and a body; the head has its `path` as well.
Answer: TypeAlias = Callable[[Mapping[str, str], bytes], tuple[int, bytes]]


class _Unnamed(ThreadingHTTPServer):
    """One that asks nobody for its own name."""

    daemon_threads = True

    def server_bind(self) -> None:
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "localhost", self.server_address[1]


@contextmanager
def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Answer every POST and GET; the port, until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            status, said = answer({**self.headers, "path": self.path}, body)
            with suppress(ConnectionError):
                self.send_response(status)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

        do_GET = do_POST

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = _Unnamed(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@contextmanager
def speaking(say: Callable[[socket.socket], None], family: int = socket.AF_INET) -> Iterator[int]:
    """Do this with every connection, once a request's head has come; the port."""
    with socket.create_server(
        ("::1" if family == socket.AF_INET6 else "127.0.0.1", 0), family=family
    ) as listening:

        def each() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    threading.Thread(target=one, args=(connection,), daemon=True).start()

        def one(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                head = b""
                while b"\r\n\r\n" not in head:
                    head += connection.recv(65536)
                say(connection)

        threading.Thread(target=each, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
