"""Adds the workspace to a policy: its folders and ignore files. The CLI, hooks and servers all use this."""

from msgspec.structs import replace

from pinfold.model.policy import IgnoreMapping, PolicyType, SandboxPolicy


def enrich(policy: SandboxPolicy, roots: tuple[str, ...], mapping: IgnoreMapping) -> SandboxPolicy:
    """The policy with the workspace's folders and ignore files; no field of it is lost."""
    return with_ignore_mapping(with_workspace(policy, roots), mapping)


def with_workspace(policy: SandboxPolicy, roots: tuple[str, ...]) -> SandboxPolicy:
    """The policy with several folders writable under `workspace-write`; a single one already is."""
    if policy.type is not PolicyType.WORKSPACE_READWRITE or len(roots) <= 1:
        return policy
    writable = dict.fromkeys((*policy.additional_readwrite_paths, *roots))
    return replace(policy, additional_readwrite_paths=tuple(writable))


def with_ignore_mapping(policy: SandboxPolicy, mapping: IgnoreMapping) -> SandboxPolicy:
    """The policy with files hidden that ignore files name, unless there is no sandbox to hide them."""
    if policy.type is PolicyType.INSECURE_NONE or not mapping:
        return policy
    # Imported here: most workspaces have no ignore files, and every start would pay for the matcher.
    from pinfold.policy.ignore import united
    from pinfold.policy.paths import require_text

    for text in (text for directory, patterns in mapping.items() for text in (directory, *patterns)):
        require_text(text, "an ignore file's name or pattern")
    return replace(policy, ignore_mapping=united(policy.ignore_mapping, mapping))
