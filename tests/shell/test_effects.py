"""What commands read, write and delete, and their hazards."""

import pytest

from pinfold.model.script import Assignment, Command, Glob, Text, Trait, Variable, Word, literal_word
from pinfold.model.text_positions import Span
from pinfold.shell.unwrap import unwrap


def command(*texts: str) -> Command:
    words, start = [], 0
    for text in texts:
        words.append(literal_word(text, Span(start, start + len(text))))
        start += len(text) + 1
    return Command(tuple(words), Span(0, start - 1), " ".join(texts))


def sources(words: tuple[Word, ...]) -> str:
    return " ".join(word.source for word in words)


@pytest.mark.parametrize(
    ("line", "reads", "writes", "deletes"),
    [
        # readers
        ("cat a b", "a b", "", ""),
        ("cat -", "", "", ""),
        ("grep x a b", "a b", "", ""),
        ("grep -e x a b", "a b", "", ""),
        ("grep -f p a", "p a", "", ""),
        ("grep -r x", ".", "", ""),
        ("ls", ".", "", ""),
        ("find", ".", "", ""),
        ("jq -R . .env", ".env", "", ""),
        ("awk 1 .env", ".env", "", ""),
        ("git show :.env", ".env", "", ""),
        ("git show HEAD:a/.env", "a/.env", "", ""),
        ("git diff --no-index a b", "a a b b", "", ""),
        ("echo a", "", "", ""),
        # writers
        ("cp a b c", "a b", "c", ""),
        ("cp -t c a b", "a b", "c", ""),
        ("mv a b", "a", "b", "a"),
        ("install -m755 f ../canary", "f", "../canary", ""),
        ("ln -s /etc/passwd x", "/etc/passwd", "x", ""),
        ("touch a b", "", "a b", ""),
        ("tee -a x", "", "x", ""),
        ("truncate -s 0 x", "", "x", ""),
        ("dd if=a of=b bs=1", "a", "b", ""),
        ("sort a -o b", "a", "b", ""),
        ("uniq a b", "a", "b", ""),
        ("sed -i s/a/b/ f", "f", "f", ""),
        ("curl -o x https://h", "", "x", ""),
        ("unzip -o a.zip -d ..", "a.zip", "..", ""),
        ("chmod 755 x", "", "x", ""),
        # deleters
        ("rm -rf a b", "", "", "a b"),
        ("rmdir a", "", "", "a"),
        ("find a -delete", "a", "", "a"),
        ("find -delete", ".", "", "."),
        ("git clean -fdx", "", "", "."),
        ("rsync -a --delete a b", "a", "b", "b"),
        ("hugo -d x --themesDir y", "y", "x", ""),
        ("hugo new site x", "", "x", ""),
        ("hugo import jekyll x y", "x", "y", ""),
        ("shred -u x", "", "x", "x"),
    ],
)
def test_files(line: str, reads: str, writes: str, deletes: str) -> None:
    done = unwrap(command(*line.split())).command
    assert sources(done.reads) == reads
    assert sources(done.writes) == writes
    assert sources(done.deletes) == deletes


@pytest.mark.parametrize(
    "line",
    [
        # reading
        *(
            "ls -la",
            "cat x",
            "head -n 5 x",
            "tail -f x",
            "grep -rn x src",
            "rg -n x",
            "find . -name x",
            "wc -l x",
        ),
        *(
            "sort -u x",
            "sort -t, -k2,2nr x",
            "uniq -c x",
            "diff -ru a b",
            "stat -c %s x",
            "du -sh .",
            "date +%s",
        ),
        *("ps aux", "ps -ef", "column -t x", "jq -r .a x", "tree -L 2", "xxd x", "file x", "hostname -f"),
        # scripts that only print
        *("sed -n 1,10p x", "sed -n /a/p x", "sed s/a/b/g x", "awk {print$1} x", "awk NR>1 x"),
        # git
        *(
            "git status -s",
            "git log --oneline -5",
            "git diff --stat",
            "git show HEAD",
            "git branch -a",
            "git tag -l",
        ),
        *("git remote -v", "git config --get user.name", "git blame x", "git rev-parse HEAD", "git ls-files"),
        # a colon after a slash is of this machine
        *("tar tf x.tgz", "tar tf ./a:b", "tar -xf /x/a:b"),
        # after `--` nothing is an option
        "sort -- -o",
        *("hugo", "hugo -DE --minify", "hugo server -p 1314", "hugo new posts/a.md -k post"),
    ],
)
def test_no_hazard(line: str) -> None:
    assert unwrap(command(*line.split())).command.hazards == ()


@pytest.mark.parametrize(
    ("line", "option"),
    [
        # options that write
        ("sort x -o y", "-o"),
        ("sort --outp=y x", "-o"),
        ("find . -fprintf x y", "-fprintf"),
        ("tree -o x", "-o"),
        ("git diff --output=x", "--output"),
        ("git diff -U --output=x", "--output"),
        ("git archive -o x HEAD", "-o"),
        # options that run
        ("sort --compress-program=./c x", "--compress-program"),
        ("rg x f --pre=./c", "--pre"),
        ("tar cf x f --checkpoint-act=exec=y", "--checkpoint-action"),
        ("tar cfF x ./y f", "-F"),
        ("tar tf host:x", "-f"),
        ("tar --create --file=me@host:x .", "-f"),
        ("cpio -o -F host:x", "-F"),
        ("split --filter=x f", "--filter"),
        ("man -P x ls", "-P"),
        ("git grep -O./c a", "-O"),
        ("git ls-remote --upload-pack=x .", "--upload-pack"),
        ("git log -p", "-p"),
        ("git log -up", "-p"),
        ("git -p log", "-p"),
        ("gcc -wrapper x,y f.c", "-wrapper"),
        ("cargo build --config x=y", "--config"),
        ("go test -exec ./x ./...", "-exec"),
        ("go build -toolexec=./x", "-toolexec"),
        ("yarn --version", "--version"),
        ("hugo new a.md --editor x", "--editor"),
        ("hugo --editor=x new a.md", "--editor"),
        ("hugo --config x", "--config"),
        ("hugo server --memstats x", "--logFile"),
        ("hugo convert toYAML -o x", "-d"),
        ("hugo convert toYAML --unsafe", "--unsafe"),
        ("hugo --cleanDestinationDir", "--cleanDestinationDir"),
        # options that move what is worked on
        ("git -c core.pager=x log", "-c"),
        ("git -C x status", "-C"),
        ("git --git-dir=x status", "--git-dir"),
        ("docker --host tcp://x ps", "-H"),
        ("hugo -s x server", "-s"),
        ("docker run --rm -v /:/h alpine", "-v"),
        ("npm --prefix x test", "--prefix"),
        # options nobody has looked at
        ("ls --whatever", "--whatever"),
        ("git status --whatever", "--whatever"),
        # operands
        ("uniq a b", ""),
        ("date 0101", ""),
        ("hostname x", ""),
        ("ps eww", ""),
        ("git branch x", ""),
        ("git config a b", ""),
        ("git ls-remote ext::sh", ""),
        ("make SHELL=x", ""),
        ("curl file:///etc/passwd", ""),
        # scripts
        ("sed 1e f", ""),
        ("sed -sn wx f", ""),
        ("sed --expr=1e f", "-e"),
        ("sed -i p f", "-i"),
        ("awk BEGIN{system(1)}", ""),
        ("awk {print>1} f", ""),
        ("jq -n env", ""),
        ("jq -n $ENV.X", ""),
        # subcommands; a rule that names them accepts them
        ("git lg", "lg"),
        ("git remote add x y", "add"),
        ("npm exec x", "exec"),
        ("hugo deploy", "deploy"),
        ("hugo server trust", "trust"),
        ("env", "env"),
        ("printenv", "printenv"),
    ],
)
def test_hazard(line: str, option: str) -> None:
    assert option in [hazard.option for hazard in unwrap(command(*line.split())).command.hazards]


def test_a_computed_word_may_be_an_option() -> None:
    span = Span(5, 7)
    program = literal_word("sort", Span(0, 4))
    computed = Word('"$X"', span, (Variable("X", True),))
    glob = Word("*", span, (Glob("*"),))
    plain = Word("./*", span, (Text("./"), Glob("*")))
    dashes = literal_word("--", span)

    def hazards(*words: Word) -> int:
        return len(unwrap(Command((program, *words), Span(0, 7), "")).command.hazards)

    assert hazards(computed) == 1
    assert hazards(glob) == 1
    assert hazards(plain) == 0
    assert hazards(dashes, computed, glob) == 0


@pytest.mark.parametrize(
    ("name", "exported", "words", "hazard"),
    [
        # before a program, every name counts that is not known to be harmless
        ("PATH", True, ("ls",), True),
        ("LD_PRELOAD", True, ("ls",), True),
        ("x", True, ("ls",), True),
        ("CI", True, ("ls",), False),
        # alone, a line's own names are its own
        ("x", False, (), False),
        ("my_var", False, (), False),
        ("http_proxy", False, (), True),
        ("npm_config_registry", False, (), True),
        ("IFS", False, (), True),
        ("MYVAR", False, (), True),
    ],
)
def test_assignments(name: str, exported: bool, words: tuple[str, ...], hazard: bool) -> None:
    line = command(*words) if words else Command((), Span(0, 1), "")
    given = Command(line.words, line.span, line.text, (Assignment(name, Span(0, 1), None, exported),))
    assert bool(unwrap(given).command.hazards) is hazard


@pytest.mark.parametrize(
    ("line", "hazard"),
    [
        ("export CI=1", False),
        ("export PATH=.", True),
        ("export x=1", True),
        ("declare -x PAGER=x", True),
        ("declare -i count=1", False),
        ("local PATH", True),
        ("readonly x=1", False),
        ("unset HTTP_PROXY", True),
        ("unset x", False),
    ],
)
def test_declarations(line: str, hazard: bool) -> None:
    assert bool(unwrap(command(*line.split())).command.hazards) is hazard


def test_uncharted() -> None:
    done = unwrap(command("foo", "-rf", "x", "--y=z", "-", "--", "-w")).command
    assert Trait.UNCHARTED in done.traits
    assert done.flags == ("-rf", "-r", "-f", "--y")
    assert sources(done.operands) == "x - -w"


@pytest.mark.parametrize(
    ("line", "changes"),
    [
        ("pinfold rules add allow x", True),
        ("pinfold rules list", False),
        ("pinfold exclude remove x", True),
        ("pinfold settings show", False),
        ("pinfold approvals", True),
        ("pinfold run --policy danger-full-access x", True),
        ("pinfold learn -- ls", True),
        ("pinfold run --policy=danger-full-access x", True),
        ("pinfold run --policy read-only x", False),
        ("pinfold run --network all x", True),
        ("pinfold run --allow-domain x.y z", True),
        ("pinfold --settings f run x", True),
        ("pinfold install", True),
        ("pinfold web", True),
        ("pinfold check x", False),
        ("pinfold doctor", False),
        ("pinfold acp -- agent", True),
        ("pinfold mcp wrap -- server", True),
        ("pinfold run --publish 3000 -- x", True),
        ("pinfold journal list --last 5", False),
        ("pinfold journal forget --older-than 0s", True),
    ],
)
def test_pinfold_itself(line: str, changes: bool) -> None:
    assert (Trait.CHANGES_PINFOLD in unwrap(command(*line.split())).command.traits) is changes


@pytest.mark.parametrize(
    ("line", "uncharted"),
    [
        ("kubectl --whatever 5 delete pod", True),
        ("kubectl --whatever=5 delete pod", False),
        ("kubectl -n x delete pod", False),
        ("git -C x push", False),
        ("git --whatever x push", True),
    ],
)
def test_an_option_that_is_not_listed_leaves_the_operands_open(line: str, uncharted: bool) -> None:
    assert (Trait.UNCHARTED in unwrap(command(*line.split())).command.traits) is uncharted


def test_scripts_are_judged_in_good_time() -> None:
    for script in ("\n" * 5000 + "X", "s/" * 5000, "p;" * 5000 + "w", "1,2" * 3000):
        assert unwrap(command("sed", script, "f")).command.hazards
    assert not unwrap(command("awk", "print " * 1600)).command.hazards


@pytest.mark.parametrize(
    ("tests", "narrowed"),
    [
        # a test before the action, in its own branch
        ("-name *.pyc -delete", True),
        ("-type f -name x -delete", True),
        ("( -name a -o -name b ) -delete", True),
        ("-name a -o -name b -delete", True),
        ("! -path ./x/* -name *.pyc -delete", True),
        ("-name a ( -type f -delete )", True),
        ("-mtime +7 -delete", True),
        ("-empty -delete", True),
        # after it, in another branch, negated, or passed by everything
        ("-delete", False),
        ("-delete -name x", False),
        ("-name x -o -delete", False),
        ("-name x , -delete", False),
        ("( -name x -o -true ) -delete", False),
        ("! ( -name x ) -delete", False),
        ("-not -name x -delete", False),
        ("-name * -delete", False),
        ("-name [!x]* -delete", False),
        ("-regex .* -delete", False),
        ("-size +0 -delete", False),
        ("-mtime -9999 -delete", False),
        ("-type f -delete", False),
    ],
)
def test_what_narrows_a_deletion(tests: str, narrowed: bool) -> None:
    (deleted,) = unwrap(command("find", "d", *tests.split())).command.deletes
    assert (deleted.literal is None) is narrowed
    assert deleted.start == ("d/" if narrowed else "d")


@pytest.mark.parametrize(
    ("line", "below"),
    [
        ("grep -d recurse x d", True),
        ("grep -d rec x d", True),
        ("grep -d skip x d", False),
        ("diff d e", True),
        ("git diff -- *.py", True),
        ("git show :(top).env", True),
        ("git diff ../other .", True),
        ("git diff HEAD~1 -- src", True),
    ],
)
def test_directories_are_read_with_what_is_in_them(line: str, below: bool) -> None:
    assert unwrap(command(*line.split())).command.reads_below is below


def test_what_a_pattern_finds_is_moved_and_not_lost() -> None:
    every = Word("*", Span(3, 4), (Glob("*"),))
    moved = Command((literal_word("mv", Span(0, 2)), every, literal_word("d", Span(5, 6))), Span(0, 6), "")
    assert unwrap(moved).command.deletes == ()
    assert every in unwrap(moved).command.writes


def test_a_subcommand_that_may_be_an_alias_is_not_known() -> None:
    assert unwrap(command("git", "p")).command.operands[0].literal is None
    assert unwrap(command("git", "push")).command.operands[0].literal == "push"
