"""An endpoint on this machine that answers scores, or what a test scripts."""

import io
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
from PIL import Image


class Server(HTTPServer):
    """Answers `scores(pixels uint8 [H, W, 3])`, or what `script` holds first: (status, headers, body)."""

    def __init__(self, scores):
        super().__init__(("127.0.0.1", 0), Handler)
        self.scores, self.script, self.seen, self.headers = scores, [], [], []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/classify"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        pixels = np.asarray(Image.open(io.BytesIO(self.rfile.read(int(self.headers["Content-Length"])))))
        self.server.seen.append(pixels)
        self.server.headers.append(dict(self.headers))
        if self.server.script:
            status, headers, body = self.server.script.pop(0)
        else:
            scores = self.server.scores(pixels)
            status, headers, body = 200, {}, json.dumps({"scores": scores, "label": int(np.argmax(scores))})
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *given):
        pass


@contextmanager
def running(server):
    """The server while it answers."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def serving(scores):
    return running(Server(scores))
