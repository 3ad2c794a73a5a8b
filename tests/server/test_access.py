"""Who may ask by HTTP: this machine, or who has the password, and no page of another site."""

import base64

import pytest

from coterie.server.access import Access
from coterie.server.http_messages import HttpRequest, Refusal

HERE = "localhost:80"
LOGIN = "me:secret"
OTHERS = Access(loopback=False)
CONTROL = Access(methods=("GET", "POST", "DELETE"))


def basic(login, scheme="Basic"):
    return f"{scheme} {base64.b64encode(login.encode()).decode()}"


def status_of(access, method="GET", **fields):
    """The status of the refusal, None without one."""
    fields = {"host": HERE} | {name.replace("_", "-"): value for name, value in fields.items()}
    try:
        access.check(HttpRequest(method, "/", fields))
    except Refusal as refusal:
        return refusal.status
    return None


@pytest.mark.parametrize("access", [Access(), CONTROL])
def test_a_name_that_could_be_rebound_is_refused_where_only_this_machine_connects(access):
    odd = ("evil:80@localhost", "[::1]evil", "localhost:80:80", "localhost.", "127.1", "0.0.0.0")
    names = ("", "example.com", "example.com:80", "10.0.0.1", "[::2]", "a b", "localhost.evil")
    for host in (*names, *odd):
        assert status_of(access, host=host) == 403, host
        assert status_of(OTHERS, host=host) is None, host
    for host in ("localhost", "localhost:80", "LOCALHOST", "127.0.0.1", "127.1.2.3:80", "[::1]:80"):
        assert status_of(access, host=host) is None, host


LINK = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}


@pytest.mark.parametrize(
    ("method", "fields", "is_refused"),
    [
        ("GET", {"origin": "null"}, True),
        ("GET", {"origin": "https://example.com"}, True),
        ("POST", {"origin": "http://localhost:81"}, True),  # another port is another site
        ("POST", {"origin": ""}, True),
        ("GET", {"origin": f"http://{HERE}"}, False),
        ("GET", {"origin": f"https://{HERE}"}, False),
        ("GET", {"sec_fetch_site": "cross-site"}, True),  # an image, a script, a frame
        ("GET", {"sec_fetch_site": "same-site", "sec_fetch_mode": "cors"}, True),
        ("GET", LINK | {"sec_fetch_dest": "iframe"}, True),
        ("POST", LINK, True),  # a form
        ("GET", LINK, False),
        ("GET", {"sec_fetch_site": "same-origin"}, False),
        ("GET", {"sec_fetch_site": "none"}, False),  # by its address, or a bookmark
    ],
)
def test_a_page_of_another_site_gets_nothing(method, fields, is_refused):
    post = ("GET", "POST")
    for access in (Access(methods=post), Access(loopback=False, methods=post)):
        assert status_of(access, method, **fields) == (403 if is_refused else None)
    # a browser adds the password by itself
    with_login = Access(LOGIN, methods=post)
    fields = fields | {"authorization": basic(LOGIN)}
    assert status_of(with_login, method, **fields) == (403 if is_refused else None)


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        ("", 401),
        (basic("me:wrong"), 401),
        (basic(LOGIN, "Bearer"), 401),
        (basic(LOGIN) + "!", 401),  # no base64
        ("Basic bWU6", 401),
        (basic(LOGIN), None),
        (basic(LOGIN, "basic"), None),
    ],
)
def test_a_login_is_needed_where_there_is_one_under_any_name(authorization, status):
    for host in (HERE, "monitor.example"):
        access = Access(LOGIN)
        assert status_of(access, authorization=authorization, host=host) == status
    with pytest.raises(Refusal) as refused:
        Access(LOGIN).check(HttpRequest("GET", "/", {"host": HERE}))
    assert refused.value.fields == ('WWW-Authenticate: Basic realm="coterie"',)


def test_another_method_is_refused_with_those_that_there_are():
    assert status_of(Access(LOGIN), "POST") == 401  # who has no password learns nothing
    assert status_of(Access(LOGIN), "POST", authorization=basic(LOGIN)) == 405
    assert status_of(CONTROL, "DELETE") is None
    with pytest.raises(Refusal, match="there are only GET, POST and DELETE") as refused:
        CONTROL.check(HttpRequest("PUT", "/", {"host": HERE}))
    assert refused.value.fields == ("Allow: GET, POST, DELETE",)
