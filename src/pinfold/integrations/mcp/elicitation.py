"""A question as a form of the client's, and the answer that comes of it. Pure.

INVARIANT: an answer that was declined, cancelled or malformed is a no.
"""

import mcp_types as types

from pinfold.approval import wording
from pinfold.integrations.markdown import verbatim
from pinfold.model.escape_text import visible
from pinfold.model.permission import Answer, PermissionNeeded


def form_of(question: PermissionNeeded) -> types.ElicitRequestFormParams:
    offers = wording.offers(question, question.reaches[0], str)
    offered = sorted(offers, key=lambda offer: question.choices.index(offer.answer))  # the refusing one first
    return types.ElicitRequestFormParams(
        message=verbatim(_told(question)),
        requested_schema={
            "type": "object",
            "properties": {
                "decision": {
                    "type": "string",
                    "title": "Allow it?",
                    "enum": [str(offer.answer) for offer in offered],
                    "enumNames": [_meaning(offer, question) for offer in offered],
                }
            },
            "required": ["decision"],
        },
    )


def _told(question: PermissionNeeded) -> list[str]:
    """What a person is shown. What comes from the agent is on lines of its own, and cannot make others."""
    lines = [wording.headline(question, str)]
    if question.capability not in wording.RUNNING and question.operation not in wording.FOR_THE_SESSION:
        lines.append(f"command: {visible(question.command)}")
    lines += [f"{name or '   and'}: {text}" for name, text in wording.circumstances(question, str)]
    lines += [f"- {visible(reason.message)}" for reason in question.decision.reasons]
    if question.description:
        lines.append(f"the agent says: {visible(question.description)}")
    return lines


def _meaning(offer: wording.Offer, question: PermissionNeeded) -> str:
    """What an answer would grant; in a form, the rules cannot be edited."""
    if offer.answer is Answer.RULE:
        return f"always: add {wording.rules(question)} to `{question.rule_key}`"
    return f"{offer.answer}: {offer.effect}"


def answer_of(response: object, question: PermissionNeeded) -> Answer:
    """A response that is not clearly one of the choices is a no."""
    if not isinstance(response, types.ElicitResult) or response.action != "accept" or not response.content:
        return Answer.NO
    said = response.content.get("decision")
    return Answer(said) if isinstance(said, str) and said in tuple(question.choices) else Answer.NO
