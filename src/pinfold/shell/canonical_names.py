"""One form for what may be written in several ways: operands, and names that mean a program.

- Rules compare words, so modes, owners, services, branches and kinds of resources are brought to one form
  where their meaning is certain.
- Rules name programs: starting npm by `npx npm@9` or `node npm-cli.js`, or pip by `python -m pip`, starts
  what the rules call `npm` and `pip`.

Facts about chmod: clauses count from left to right; without a letter before the sign the umask has a say.
"""

import re

from pinfold.model.script import Word, literal_word
from pinfold.shell.programs import chart

FORMS = frozenset({"branch", "kind", "mode", "owner", "unit"})
KINDS = {
    "cm": "configmap",
    "crd": "customresourcedefinition",
    "crds": "customresourcedefinition",
    "deploy": "deployment",
    "ds": "daemonset",
    "ep": "endpoints",
    "ing": "ingress",
    "ingresses": "ingress",
    "netpol": "networkpolicy",
    "networkpolicies": "networkpolicy",
    "no": "node",
    "ns": "namespace",
    "pdb": "poddisruptionbudget",
    "po": "pod",
    "pv": "persistentvolume",
    "pvc": "persistentvolumeclaim",
    "rs": "replicaset",
    "sa": "serviceaccount",
    "sc": "storageclass",
    "storageclasses": "storageclass",
    "sts": "statefulset",
    "svc": "service",
}
"""By `kubectl api-resources`."""
ROOT = {"root": "0"}
BEFORE_A_BRANCH = r"^\+?(?:[^:]*:(?=.))?(?:refs/)?(?:(?:heads|tags)/)?(?=.)"
CLAUSE = r"([ugoa]+)((?:[-+=][rwx]*)+)"
ACTION = r"([-+=])([rwx]*)"
BITS = {"r": 4, "w": 2, "x": 1}
SHIFTS = {"u": 6, "g": 3, "o": 0}
EVERY_BIT = 0o777


def in_one_form(roles: list[str], text: str) -> str:
    """The operand in the one form of its role; unchanged where the role has none."""
    for role in roles:
        match role:
            case "mode":
                return _mode(text)
            case "owner":
                return _owner(text)
            case "branch":
                return re.sub(BEFORE_A_BRANCH, "", text)
            case "kind":
                return _kind(text)
            case "unit":
                return text.removesuffix(".service")
    return text


def _mode(text: str) -> str:
    """The octal number of a mode, if it means the same for every file: `0777`, `=777`, `a=rwx`, `ugo+rwx`."""
    if re.fullmatch(r"=?[0-7]+", text):
        return text.lstrip("=0") or "0"
    clauses = text.split(",")
    if not all(re.fullmatch(CLAUSE, clause) for clause in clauses):
        return text
    least, most = (_after(clauses, mode) for mode in (0, EVERY_BIT))
    return f"{least:o}" if least == most else text


def _after(clauses: list[str], mode: int) -> int:
    for clause in clauses:
        letters, actions = re.fullmatch(CLAUSE, clause).groups()  # type: ignore[union-attr]
        shifts = [SHIFTS[each] for each in ("ugo" if "a" in letters else letters)]
        for sign, bits in re.findall(ACTION, actions):
            value = sum(BITS[bit] for bit in set(bits))
            for shift in shifts:
                if sign == "=":
                    mode &= ~(7 << shift)
                mode = mode & ~(value << shift) if sign == "-" else mode | (value << shift)
    return mode


def _kind(text: str) -> str:
    """The singular of a kind of resource: `pod` for `po`, `pods`, `pods.v1` and `pod/x`."""
    name = re.split(r"[./]", text.lower())[0]
    plural = name.removesuffix("s") if name.endswith("s") and not name.endswith("ss") else name
    return KINDS.get(name) or KINDS.get(plural, name if name == "endpoints" else plural)


def _owner(text: str) -> str:
    """An owner by number where it is root: `root`, `+0` and `0`, and `root:root` with its group."""
    owner, sign, group = re.fullmatch(r"(?s)([^:.]*)([:.]?)(.*)", text).groups()  # type: ignore[union-attr]
    return _number_of(owner) + (":" if sign else "") + _number_of(group)


def _number_of(name: str) -> str:
    number = ROOT.get(name, name)
    digits = number.removeprefix("+")
    return digits.lstrip("0") or "0" if digits.isascii() and digits.isdecimal() else number


INIT_SCRIPT = r"/+(?:etc/+)?(?:rc\.d/+)?init\.d/+([^/]+)|/+(?:usr/+local/+)?etc/+rc\.d/+([^/]+)"
PACKAGE = r"(?s)(?:[\w.+=,-]+:)?(.+?)(?:@.*|\[.*|[=~<>!]=.*)?"
CODE = r"(?:.*/)?(?:([^/]+)(?:-cli|-[0-9.]+)\.[cm]?js|([^/]+)/__main__\.py)"


def package_name(name: str) -> str:
    """The program of a package: `npm` for `npm@9` and `npm:npm`, `pip` for `test:pip==24`."""
    match = re.fullmatch(PACKAGE, name)
    return match[1] if match else name


def module_as_program(module: Word) -> Word:
    """The program that a Python module is.

    Facts about Python: `pip` is `pip.__main__`, and modules have `_` where their programs have `-`.
    """
    if not module.literal:
        return module
    name, _, _ = module.literal.partition("._")
    dashed = name.replace("_", "-")
    return literal_word(dashed if chart(dashed) is not None else name, module.span)


def file_as_program(file: Word) -> Word:
    """The program that a file of code is, if its name shows that: `npm/bin/npm-cli.js`, `pip/__main__.py`."""
    match = re.fullmatch(CODE, file.literal or "")
    name = next(filter(None, match.groups()), "") if match else ""
    return literal_word(name, file.span) if name and chart(name) is not None else file


def service_of(program: str) -> str:
    """The service of a script in `/etc/init.d` or `rc.d`: `nginx` for `/etc/init.d/nginx`; else empty."""
    match = re.fullmatch(INIT_SCRIPT, program)
    return next(filter(None, match.groups()), "") if match else ""
