"""A stand-in for the Hugging Face hub on loopback.

It answers the requests that uploading and downloading a small model make.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMIT = "0" * 40


class _Hub(BaseHTTPRequestHandler):
    files: dict[str, bytes]

    def log_message(self, *_: Any) -> None:
        pass

    def _send(self, content: bytes, *, code: int = 200, **headers: str) -> None:
        self.send_response(code)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _answer(self, value: Any) -> None:
        self._send(json.dumps(value).encode(), Content_Type="application/json")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.startswith("/api/repos/create"):
            self._answer({"url": f"http://{self.headers['Host']}/me/model", "name": "me/model"})
        elif "/preupload/" in self.path:
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in json.loads(body)["files"]
            ]
            self._answer({"files": files})
        elif "/commit/" in self.path:
            for line in body.splitlines():
                entry = json.loads(line)
                if entry["key"] == "file":
                    self.files[entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
            url = f"http://{self.headers['Host']}/me/model/commit/{COMMIT}"
            self._answer({"success": True, "commitOid": COMMIT, "commitUrl": url, "hookOutput": ""})
        else:
            self._answer({})

    def do_GET(self) -> None:
        file_path = re.search(r"/resolve/[^/]+/([^?]+)", self.path)
        if file_path is None:
            entries = [{"rfilename": name} for name in self.files]
            self._answer(
                {
                    "id": "me/model",
                    "modelId": "me/model",
                    "sha": COMMIT,
                    "siblings": entries,
                    "tags": [],
                }
            )
        elif file_path[1] not in self.files:
            self._send(b"", code=404, X_Error_Code="EntryNotFound", X_Repo_Commit=COMMIT)
        else:
            content = self.files[file_path[1]]
            digest = hashlib.sha1(content).hexdigest()
            self._send(content, ETag=f'"{digest}"', X_Repo_Commit=COMMIT)

    do_HEAD = do_GET  # noqa: N815


@contextmanager
def local_hub() -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield the address of an empty hub, and the files that it gets."""
    files: dict[str, bytes] = {}
    handler = type("Hub", (_Hub,), {"files": files})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", files
    finally:
        server.shutdown()
        server.server_close()
