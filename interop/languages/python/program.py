"""The protocol of the Python programs with cmd/languages, which starts them."""

import os
import sys

MODE = os.environ["MODE"]
HOST, PORT = os.environ["ENDPOINT"].rsplit(":", 1)
USERNAME, PASSWORD = os.environ.get("USERNAME"), os.environ.get("PASSWORD")
READER, READER_PASSWORD = os.environ.get("READER"), os.environ.get("READER_PASSWORD")
CACERT, CERT, KEY = (os.environ.get(name) for name in ("CACERT", "CERT", "KEY"))
# Bounds every operation, in seconds.
PATIENCE = 60
# Whether to skip the steps that other modes cover.
BRIEF = "BRIEF" in os.environ


def step(name, result):
    """Prints the result of a step."""
    print(f"{name}: {result}".replace("\n", "\\n"), flush=True)


def ask(request):
    """Sends a request to cmd/languages and returns the response."""
    print(f"@{request}", flush=True)
    answer = sys.stdin.readline()
    if not answer:
        raise EOFError(request)
    return answer.rstrip("\n")


def snapshot_path():
    return os.path.join(os.environ["WORKDIR"], "snapshot.db")


def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)
