"""Sessions in a process of their own: output as it comes, and each question to a person.

Other languages do the same with lines of JSON: docs/service.md.
"""

import sys

import pinfold


def ask(question: pinfold.Question) -> str:
    """Asks a person; here, the one at the keyboard."""
    print(
        f"{question.capability}: {question.command}",
        *(each["message"] for each in question.reasons),
        sep="\n  ",
    )
    try:
        said = input(f"{' / '.join(question.choices)}? ")
    except EOFError:  # no person is there
        said = ""
    return said if said in question.choices else "no"


def main(project: str) -> None:
    with pinfold.Client.start(["--cwd", project], on_permission=ask) as client:
        session = client.create_session([project])
        for event in session.start("for i in 1 2 3; do echo $i; done", description="count").events():
            print(event.name, event.params.get("data", event.params.get("code")))
        try:
            session.run("sudo true")
        except pinfold.ServiceError as error:
            print(error, error.data["next"], sep="\n")


if __name__ == "__main__":
    main((sys.argv[1:] or ["."])[0])
