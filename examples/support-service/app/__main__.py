"""`python -m app` reads a question as JSON; `python -m app serve PORT` serves HTTP."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from app.answer import answer


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(answer(given["question"])).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if sys.argv[1:2] == ["serve"]:
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
else:
    print(json.dumps(answer(**json.load(sys.stdin))))
