"""What a model is told of the fence when its work begins."""

import os
from collections.abc import Mapping

from pinfold.integrations.hooks.hook_call import Call, Opinion, Outcome, no_directory
from pinfold.model.errors import ConfinementError


def greet(call: Call, environ: Mapping[str, str]) -> Outcome:
    from pinfold.policy.prompt_text import AgentInterface, summarize
    from pinfold.session.judge import Judge, Talk
    from pinfold.settings.sources import find_project
    from pinfold.workspace.granted_paths import told

    cwd = os.path.realpath(call.cwd)
    roots = tuple(dict.fromkeys(find_project(os.path.realpath(root)) for root in call.workspace or (cwd,)))
    judge = Judge(roots, cwd, None, {}, environ, Talk(call.conversation))
    if not os.path.isdir(cwd):
        return Outcome(Opinion.NONE, context=f"No command can be run here: {no_directory(cwd)}.")
    if "/" in roots:
        from pinfold.session.request import require_pen_or_way_out

        try:
            require_pen_or_way_out(roots, judge.law.settings)
        except ConfinementError as error:
            return Outcome(Opinion.NONE, context=f"No command can be run here: {error}.")
    policy = told(judge.law.policy, roots)
    return Outcome(Opinion.NONE, context=summarize(policy, judge.law.settings, roots, AgentInterface.HOOK))
