"""Which variables a command sees."""

import pytest

from pinfold.model.policy import EnvironmentRules
from pinfold.sandbox.environment import HISTORIES, is_kept, scrub

NONE = EnvironmentRules()


@pytest.mark.parametrize(
    "name",
    ["PATH", "HOME", "LANG", "LC_ALL", "TERM", "USER", "SHELL", "VIRTUAL_ENV", "GOPATH",
     "CARGO_HOME", "JAVA_HOME", "CC", "CFLAGS", "TZ", "COLUMNS", "CI", "DO_NOT_TRACK", "NVM_DIR",
     "GIT_AUTHOR_NAME", "SSL_CERT_FILE"],
)  # fmt: skip
def test_ordinary_names_stay(name: str) -> None:
    assert is_kept(name, NONE)


@pytest.mark.parametrize(
    "name",
    ["GITHUB_TOKEN", "github_token", "AWS_ACCESS_KEY_ID", "OPENAI_API_KEY", "DB_PASSWORD",
     "PGPASSWORD", "MY_SECRET", "STRIPE_KEY", "DATABASE_URL", "LD_PRELOAD", "LD_LIBRARY_PATH",
     "BASH_ENV", "ENV", "BASH_FUNC_x%%", "PYTHONPATH", "PYTHONSTARTUP", "NODE_OPTIONS", "PERL5OPT",
     "RUBYOPT", "GIT_SSH_COMMAND", "GIT_DIR", "SSH_AUTH_SOCK", "DISPLAY", "DBUS_SESSION_BUS_ADDRESS",
     "XDG_RUNTIME_DIR", "PINFOLD_POLICY", "TMPDIR", "PS4", "PROMPT_COMMAND", ""],
)  # fmt: skip
def test_secrets_loaders_and_agents_go(name: str) -> None:
    assert not is_kept(name, NONE)


@pytest.mark.parametrize("name", ["PAGER", "GH_PAGER", "EDITOR", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR"])
def test_programs_that_wait_for_nobody_stay(name: str) -> None:
    def seen(value: str, rules: EnvironmentRules = NONE) -> str | None:
        return scrub({name: value}, rules, network=False, temporary=None).get(name)

    assert all(seen(value) == value for value in ("cat", "true", ":", "", "/bin/cat", "/usr/bin/true"))
    for other in ("less", "rm x", "cat x", "true; rm x", "./cat", "vi"):
        assert seen(other) is None
    assert seen("cat", EnvironmentRules(drop=(name.lower(),))) is None


def test_programs_in_gits_configuration_stay_as_variables() -> None:
    given = {
        "GIT_CONFIG_COUNT": "4",
        "GIT_CONFIG_KEY_0": "core.Editor",
        "GIT_CONFIG_VALUE_0": "",
        "GIT_CONFIG_KEY_1": "core.pager",
        "GIT_CONFIG_VALUE_1": "rm x",
        "GIT_CONFIG_KEY_2": "sequence.editor",
        "GIT_CONFIG_VALUE_2": ":",
        "GIT_CONFIG_KEY_3": "core.fsmonitor",
        "GIT_CONFIG_VALUE_3": "true",
    }
    seen = scrub(given, NONE, network=False, temporary=None)
    named = {name: value for name, value in seen.items() if name.startswith("GIT_")}
    assert named == {"GIT_EDITOR": "", "GIT_SEQUENCE_EDITOR": ":", "GIT_OPTIONAL_LOCKS": "0"}
    assert scrub({**given, "GIT_EDITOR": "true"}, NONE, network=False, temporary=None)["GIT_EDITOR"] == "true"


def test_drop_is_stronger_than_keep() -> None:
    rules = EnvironmentRules(keep=("MY_*",), drop=("MY_SECRET", "path"))
    assert is_kept("MY_TOKEN", rules)
    assert not is_kept("MY_SECRET", rules)
    assert not is_kept("PATH", rules)


def test_a_pen_says_that_it_is_one() -> None:
    found = scrub({"IS_SANDBOX": "no", "A": "b"}, NONE, network=False, temporary="/tmp")
    assert found == {
        "A": "b",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "TMPDIR": "/tmp",
        "PINFOLD_PEN": "1",
        "PINFOLD_PEN_NETWORK": "0",
        "IS_SANDBOX": "1",
        "XDG_CACHE_HOME": "/tmp/cache",
        "npm_config_cache": "/tmp/cache/npm",
        "npm_config_update_notifier": "false",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "NO_UPDATE_NOTIFIER": "1",
        **HISTORIES,
        "GIT_OPTIONAL_LOCKS": "0",
        "TAR_OPTIONS": "--no-same-owner",
    }
    assert "TMPDIR" not in scrub({"TMPDIR": "/x"}, NONE, network=False, temporary=None)


def test_no_variable_has_a_proxys_password() -> None:
    """Whatever it is called: the address in another variable, a program's options, a header."""
    proxy, said = "http://me:p%40ss-word@proxy.test:3128", ("p%40ss-word", "p@ss-word", "bWU6cEBzcy13b3Jk")
    others = {f"OPTIONS_{number}": f"-Dhttps.proxy={each} -x" for number, each in enumerate(said)}
    for source in (
        {"https_proxy": proxy},
        {"ALL_PROXY": proxy},
        {"PINFOLD_PROXY_CREDENTIALS": "me:p@ss-word"},
    ):
        given = {**source, **others, "KEPT": "p@ss", "LANG": "C"}
        seen = scrub(given, NONE, network=True, temporary=None)
        assert not any(each in value for value in seen.values() for each in said[1:]), seen
        assert seen["KEPT"] == "p@ss" and seen["LANG"] == "C"
    wanted = scrub(
        {"https_proxy": proxy, **others}, EnvironmentRules(keep=("OPTIONS_*",)), network=True, temporary=None
    )
    assert others.items() <= wanted.items(), "what a person keeps by name is kept"
    short = scrub({"https_proxy": "http://me:a@proxy.test", "LANG": "a"}, NONE, network=True, temporary=None)
    assert short["LANG"] == "a", "so short a word is in everything"
