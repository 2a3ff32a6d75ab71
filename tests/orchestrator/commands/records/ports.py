"""A port of this machine, and a server that says as little as it can."""

import contextlib
import http.server
import socket
import threading


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Answering(http.server.BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.send_response(403)
        self.end_headers()

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def answering(port=0):
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), Answering) as server:
        threading.Thread(target=server.serve_forever).start()
        yield server.server_port
        server.shutdown()
