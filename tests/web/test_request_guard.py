"""Which requests are answered: a table of what browsers, other pages and other programs send."""

from email.message import Message

import pytest

from pinfold.web.request_guard import HEADERS, rejection_of

HOST = "127.0.0.1:1234"
OWN = {
    "Host": HOST,
    "Authorization": "Bearer t",
    "Origin": f"http://{HOST}",
    "Content-Type": "application/json",
}


def refused(method: str, path: str, headers: list[tuple[str, str]]) -> int:
    said = Message()
    for name, value in headers:
        said[name] = value
    found = rejection_of(method, path, said, "127.1.2.3", 1234, "t")
    return found.status if found else 0


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({}, 0),
        ({"Host": "localhost:1234", "Origin": "http://localhost:1234"}, 0),
        ({"Sec-Fetch-Site": "same-origin"}, 0),
        # A name of another site that leads here, another port, no name at all.
        ({"Host": "evil.example:1234", "Origin": "http://evil.example:1234"}, 421),
        ({"Host": "127.0.0.1"}, 421),
        ({"Host": "127.0.0.1:80"}, 421),
        ({"Host": None}, 421),
        # Another page: of another site, of another port of this one, of a file.
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:3000"}, 403),
        ({"Origin": "http://localhost:1234"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": None}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        # Not the token.
        ({"Authorization": None}, 401),
        ({"Authorization": "Bearer "}, 401),
        ({"Authorization": "Bearer tt"}, 401),
        ({"Authorization": "t"}, 401),
        ({"Authorization": "Bearer ü"}, 401),
        # What a form can send.
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_an_answer_is_the_pages_own(changed: dict[str, str | None], status: int) -> None:
    headers = [(name, value) for name, value in {**OWN, **changed}.items() if value is not None]
    assert refused("POST", "/api/answer", headers) == status


def test_of_two_headers_none_is_believed() -> None:
    for name, value in OWN.items():
        assert refused("POST", "/api/answer", [*OWN.items(), (name, value)]) != 0


def test_questions_are_not_shown_without_the_token() -> None:
    assert refused("GET", "/api/questions", [("Host", HOST)]) == 401
    assert refused("GET", "/", [("Host", HOST)]) == 0
    assert refused("GET", "/", [("Host", "evil.example:1234")]) == 421


def test_the_policy_lets_nothing_in_that_is_not_the_pages() -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy and "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
