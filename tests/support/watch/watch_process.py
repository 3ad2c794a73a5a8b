"""``coterie watch`` as a process, and requests to it."""

import base64
import json
import os
import ssl
import subprocess
import urllib.error
import urllib.request
from contextlib import contextmanager

from support.commandline import COTERIE, ENVIRONMENT
from support.patience import HANG_S


class Watching:
    """A process that watches; ``url``: where it listens."""

    def __init__(self, *args):
        command = [*COTERIE, "watch", *map(str, args), "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(
            [*command, "--interval", "0.05"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | ENVIRONMENT,
        )
        self.url = self.process.stdout.readline().split()[-1]
        assert self.process.stdout.readline() == "ready\n"

    def get(self, path, login=None, ca=None):
        """Return the status and the text of a page."""
        request = urllib.request.Request(self.url + path)
        if login is not None:
            token = base64.b64encode(login.encode()).decode()
            request.add_header("Authorization", f"Basic {token}")
        context = None if ca is None else ssl.create_default_context(cafile=str(ca))
        try:
            with urllib.request.urlopen(request, timeout=HANG_S, context=context) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def health(self):
        return json.loads(self.get("/healthz")[1])

    def look_again(self):
        """Return once a step began and ended after this call."""
        steps = self.health()["steps"]
        while self.health()["steps"] < steps + 2:
            pass

    def samples(self):
        """The samples of /metrics but those about the present time and the steps."""
        lines = self.get("/metrics")[1].splitlines()
        return [
            line for line in lines if "seconds_since" not in line and "coterie_watch" not in line
        ]

    def end(self, number):
        """Send a signal; return the status and standard error."""
        self.process.send_signal(number)
        _, error = self.process.communicate(timeout=HANG_S)
        return self.process.returncode, error


@contextmanager
def watching(*args):
    """Watch until the end of the block."""
    watch = Watching(*args)
    try:
        yield watch
    finally:
        if watch.process.poll() is None:
            watch.process.kill()
            watch.process.communicate()
