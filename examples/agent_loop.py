"""An agent in thirty lines: whatever the model wants run, runs inside the fence, or comes back with a reason.

`think` stands for your model: it is given the conversation and says which command comes next, or None.
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
            refused = [f"the fence refused {each.operation} {each.path}" for each in result.violations]
            conversation.append("\n".join([f"$ {command}", said.rstrip(), *refused]))
    return conversation


def scripted(conversation: list[str]) -> str | None:
    """A model that has made up its mind beforehand."""
    plan = ["echo hello > greeting.txt && cat greeting.txt", "echo '{}' > .mcp.json", "sudo reboot"]
    return plan[len(conversation) - 1] if len(conversation) <= len(plan) else None


if __name__ == "__main__":
    print("\n".join(work("write a greeting", (sys.argv[1:] or ["."])[0], scripted)))
