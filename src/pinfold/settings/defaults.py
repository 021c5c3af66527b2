"""The lowest layer: each key's default, and the lists that pinfold ships.

The lists are Python, unlike the users' files, because every start reads them and a marshalled tuple is read a
hundred times faster than TOML. The layer is made once in a process. Its values have no file and line; people
read their origin as `default`.
"""

from functools import cache

from pinfold.settings.keys import TABLE
from pinfold.settings.parse_layer import SettingsLayer, read_layer
from pinfold.settings.toml import Document

# What a server configures elsewhere. A managed file that sets one of these two lists replaces it.

# Programs that only read. A flag that makes one of them run or write something is known to `shell`,
# and takes the command out of this list again (`find -exec`, `sort -o`, `git -c core.pager=`).
# fmt: off
SAFE = (
    # listing and reading
    "ls", "cat", "head", "tail", "tree", "stat", "file", "du", "df", "od", "hexdump", "strings",
    # searching
    "grep", "egrep", "fgrep", "rg", "find", "fd",
    # reshaping text
    "wc", "sort", "uniq", "cut", "tr", "nl", "tac", "rev", "fold", "fmt", "pr", "column", "paste", "join",
    "comm", "expand", "unexpand", "sed -n",
    # comparing and summing
    "cmp", "diff", "md5sum", "sha1sum", "sha256sum", "b2sum", "cksum",
    # the shell's own
    "pwd", "cd", "pushd", "popd", "dirs", "echo", "printf", "true", "false", ":", "test", "[", "type",
    # names and paths
    "basename", "dirname", "realpath", "readlink", "which",
    # this machine
    "seq", "sleep", "date", "whoami", "id", "groups", "uname", "uptime", "free", "nproc", "arch", "tty",
    # git, where it only looks
    "git status", "git log", "git diff", "git show", "git blame", "git rev-parse", "git ls-files",
    "git describe", "git shortlog", "git rev-list", "git merge-base", "git ls-tree",
)

# Programs whose first argument says what they do.
COMPOSITE = (
    "git", "gh", "glab", "hg", "jj", "svn",
    "npm", "npx", "pnpm", "yarn", "bun", "deno", "nx", "turbo",
    "pip", "pipx", "uv", "poetry", "pdm", "hatch", "conda",
    "cargo", "rustup", "go", "dotnet", "swift", "mix", "bundle", "gem", "rails", "rake", "composer", "php",
    "make", "just", "gradle", "./gradlew", "mvn", "bazel", "cmake", "meson", "ninja",
    "docker", "podman", "docker-compose", "kubectl", "helm", "kustomize", "minikube",
    "terraform", "tofu", "pulumi", "ansible", "vagrant",
    "aws", "gcloud", "az", "heroku", "fly", "vercel", "netlify", "wrangler", "firebase",
    "systemctl", "journalctl", "brew", "apt", "apt-get", "dnf", "pacman", "nix",
    "python -m", "python3 -m",
)

LISTS = {"commands.safe": SAFE, "commands.composite": COMPOSITE}

# What programs keep by themselves of what a person does; one that cannot does its work all the same.
HISTORIES = (
    ("~/.bash_history", "what was typed, passwords included"),
    ("~/.zsh_history", "what was typed, passwords included"),
    ("~/.zhistory", "what was typed, passwords included"),
    ("~/.histfile", "what was typed, passwords included"),
    ("~/.local/share/fish/fish_history", "what was typed, passwords included"),
    ("~/.local/share/atuin", "what was typed, passwords included"),
    ("~/.python_history", "what was typed"),
    ("~/.node_repl_history", "what was typed"),
    ("~/.psql_history", "what was typed"),
    ("~/.mysql_history", "what was typed"),
    ("~/.sqlite_history", "what was typed"),
    ("~/.rediscli_history", "what was typed"),
    ("~/.irb_history", "what was typed"),
    ("~/.lesshst", "what was searched for"),
    ("~/.viminfo", "what was edited"),
)

# Paths hidden from every command unless `filesystem.read` or `filesystem.write` names them exactly, and why.
SECRETS = (
    # keys and passwords
    ("~/.ssh", "private keys and known hosts"),
    ("~/.gnupg", "private keys"),
    ("~/.password-store", "passwords"),
    ("~/.netrc", "passwords of hosts"),
    ("~/.authinfo", "passwords of hosts"),
    ("~/.authinfo.gpg", "passwords of hosts"),
    ("~/.local/share/keyrings", "the desktop's keyring"),
    ("~/.local/share/kwalletd", "the desktop's wallet"),
    ("~/.config/op", "1Password"),
    ("~/.op", "1Password"),
    ("~/.config/1Password", "1Password"),
    ("~/.config/Bitwarden", "Bitwarden"),
    ("~/.config/Bitwarden CLI", "Bitwarden"),
    ("~/.config/keepassxc", "KeePassXC"),
    ("~/.config/sops", "age keys of sops"),
    ("~/.config/age", "age keys"),
    ("~/.pki", "certificates and their keys"),
    ("~/.Xauthority", "the key to the desktop"),
    ("~/.ICEauthority", "the key to the desktop"),
    ("~/Library/Keychains", "the keychain"),
    # clouds
    ("~/.aws", "AWS credentials"),
    ("~/.config/gcloud", "Google Cloud credentials"),
    ("~/.boto", "Google Cloud credentials"),
    ("~/.azure", "Azure credentials"),
    ("~/.oci", "Oracle Cloud credentials"),
    ("~/.config/doctl", "DigitalOcean token"),
    ("~/.config/hcloud", "Hetzner token"),
    ("~/.config/linode-cli", "Linode token"),
    ("~/.fly", "Fly.io token"),
    ("~/.config/heroku", "Heroku token"),
    ("~/.local/share/heroku", "Heroku token"),
    ("~/.config/netlify", "Netlify token"),
    ("~/.local/share/com.vercel.cli", "Vercel token"),
    ("~/.config/.wrangler", "Cloudflare token"),
    ("~/.wrangler", "Cloudflare token"),
    ("~/.config/rclone", "storage credentials"),
    ("~/.s3cfg", "storage credentials"),
    ("~/.mc", "storage credentials"),
    # clusters and containers
    ("~/.kube", "cluster credentials"),
    ("~/.docker", "registry credentials"),
    ("~/.config/containers/auth.json", "registry credentials"),
    ("~/.config/helm/registry", "registry credentials"),
    ("~/.terraform.d", "Terraform credentials"),
    ("~/.terraformrc", "Terraform credentials"),
    ("~/.pulumi", "Pulumi credentials"),
    ("~/.vault-token", "Vault token"),
    ("~/.config/vault", "Vault token"),
    ("~/.ansible/galaxy_token", "Ansible token"),
    ("~/.vagrant.d/insecure_private_keys", "private keys"),
    # code hosts
    ("~/.git-credentials", "git passwords"),
    ("~/.config/git/credentials", "git passwords"),
    ("~/.config/gh", "GitHub token"),
    ("~/.config/hub", "GitHub token"),
    ("~/.config/glab-cli", "GitLab token"),
    ("~/.subversion/auth", "Subversion passwords"),
    # package registries
    ("~/.npmrc", "npm token"),
    ("~/.config/configstore", "tokens of npm programs"),
    ("~/.pypirc", "PyPI token"),
    ("~/.config/pypoetry/auth.toml", "PyPI token"),
    ("~/.local/share/uv/credentials", "PyPI token"),
    ("~/.continuum", "conda token"),
    ("~/.cargo/credentials", "crates.io token"),
    ("~/.cargo/credentials.toml", "crates.io token"),
    ("~/.gem/credentials", "RubyGems token"),
    ("~/.local/share/gem/credentials", "RubyGems token"),
    ("~/.bundle/config", "gem server passwords"),
    ("~/.composer/auth.json", "Composer token"),
    ("~/.config/composer/auth.json", "Composer token"),
    ("~/.m2/settings.xml", "Maven passwords"),
    ("~/.m2/settings-security.xml", "Maven passwords"),
    ("~/.gradle/gradle.properties", "Gradle passwords"),
    ("~/.nuget/NuGet/NuGet.Config", "NuGet passwords"),
    ("~/.config/NuGet/NuGet.Config", "NuGet passwords"),
    ("~/.hex", "Hex token"),
    ("~/.huggingface", "Hugging Face token"),
    ("~/.cache/huggingface/token", "Hugging Face token"),
    ("~/.kaggle", "Kaggle token"),
    # databases and mail
    ("~/.pgpass", "PostgreSQL passwords"),
    ("~/.pg_service.conf", "PostgreSQL passwords"),
    ("~/.my.cnf", "MySQL passwords"),
    ("~/.mylogin.cnf", "MySQL passwords"),
    ("~/.mongorc.js", "MongoDB passwords"),
    ("~/.msmtprc", "mail passwords"),
    ("~/.mbsyncrc", "mail passwords"),
    ("~/.fetchmailrc", "mail passwords"),
    ("~/.thunderbird", "mail and its passwords"),
    # browsers and what people write in
    ("~/.mozilla", "browser profile"),
    ("~/.config/google-chrome", "browser profile"),
    ("~/.config/google-chrome-beta", "browser profile"),
    ("~/.config/chromium", "browser profile"),
    ("~/.config/BraveSoftware", "browser profile"),
    ("~/.config/microsoft-edge", "browser profile"),
    ("~/.config/vivaldi", "browser profile"),
    ("~/.config/opera", "browser profile"),
    ("~/.librewolf", "browser profile"),
    ("~/snap/firefox", "browser profile"),
    ("~/snap/chromium", "browser profile"),
    ("~/.var/app", "data of desktop programs"),
    ("~/.config/Slack", "messages and their session"),
    ("~/.config/discord", "messages and their session"),
    ("~/.config/Signal", "messages"),
    ("~/Library/Application Support/Google/Chrome", "browser profile"),
    ("~/Library/Application Support/Firefox", "browser profile"),
    ("~/Library/Cookies", "browser sessions"),
    *HISTORIES,
    # agents, pinfold among them
    ("~/.claude", "an agent's credentials and settings"),
    ("~/.claude.json", "an agent's credentials and settings"),
    ("~/.codex", "an agent's credentials and settings"),
    ("~/.cursor", "an agent's credentials and settings"),
    ("~/.config/cursor", "an agent's credentials and settings"),
    ("~/.config/Cursor", "an agent's credentials and settings"),
    ("~/.gemini", "an agent's credentials and settings"),
    ("~/.config/github-copilot", "an agent's credentials and settings"),
    ("~/.copilot", "an agent's credentials and settings"),
    ("~/.qwen", "an agent's credentials and settings"),
    ("~/.codeium", "an agent's credentials and settings"),
    ("~/.config/opencode", "an agent's credentials and settings"),
    ("~/.local/share/opencode", "an agent's credentials and settings"),
    ("~/.pi/agent", "an agent's credentials and settings"),
    ("~/.factory", "an agent's credentials and settings"),
    ("~/.augment", "an agent's credentials and settings"),
    ("~/.aider.conf.yml", "an agent's credentials and settings"),
    ("~/.config/goose", "an agent's credentials and settings"),
    ("~/.config/pinfold", "pinfold's own settings"),
    ("~/.local/state/pinfold", "pinfold's approvals and journal"),
)

# What agents need of their own directories, which commands may read though the rest is hidden: instructions,
# skills, plugins, plans, memory and kept outputs; of outputs those of the conversation's projects alone.
NEEDED = {
    "~/.claude": (
        "CLAUDE.md", "rules", "skills", "agents", "commands", "output-styles", "plugins/cache",
        "plugins/marketplaces", "plans", "agent-memory", "projects/*/memory",
        "projects/{path}*/*/tool-results",
    ),
    "~/.codex": (
        "AGENTS.md", "AGENTS.override.md", "rules", "skills", "prompts", "plugins/cache", "memories",
        "generated_images",
    ),
    "~/.gemini": (
        "GEMINI.md", "skills", "agents", "commands", "tmp/*/memory", "tmp/*/plans", "tmp/*/*/plans",
        "tmp/{name}*/tool-outputs",
    ),
    "~/.copilot": ("copilot-instructions.md", "skills", "agents", "installed-plugins"),
    "~/.config/opencode": ("AGENTS.md", "skills", "skill", "agents", "agent", "commands", "command"),
    "~/.local/share/opencode": ("plans", "tool-output"),
    "~/.pi/agent": ("AGENTS.md", "CLAUDE.md", "SYSTEM.md", "skills", "prompts"),
    "~/.factory": ("AGENTS.md", "skills", "commands", "droids", "specs"),
    "~/.augment": ("rules", "skills", "commands", "agents"),
    "~/.qwen": ("QWEN.md", "skills", "agents", "commands", "extensions"),
}
# Variables that name another place for one of these directories, or for what it lies in.
MOVED = {
    "CLAUDE_CONFIG_DIR": ("", "~/.claude"),
    "CODEX_HOME": ("", "~/.codex"),
    "GEMINI_CLI_HOME": (".gemini", "~/.gemini"),
    "COPILOT_HOME": ("", "~/.copilot"),
    "PI_CODING_AGENT_DIR": ("", "~/.pi/agent"),
    "FACTORY_HOME_OVERRIDE": (".factory", "~/.factory"),
    "QWEN_HOME": ("", "~/.qwen"),
}
# Where in them each agent's own file tools may write, after the agent's own rules: its plans and memory.
WRITTEN_BY = {
    "claude-code": ("~/.claude", ("plans", "agent-memory", "projects/*/memory")),
    "codex": ("~/.codex", ("memories",)),
    "gemini": ("~/.gemini", ("tmp/*/memory", "tmp/*/plans", "tmp/*/*/plans")),
}
# fmt: on


@cache
def default_layer() -> SettingsLayer:
    return read_layer(Document("default", "", "", default_data()))


def default_data() -> dict[str, object]:
    """The whole file as it would be written out, every key at its default."""
    data: dict[str, object] = {}
    for key in TABLE:
        section, _, name = key.name.rpartition(".")
        place = data.setdefault(section, {}) if section else data
        assert isinstance(place, dict)  # noqa: S101 - a section is never also a key
        place[name] = key.default
    commands = data["commands"]
    assert isinstance(commands, dict)  # noqa: S101
    commands |= {"safe": list(SAFE), "composite": list(COMPOSITE)}
    return data
