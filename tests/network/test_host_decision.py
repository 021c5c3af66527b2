"""Rulings that stand until what they were made by changes."""

import os
from pathlib import Path

import pytest

from pinfold.model.decision import Verdict
from pinfold.network.host_decision import MOST_CACHED, About, DecisionCache, HostDecision

ABOUT: About = ("7", "a.test", 443)


def yes(path: Path) -> HostDecision:
    return HostDecision(Verdict.ALLOW, "it is on the list", "a.test", files=(str(path), f"{path}.d"))


def told(standing: DecisionCache, ruling: HostDecision, about: About = ABOUT) -> None:
    standing.keep(about, ruling, standing.now())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "settings.toml").write_text("[network]\n")
    return tmp_path / "settings.toml"


@pytest.fixture
def standing(path: Path) -> DecisionCache:
    found = DecisionCache()
    told(found, yes(path))
    assert found.find(ABOUT) is None  # what to look at is known only now
    told(found, yes(path))
    assert found.find(ABOUT) == yes(path)
    return found


def test_it_stands_for_one_pen_host_and_port(standing: DecisionCache) -> None:
    for other in (("8", "a.test", 443), ("7", "b.test", 443), ("7", "a.test", 80), ("7", "a.test", None)):
        assert standing.find(other) is None


def test_a_file_that_changes_ends_it(standing: DecisionCache, path: Path) -> None:
    path.write_text("[network]\n\n")
    assert standing.find(ABOUT) is None


def test_a_file_that_is_replaced_ends_it(standing: DecisionCache, path: Path) -> None:
    (path.parent / "new").write_text("[network]\n")
    os.rename(path.parent / "new", path)
    assert standing.find(ABOUT) is None


@pytest.mark.parametrize("is_made", [True, False])
def test_a_file_that_comes_or_goes_ends_it(standing: DecisionCache, path: Path, is_made: bool) -> None:
    if is_made:
        Path(f"{path}.d").mkdir()
    else:
        path.unlink()
    assert standing.find(ABOUT) is None


def test_what_changed_while_it_was_asked_for_ends_it(standing: DecisionCache, path: Path) -> None:
    before = standing.now()
    path.write_text("[network]\n\n")
    standing.keep(ABOUT, yes(path), before)
    assert standing.find(ABOUT) is None


def test_it_is_forgotten_even_if_the_answer_is_under_way(standing: DecisionCache, path: Path) -> None:
    before = standing.now()
    standing.forget()
    assert standing.find(ABOUT) is None
    standing.keep(ABOUT, yes(path), before)
    assert standing.find(ABOUT) is None


@pytest.mark.parametrize("verdict", [Verdict.DENY, Verdict.ASK])
def test_only_a_yes_stands(standing: DecisionCache, path: Path, verdict: Verdict) -> None:
    about = ("7", "b.test", 443)
    told(standing, yes(path)._replace(verdict=verdict), about)
    assert standing.find(about) is None


def test_an_answer_that_no_files_stand_behind_is_for_once(standing: DecisionCache, path: Path) -> None:
    about = ("7", "b.test", 443)
    told(standing, yes(path)._replace(files=()), about)
    assert standing.find(about) is None


def test_there_are_not_ever_more_of_them(standing: DecisionCache, path: Path) -> None:
    for port in range(3 * MOST_CACHED):
        standing.keep(("7", "a.test", port), yes(path), (0, standing._marks))
        assert len(standing._rulings) <= MOST_CACHED
