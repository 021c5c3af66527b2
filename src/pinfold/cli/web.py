"""`pinfold web`: shows the questions of all your sessions on a page in your browser."""

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
        "--port", type=port, default=0, metavar="N", help="the port on loopback; the default is a free one"
    )
    parser.add_argument("--open", action="store_true", help="open the page in your browser")
    parser.add_argument("--json", action="store_true", help="answer as JSON")


def run(args: Namespace) -> int:
    gc.enable()  # this verb runs for long
    from pinfold.web.instance import WebPage

    # A signal during start-up waits until everything can be cleaned up.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    signal.signal(signal.SIGTERM, _leave)
    try:
        page = WebPage(os.environ, args.port)
        try:
            page.serve()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            _wait(page, args)
        except KeyboardInterrupt:
            pass
        finally:
            page.close()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return 0


def _wait(page: "WebPage", args: Namespace) -> None:
    place = page.running or page.place
    if args.json:
        print_json({"address": place.address, "port": place.port})
    else:
        print(place.address)
    sys.stdout.flush()
    if not args.json and page.running is None and sys.stderr.isatty():
        print("open this address in your browser; press Ctrl-C here to stop the page", file=sys.stderr)
    if args.open:
        _open(place.address)
    while page.running is None:
        signal.pause()


def _open(address: str) -> None:
    """Opens it by a file that only the user can read: other users can see the arguments of a browser."""
    import webbrowser

    from pinfold.isolated import isolated_environment
    from pinfold.state.web_page import page_directory

    # The browser is looked up in PATH, so PATH may name no directory that commands can write to.
    os.environ["PATH"] = isolated_environment(os.environ, (find_project(here()),)).get("PATH", os.defpath)

    path = os.path.join(page_directory(os.environ), "open.html")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={address}">\n')
    webbrowser.open(f"file://{path}")


def _leave(*_: object) -> NoReturn:
    raise KeyboardInterrupt
