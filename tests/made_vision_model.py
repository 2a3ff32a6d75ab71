"""A vision-language model on this machine: it answers what a test says of the picture, as such services do."""

import base64
import io
import json
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
from PIL import Image

from tests.made_endpoint import running


class Server(HTTPServer):
    """`says(pixels uint8 [H, W, 3])` is the answer's text, None a refusal; `script`: (status, body) to come first."""

    def __init__(self, says):
        super().__init__(("127.0.0.1", 0), Handler)
        self.says, self.script, self.asked, self.tokens = says, [], [], []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text, shown = question["messages"][0]["content"]
        data = shown["image_url"]["url"].removeprefix("data:image/png;base64,")
        pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))
        self.server.asked.append((self.path, question["model"], question["temperature"], text["text"], pixels))
        self.server.tokens.append(self.headers.get("Authorization"))
        status, body = self.server.script.pop(0) if self.server.script else (200, None)
        if body is None:
            body = json.dumps({"choices": [{"message": {"role": "assistant", "content": self.server.says(pixels)}}]})
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *given):
        pass


def serving(says):
    return running(Server(says))
