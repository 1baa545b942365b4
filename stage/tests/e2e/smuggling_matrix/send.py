# SPDX-License-Identifier: Apache-2.0
"""Reads payloads, a line of JSON each: the name that is dialled, what is spoken, the writes. Sends
each over TLS on a connection of its own and hears the answer out. Prints how many were sent."""

import base64
import concurrent.futures
import json
import socket
import ssl
import sys

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"


def send(line):
    payload = json.loads(line)
    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2" if payload["http2"] else "http/1.1"])
    stream = socket.create_connection((payload["name"], 443), timeout=60)
    stream = context.wrap_socket(stream, server_hostname=payload["name"])
    try:
        if payload["http2"]:
            stream.sendall(PREFACE)
        for write in payload["writes"]:
            stream.sendall(base64.b64decode(write))
        stream.settimeout(1.0)
        while stream.recv(65536):
            stream.settimeout(0.2)
    except OSError:
        # A gate that has refused reads no more, and one that waits says nothing.
        pass
    stream.close()


with concurrent.futures.ThreadPoolExecutor(16) as pool:
    print(sum(1 for _ in pool.map(send, sys.stdin)))
