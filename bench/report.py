"""The outcome of `bench.peers`, as a table for a terminal, a page and a picture."""

import math
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import date
from statistics import median
from typing import NamedTuple
from xml.sax.saxutils import escape

from bench.memory import Crowd
from bench.works import Work

COLOURS = {
    "pinfold": "#0b6e4f",
    "least": "#777777",
    "bwrap": "#2f5d9b",
    "sandlock": "#8a4fa3",
    "codex": "#c8741a",
    "srt": "#b3282d",
}
GRID = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)


class Outcome(NamedTuple):
    work: Work
    seconds: Mapping[str, Sequence[float]]
    """Of each turn, by contender; the same place in two lists is the same round."""
    troubles: Mapping[str, str]
    """Who could not do it, and why."""

    def ratio(self, name: str) -> float | None:
        """To bare, over the rounds that both took part in."""
        own, bare = self.seconds.get(name), self.seconds.get("bare")
        return median(own) / median(bare[: len(own)]) if own and bare else None


class Report(NamedTuple):
    outcomes: Sequence[Outcome]
    versions: Mapping[str, str]
    """Of those who take part, bare first."""
    absent: Mapping[str, str]
    """Who does not take part, and why."""
    crowd: Crowd | None
    file_system: str
    scale: float
    load: float
    """How many processes wanted to run, on average, in the minute before the first turn."""

    @property
    def names(self) -> list[str]:
        return list(self.versions)

    @property
    def machine(self) -> str:
        kernel = ".".join(platform.release().split(".")[:2])
        user = "root" if os.geteuid() == 0 else "an ordinary user"
        return (
            f"{os.cpu_count()} cores ({platform.machine()}), {platform.system()} {kernel}, "
            f"Python {platform.python_version()}, as {user}, {date.today().isoformat()}"
        )

    @property
    def notes(self) -> list[str]:
        said = [f"Places to work in: {self.file_system}."]
        if self.crowd:
            each = self.crowd.megabytes
            memory = "memory can be read by root alone" if each is None else f"{each:.2f} MB (PSS) each"
            said.append(
                f"{self.crowd.pens} sandboxes at once: made in {self.crowd.milliseconds:.2f} ms each, "
                f"{memory}, {self.crowd.processes:.1f} processes each."
            )
        said += [f"{name}: {why}." for name, why in self.absent.items()]
        said += [f"{o.work.name}, {name}: {why}." for o in self.outcomes for name, why in o.troubles.items()]
        if self.load > (os.cpu_count() or 1) / 2:
            said.append(f"The machine was busy before the first turn (load {self.load:.1f}): measure again.")
        if self.scale != 1:
            said.append(f"In a hurry: files, calls and pens are {self.scale:g} of what the rows say.")
        return said


def duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def cells(report: Report, outcome: Outcome) -> list[str]:
    """What each contender's column says."""
    row = []
    for name in report.names:
        ratio = outcome.ratio(name)
        if name in outcome.troubles:
            row.append("failed")
        elif ratio is None:
            row.append("-")
        else:
            row.append(duration(median(outcome.seconds["bare"])) if name == "bare" else f"{ratio:.3g}x")
    return row


def as_text(report: Report) -> str:
    rows = [["", *report.names], *([o.work.name, *cells(report, o)] for o in report.outcomes)]
    lines = ["".join(f"{cell:<12}" if not n else f"{cell:>10}" for n, cell in enumerate(row)) for row in rows]
    return "\n".join([report.machine, "", *lines, "", *report.notes])


def as_page(report: Report) -> str:
    heads = [f"{name} {version}".strip() for name, version in report.versions.items()]
    lines = [
        "# Side by side",
        "",
        "<!-- Written by `.venv/bin/python -m bench.peers --docs`; change bench/report.py instead. -->",
        "",
        "One run does the same work bare and in each sandbox, in turns, each after a rest. Bare",
        "is a time; the others are ratios to it (medians), so 1x is no cost at all.",
        "",
        f"Measured on {report.machine}.",
        "",
        "![ratios to bare, by work](peers.svg)",
        "",
        f"| work | {' | '.join(heads)} |",
        f"|---|{'---:|' * len(heads)}",
        *(f"| {o.work.about} | {' | '.join(cells(report, o))} |" for o in report.outcomes),
        "",
        *(f"- {note}" for note in report.notes),
        "- pinfold, sandlock and srt stay ready between commands, the last two by their own libraries.",
        "  bwrap and codex keep nothing, so each command pays their start; codex is its native program,",
        "  without Node, but where it is started cold: there, like srt, the command that npm installs.",
        "- `least` is what the kernel takes for Landlock and seccomp as such. They deny next to nothing",
        "  there, and no sandbox that has both is faster.",
        "- The sandboxes differ in what they hold: a ratio is the cost of one, not its worth. Each ran a",
        "  command and denied it a write outside its workspace before it was timed.",
        "",
        "Your own: `make peers` installs the others, `make bench` runs everything.",
    ]
    return "\n".join(lines) + "\n"


def as_picture(report: Report) -> str:
    """A row for each work, a dot for each contender, on a logarithmic scale of ratios."""
    names = [name for name in report.names if name != "bare"]
    ratios = {(o.work.name, name): o.ratio(name) for o in report.outcomes for name in names}
    known = [ratio for ratio in ratios.values() if ratio]
    low, high = min([0.8, *known]) * 0.9, max([2.0, *known]) * 1.3
    left, top, row, width = 370, 70, 30, 940
    right, bottom = width - 30, top + row * len(report.outcomes)

    def x(ratio: float) -> float:
        return left + (right - left) * math.log(ratio / low) / math.log(high / low)

    size, title = f'viewBox="0 0 {width} {bottom + 40}"', "Time in each sandbox, as a multiple of bare"
    font = 'font-family="sans-serif" font-size="13" fill="#222"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>',
        f'<rect width="{width}" height="{bottom + 40}" fill="#fff"/>',
        f'<text x="16" y="26" font-size="16" font-weight="600">{title}</text>',
    ]
    for number, name in enumerate(names):
        at = left + number * 105
        parts.append(f'<circle cx="{at}" cy="46" r="6" fill="{COLOURS[name]}"/>')
        parts.append(f'<text x="{at + 11}" y="50">{name}</text>')
    for mark in GRID:
        if low <= mark <= high:
            colour = "#888" if mark == 1 else "#e2e2e2"
            parts.append(
                f'<line x1="{x(mark):.1f}" x2="{x(mark):.1f}" y1="{top}" y2="{bottom}" stroke="{colour}"/>'
            )
            parts.append(f'<text x="{x(mark):.1f}" y="{bottom + 18}" text-anchor="middle">{mark}x</text>')
    for number, outcome in enumerate(report.outcomes):
        y = top + row * number + row / 2
        about = escape(outcome.work.about.replace("`", ""))
        parts.append(f'<text x="16" y="{y + 4:.1f}">{about}</text>')
        parts.append(f'<line x1="{left}" x2="{right}" y1="{y}" y2="{y}" stroke="#f0f0f0"/>')
        # pinfold last, so that nothing is drawn over it.
        for name in reversed(names):
            ratio = ratios[outcome.work.name, name]
            if ratio:
                parts.append(
                    f'<circle cx="{x(ratio):.1f}" cy="{y}" r="6" fill="{COLOURS[name]}" fill-opacity="0.85">'
                    f"<title>{name}: {ratio:.3g}x</title></circle>"
                )
    return "\n".join([*parts, "</svg>"]) + "\n"


def as_data(report: Report) -> dict[str, object]:
    return {
        "machine": report.machine,
        "fileSystem": report.file_system,
        "scale": report.scale,
        "load": report.load,
        "versions": dict(report.versions),
        "absent": dict(report.absent),
        "crowd": report.crowd._asdict() if report.crowd else None,
        "works": {
            o.work.name: {
                "about": o.work.about,
                "seconds": {name: list(times) for name, times in o.seconds.items() if times},
                "ratios": {name: o.ratio(name) for name in report.names},
                "troubles": dict(o.troubles),
            }
            for o in report.outcomes
        },
    }
