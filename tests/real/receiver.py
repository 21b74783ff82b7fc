"""Keep what is posted to a port of this machine in a file, a line each; GET /end ends it."""

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


class Receiver(BaseHTTPRequestHandler):
    """Answers everything with 204."""

    place = Path()
    ended = False

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        with self.place.open("ab") as file:
            file.write(body.replace(b"\n", b" ") + b"\n")
        self._answer()

    def do_GET(self) -> None:
        Receiver.ended = self.path == "/end"
        self._answer()

    def _answer(self) -> None:
        self.send_response(204)
        self.end_headers()


def main() -> None:
    port, Receiver.place = int(sys.argv[1]), Path(sys.argv[2])
    server = HTTPServer(("127.0.0.1", port), Receiver)
    while not Receiver.ended:
        server.handle_request()


if __name__ == "__main__":
    main()
