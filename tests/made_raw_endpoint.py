"""A server of bare sockets on this machine that answers a posted request with whatever bytes a test says, and when."""

import socket
import struct
import threading
import time
from contextlib import contextmanager


class RawServer:
    """play: what each connection is answered with, in turn and the last for ever: steps ("send", bytes), ("wait", s),
    and at the end ("close",), ("reset",) or ("stall",), until the client leaves. connections: how many there were."""

    def __init__(self):
        self.play, self.connections, self.requests = [[("close",)]], 0, []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/classify"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self):
        """Closing alone would not do: the port listens until the accept that waits for it comes back."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _accept(self):
        while True:
            try:
                one, _ = self._socket.accept()
            except OSError:
                return
            steps = self.play[min(self.connections, len(self.play) - 1)]
            self.connections += 1
            threading.Thread(target=self._answer, args=(one, steps), daemon=True).start()

    def _answer(self, one, steps):
        with one:
            try:
                if steps[0] != ("unread",):
                    self.requests.append(_request(one))
                for what, *given in steps:
                    if what == "send":
                        one.sendall(*given)
                    elif what == "wait":
                        time.sleep(*given)
                    elif what == "trickle":
                        for byte in given[0]:
                            one.sendall(bytes([byte]))
                            time.sleep(given[1])
                    elif what == "stall":
                        one.settimeout(30)
                        while one.recv(65536):
                            pass
                    elif what == "reset":
                        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            except OSError:  # the client has left
                return


def _request(one):
    one.settimeout(10)
    got = b""
    while b"\r\n\r\n" not in got:
        block = one.recv(65536)
        if not block:
            return got
        got += block
    head, _, body = got.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
    length = int(lengths[0]) if lengths else 0
    while len(body) < length and (block := one.recv(65536)):
        body += block
    return head + b"\r\n\r\n" + body


@contextmanager
def raw_server():
    server = RawServer()
    try:
        yield server
    finally:
        server.close()
