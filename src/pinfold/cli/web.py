"""`pinfold web`: a page in your browser for the questions of all your sessions."""

import gc
import os
import signal
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, NoReturn

from pinfold.cli.arguments import here, port
from pinfold.cli.output import print_json
from pinfold.settings.sources import find_project

if TYPE_CHECKING:
    from pinfold.web.instance import WebPage


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--port", type=port, default=0, metavar="N", help="a port of loopback; else a free one"
    )
    parser.add_argument("--open", action="store_true", help="show it in your browser")
    parser.add_argument("--json", action="store_true", help="answer as JSON")


def run(args: Namespace) -> int:
    gc.enable()  # unlike other verbs, it stays
    from pinfold.web.instance import WebPage

    # Whoever ends it while it begins is heard once all of it can be taken away again.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    signal.signal(signal.SIGTERM, _leave)
    try:
        page = WebPage(os.environ, args.port)
        try:
            page.serve()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            _stay(page, args)
        except KeyboardInterrupt:
            pass
        finally:
            page.close()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return 0


def _stay(page: "WebPage", args: Namespace) -> None:
    place = page.running or page.place
    if args.json:
        print_json({"address": place.address, "port": place.port})
    else:
        print(place.address)
    sys.stdout.flush()
    if not args.json and page.running is None and sys.stderr.isatty():
        print("open it in your browser; the page is there until you press Ctrl-C", file=sys.stderr)
    if args.open:
        _open(place.address)
    while page.running is None:
        signal.pause()


def _open(address: str) -> None:
    """By a file that is only the user's: other users see the arguments that a browser is started with."""
    import webbrowser

    from pinfold.isolated import isolated_environment
    from pinfold.state.web_page import page_directory

    # Browsers are looked for in PATH, and no command may have put one there.
    os.environ["PATH"] = isolated_environment(os.environ, (find_project(here()),)).get("PATH", os.defpath)

    path = os.path.join(page_directory(os.environ), "open.html")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={address}">\n')
    webbrowser.open(f"file://{path}")


def _leave(*_: object) -> NoReturn:
    raise KeyboardInterrupt
