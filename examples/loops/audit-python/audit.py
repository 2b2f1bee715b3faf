#!/usr/bin/env python3
"""The loop of examples/loops/audit without any library: a page of Python that speaks
JSON over HTTP to the peer's Unix socket.

    sudo ./audit.py [--socket /run/starling/peer.sock] [--trusted localhost/]
"""

import argparse
import http.client
import json
import socket
import struct
import sys
import time

SERVICE = "/starling.v1.Starling/"
END_OF_STREAM = 2  # flag of the last message, which holds an error if there was one


class Peer(http.client.HTTPConnection):
    """An HTTP connection to a Unix socket."""

    def __init__(self, path):
        super().__init__("peer")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self.path)


def stream(path, method, request):
    """Calls a method that answers with a stream, and yields its messages."""
    body = json.dumps(request).encode()
    peer = Peer(path)
    headers = {"Content-Type": "application/connect+json"}
    peer.request("POST", SERVICE + method, struct.pack(">BI", 0, len(body)) + body, headers)
    answer = peer.getresponse()
    while header := answer.read(5):
        flags, size = struct.unpack(">BI", header)
        message = json.loads(answer.read(size))
        if flags & END_OF_STREAM:
            if error := message.get("error"):
                raise RuntimeError(error.get("message", error["code"]))
            return
        yield message


def call(path, method, request):
    """Calls a method that answers with one message."""
    peer = Peer(path)
    peer.request("POST", SERVICE + method, json.dumps(request), {"Content-Type": "application/json"})
    answer = peer.getresponse()
    if answer.status != 200:
        raise RuntimeError(answer.read().decode())
    return json.loads(answer.read())


STEP = {
    "name": "check",
    "kind": "Pod",
    "requires": ["admit"],
    "requiredBy": ["image"],
    "reads": ["spec.containers.*.image"],
    "outputs": ["status.loops.audit"],
    "timeoutMs": "10000",
}


def check(fields, trusted):
    """Does the step for one pod: outputs, or why it fails."""
    for path, value in sorted(fields.items()):
        if not json.loads(value).startswith(trusted):
            message = f"{path} is {value}, which is not from {trusted}; use an image that is"
            return {"code": "UntrustedImage", "message": message, "wait": True}
    return {"outputs": {"status.loops.audit.trusted": json.dumps(trusted)}}


def serve(path, trusted):
    declaration = {"loop": "audit", "steps": [STEP]}
    for message in stream(path, "Attach", declaration):
        if "step" in message:
            print("check", message["key"]["name"], flush=True)
            result = check(message.get("fields", {}), trusted)
            call(path, "Finish", {"session": message["session"], "id": message["id"], **result})
        elif not message.get("cancel"):
            print("attached", flush=True)


def main():
    flags = argparse.ArgumentParser()
    flags.add_argument("--socket", default="/run/starling/peer.sock")
    flags.add_argument("--trusted", default="localhost/")
    args = flags.parse_args()
    while True:  # a peer that restarts is attached to again
        try:
            serve(args.socket, args.trusted)
        except (OSError, http.client.HTTPException) as away:
            print("not attached:", away, file=sys.stderr)
        except RuntimeError as refused:
            sys.exit(f"audit: {refused}")
        except KeyboardInterrupt:
            return
        time.sleep(1)


if __name__ == "__main__":
    main()
