"""Policies for property tests."""

from hypothesis import strategies as st

from pinfold.model.policy import Cap, EnvironmentRules, Limits, NetworkRules, PolicyType, SandboxPolicy
from pinfold.policy.meet import meet

PATHS = ("/", "/a", "/a/b", "/a/b/c", "/a/bc", "/d", "/d/e")
HOSTS = (
    "x.org",
    "a.x.org",
    "*.x.org",
    "b.a.x.org",
    "*.a.x.org",
    "a.x.org:443",
    "*.x.org:443",
    "Y.org.",
    "*",
    "*:443",
    "10.0.0.1",
    "0x0a.1.0.1",
    "10.0.0.0/8",
    "10.1.0.0/16:443",
    "0.0.0.0/0",
    "::1",
    "[::1]",
    "[0:0::1]:443",
    "2001:DB8::/32",
    "[2001:db8::1]:443",
    "::/0",
)
PATTERNS = ("a", "!a", "*.key", "!*.key", "b/", "/c", "**/d")
paths = st.lists(st.sampled_from(PATHS), max_size=3).map(tuple)
hosts = st.lists(st.sampled_from(HOSTS), max_size=3).map(tuple)
names = st.lists(st.sampled_from(("A", "B", "C")), max_size=3).map(tuple)
opinion = st.sampled_from((None, False, True))
count = st.none() | st.integers(0, 2**40)

policies = st.builds(
    SandboxPolicy,
    type=st.sampled_from(PolicyType),
    network_access=opinion,
    additional_readwrite_paths=paths,
    additional_readonly_paths=paths,
    debug_output_dir=st.sampled_from((None, "", "/o", "/p")),
    block_git_writes=opinion,
    disable_tmp_write=opinion,
    hidden=paths,
    protected=paths,
    ignore_mapping=st.dictionaries(
        st.sampled_from(("/w", "/w/s", "/v")),
        st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=3).map(tuple),
        max_size=2,
    ),
    network=st.builds(NetworkRules, allow=st.none() | hosts, deny=hosts),
    unix_sockets=paths,
    published_ports=st.lists(st.integers(1, 5), max_size=3).map(tuple),
    environment=st.builds(EnvironmentRules, keep=names, drop=names),
    limits=st.builds(
        Limits, timeout=st.none() | st.floats(0, 1e6), memory=count, processes=count, output=count
    ),
)

GRANTS = (
    "additional_readwrite_paths",
    "additional_readonly_paths",
    "unix_sockets",
    "published_ports",
    "environment",
)
caps = st.builds(Cap, policy=policies, grants=st.lists(st.sampled_from(GRANTS), unique=True).map(tuple))


def canonical(policy: SandboxPolicy) -> SandboxPolicy:
    """The same policy with one spelling: paths cleaned, sorted, each once, none inside another."""
    return meet(policy, policy)


def is_within(inner: SandboxPolicy, outer: SandboxPolicy) -> bool:
    """Whether `inner` is nowhere wider than `outer`."""
    return meet(inner, outer) == canonical(inner)
