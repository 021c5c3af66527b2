"""`pinfold doctor`: what this machine can enforce, and a command that fixes each thing that is missing."""

import os
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from pinfold.cli.arguments import add_common, here, project_of
from pinfold.cli.output import print_json
from pinfold.model.errors import PolicyError
from pinfold.model.escape_text import visible
from pinfold.session import Session

if TYPE_CHECKING:
    from pinfold.diagnose.doctor import Diagnosis
    from pinfold.model.policy import SandboxPolicy

COLOURS = {"not": "red", "partly": "yellow", "enforced": "green", "ready": "green"}
WELL, UNWELL = 0, 1


def configure(parser: ArgumentParser) -> None:
    add_common(parser)


def run(args: Namespace) -> int:
    from msgspec.structs import replace

    from pinfold.diagnose.doctor import diagnose
    from pinfold.integrations.install.health import probe_hooks

    project = project_of(args)  # rejects a --cwd that is no directory
    diagnosis = diagnose(*_policy(args), os.environ)
    hooks = probe_hooks(os.environ, tuple(dict.fromkeys((args.cwd or here(), project))))
    diagnosis = replace(diagnosis, layer_reports=(*diagnosis.layer_reports, *hooks))
    if args.json:
        print_json(as_json(diagnosis))
    else:
        _draw(diagnosis)
    return WELL if diagnosis.is_well else UNWELL


def _policy(args: Namespace) -> tuple["SandboxPolicy | None", str]:
    """The policy in force, or why the settings cannot be read."""
    try:
        with Session(settings=args.settings, cwd=args.cwd or here()) as session:
            return session.policy, ""
    except PolicyError as error:
        return None, str(error)


def as_json(diagnosis: "Diagnosis") -> dict[str, object]:
    return {
        "well": diagnosis.is_well,
        "enforcement": diagnosis.enforcement,
        "layers": diagnosis.layer_reports,
        "narrower": diagnosis.narrower or None,
        "machine": diagnosis.machine._asdict(),
    }


def _draw(diagnosis: "Diagnosis") -> None:
    from rich.text import Text

    from pinfold.cli.output import make_console, make_table, print_rich_table

    drawn = make_table("layer", "state", "")
    for each in diagnosis.layer_reports:
        colour = COLOURS[each.state] if each.needed or each.state == "ready" else "yellow"
        drawn.add_row(each.name, Text(each.state, style=colour), visible(each.detail))
    console = make_console()
    print_rich_table(console, drawn)
    console.print()
    # Each command is on one line, however long, so that it can be copied.
    for each in diagnosis.layer_reports:
        if each.fix:
            console.print(Text.assemble(("to fix ", "dim"), (each.name, "bold"), (":", "dim")))
            console.print(f"  {visible(each.fix)}", soft_wrap=True)
    if diagnosis.narrower:
        console.print(Text("or, for this Python interpreter only:", style="dim"))
        console.print(f"  {diagnosis.narrower}", soft_wrap=True)
    if any(each.fix for each in diagnosis.layer_reports):
        console.print()
    console.print(_verdict(diagnosis))


def _verdict(diagnosis: "Diagnosis") -> str:
    if diagnosis.is_well:
        spare = any(each.state in ("not", "partly") for each in diagnosis.layer_reports)
        return f"The sandbox works, with nothing missing{' that your settings need' if spare else ''}."
    lacking = [gap.layer.replace("_", " ") for gap in diagnosis.enforcement.missing]
    if diagnosis.enforcement.level == "none":
        return "There is no sandbox on this machine: no command can run in one."
    if lacking:
        return f"The sandbox works, but lacks: {', '.join(lacking)}."
    unmet = [each.name for each in diagnosis.layer_reports if each.needed and each.state in ("not", "partly")]
    return f"The sandbox works, but something else is missing: {', '.join(unmet)}."
