#!/usr/bin/env python3
"""The loop of examples/loops/website without any library: a page of Python that speaks
JSON over HTTP to the peer's Unix socket.

    sudo ./website.py [--socket /run/starling/peer.sock] [--image localhost/hello:1]
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


def serve(fields, image):
    """Does the step for one website: its pods, where they answer, or what it waits for.

    Fields, here and in what is answered, are paths and JSON texts."""
    site = {path: json.loads(value) for path, value in fields.items()}
    pod = {
        "spec.containers.app.image": image,
        "spec.containers.app.args": ["--listen", "[::]:8080"],
        "spec.containers.app.env.GREETING": site["spec.greeting"],
        "spec.containers.app.ports.http": 8080,
        "spec.containers.app.resources.memory": site["spec.memory"],
        "spec.labels.website": "yes",
    }
    slots = range(site["spec.pods"])
    child = "children.website.{}.{}".format
    serving = [slot for slot in slots if site.get(child(slot, "state")) == "serving"]
    outputs = {
        "status.loops.website.ready": len(serving),
        "status.loops.website.addresses": sorted(site[child(slot, "address")] for slot in serving),
    }
    result = {
        "outputs": texts(outputs),
        "owns": True,
        "children": [{"slot": slot, "fields": texts(pod)} for slot in slots],
    }
    if len(serving) < len(slots):
        result |= {"pending": True, "message": f"{len(serving)} of {len(slots)} pods serve"}
    return result


def texts(fields):
    return {path: json.dumps(value) for path, value in fields.items()}


def attach(path, image):
    for message in stream(path, "Attach", {"loop": "website"}):  # the Kind declares the step
        if "step" in message:
            print(message["step"], message["key"]["name"], flush=True)
            result = serve(message.get("fields", {}), image)
            call(path, "Finish", {"session": message["session"], "id": message["id"], **result})
        elif not message.get("cancel"):
            print("attached", flush=True)


def main():
    flags = argparse.ArgumentParser()
    flags.add_argument("--socket", default="/run/starling/peer.sock")
    flags.add_argument("--image", default="localhost/hello:1")
    args = flags.parse_args()
    while True:  # a peer that restarts is attached to again
        try:
            attach(args.socket, args.image)
        except (OSError, http.client.HTTPException) as away:
            print("not attached:", away, file=sys.stderr)
        except RuntimeError as refused:
            sys.exit(f"website: {refused}")
        except KeyboardInterrupt:
            return
        time.sleep(1)


if __name__ == "__main__":
    main()
