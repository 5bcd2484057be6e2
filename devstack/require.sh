#!/bin/sh
# Checks before anything is installed that this machine has make, Python and Java. If not, says in one line what to do.
# With the argument `python`, Java is not checked: only the local stack, tests and benchmarks need it.
# Prints the command of the Python to use: $PYTHON if it is set, else the first usable of python3.11, python3.12, python3.
set -eu

JAVA_AT_LEAST=17

fail() {
    echo "setup: $1" >&2
    exit 1
}

is_usable_python() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))' >/dev/null 2>&1
}

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        is_usable_python "$PYTHON" ||
            fail "Python 3.11 or 3.12 with venv is needed, and PYTHON=[$PYTHON] is not one: set PYTHON to one, or unset it."
        echo "$PYTHON"
        return
    fi
    for candidate in python3.11 python3.12 python3; do
        if is_usable_python "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    fail "Python 3.11 or 3.12 with venv is missing: install one (Debian: python3.11 python3.11-venv; macOS: brew install python@3.11)."
}

check_java() {
    java=java
    if [ -n "${JAVA_HOME:-}" ]; then
        java="$JAVA_HOME/bin/java"
    fi
    hint="install a JDK or JRE $JAVA_AT_LEAST (Debian: openjdk-17-jre-headless; macOS: brew install openjdk@17) or set JAVA_HOME."
    # Without a JDK, macOS has a `java` that fails with a message.
    said=$("$java" -version 2>&1) || fail "Java $JAVA_AT_LEAST or newer is missing ([$java] does not run): $hint"
    major=$(printf '%s\n' "$said" | sed -n 's/.*version "\([0-9]*\)\.*\([0-9]*\).*/\1/p' | head -n 1)
    [ "${major:-0}" -ge "$JAVA_AT_LEAST" ] ||
        fail "Java $JAVA_AT_LEAST or newer is needed, found [${major:-unknown}] at [$java]: $hint"
}

command -v make >/dev/null 2>&1 || fail "make is missing: install it (Debian: make; macOS: xcode-select --install)."
python=$(find_python)
[ "${1:-}" = python ] || check_java
echo "$python"
