#!/bin/sh
# The command `pinfold`. It starts the Python of the environment that it lies in, isolated (-I): neither the working
# directory nor a variable says what is loaded. No program is looked for in PATH.

stop() {
    printf 'pinfold: %s\n' "$2" >&2
    [ "$1" != hook ] || exit 2 # agents take any other failure for a yes
    exit 125
}

main='from pinfold.cli import entry; entry()'
self=$0
case $self in
*/*) ;;
*) self=./$self ;;
esac
[ ! -h "$self" ] || self=$(command -p readlink -f -- "$self")
here=${self%/*}

if [ -f "$here/../pyvenv.cfg" ]; then
    [ -x "$here/python" ] || stop "${1-}" "$here/python cannot be run; install pinfold again"
    # The user's service runs a command sooner than we could: a client without site and packages asks it.
    for client in "$here"/../lib/python3*/site-packages/pinfold/integrations/hooks/start.py; do
        [ "${1-}" != run ] || [ ! -f "$client" ] || exec "$here/python" -I -S "$client" --pinfold "$@"
    done
    exec "$here/python" -I -c "$main" "$@"
fi

# No virtual environment: the packages beside it, by the Python that they were installed for.
here=$(CDPATH='' cd -- "$here" && pwd -P)
add='import sys; sys.path.append(sys.argv.pop(1))'
for packages in "$here"/../lib/python3*/site-packages "$here"/../lib/python3*/dist-packages; do
    [ -f "$packages/pinfold/cli/__init__.py" ] || continue
    name=${packages#"$here/../lib/"}
    name=${name%%/*}
    for python in "$here/$name" "/usr/local/bin/$name" "/usr/bin/$name"; do
        [ ! -x "$python" ] || exec "$python" -I -c "$add; $main" "$packages" "$@"
    done
done
for python in "$here/python3" /usr/local/bin/python3 /usr/bin/python3; do
    [ -x "$python" ] && "$python" -I -c 'import pinfold' 2>/dev/null || continue
    exec "$python" -I -c "$main" "$@"
done
stop "${1-}" "no Python has the package that belongs to $self; install pinfold again: pipx install pinfold"
