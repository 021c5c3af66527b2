"""The rule about command lines, said once more and as plainly as possible.

This is the specification that `pinfold.policy.decide` is held against. It knows no shell, no paths
and no settings files: only the questions that the rule asks, each already answered by yes or no. It
shares no code with the engine on purpose. Each paragraph is a row of the table in `docs/decision.md`.
"""

from typing import Literal, NamedTuple

Verdict = Literal["allow", "ask", "deny"]


class Situation(NamedTuple):
    """Everything the rule depends on."""

    # the line
    has_nul: bool = False
    is_late: bool = False  # judging it took too long
    is_too_long: bool = False
    is_unparsed: bool = False
    is_empty: bool = False
    may_run_anything: bool = False  # `$X` as a program, eval
    has_other_unknowns: bool = False  # arithmetic on variables and the like
    is_ruinous: bool = False
    changes_pinfold: bool = False
    deletes: bool = False
    elevates: bool = False
    # the line against the lists
    matches_deny: bool = False
    matches_ask: bool = False
    may_match_a_list: bool = False  # only if an unknown word has the right value
    allow_covers_the_deletion: bool = False
    is_wholly_covered: bool = False
    is_wholly_excluded: bool = False
    touches_protected_files: bool = False
    # the request
    asks_bypass: bool = False
    asks_for_more: bool = False
    # the settings
    mode: Literal["ask_every_time", "use_allowlist", "run_everything"] = "use_allowlist"
    sandbox_is_on: bool = True
    auto_allow: bool = True
    allow_unsandboxed: bool = True
    if_unavailable: Literal["refuse", "ask", "run"] = "refuse"
    has_deny_rules: bool = False
    has_ask_rules: bool = False
    has_allow_rules: bool = False
    delete_protection: bool = False
    administrator_disabled_auto_run: bool = False
    administrator_forbids_run_everything: bool = False
    # the world
    hook_says: Literal["nothing", "ask", "deny"] = "nothing"
    sandbox_is_available: bool = True
    is_superuser: bool = False
    is_really_inside_a_sandbox: bool = False


def wants_sandbox(s: Situation) -> bool:
    return s.sandbox_is_on and not (s.asks_bypass and s.allow_unsandboxed) and not s.is_wholly_excluded


def is_sandboxed(s: Situation) -> bool:
    return wants_sandbox(s) and not s.is_empty and (s.sandbox_is_available or s.if_unavailable == "refuse")


def runs_everything(s: Situation) -> bool:
    return s.mode == "run_everything" and not s.administrator_forbids_run_everything


def verdict(s: Situation) -> Verdict:
    fenced = is_sandboxed(s)
    runs_freely = wants_sandbox(s) and s.sandbox_is_available and s.auto_allow

    # Every deny is looked for before any ask.
    if s.has_nul or s.is_late or s.matches_deny or s.hook_says == "deny":
        return "deny"
    if s.may_run_anything and s.has_deny_rules:
        return "deny"
    if wants_sandbox(s) and not s.sandbox_is_available and s.if_unavailable != "run":
        return "deny" if s.if_unavailable == "refuse" else "ask"

    # What nothing lifts.
    if s.is_too_long or s.is_ruinous or s.changes_pinfold or s.asks_for_more:
        return "ask"
    if s.sandbox_is_on and s.asks_bypass and s.allow_unsandboxed:
        return "ask"
    if s.is_superuser and s.mode == "run_everything" and not fenced and not s.is_really_inside_a_sandbox:
        return "ask"
    if s.administrator_disabled_auto_run or s.mode == "ask_every_time" or s.hook_says == "ask":
        return "ask"

    # What cannot be read, and what is not there.
    unreadable_is_fine = not s.has_ask_rules and not s.has_deny_rules and (runs_freely or runs_everything(s))
    if s.is_unparsed:
        return "allow" if unreadable_is_fine else "ask"
    if s.matches_ask or s.may_match_a_list:
        return "ask"
    if s.may_run_anything and s.has_ask_rules:
        return "ask"
    if s.is_empty:
        return "allow" if unreadable_is_fine else "ask"

    # Modes and protections.
    if runs_everything(s):
        return "allow"
    if s.delete_protection and s.deletes and not s.allow_covers_the_deletion:
        return "ask"
    if s.elevates:
        return "ask"
    if not fenced and (s.may_run_anything or s.touches_protected_files or not s.has_allow_rules):
        return "ask"

    # What is allowed.
    if s.is_wholly_covered and not s.may_run_anything and not s.has_other_unknowns:
        return "allow"
    return "allow" if fenced and runs_freely else "ask"
