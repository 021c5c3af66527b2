"""The slash command by which a person sees and changes the fence from within an agent.

It is text for the model, which runs `pinfold` for the person: the hook lets it look, and asks the person
about each change, so that nothing here has to be believed.
"""

TEXT = """\
The person wants to see or to change the fence that your commands run in (pinfold). They wrote: "{arguments}"

- Nothing: run `pinfold status`, then `pinfold exclude list`, and show what they print.
- `add COMMAND`: run `pinfold exclude add 'COMMAND'`, which lets that command run outside of the fence.
- `remove COMMAND`: run `pinfold exclude remove 'COMMAND'`.
- `rules`: run `pinfold rules list`.

Run each alone, spelled just like this, and nothing else. They are asked about every change; a no is a no.
"""
ABOUT = "See or change the fence that commands run in (pinfold)"
USAGE = "[add COMMAND | remove COMMAND | rules]"


def slash_command(path: str) -> str:
    """The file's text, in the manner that its name asks for."""
    if path.endswith(".toml"):
        body = TEXT.format(arguments="{{args}}")
        return f'description = "{ABOUT}"\nprompt = """\n{_escaped(body)}"""\n'
    if path.endswith(".prompt.md"):
        return f"---\ndescription: {ABOUT}\nagent: agent\n---\n{TEXT.format(arguments='${input:change}')}"
    return f"---\ndescription: {ABOUT}\nargument-hint: '{USAGE}'\n---\n{TEXT.format(arguments='$ARGUMENTS')}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
