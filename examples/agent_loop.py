"""An agent in thirty lines: each command of the model runs in the sandbox, or comes back with a reason.

`think` is your model: it gets the conversation and returns the next command, or None.
"""

import sys
from collections.abc import Callable

import pinfold


def work(task: str, project: str, think: Callable[[list[str]], str | None]) -> list[str]:
    conversation = [task]
    with pinfold.Session([project]) as session:
        while (command := think(conversation)) is not None:
            result = session.run(command, timeout=60)
            said = result.stdout + result.stderr if result.ran else result.refusal
            denied = [f"the sandbox denied {each.operation} {each.path}" for each in result.violations]
            conversation.append("\n".join([f"$ {command}", said.rstrip(), *denied]))
    return conversation


def scripted(conversation: list[str]) -> str | None:
    """A model with a fixed plan."""
    plan = ["echo hello > greeting.txt && cat greeting.txt", "echo '{}' > .mcp.json", "sudo reboot"]
    return plan[len(conversation) - 1] if len(conversation) <= len(plan) else None


if __name__ == "__main__":
    print("\n".join(work("write a greeting", (sys.argv[1:] or ["."])[0], scripted)))
