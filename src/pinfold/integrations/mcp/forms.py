"""A question as a form of the client's, and the answer that comes of it. Pure.

INVARIANT: an answer that was declined, cancelled or malformed is a no.
"""

import mcp_types as types

from pinfold.model.permission import Answer, PermissionNeeded
from pinfold.model.visible import visible

MEANINGS = {
    Answer.NO: "no",
    Answer.ONCE: "this once",
    Answer.SESSION: "for this session",
    Answer.ALWAYS: "always",
    Answer.RULE: "always, as a rule in your settings",
}


def form_of(question: PermissionNeeded) -> types.ElicitRequestFormParams:
    return types.ElicitRequestFormParams(
        message="\n".join(_told(question)),
        requested_schema={
            "type": "object",
            "properties": {
                "decision": {
                    "type": "string",
                    "title": "Allow it?",
                    "enum": [str(choice) for choice in question.choices],
                    "enumNames": [MEANINGS[choice] for choice in question.choices],
                }
            },
            "required": ["decision"],
        },
    )


def _told(question: PermissionNeeded) -> list[str]:
    """What a person is shown. What comes from the agent is on lines of its own, and cannot make others."""
    lines = [f"{question.capability}: {visible(question.command)}", f"in {visible(question.cwd)}"]
    if question.host:
        lines.append(f"it wants to connect to {visible(question.host)}:{question.port}")
    if question.operation and question.path:
        lines.append(f"{visible(question.operation)} {visible(question.path)}")
    lines += [f"- {visible(reason.message)}" for reason in question.decision.reasons]
    if question.description:
        lines.append(f"the agent says: {visible(question.description)}")
    return lines


def answer_of(response: object, question: PermissionNeeded) -> Answer:
    """Whatever is not clearly one of the choices is a no."""
    if not isinstance(response, types.ElicitResult) or response.action != "accept" or not response.content:
        return Answer.NO
    said = response.content.get("decision")
    return Answer(said) if isinstance(said, str) and said in tuple(question.choices) else Answer.NO
