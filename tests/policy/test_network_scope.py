"""Which hosts a policy leaves open, of what the settings say."""

import pytest

from pinfold.model.policy import NetworkRules, SandboxPolicy
from pinfold.model.settings import NetworkAccess, NetworkSettings, Settings
from pinfold.policy.network_scope import allows_network, ports_of, settings_under
from pinfold.settings.policy import policy_of

ALL, ASK, RULES, NONE = NetworkAccess.ALL, NetworkAccess.ASK, NetworkAccess.RULES, NetworkAccess.NONE


def written(access: NetworkAccess, *allow: str, deny: tuple[str, ...] = ()) -> Settings:
    return Settings(network=NetworkSettings(access=access, allow=allow, deny=deny))


CASES = [
    # the user's own policy
    (written(ALL), None, ALL, True),
    (written(ASK), None, ASK, True),
    (written(RULES, "a.test"), None, RULES, True),
    (written(RULES), None, RULES, False),
    (written(NONE, "a.test"), None, NONE, False),
    # narrowed by a request
    (written(ALL), SandboxPolicy(network_access=False), NONE, False),
    (written(ALL), SandboxPolicy(network_access=False, network=NetworkRules(("a.test",))), RULES, True),
    # widened by a person
    (written(NONE), SandboxPolicy(network=NetworkRules(("a.test",))), RULES, True),
    (written(NONE), SandboxPolicy(network_access=True, network=NetworkRules(())), ALL, True),
    (
        written(ASK, "b.test"),
        SandboxPolicy(network_access=True, network=NetworkRules(("b.test",))),
        ALL,
        True,
    ),
]


@pytest.mark.parametrize(("settings", "policy", "access", "leads"), CASES)
def test_what_a_policy_leaves_open(
    settings: Settings, policy: SandboxPolicy | None, access: NetworkAccess, leads: bool
) -> None:
    policy = policy or policy_of(settings, ["/w"], "/h")
    assert settings_under(policy, settings).network.access is access
    assert allows_network(policy, settings) is leads


def test_the_users_own_policy_is_judged_by_the_settings_as_they_are() -> None:
    settings = written(RULES, "a.test", deny=("b.test",))
    assert settings_under(policy_of(settings, ["/w"], "/h"), settings) is settings


def test_what_is_denied_since_counts_at_once() -> None:
    before, now = written(RULES, "a.test"), written(RULES, "a.test", deny=("a.test",))
    assert settings_under(policy_of(before, ["/w"], "/h"), now).network.deny == ("a.test",)


def test_a_port_that_rules_speak_of_is_among_those_that_are_tried() -> None:
    assert ports_of(written(RULES, "a.test:443", "b.test", deny=("c.test:22",))) == (9, 22, 443)
