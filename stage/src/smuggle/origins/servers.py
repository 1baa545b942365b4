# SPDX-License-Identifier: Apache-2.0
"""One of Python's HTTP servers on a port, with an application that says what it saw: a line of JSON
for each request, with a digest of its body, or none when the body did not come whole."""

import hashlib
import json
import os
import sys


def say(method, target, host, body):
    digest = None if body is None else hashlib.sha256(body).hexdigest()
    line = json.dumps({"method": method, "target": target, "host": host, "body": digest})
    os.write(1, line.encode() + b"\n")


def status_of(target):
    last = target.split("?")[0].rsplit("/", 1)[-1]
    return int(last) if last in ("204", "304") else 200


def wsgi(environ, start_response):
    target = environ.get("RAW_URI") or environ.get("REQUEST_URI")
    if target is None:
        raise SystemExit("this server does not say the target as it came")
    try:
        body = environ["wsgi.input"].read()
    except Exception:
        body = None
    say(environ["REQUEST_METHOD"], target, environ.get("HTTP_HOST", ""), body)
    status = status_of(target)
    if body is None:
        start_response("400 Bad Request", [("Content-Length", "0"), ("Connection", "close")])
        return [b""]
    if status != 200:
        start_response("%d None" % status, [])
        return [b""]
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
        return
    body = b""
    while body is not None:
        event = await receive()
        if event["type"] != "http.request":
            body = None
        else:
            body += event.get("body", b"")
            if not event.get("more_body"):
                break
    path = scope["raw_path"].decode("latin-1").split("?")[0]
    query = scope["query_string"].decode("latin-1")
    target = path + ("?" + query if query else "")
    host = [v.decode("latin-1") for k, v in scope["headers"] if k == b"host"]
    say(scope["method"], target, ",".join(host), body)
    if body is None:
        return
    status = status_of(target)
    content = b"ok" if status == 200 else b""
    headers = [(b"content-length", b"2")] if status == 200 else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def gunicorn(port):
    from gunicorn.app.base import BaseApplication

    class Server(BaseApplication):
        def load_config(self):
            self.cfg.set("bind", "127.0.0.1:%d" % port)
            self.cfg.set("worker_class", "gthread")
            self.cfg.set("threads", 16)
            self.cfg.set("loglevel", "critical")

        def load(self):
            return wsgi

    Server().run()


def uvicorn(port, reader):
    import uvicorn as server

    server.run(asgi, host="127.0.0.1", port=port, http=reader, ws="none", log_level="critical")


def hypercorn(port):
    import asyncio

    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    config = Config()
    config.bind = ["127.0.0.1:%d" % port]
    config.errorlog = None
    asyncio.run(serve(asgi, config))


def aiohttp(port):
    from aiohttp import web

    async def handle(request):
        try:
            body = await request.read()
        except Exception:
            body = None
        say(request.method, request.raw_path, ",".join(request.headers.getall("Host", [])), body)
        status = status_of(request.raw_path)
        return web.Response(status=status, body=b"ok" if status == 200 else None)

    app = web.Application(client_max_size=1 << 26)
    app.router.add_route("*", "/{rest:.*}", handle)
    web.run_app(app, host="127.0.0.1", port=port, print=None, access_log=None)


def waitress(port):
    import waitress as server

    server.serve(wsgi, host="127.0.0.1", port=port, threads=16, _quiet=True)


def tornado(port):
    import asyncio

    from tornado.httpserver import HTTPServer
    from tornado.httputil import HTTPHeaders, ResponseStartLine

    def handle(request):
        say(request.method, request.uri, ",".join(request.headers.get_list("Host")), request.body)
        status = status_of(request.uri)
        content = b"ok" if status == 200 and request.method != "HEAD" else b""
        headers = HTTPHeaders({"Content-Length": "2"} if status == 200 else {})
        request.connection.write_headers(ResponseStartLine("HTTP/1.1", status, "-"), headers, content)
        request.connection.finish()

    async def main():
        HTTPServer(handle).listen(port, "127.0.0.1")
        await asyncio.Event().wait()

    asyncio.run(main())


def twisted(port):
    from twisted.internet import reactor
    from twisted.web.resource import Resource
    from twisted.web.server import Site

    class Leaf(Resource):
        isLeaf = True

        def render(self, request):
            target = request.uri.decode("latin-1")
            hosts = request.requestHeaders.getRawHeaders(b"host") or []
            host = b",".join(hosts).decode("latin-1")
            say(request.method.decode("latin-1"), target, host, request.content.read())
            request.setResponseCode(status_of(target))
            return b"ok" if status_of(target) == 200 else b""

    reactor.listenTCP(port, Site(Leaf()), interface="127.0.0.1")
    reactor.run()


def cheroot(port):
    from cheroot.wsgi import Server

    Server(("127.0.0.1", port), wsgi, numthreads=16).start()


SERVERS = {
    "gunicorn": gunicorn,
    "uvicorn-h11": lambda port: uvicorn(port, "h11"),
    "uvicorn-httptools": lambda port: uvicorn(port, "httptools"),
    "hypercorn": hypercorn,
    "aiohttp": aiohttp,
    "waitress": waitress,
    "tornado": tornado,
    "twisted": twisted,
    "cheroot": cheroot,
}

SERVERS[sys.argv[1]](int(sys.argv[2]))
