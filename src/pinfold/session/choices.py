"""What a session's questions offer, and what the answers to them stand on."""

import os
from collections.abc import Callable, Mapping

from pinfold.model.decision import Decision, StepCode
from pinfold.model.permission import Answer, Capability
from pinfold.model.policy import SandboxPolicy
from pinfold.model.settings import Settings
from pinfold.session.judge import Judge
from pinfold.settings.sources import user_file

ONCE = (Answer.NO, Answer.ONCE)
SESSION = (*ONCE, Answer.SESSION)
ALWAYS = (*SESSION, Answer.ALWAYS)

SEEN_EACH_TIME = frozenset(
    {StepCode.TOO_LONG, StepCode.RUINOUS, StepCode.BYPASS, StepCode.CHANGES_PINFOLD, StepCode.SUPERUSER}
)
"""Steps that nothing lifts: one answer is for one run."""
SEEN_EACH_SESSION = frozenset({StepCode.NO_FENCE, StepCode.WIDENING, StepCode.ASKED_BY_HOOK})
"""Steps whose ground is not all in the settings: an answer does not outlast its session."""


def choices_of(decision: Decision, capability: Capability, settings: Settings) -> tuple[Answer, ...]:
    """What may be answered, without a rule."""
    steps = {reason.step for reason in decision.reasons}
    by_administrator = StepCode.PERSON_WANTED in steps and settings.admin.disabled
    if capability is Capability.BYPASS or steps & SEEN_EACH_TIME or by_administrator:
        return ONCE
    return SESSION if capability is Capability.WIDEN or steps & SEEN_EACH_SESSION else ALWAYS


def host_rules(host: str, port: int, decision: Decision, settings: Settings) -> tuple[str, ...]:
    """The rule that would have let a connection pass; none where nothing the user writes would."""
    from pinfold.policy.hosts import Pattern

    is_open = decision.reasons[0].step is StepCode.NETWORK_ACCESS
    managed = settings.origin("network.allow").layer == "managed"
    return (str(Pattern(host, port)),) if is_open and not managed else ()


class Footing:
    """What answers stand on: the judge's settings now, and the file that rules are written to."""

    def __init__(
        self,
        judge: Callable[[], Judge],
        user: str | Mapping[str, object] | None,
        environ: Mapping[str, str],
        is_under_way: Callable[[str], bool] = lambda _run: True,
        ungranted: Callable[[SandboxPolicy], SandboxPolicy] = lambda policy: policy,
    ) -> None:
        self._judge = judge
        self.is_under_way = is_under_way
        self._ungranted = ungranted
        self.file = file_of(user, environ)
        """The user's own settings; empty where they are no file."""
        self._last: tuple[Settings | None, SandboxPolicy | None, str] = (None, None, "")
        self._policies: list[tuple[SandboxPolicy, str]] = []

    def fingerprint(self) -> str:
        from pinfold.policy.fingerprint import fingerprint

        judge = self._judge()
        settings, policy = judge.law.settings, judge.law.policy
        known = self._last
        if known[0] is not settings or known[1] is not policy:
            self._last = known = settings, policy, fingerprint(settings, policy)
        return known[2]

    def policy_fingerprint(self, policy: SandboxPolicy) -> str:
        from pinfold.policy.fingerprint import policy_fingerprint

        policy = self._ungranted(policy)
        found = next((text for known, text in self._policies if known is policy), "")
        if not found:
            found = policy_fingerprint(policy)
            self._policies = [*self._policies[-7:], (policy, found)]
        return found

    def roots(self) -> tuple[str, ...]:
        return self._judge().roots

    def lasts(self) -> float | None:
        return self._judge().law.settings.approvals.keep

    def write_rules(self, key: str, rules: tuple[str, ...]) -> None:
        from pinfold.policy.hosts import require_pattern
        from pinfold.settings.change import add_command, add_host
        from pinfold.shell.rule_text import shape

        for rule in rules:
            if key == "network.allow":
                add_host(self.file, key, rule, require_pattern)
            else:
                add_command(self.file, key, rule, shape)


def file_of(user: str | Mapping[str, object] | None, environ: Mapping[str, str]) -> str:
    """The user's own settings file; empty where they are no file."""
    if user is None:
        return user_file(environ)
    return os.path.abspath(user) if isinstance(user, str) else ""
