"""The page in a real browser: what is shown, what a key does, and what a command's text cannot do."""

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from msgspec.structs import replace

from pinfold.model.decision import Widening
from pinfold.model.permission import Answer, Capability
from tests.web.chromium import Browser, found
from tests.web.page_world import Asking, page, question

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not found(), reason="there is no chromium on this machine"),
]

EVIL = "<img src=x onerror=alert(1)><script>document.title='owned'</script>"


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Chromium takes longer to start than most tests here take."""
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def browser(started: Browser) -> Browser:
    started.start_afresh()
    return started


AT_ONCE = """
new MutationObserver((_, observer) => {
  observer.disconnect();
  document.dispatchEvent(new KeyboardEvent('keydown', {key: 'y'}));
  window.wasTyped = (window.wasTyped || 0) + 1;
}).observe(document.getElementById('questions'), {childList: true})
"""
"""A key that is typed at something else: it comes in the moment in which a question comes up, or goes."""


def armed(browser: Browser) -> None:
    browser.wait("document.querySelector('.card button:enabled')")


def test_a_key_answers_once_it_can_be_meant(browser: Browser, tmp_path: Path) -> None:
    with page(tmp_path) as (opened, environ):
        browser.open(opened.place.address)
        browser.wait("document.getElementById('state').textContent === 'connected'")
        # The token is nowhere that it could be read from, or sent along, by accident.
        assert opened.place.token not in browser.run("location.href + document.cookie + document.title")
        browser.run(AT_ONCE)
        first = Asking(environ, question("1", f"echo {EVIL}; git push", description=EVIL, why=EVIL))
        browser.wait("document.querySelector('.card')")
        assert browser.run("document.querySelectorAll('main img, main script').length") == 0
        assert browser.run("document.querySelector('mark').textContent") == "git push"
        assert EVIL in browser.run("document.querySelector('pre').textContent")
        assert browser.run("document.title") == "(1) pinfold asks"
        time.sleep(0.2)
        assert browser.run("window.wasTyped") == 1 and first.reply is None
        armed(browser)
        second = Asking(environ, question("2", "second"))
        browser.wait("document.querySelectorAll('.card').length === 2")
        armed(browser)
        browser.run(AT_ONCE)  # the same finger, twice: the second question comes up in its place
        browser.press("y")
        reply = first.wait()
        assert reply is not None and reply.answer is Answer.ONCE and second.reply is None
        browser.wait("window.wasTyped === 2")
        time.sleep(0.2)
        assert second.reply is None
        armed(browser)
        browser.run("document.querySelector('.card button:last-of-type').click()")
        reply = second.wait()
        assert reply is not None and reply.answer is Answer.NO
        browser.wait("!document.getElementById('calm').hidden")
        assert browser.log == []


def test_the_key_that_widens_says_where_it_narrows(browser: Browser, tmp_path: Path) -> None:
    with page(tmp_path) as (opened, environ):
        browser.open(opened.place.address)
        browser.wait("document.getElementById('state').textContent === 'connected'")
        asking = Asking(environ, question(capability=Capability.CONNECT, host="a.test", port=443))
        shown = "(() => { const r = document.createRange(); r.selectNodeContents(document.querySelector("
        shown += "'.card button:last-of-type b')); return r })()"
        label = "document.querySelector('.card button:last-of-type b').textContent"
        armed(browser)
        for word in ("wider", "narrower", "wider"):
            browser.wait(f"{label} === '{word}'")
            assert browser.run(f"{shown}.getClientRects().length") == 1, "the word is broken"
            browser.press("w")
        browser.press("n")
        assert asking.wait() is not None


def test_text_is_shown_in_the_order_in_which_it_is_read(browser: Browser, tmp_path: Path) -> None:
    """Letters of scripts that run to the left would swap `mv`'s operands for the eye."""
    with page(tmp_path) as (opened, environ):
        browser.open(opened.place.address)
        asked = "mv \u05d0 \u05d1"
        asking = Asking(environ, question("1", asked, description=asked, why=asked))
        browser.wait("document.querySelector('.card')")
        seen = browser.run(
            "[...document.querySelectorAll('.card pre, .card dd p')].map((each) => {"
            " const text = each.firstChild, at = (index) => { const range = document.createRange();"
            " range.setStart(text, index); range.setEnd(text, index + 1);"
            " return range.getBoundingClientRect().left; };"
            " const first = text.data.indexOf('\u05d0'), second = text.data.indexOf('\u05d1');"
            " return first < 0 || at(first) < at(second); })"
        )
        assert len(seen) >= 3 and all(seen), seen
        armed(browser)
        browser.press("n")
        asking.wait()


def test_what_is_wanted_is_in_sight_of_the_buttons(browser: Browser, tmp_path: Path) -> None:
    with page(tmp_path) as (opened, environ):
        browser.open(opened.place.address)
        said = "run this in the sandbox " * 2000
        asking = Asking(environ, question("1", "echo hello\n" * 200, description=said, why=said))
        browser.wait("document.querySelector('.card')")
        browser.run("document.querySelector('.card button:last-of-type').scrollIntoView(false)")
        for seen in ("h2", "button:last-of-type"):
            browser.wait(
                f"(({{top, bottom}}) => top >= 0 && bottom <= innerHeight)"
                f"(document.querySelector('.card {seen}').getBoundingClientRect())"
            )
        armed(browser)
        browser.press("n")
        asking.wait()


LONG = "echo hello\n" * 200


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"command": LONG}, ".card pre"),
        ({"command": "make", "cwd": f"/{'d' * 200}" * 200}, ".card dd"),
        ({"command": "make", "why": "x " * 20_000}, ".card dd:last-of-type"),
    ],
    ids=["command", "directory", "reason"],
)
def test_a_yes_counts_once_all_of_it_was_in_sight(
    given: dict[str, str], part: str, browser: Browser, tmp_path: Path
) -> None:
    with page(tmp_path) as (opened, environ):
        browser.open(opened.place.address)
        asking = Asking(environ, question("1", **given))
        armed(browser)
        browser.press("y")
        browser.wait("!document.getElementById('note').hidden")
        browser.run("document.querySelector('.card button').click()")
        assert asking.reply is None and browser.run("document.querySelectorAll('.unread').length") == 1
        browser.run(f"document.querySelector('{part}').scrollTo(0, 1e6)")
        browser.wait("!document.querySelector('.unread')")
        armed(browser)
        browser.run("document.querySelector('.card button').scrollIntoView({block: 'end'})")
        browser.press("y")
        browser.wait("!document.querySelector('.card') || document.querySelector('.card button:enabled')")
        if asking.reply is None:  # the first one brought the choices into sight
            browser.press("y")
        reply = asking.wait()
        assert reply is not None and reply.answer is Answer.ONCE


def test_what_many_parts_grant_is_passed_before_a_yes_counts(browser: Browser, tmp_path: Path) -> None:
    with page(tmp_path) as (opened, environ):
        browser.open(opened.place.address)
        widenings = tuple(
            Widening("network", f"h{number}.{'d' * 60}.{'e' * 60}.test") for number in range(12)
        )
        asked = question("1", "make\n" * 12, capability=Capability.WIDEN)
        asked = replace(asked, decision=replace(asked.decision, widening=widenings))
        browser.call(
            "Emulation.setDeviceMetricsOverride", width=500, height=300, deviceScaleFactor=1, mobile=False
        )
        asking = Asking(environ, asked)
        armed(browser)
        browser.run("document.querySelector('.card pre').scrollTo(0, 1e6)")
        browser.run("scrollTo(0, 0)")
        browser.press("y")
        browser.wait(
            "document.querySelector('.card .answers').getBoundingClientRect().bottom <= innerHeight + 2"
        )
        time.sleep(0.2)
        assert asking.reply is None
        armed(browser)
        browser.press("y")
        reply = asking.wait()
        assert reply is not None and reply.answer is Answer.ONCE


def test_another_page_on_this_machine_gets_nowhere(browser: Browser, tmp_path: Path) -> None:
    """As one would be that a person looks at and a pen serves (`network.publish`): same site, other port."""
    with page(tmp_path) as (opened, environ), page(tmp_path / "other") as (theirs, _):
        asking = Asking(environ, question())
        browser.open(
            f"http://{theirs.place.host}:{theirs.place.port}/none"
        )  # no policy of ours would hold it there
        target = f"http://{opened.place.host}:{opened.place.port}"
        token = opened.place.token
        headers = f"{{Authorization: 'Bearer {token}'}}"  # even if it had it
        browser.call("Page.setBypassCSP", enabled=True)
        browser.open(f"http://{theirs.place.host}:{theirs.place.port}/none?")
        for options in (
            f"{{headers: {headers}}}",
            "{mode: 'no-cors'}",
            f"{{method: 'POST', headers: {headers}}}",
        ):
            script = f"fetch('{target}/api/questions', {options}).then(r => r.text(), () => 'failed')"
            assert browser.run(script) in ("failed", "")
        browser.run(
            f"document.body.append(Object.assign(document.createElement('iframe'), {{src: '{target}'}}))"
        )
        time.sleep(0.3)
        assert browser.run("frames[0].length") == 0 and asking.reply is None


def test_without_the_token_it_says_what_to_open(browser: Browser, tmp_path: Path) -> None:
    with page(tmp_path) as (opened, _):
        address = opened.place.address.partition("#")[0]
        browser.open(address)
        browser.wait("document.getElementById('state').textContent.startsWith('open the address')")
        browser.open(f"{address}#wrong")
        browser.reload()
        browser.wait("document.getElementById('state').textContent.startsWith('open the address')")


WORKER = """
addEventListener('install', () => skipWaiting());
addEventListener('activate', (event) => event.waitUntil(clients.claim()));
const taken = '<script>document.title = `took ${location.hash}`</script>';
const headers = {'Content-Type': 'text/html'};
addEventListener('fetch', (event) => event.respondWith(new Response(taken, {headers})));
"""
AGENTS = {
    "/": ("text/html", "<script>navigator.serviceWorker.register('/left.js')</script>"),
    "/left.js": ("text/javascript", WORKER),
}


class Left(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        kind, text = AGENTS.get(self.path, ("text/plain", ""))
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def test_what_another_server_left_in_the_browser_is_not_the_page(browser: Browser, tmp_path: Path) -> None:
    """A service worker outlives the server that it came from, and answers for whoever has its address next:
    such as an agent's server on a published port, and then `pinfold web --port` with the same."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Left) as server:
        port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.open(f"http://127.0.0.1:{port}/")
        browser.wait("navigator.serviceWorker.controller")
        server.shutdown()
    browser.open("about:blank")
    with page(tmp_path, port) as (opened, _):
        browser.open(opened.place.address)
        browser.wait("document.title")
        assert browser.run("document.title") == "pinfold"
