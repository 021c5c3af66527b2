"""Deny and ask rules against the same thing said in other words, and allow rules against more than they say.

Each row was allowed, or run, before. The groups are classes: a mend should close the class.
"""

import json
import subprocess
from pathlib import Path

import pytest

from pinfold import shell
from pinfold.model.decision import Verdict
from pinfold.policy.rule_operands import RuleMatch
from pinfold.policy.rules import restrictive_match
from pinfold.session import Session
from pinfold.shell.programs import DATA, chart, program_name
from pinfold.shell.rule_text import shape

SAID_OTHERWISE = r"""
make deploy|make test deploy
make deploy|make -j 4 deploy
make deploy|gmake deploy
git push|hub push
git push|hub -c alias.x=push x
make deploy|make -C . test deploy
make deploy|make deploy V=1
mvn deploy|mvn clean test deploy
mvn deploy|./mvnw -q clean deploy
mvn deploy|mvn deploy:deploy
gradle publish|gradle :publish
gradle publish|./gradlew build :app:publish
gradle publishToMavenLocal|gradle pTML
gradle publishToMavenLocal|gradle publishToMavenL
cargo publish|cargo +nightly publish
cargo publish|cargo +nightly -q publish
cargo publish|rustup run nightly cargo publish
cargo test|cargo t
cargo run|cargo +stable r
docker run|docker container run x
docker container run|docker run x
docker rmi|docker image rm x
docker image rm|docker rmi x
docker ps|docker container ls
docker push|docker image push x
docker build|docker buildx build .
docker compose up|docker-compose up
docker-compose up|docker compose up -d
podman run|podman container run x
git add|git stage x
git stage|git add x
git reset --hard|git reset --har
git reset --hard|git reset --ha HEAD~1
git push --force|git push --forc
git push --force|git push origin +main
git push --force|git push -fu origin main
git push --delete|git push origin :main
git branch -D|git branch -d -f x
git branch -D|git branch --delete --force x
git clean -fd|git clean -d -x --force
git commit --no-verify|git commit --no-ver -m x
git commit --no-verify|git commit -nm x
git commit --amend|git commit --am
git stash push|git stash
git stash push|git stash -q
git init|git init-db
git fetch|git pull
npm install|npm it
npm install|npm install-t
npm test|npm it
npm run test|npm it
npm test|npm cit
npm run stop|npm restart
pnpm test|pnpm it
gem push|gem pus x
gem install|gem i x
bundle install|bundle i
bundle install|bundle
bundle exec|bundle e x
rails server|rails s
rails destroy|rails d x
cp -r|cp -a x y
rsync -r|rsync -av x y
apt remove|apt purge x
conda remove|conda uninstall x
fly deploy|flyctl deploy
pytest|py.test
zsh|rzsh -c x
ksh|rksh -c x
ip link delete|ip l del x
ip address add|ip a a x
ip route delete|ip r d x
kubectl delete namespace|kubectl delete ns x
kubectl delete pod|kubectl delete pods x
kubectl delete pod|kubectl delete po/x
kubectl get svc|kubectl get services
git push origin main|git push origin HEAD:main
git push origin main|git push origin dev:refs/heads/main
git push origin main|git push origin +main
git push origin main|git push -f origin heads/main
git push origin main|git push origin :main
git push --all|git push --branches
chmod +x|chmod 755 x
chmod +x|chmod a+x x
chmod +x|chmod -R u=rwx,go=rx x
chmod go+w|chmod 0777 x
chmod u+s|chmod 4755 x
npm test|npm run test
npm run test|npm t
npm run test|npm tst
npm exec|npx cowsay
npx|npm exec cowsay
npx|npm x cowsay
npm publish|npm pub
npm ci|npm cit
npm uninstall|npm r x
pnpm install|pnpm i
pnpm install|pnpm it
pnpm publish|pnpm -r publish
pnpm publish|pnpm recursive publish
pnpm publish|pnpm m publish
pnpm run release|pnpm release
pnpm release|pnpm run release
pnpm remove|pnpm un x
yarn install|yarn
yarn install|yarn --frozen-lockfile
yarn run deploy|yarn deploy
yarn deploy|yarn run deploy
yarn publish|yarn npm publish
yarn add|yarn global add x
bun install|bun i
bun run deploy|bun deploy
bun x|bunx cowsay
pnpm dlx|pnpx x
uvx|uv tool run x
helm uninstall|helm un x
helm uninstall|helm delete x
helm dependency update|helm dep up x
helm repo remove|helm repo rm x
gcloud run deploy|gcloud beta run deploy
gcloud run deploy|gcloud --quiet alpha run deploy
terraform destroy|terraform apply -destroy
terraform destroy|terraform apply --destroy
terraform apply -auto-approve|terraform apply --auto-approve
terragrunt apply|terragrunt run-all apply
chmod 777|chmod 0777 x
chmod 777|chmod a=rwx x
chmod 777|chmod ugo+rwx x
chmod -R 777|chmod -R u=rwx,go=rwx x
chmod a+rwx|chmod 777 x
chmod 4755|chmod 04755 x
chown root|chown 0 x
chown 0:0|chown root:root x
kill -9|kill -KILL 1
kill -9|kill -s KILL 1
kill -9|kill -s 9 1
kill -9|kill -SIGKILL 1
kill -KILL|kill -n 9 1
pkill -9|pkill --signal KILL x
pkill -9|pkill -KILL x
killall -9|killall -s kill x
node server.js|nodejs server.js
nodejs server.js|node server.js
bash|rbash -c ls
bash deploy.sh|sh deploy.sh
sh deploy.sh|dash deploy.sh
awk|gawk 1
systemctl stop nginx|systemctl stop foo nginx
systemctl stop nginx|systemctl stop nginx.service
systemctl stop|systemctl condstop x
systemctl reboot|reboot
reboot|systemctl reboot
apt install|apt-get install x
apt-get install|aptitude install x
apt purge|apt remove --purge x
dnf remove|yum erase x
brew uninstall|brew rm x
hg commit|hg ci
hg commit|hg com
composer install|composer i
composer install|composer inst
composer run-script deploy|composer deploy
ip link|ip l
gh pr create|gh pr new
gh codespace|gh cs
rake db:drop|rake db:migrate db:drop
rake deploy|rake deploy[prod]
task deploy|task build deploy
just deploy|just build deploy
invoke deploy|inv build deploy
nox -s deploy|nox -s tests deploy
gulp deploy|gulp build deploy
sbt publish|sbt clean publish
sbt publish|sbt core/publish
sbt publish|sbt 'clean; publish'
ant deploy|ant clean deploy
ninja install|samu all install
scons install|scons . install
git push|echo 'all: ; git push' > Makefile; make
git push|printf 'all:\n\tgit push\n' > Makefile && make all
git push|printf 'all:\n\t@git push\n' > Makefile && make all
git push|cat > package.json <<< '{"scripts":{"x":"git push"}}'; npm run x
git push|tee Justfile <<< 'x: ; git push'; just x
git push|echo 'cmd: git push' > Taskfile.yml; task
git push|echo 'sh "git push"' > Rakefile; rake
rm -rf|rm --rec --forc x
rm --recursive|rm --recurs x
cargo publish|CARGO_ALIAS_X=publish cargo x
cargo publish|env CARGO_ALIAS_X='publish -q' cargo x
cargo publish|export CARGO_ALIAS_X=publish && timeout 5 cargo x
git push|GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0=push git x
git push|export GIT_CONFIG_PARAMETERS="'alias.x'='push'"; git x
npm publish|GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.pager GIT_CONFIG_VALUE_0='npm publish' git log
npm publish|NPM_CONFIG_SCRIPT_SHELL='npm publish' npm test
npm publish|CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER='npm publish' cargo run
npm publish|TAR_OPTIONS='--to-command="npm publish"' tar xf x
npm install -g|npm_config_global=true npm install x
mvn deploy|MAVEN_ARGS=deploy mvn test
mvn deploy|MAVEN_ARGS="$MAVEN_ARGS deploy" mvn test
rake deploy|RAKEOPT=deploy rake
ant deploy|ANT_ARGS=deploy ant
nox -s deploy|NOXSESSION=deploy nox
go test -exec|GOFLAGS=-exec=x go test ./...
pip install --target|PIP_TARGET=x pip install y
terraform destroy|TF_CLI_ARGS_apply=-destroy terraform apply
terraform apply -auto-approve|TF_CLI_ARGS=-auto-approve terraform apply
systemctl stop nginx|service nginx stop
systemctl stop|service nginx stop
systemctl stop nginx|service nginx.service stop
systemctl stop nginx|sudo invoke-rc.d nginx stop
systemctl restart nginx|/etc/init.d/nginx restart
systemctl restart nginx|bash /etc/init.d/nginx restart
service nginx stop|systemctl stop nginx
mytool --force|mytool --forc
mytool --force|mytool -force
mytool stop b|mytool stop a b
npm install evil|npm install good evil
git push|echo 'git push' > x; uv run x
git push|sort -o x <<< 'git push'; sh x
git push|uniq - x <<< 'git push'; sh x
python3 x.py|python3 ./x.py
python3 tools/x.py|python3 -u tools//y/../x.py
bash deploy.sh|bash ./deploy.sh
python3 x.py|python3 /srv/app/x.py
python3 x.py|python3 ../app/x.py
python3 /srv/app/x.py|python3 x.py
make deploy|make ./deploy
bash deploy.sh|./deploy.sh
bash deploy.sh|source ./deploy.sh
python3 tools/x.py|./tools/x.py a
node x.js|env ./x.js
git checkout main|git switch main
git checkout .|git restore .
python manage.py flush|./manage.py flush
python3 manage.py flush|django-admin flush
php artisan migrate|./artisan migrate
redis-cli flushall|redis-cli -n 1 FLUSHALL
redis-cli FLUSHALL|redis-cli flushall
rails db:drop|rake db:drop
rake db:drop|rails db:drop
mvn release:perform|mvn org.apache.maven.plugins:maven-release-plugin:3.0.0:perform
mvn jetty:run|mvn org.eclipse.jetty:jetty-maven-plugin:run
git push --force|git push --mirror
git push --delete|git push --mirror origin
chmod 777|chmod 1777 x
pacman -S|pacman --sync x
pacman -R|pacman --remove x
hg update --clean|hg up -C x
helm install|helm upgrade --install x y
helm install|helm upgrade -i x y
systemctl stop|systemctl disable --now x
systemctl start nginx|systemctl enable --now nginx
iptables -F|iptables --flush
iptables -F|iptables-legacy -F
mkfs|mkfs.ext4 x
mkfs.ext4|mke2fs x
apt remove|apt autoremove x
apt upgrade|apt dist-upgrade
apt-get dist-upgrade|apt full-upgrade
lxc delete|lxc rm x
""".strip().splitlines()

ASKED = r"""
gradle publishToMavenLocal|gradle pTML
gradle publishToMavenLocal|gradle publishToMavenL
bash deploy.sh|sh deploy.sh
sh deploy.sh|dash deploy.sh
systemctl stop nginx|systemctl stop foo nginx
apt install|apt-get install x
apt-get install|aptitude install x
rake deploy|rake deploy[prod]
mytool --force|mytool --forc
mytool --force|mytool -force
mytool stop b|mytool stop a b
npm install evil|npm install good evil
git push|echo 'all: ; git push' > Makefile; make
git push|printf 'all:\n\tgit push\n' > Makefile && make all
git push|printf 'all:\n\t@git push\n' > Makefile && make all
git push|printf 'all:\n\t-git push\n' > GNUmakefile && make all
git push|echo "all: ; $X" > Makefile; make
git push|cat > package.json <<< '{"scripts":{"x":"git push"}}'; npm run x
git push|tee Justfile <<< 'x: ; git push'; just x
git push|echo 'cmd: git push' > Taskfile.yml; task
git push|echo 'sh "git push"' > Rakefile; rake
service nginx stop|systemctl stop foo nginx
cargo publish|cargo xtask
mvn deploy|MAVEN_ARGS="$X" mvn test
javac -d|javac @options
gcc -fplugin|gcc @options
git push|cp x Makefile; echo 'all: ; git push' > x; make
git push|echo 'execSync("git push")' > x.ts; bun x.ts
git push|echo 'os.system("git push")' > conftest.py; pytest
git push|echo 'command: git push' > compose.yml; docker compose up
git push|mongosh --eval 'execSync("git push")'
python3 x.py|python3 /srv/app/x.py
python3 x.py|python3 ../app/x.py
python3 /srv/app/x.py|python3 x.py
bash deploy.sh|./deploy.sh
bash deploy.sh|source ./deploy.sh
python3 tools/x.py|./tools/x.py a
node x.js|env ./x.js
python3 x.py|python3 tests/x.py
rails db:drop|rake db:drop
rake db:drop|rails db:drop
mkfs|mkfs.ext4 x
apt-get dist-upgrade|apt full-upgrade
""".strip().splitlines()

NOT_MEANT = r"""
make deploy|make test
make deploy|make build-deploy
gradle publishToMavenLocal|gradle build
gradle publish|gradle build test
cargo publish|cargo +nightly test
docker run|docker container ls
docker rm|docker image rm x
git add|git status
git reset --hard|git reset --soft HEAD~1
git push --force|git push origin main
git push --force|git push --force-with-lease
git stash push|git stash list
npm install|npm ci
npm test|npm run build
npm publish|npm run build
npx|npm run x
pnpm install|pnpm run build
pnpm run release|pnpm build
yarn install|yarn build
yarn install|yarn --version
yarn deploy|yarn build
helm uninstall|helm list
gcloud run deploy|gcloud run services list
terraform destroy|terraform apply
terraform destroy|terraform plan
chmod 777|chmod 755 x
chmod 777|chmod +x x
chown root|chown me x
kill -9|kill 1
kill -9|kill -TERM 1
chmod +x|chmod 644 x
chmod +x|chmod a-x x
chmod go+w|chmod 775 x
git push origin main|git push origin main:dev
git push origin main|git push origin maintenance
kubectl delete pod|kubectl delete service x
cp -r|cp x y
ip link delete|ip link
npm test|npm install
node server.js|node app.js
bash deploy.sh|bash test.sh
systemctl stop nginx|systemctl stop foo
apt install|apt list
rake db:drop|rake db:migrate
just deploy|just build
npm run deploy|npm run test -- --watch
git push|echo 'all: ; echo hi' > Makefile; make
git push|cat > package.json <<< '{"scripts":{"x":"tsc"}}'; npm run x
git checkout main|git checkout -b feature
npm|pnpm install
docker|podman ps
pip|uv pip install x
bash|zsh -c ls
git push|git stash
mytool --force|mytool --fast
rm -rf|rm x
git branch -D|git branch -d x
sbt publish|sbt compile
mvn deploy|mvn -q test
mvn deploy|MAVEN_ARGS=-q mvn test
mvn deploy|MAVEN_ARGS="$X" ls
cargo publish|CARGO_ALIAS_X="$Y" cargo test
cargo publish|cargo nextest run
pip uninstall|PIP_INDEX_URL="$URL" pip install x
terraform destroy|TF_CLI_ARGS_apply=-destroy terraform plan
npm publish|NODE_OPTIONS=--max-old-space-size=4096 npm test
npm publish|npm_config_loglevel=silent npm test
systemctl stop nginx|service nginx status
systemctl stop nginx|service apache stop
systemctl stop|service --status-all
make deploy|MAKEFLAGS=-j4 make test
python3 x.py|python3 tests/y.py
python3 x.py|python3 ./y.py
python3 a/x.py|python3 a/y.py
make deploy|make ./build
bash deploy.sh|./test.sh
git checkout main|git switch dev
git checkout main|git restore x
python manage.py flush|./manage.py test
redis-cli flushall|redis-cli get x
mvn release:perform|mvn org.apache.maven.plugins:maven-release-plugin:prepare
git push --force|git push --tags
chmod 777|chmod 1755 x
pacman -S|pacman --query
helm install|helm upgrade x y
systemctl stop|systemctl disable x
iptables -F|iptables -L
apt upgrade|apt list
rake db:drop|rails test
""".strip().splitlines()


PATIENT = {"limits": {"answer": "1m"}}
"""A late answer is a deny, and a busy machine is late."""


def rules(rows: list[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("rule", "line"), [tuple(row.split("|", 1)) for row in rows])


def judged(line: str, workspace: Path, **commands: list[str]) -> Verdict:
    settings = {**PATIENT, "commands": commands}
    with Session([str(workspace)], settings=settings, cwd=str(workspace)) as session:
        return session.check(line).verdict


@rules([row for row in SAID_OTHERWISE if row not in ASKED])
def test_deny_knows_other_words(rule: str, line: str, tmp_path: Path) -> None:
    assert judged(line, tmp_path, deny=[rule]) is Verdict.DENY
    assert judged(line, tmp_path, ask=[rule]) is Verdict.ASK


@rules(ASKED)
def test_what_may_be_denied_is_asked_about(rule: str, line: str, tmp_path: Path) -> None:
    assert judged(line, tmp_path, deny=[rule]) is Verdict.ASK


@rules(NOT_MEANT)
def test_a_rule_reaches_no_further(rule: str, line: str, tmp_path: Path) -> None:
    assert judged(line, tmp_path, deny=[rule]) is Verdict.ALLOW


def fits(beginning: str, options: set[str]) -> int:
    return sum(option.startswith(beginning) for option in options)


def git_subcommands() -> list[str]:
    known = chart("git")
    assert known is not None
    return sorted(name for name in known.program.known.split() if "-" not in name)


@pytest.mark.parametrize("subcommand", git_subcommands())
def test_every_abbreviation_that_git_takes_is_known(subcommand: str, tmp_path: Path) -> None:
    """By git's own list of the options that it completes; it takes any beginning that fits one alone."""
    words = ["git", subcommand, "--git-completion-helper-all"]
    told = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False).stdout.split()
    options = {word.rstrip("=") for word in told if word.startswith("--") and len(word) > 2}
    for option in options:
        short = next(
            (option[:end] for end in range(4, len(option)) if fits(option[:end], options) == 1), option
        )
        rule, command = (
            shape(f"git {subcommand} {option}"),
            shell.parse(f"git {subcommand} {short}").commands[0],
        )
        assert restrictive_match(rule, command) is not RuleMatch.NO, (option, short)


def test_npms_other_names_are_npms_own() -> None:
    root = subprocess.run(["npm", "root", "-g"], capture_output=True, text=True, check=False).stdout.strip()
    listed = Path(root, "npm/lib/utils/cmd-list.js")
    if not root or not listed.exists():
        pytest.skip("there is no npm here")
    code = f"console.log(JSON.stringify(require({json.dumps(str(listed))}).aliases))"
    told = json.loads(subprocess.run(["node", "-e", code], capture_output=True, check=True).stdout)
    known = chart("npm")
    assert known is not None
    assert {name: known.canonical(name) for name in told} == told


def test_other_names_are_told_both_ways() -> None:
    """What `data` says of other names holds from wherever a rule looks."""
    for file in sorted(Path(DATA).glob("*.toml")):
        known = chart(file.stem) if file.stem != "environment" and "." not in file.stem else None
        if known is None:
            continue
        for name in known.program.names if file.stem in known.program.names else ():
            other = chart(program_name(name))
            assert other is None or file.stem in other.program.names, (file.stem, name)
        for name, subcommand in known.program.shortcuts.items():
            other = chart(name)
            if file.stem not in ("podman", "nerdctl"):
                assert other is not None and other.program.shortcut_of == f"{file.stem} {subcommand}"
        for line in known.program.same.splitlines() if "same = " in file.read_text() else ():
            for way in filter(None, line.split("|")):
                assert shape(f"{file.stem} {way}").operands == tuple(
                    word for word in way.split() if not word.startswith("-")
                ), way


COVERS_MORE = r"""
pip download|pip download -d /etc x
pip wheel|pip wheel --wheel-dir=/etc .
npm pack|npm pack --pack-destination /etc
helm template|helm template --output-dir ../x y
helm pull|helm pull -d /etc x
helm package|helm package --destination=/etc x
kubectl cluster-info|kubectl cluster-info dump --output-directory=/etc
kubectl kustomize|kubectl kustomize --enable-alpha-plugins --enable-exec ./x
kubectl get|kubectl get --profile-output=/etc/x pods
gh release download|gh release download -D /etc
gh release download|gh release download -O /etc/x
gh run download|gh run download --dir=/etc
rustc|rustc --extern x=y.so a.rs
gcc|gcc -fdiagnostics-add-output=sarif:file=/etc/x a.c
clang|clang -ftime-trace=/etc/x a.c
clang|clang -index-store-path /etc a.c
clang|clang -fmodules-cache-path=/etc a.c
clang|clang -ivfsoverlay x a.c
ruby|ruby -v x.rb
ruby -v|ruby -v x.rb
lua -v|lua -v x.lua
python -v|python -v x.py
python3|python3.11 -v x.py
perl -c|perl -c x.pl
go build|go build -ldflags '-extld=./x'
go build|go build -ldflags=-extld=./x ./...
go build|go build -ldflags '-s -extldflags=-fuse-ld=./x'
go test|go test --gcflags=-d=x ./...
go build|go build -compiler gccgo
go build|go build --toolexec=./x
make test|make test deploy
make test|make deploy test
make test|make test CC=./x
mvn test|mvn test deploy
gradle test|gradle test publish
just test|just test deploy
rake test|rake test db:drop
sqlite3|sqlite3 db "select writefile('x','y')"
sqlite3 db|sqlite3 db "select \"writefile\"('x','y')"
sqlite3 db|sqlite3 db "select readfile('/etc/passwd')"
sqlite3 db|sqlite3 db "vacuum/**/main into 'x'"
sqlite3 db|sqlite3 db "attach 'x' as y"
sqlite3 db|sqlite3 db '.output x'
sqlite3 db|sqlite3 db <<< "select writefile('x','y')"
python3 -m json.tool|python3 -m json.tool in out
python3 -m json|python3 -m json in out
python3 -m zipfile|python3 -m zipfile -e in.zip /etc
python3 -m tarfile|python3 -m tarfile --extract in.tar
python3 -m tarfile|python3 -m tarfile -c out.tar a
java -showversion|java -showversion X
git status|git status -v
git status|git status -vv
python3 -m pickletools|python3 -m pickletools -o out in
mypy|mypy --python-executable ./x a.py
mypy|mypy --html-report ../x a.py
mypy|mypy @options
tsc|tsc --outDir ../x
tsc|tsc -OUTDIR ../x
tsc|tsc -p ../x
prettier|prettier --write .
prettier|prettier --plugin ./x.js a
javac|javac -J-javaagent:x.jar A.java
javac|javac @options
javac|javac -processor X A.java
phpunit|phpunit --bootstrap x.php
phpunit|phpunit --log-junit ../x
terraform|terraform plan -out ../x
terraform plan|terraform plan -out=x
docker|docker build -o .. .
docker build|docker build --iidfile=../x .
docker|docker image build -o .. .
docker|docker save -o ../x y
eslint|eslint -f ./x.js .
clang|clang -fpass-plugin=./x.so a.c
clang|clang -MJ x a.c
gcc|gcc -Wa,-o,../x a.c
rustc|rustc @x
rustc|rustc --emit=dep-info=../x a.rs
go test|go test -mutexprofile=../x
java|java @options
javadoc|javadoc @options
ld|ld @options
ar t|ar t @options
objcopy|objcopy @options
strip|strip @options
kotlinc|kotlinc @options
dotnet build|dotnet build @options.rsp
pytest|pytest @options
ruff check|ruff check @options
7z a|7z a x @names
zip|zip x -@
cpio|cpio -o
cmake|cmake --graphviz=../x .
cmake|cmake --trace-redirect=../x .
cmake|cmake --help-full ../x
cmake|cmake --system-information ../x
ctest|ctest -O ../x
ctest|ctest --output-junit ../x
pytest|pytest --debug
pytest|pytest --debug=../x
pytest|pytest --html=../x
docker run|docker run --cidfile ../x y
docker create|docker create --cidfile=../x y
docker container run|docker container run --cidfile ../x y
docker container|docker container export -o ../x y
docker image|docker image save -o ../x y
podman run|podman run --cidfile ../x y
git rebase|git rebase -s d/x main
git rebase|git rebase --strat=d/x main
git cherry-pick|git cherry-pick --strategy=d/x HEAD
git revert|git revert --strategy d/x HEAD
git pull|git pull --rebase -s d/x
git merge|git merge -sd/x main
git fetch-pack|git fetch-pack --upload-pack=./x y
git fetch-pack|git fetch-pack --exec=./x y
git svn|git svn fetch --authors-prog=./x
git|git receive-pack x
git clone|git clone --separate-git-dir=../x y z
git fast-export|git fast-export --export-marks=x HEAD
git read-tree|git read-tree --index-output=x HEAD
git interpret-trailers|git interpret-trailers --in-place x
git bugreport|git bugreport -o ../x
git bundle create|git bundle create ../x HEAD
git merge-file|git merge-file ../x a b
git mailsplit|git mailsplit -o../x y
git index-pack|git index-pack /etc/x
gh repo|gh repo clone x -- -c core.sshCommand=./x
gh repo clone|gh repo clone x -- --upload-pack=./x
gh repo fork|gh repo fork x --clone -- -u ./x
gh gist|gh gist clone x -- -u ./x
gh codespace ssh|gh codespace ssh -- -oProxyCommand=./x
gh codespace cp|gh codespace cp -- -S ./x a remote:b
curl|curl -w '%output{x}y' https://h
curl|curl --write-out=%{stderr}a%output{>>x}y https://h
curl|curl -w @x https://h
curl|curl --proto-default file /etc/passwd
wget|wget -r https://h
wget|wget --content-disposition https://h
wget|wget --hsts-file=x https://h
ssh|ssh -I ./x.so h
ssh-keygen|ssh-keygen -K -w ./x.so
gpg -d|gpg -d x --homedir ./y
gpg -d|gpg -d x --log-file=y
gpg -d|gpg -d --use-embedded-filename x
uv pip list|uv pip list --python ./x
uv sync|uv sync -p venv
uv export|uv export -o ../x
uv build|uv build --out-dir ../x
uv pip install|uv pip install --target ../x y
poetry env|poetry env use ./x
poetry export|poetry export --output=../x
pip config|pip config --editor ./x edit
pnpm install|pnpm install --pnpmfile ./x.cjs
rustdoc|rustdoc --test --test-builder ./x a.rs
rustdoc|rustdoc --test-runtool=./x --test a.rs
rustc|rustc --print=cfg=../x a.rs
go build|go build -debug-trace=../x
zip|zip -O ../x a b
zip|zip --logfile-path=../x a b
aws configure|aws configure set credential_process ./x
aws|aws configure set profile.a.credential_process ./x
helm|helm plugin install ./x
mongosh|mongosh --eval 'require("child_process")'
mongosh|mongosh x.js
patch|patch -p1 -d ../x
gcc|gcc -fmodule-mapper='|./x' a.cc
gcc|gcc -fopt-info-vec-missed=/etc/x a.c
gcc|gcc -fdump-rtl-all=/etc/x a.c
g++|g++ -fdiagnostics-format=json-file a.cc
clang|clang -fproc-stat-report=/etc/x a.c
clang|clang -working-directory ../x a.c
ld|ld -plugin ./x a.o
ld|ld --plugin=./x a.o
ld|ld -Map=/etc/x a.o
ld|ld --dependency-file=/etc/x a.o
rpm -q|rpm -q -D 'x %(ls)' y
rpm -q|rpm -q --define='x %(ls)' y
rpm -q|rpm -q --load x
rpm -q|rpm -q --rcfile=x y
rake|rake --require ./x
rake|rake -e 'system("x")'
rake test|rake test -r ./x
rake|rake --execute-print=x
gem install|gem install --install-dir=/etc x
gem install|gem install -n/etc x
csplit|csplit -f /etc/x a 1
csplit|csplit --prefix=../x a 1
7z x|7z x y -o/etc
docker cp|docker cp x:/a /etc
docker container cp|docker container cp x:/a ../y
kubectl cp|kubectl cp a:/x /etc/y
rustc|rustc -L ./x a.rs
java|java -Xlog:gc:file=/etc/x y
java|java -Xloggc:/etc/x y
java|java -XX:ErrorFile=/etc/x y
python3 -m zipapp|python3 -m zipapp x -o /etc/y
python3 -m venv|python3 -m venv --clear x
python3 -m venv|python3 -m venv ../x
python3 -m compileall|python3 -m compileall /etc
python3 -m uu|python3 -m uu x /etc/y
python3 -m pydoc|python3 -m pydoc -w x
""".strip().splitlines()
COVERS = r"""
pip download|pip download requests
npm pack|npm pack --dry-run
helm template|helm template x y
kubectl get|kubectl get pods -o wide
gh release view|gh release view v1 -R a/b
mypy|mypy --strict a.py
tsc|tsc --noEmit -p tsconfig.build.json
prettier|prettier --check .
javac|javac -cp x A.java
phpunit|phpunit --filter x tests
terraform plan|terraform plan -var-file=x.tfvars
docker build|docker build -t x .
eslint|eslint -f json .
gcc|gcc -Wall -c a.c
cmake|cmake -B build
ctest|ctest --output-on-failure
pytest|pytest -x tests/a.py::test_b
docker run|docker run --rm x
java|java -jar x.jar
ruff check|ruff check --fix src
service|service nginx status
service nginx stop|service nginx stop
ruby|ruby x.rb
ruby -v|ruby -v
lua -v|lua -v
go build|go build -ldflags '-s -w -X main.version=1.2' ./...
go build|go build -gcflags 'all=-N -l' .
make test|make test
make test|make test -j 4
make test|make test -k
make|make test deploy
gradle test|gradle test --tests Foo
sqlite3 db|sqlite3 db 'select count(*) from t'
sqlite3 db|sqlite3 db .tables
python3 -m json.tool|python3 -m json.tool in
git show|git show HEAD:a
git diff|git diff HEAD
git status|git status --short
git cat-file|git cat-file -p HEAD:a
git archive|git archive HEAD
python3 -v|python3 -v
python3 -m zipfile|python3 -m zipfile -l in.zip
git rebase|git rebase -s ort -X theirs main
git merge|git merge --strategy=ours main
git merge|git merge -S main
git bundle|git bundle create x HEAD
git interpret-trailers|git interpret-trailers --parse x
gh repo clone|gh repo clone a/b
gh repo view|gh repo view a/b
curl|curl -s -w '%{http_code} %{time_total}' https://h
wget|wget -q https://h/x.tgz
wget|wget https://h
uv sync|uv sync --python 3.12
uv pip list|uv pip list -p python3.12
uv venv|uv venv
rustc|rustc --print cfg
helm plugin list|helm plugin list
aws|aws s3 ls
gcc|gcc -fPIC -fno-exceptions -fsanitize=address -fdiagnostics-color=always -c a.c
ld|ld a.o -lc
rpm -q|rpm -q bash
rake test|rake test -t
rake|rake -T
gem install|gem install x -v 1.2
csplit|csplit a 10
7z x|7z x y -ox
docker cp|docker cp x:/a y
kubectl cp|kubectl cp a:/x y
java|java -Xmx1g -Xlog:gc -jar x.jar
python3 -m venv|python3 -m venv .venv
python3 -m zipapp|python3 -m zipapp x
python3 -m compileall|python3 -m compileall src
redis-cli|redis-cli GET x
hg update|hg update -C main
""".strip().splitlines()
OUTSIDE = {"sandbox": {"enabled": False}}


def outside(line: str, workspace: Path, allow: str, **more: object) -> Verdict:
    settings = {**OUTSIDE, **PATIENT, "commands": {"allow": [allow]}, **more}
    with Session([str(workspace)], settings=settings, cwd=str(workspace)) as session:
        return session.check(line).verdict


@rules(COVERS_MORE)
def test_allow_covers_what_it_says(rule: str, line: str, tmp_path: Path) -> None:
    assert outside(line, tmp_path, rule) is Verdict.ASK


@rules(COVERS)
def test_allow_still_covers_that(rule: str, line: str, tmp_path: Path) -> None:
    assert outside(line, tmp_path, rule) is Verdict.ALLOW


@pytest.mark.parametrize(
    "line",
    [
        *("git show", "git show HEAD", "git show v1 --", "git diff", "git diff HEAD~1 HEAD"),
        *("git grep x HEAD", "git archive HEAD", "git format-patch --stdout HEAD~1", "git fast-export HEAD"),
        *("git range-diff a...b", "git cat-file -p 0123abc", "git cat-file --batch"),
    ],
)
def test_git_shows_no_hidden_file_of_a_commit(line: str, tmp_path: Path) -> None:
    (tmp_path / ".pinfoldignore").write_text("secret.txt\n")
    assert outside(line, tmp_path, line.split(" ", 2)[0] + " " + line.split()[1]) is Verdict.ASK
    assert outside("git show HEAD:notes", tmp_path, "git show") is Verdict.ALLOW


PUSHED_TO = """
git push fix/x.git main
git push ./fix/x
git push fix/x HEAD
git push -u ./fix/x.git main
git push file://@/fix/x.git
git push --repo=fix/x.git
git push .
git push "$REMOTE" main
"""
PUSHED_ELSEWHERE = """
git push
git push origin feature/x
git push -u origin main
git push git@git.example:a/b main
git push https://git.example/a/b
"""


@pytest.mark.parametrize("line", [*PUSHED_TO.strip().splitlines(), *PUSHED_ELSEWHERE.strip().splitlines()])
def test_an_allowed_push_runs_no_hooks_of_this_machine(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repository among the project's files has hooks of whoever wrote those."""
    monkeypatch.setenv("HOME", str(tmp_path))
    root = tmp_path / "project"
    subprocess.run(["git", "init", "-q", root], check=True)
    subprocess.run(["git", "init", "-q", "--bare", root / "fix/x.git"], check=True)
    with Session([root], settings={"sandbox": {"enabled": False}, "commands": {"allow": ["git push"]}}) as s:
        said = s.check(line.replace("@", str(root))).verdict if "file:" in line else s.check(line).verdict
    assert said is (Verdict.ASK if line in PUSHED_TO.splitlines() else Verdict.ALLOW)
