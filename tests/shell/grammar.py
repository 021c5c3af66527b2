"""Random scripts that put commands wherever bash may expand something, in every kind of quotes.

A script is a few statements; a statement is a place (an argument, a pattern, a subscript, a value that is
evaluated later), and in it stands a text made of expansions inside of each other: the leaves are commands.
"""

import random

COMMANDS = ("p", "q", "r")
VALUE_OPERATORS = ("-", ":-", "=", ":=", "?", ":?", "+", ":+")
PATTERN_OPERATORS = ("#", "##", "%", "%%", "^", "^^", ",", ",,", "/", "//", "/#", "/%")
PARAMETERS = ("u", "s", "a", "a[0]", "a[@]", "A[k]", "1", "@", "*", "u[1]")
DECLARES = ("declare", "typeset", "export", "readonly", "local", "command declare", "builtin typeset")
LIST_OPTIONS = ("-a ", "-A ", "-i ", "-n ", "-ga ", "-x ", "", "", "-a -r ")
LEAVES = ("x", "1", "$s", "${u}", "*", "a[0]", "$", "\\\\", "=", "~", "%", "a[", "]", "\\<", "'('", "#", "#x")
STARTS = (
    "", "", "", "", "s=abc\n", "s=abc; a=(x y); declare -A A=([k]=v)\n", "shopt -s extglob\n",
    "shopt -s extglob; s=abc\n", "set -- one two\n", "declare -i n; declare -a a\n", "set -f\n",
)  # fmt: skip
STATEMENTS = (
    # Where a word stands.
    ": {w}", "p {w} x", ": a{w}b", ": x={w}", "v={w}", "v={w} :", "v+={w}", "a[0]={w}", "a=({w} y)",
    "a=([0]={w})", "a+=([1]={w})", ": >{w}", ": <{w}", ": 2>>{w}", ": <<<{w}", ": <<<\"{d}\"",
    "for i in {w}; do :; done", "select i in {w}; do break; done <<<1", "case {w} in x) ;; esac",
    "case x in {w}) ;; *) ;; esac", "case x in a|{w}) ;; esac", "if [ {w} ]; then :; fi", "test -n {w}",
    "printf %s {w}", "coproc {w}", "time {w}", "! : {w}", "{{ : {w}; }} >o", "( : {w} )",
    "f() {{ : {w}; }}; f", "f() {{ local v={w}; }}; f", ": | : {w}", ": && : {w}",
    "until : {w}; do :; done", "exec {w}", "command {w}", "p \"$({c} {w})\"", ": ~{w}", ": {{x,{w}}}",
    # Tests, patterns, regular expressions.
    "[[ {w} ]]", "[[ -e {w} ]]", "[[ {w} == x ]]", "[[ x == {w} ]]", "[[ x != a{w} ]]", "[[ x =~ {w} ]]",
    "[[ x < {w} ]]", "[[ x =~ ({w}) ]]", "[[ x =~ a({w}|b)$ ]]", "[[ x =~ ^(a|(b{w})) ]]",
    "[[ x == @({w}) ]]", "[[ x == !(a|{w}) ]]", "[[ ! ( x == {w} ) ]]", "[[ -n x && x =~ {w} ]]",
    "[[ -v {w} ]]", "[[ -R {w} ]]", "[[ {w} -eq 0 ]]", "[[ 0 -lt {w} ]]", ": @({w}|b)", ": +({w})*",
    ": [{w}]",
    # Arithmetic and subscripts.
    ": $(({n}))", ": $[{n}]", "(({n}))", "let {w}", "let v={w}", "for ((i={n}; i<0; i++)); do :; done",
    "a[{n}]=1", ": ${{a[{n}]}}", ": ${{#a[{n}]}}", ": ${{!a[{n}]}}", ": ${{s:{n}}}", ": ${{s:0:{n}}}",
    ": ${{@:{n}:1}}", "a=([{n}]=1)", "A[{w}]=1", ": $((a[{n}]))", "((a[{n}]++))", "((n = {n} ? {n} : 1))",
    "v=s; : ${{!v:-{w}}}",
    # Names that are evaluated.
    "printf -v {w} x", "printf -v a[{w}] x", "read {w} <<<x", "read -r a[{w}] <<<x", "unset {w}",
    "unset a[{w}]", "test -v {w}", "[ -v a[{w}] ]", "test -v 'a[{v}]'", "mapfile -t {w} <<<x",
    "mapfile -C {w} -c 1 x <<<y", "wait -n -p {w}", ": & wait -p 'a[{v}]' $!", "getopts x {w} -x",
    "unset 'a[{v}]'", "printf -v 'a[{v}]' x", "read 'a[{v}]' <<<x", "let 'a[{v}]=1'", "(( 'a[{v}]' ))",
    ": $(( x[{v}] ))", "[[ 'a[{v}]' -eq 0 ]]", "[[ -v 'a[{v}]' ]]", ": ${{s:'a[{v}]'}}", "RANDOM='a[{v}]'",
    "for SECONDS in 'a[{v}]'; do :; done",
    # Descriptors.
    ": {{fd}}>o", ": {{a[{w}]}}>o", ": {{a['{v}']}}>o", ": {{a[\"{d}\"]}}>>o", "exec {{a['{v}']}}<>o",
    ": {{a[{n}]}}>o", "{{ :; }} {{a['{v}']}}>o", ": x {{b[$'{e}']}}>|o y", "{{a['{v}']}}>o",
    "v='b[{v}]'; : {{a[v]}}>o",
    # Values that are expanded again.
    "{D} {o}v={w}", "{D} {o}v='{v}'", "{D} {o}v='({v})'", "{D} {o}v='([0]={v})'", "{D} {o}'v=({v})'",
    "{D} {o}'v[{v}]=1'", "v=(1); {D} v='({v})'", "v='({v})'; {D} {o}w=\"$v\"", "v='{v}'; {D} {o}w=\"($v)\"",
    "v='a[{v}]'; : $((v))", "v='a[{v}]'; {D} -n r=$v; : $r", "v='a[{v}]'; : ${{!v}}", "v='{v}'; : ${{v@P}}",
    "v='{v}'; : ${{v@Q}} ${{v@A}}", "v='{v}'; eval \"$v\"", "eval {w}", "eval '{v}'", "eval ': {v}'",
    "trap '{v}' EXIT", "trap '{v}' DEBUG; :", "alias al='{v}'",
    "shopt -s expand_aliases\nalias al=': {v}'\nal", "PS4='{v}'; set -x; :", "bash -c '{v}'",
    "bash -c ': {v}'", "sh -c ': {v}'", "bash -c ': $1' x '{v}'", "env -i /bin/bash -c ': {v}'",
    "bash <<<': {v}'", "printf '%d' 'a[{v}]'", "printf '%b' '{v}'", ". /dev/stdin <<<': {v}'",
    "BASH_ALIASES[p]='{v}'", "hash -p '{v}' p", "command_not_found_handle() {{ : {w}; }}; nosuch",
    "v=({w}); : ${{v[@]@P}}", "enable {w}", "jobs -x {c}",
    # Comments, and what looks like one.
    ": {w}#x; {c}", ": {w} # x; {c}\n{c}", ": $(: {w}#x; {c}\n)", ": `: $u#x; {c}\n`",
    "( : {w} )#x\n{c}", ": \\\n#x; {c}",
    # Here-documents.
    "cat() {{ :; }}; cat <<E\n{d}\nE", "p <<-E\n\t{d}\n\tE", "p <<'E'\n{d}\nE", "p <<\"E\"\n{d}\nE",
    "p <<E\n\\\n{d}\nE", "p <<\\E\n{d}\nE", "p <<E\na\\\n{d}\nE", "p <<E\n'{d}'\nE", "bash <<E\n: {d}\nE",
    "p <<E\n\\{d}\nE",
)  # fmt: skip
AROUND = (
    "{{\n{s}\n}}", "(\n{s}\n)", "f() {{\n{s}\n}}; f", "if :; then\n{s}\nelse\n{other}\nfi", "{s}\n{other}",
    "for i in 1 2; do\n{s}\ndone", "while :; do\n{s}\nbreak\ndone", "case x in x)\n{s}\n;; esac",
    ": $(\n{s}\n)", ": \"$(\n{s}\n)\"", ": <(\n{s}\n)", "v=$(\n{s}\n)", "[[ -n $(\n{s}\n) ]]",
    ": ${{u:-$(\n{s}\n)}}", "coproc {{\n{s}\n}}", "eval '{q}'", "bash -c '{q}'", "trap '{q}' EXIT",
    "bash <<'EE'\n{q}\nEE", "f() {{\n{s}\n}}; trap f EXIT", "p <<EE\n$(\n{s}\n)\nEE",
    "eval \"$(cat <<'EE'\n{q}\nEE\n)\"", "bash -c 'eval \"$1\"' x '{q}'",
)  # fmt: skip


class Grammar:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.count = 0

    def pick(self, *choices: str) -> str:
        return self.chance.choice(choices)

    def script(self) -> str:
        statements = [self.statement() for _ in range(self.chance.randint(1, 2))]
        between = "\n" if any("<<" in statement for statement in statements) else self.pick("; ", "\n")
        return self.chance.choice(STARTS) + between.join(statements)

    def statement(self) -> str:
        """A statement, now and then inside of others, or in a text that a shell runs."""
        inner = self.plain_statement()
        if self.chance.random() < 0.75:
            return inner
        form = self.chance.choice(AROUND)
        if "{q}" in form:
            return form.format(q=inner.replace("'", "'\\''"))
        return form.format(s=inner, other=self.plain_statement())

    def plain_statement(self) -> str:
        form = self.chance.choice(STATEMENTS)
        return form.format(
            w=self.word(3) if "{w}" in form else "",
            d=self.text(2) if "{d}" in form else "",
            n=self.number(2) if "{n}" in form else "",
            v=self.substitution(1).replace("'", "'\\''") if "{v}" in form else "",
            e=self.escaped(self.substitution(0)) if "{e}" in form else "",
            c=self.command(),
            D=self.chance.choice(DECLARES),
            o=self.chance.choice(LIST_OPTIONS),
        )

    def command(self) -> str:
        self.count += 1
        return f"{self.chance.choice(COMMANDS)} {self.count}"

    def substitution(self, depth: int) -> str:
        inner = self.command() if not depth or self.chance.random() < 0.7 else f": {self.word(depth - 1)}"
        kind = self.chance.randrange(9)
        if kind < 3 or "`" in inner:
            return f"{self.pick('<', '>')}({inner})" if kind == 1 else f"$({inner})"
        forms = (f"<({inner})", f">({inner})", f"`{inner}`", f"<({inner})", f"$({inner})", f"$(: $({inner}))")
        return forms[kind - 3]

    def word(self, depth: int) -> str:
        """A word, or a piece of one: nothing in it ends a word."""
        if depth <= 0 or self.chance.random() < 0.25:
            return self.leaf()
        kind = self.chance.randrange(8)
        if kind < 3:
            return self.expansion(depth - 1)
        if kind == 3:
            return f'"{self.text(depth - 1)}"'
        if kind == 4:
            return self.quoted(self.substitution(0))
        if kind == 5:
            return self.word(depth - 1) + self.word(depth - 1)
        return self.substitution(depth - 1)

    def leaf(self) -> str:
        kind = self.chance.randrange(6)
        if kind < 2:
            return self.substitution(0)
        if kind == 2:
            return self.quoted(self.substitution(0))
        return self.chance.choice(LEAVES)

    def text(self, depth: int) -> str:
        """What may stand in double quotes, or in a here-document."""
        pieces = [
            self.pick("x", " ", f"$({self.command()})", f"`{self.command()}`", f"<({self.command()})")
            if not depth or self.chance.random() < 0.5
            else self.expansion(depth - 1)
            for _ in range(self.chance.randint(1, 2))
        ]
        return "".join(pieces)

    def expansion(self, depth: int) -> str:
        name = self.chance.choice(PARAMETERS)
        inner = self.word(depth)
        if self.chance.random() < 0.5:
            return f"${{{name}{self.chance.choice(VALUE_OPERATORS)}{inner}}}"
        operator = self.chance.choice(PATTERN_OPERATORS)
        if operator.startswith("/") and self.chance.random() < 0.6:
            inner = f"{self.pick('a', '', inner)}/{self.word(depth)}"
        if self.chance.random() < 0.15:
            inner = self.pick(f"@({inner})", f"[{inner}]", f"({inner})", f"!({inner}|b)")
        return f"${{{name}{operator}{inner}}}"

    def number(self, depth: int) -> str:
        kind = self.chance.randrange(8)
        if kind == 0:
            return f"1 + {self.word(depth)}"
        if kind == 1:
            return f"'a[{self.substitution(0)}]'"
        if kind == 2:
            return f"a[{self.word(depth)}]"
        if kind == 3:
            return self.pick("x", "1", "x=1", "$s", "x++")
        return self.word(depth)

    def quoted(self, text: str) -> str:
        kind = self.chance.randrange(5)
        if kind == 0:
            return f"'{text}'"
        if kind == 1:
            return '"' + "".join("\\" + c if c in '$`"\\' else c for c in text) + '"'
        if kind == 2:
            return "".join("\\" + c if not c.isalnum() else c for c in text)
        if kind == 3:
            at = self.chance.randrange(1, len(text))
            return f"'{text[:at]}''{text[at:]}'"
        return f"$'{self.escaped(text)}'"

    def escaped(self, text: str) -> str:
        """For `$'...'`."""
        return "".join(f"\\x{ord(c):02x}" if c in "'\\" or self.chance.random() < 0.3 else c for c in text)
