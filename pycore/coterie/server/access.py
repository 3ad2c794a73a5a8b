"""Who may send requests over HTTP: by the head of a request alone, and at the same cost for each.

A web page must not reach a server through the browser of somebody who may. Names other than this
machine's are refused where only this machine can connect: a page can make its own name resolve to
127.0.0.1 (DNS rebinding). Elsewhere the browser names the page, by Origin or Sec-Fetch-Site.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address

from coterie.server.http_messages import HttpRequest, Refusal

_HOST = re.compile(r"(localhost|[0-9.]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?", re.IGNORECASE | re.ASCII)
_CHALLENGE = 'WWW-Authenticate: Basic realm="coterie"'


@dataclass(frozen=True)
class Access:
    """The requests that are allowed.

    Parameters
    ----------
    login
        USER:PASSWORD; None: no password is needed.
    loopback
        Whether only this machine can connect. Without a password the name must then be its own.
    methods
        The methods that are served.
    """

    login: str | None = None
    loopback: bool = True
    methods: tuple[str, ...] = ("GET", "HEAD")

    def check(self, request: HttpRequest) -> None:
        """Raise Refusal if a request is not allowed."""
        fields, login = request.fields, self.login
        if login is None and self.loopback and not _is_loopback(fields.get("host", "")):
            raise Refusal(HTTPStatus.FORBIDDEN, "ask for it as 127.0.0.1 or localhost")
        if _is_of_another_page(request):
            raise Refusal(HTTPStatus.FORBIDDEN, "this is not for pages of other sites")
        if login is not None and not hmac.compare_digest(
            _login_of(fields.get("authorization", "")), login.encode()
        ):
            what = "a user and a password are needed"
            raise Refusal(HTTPStatus.UNAUTHORIZED, what, _CHALLENGE)
        if request.method not in self.methods:
            *others, last = self.methods
            what = f"there is only {last}"
            if others:
                what = f"there are only {', '.join(others)} and {last}"
            allowed = f"Allow: {', '.join(self.methods)}"
            raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, what, allowed)


def _is_loopback(host: str) -> bool:
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    name = found[1].strip("[]").lower()
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


def _is_of_another_page(request: HttpRequest) -> bool:
    """Whether a page of another origin sent a request; a link that opens this one may."""
    fields = request.fields
    origin, host = fields.get("origin"), fields.get("host", "")
    if origin is not None and origin.lower() not in _origins(host):
        return True
    is_link = (
        request.method == "GET"
        and fields.get("sec-fetch-mode") == "navigate"
        and fields.get("sec-fetch-dest") == "document"
    )
    return fields.get("sec-fetch-site", "none") not in ("none", "same-origin") and not is_link


def _origins(host: str) -> set[str]:
    return {f"{scheme}://{host.lower()}" for scheme in ("http", "https")}


def _login_of(authorization: str) -> bytes:
    """Return USER:PASSWORD of a header field, b"" if it has none."""
    scheme, _, text = authorization.partition(" ")
    if scheme.lower() != "basic":
        return b""
    try:
        return base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        return b""
