# A program as a user meets it: exit codes, one-line errors, files. For test_cli.sh of a chapter.
set -u
failures=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# expect CODE TEXT COMMAND…: exit code, and a text that the output must hold. Exit code 2 must come
# with exactly one line on stderr, starting with "error: ".
expect() {
  code=$1 text=$2
  shift 2
  "$@" >"$scratch/out" 2>"$scratch/err"
  got=$?
  if [ $got -ne "$code" ]; then
    echo "FAIL: exit $got, expected $code: $*"; failures=$((failures + 1))
  fi
  if ! grep -qF -- "$text" "$scratch/out" "$scratch/err"; then
    echo "FAIL: no '$text' in the output of: $*"; failures=$((failures + 1))
  fi
  if [ "$code" -eq 2 ]; then
    lines=$(wc -l <"$scratch/err")
    if [ "$lines" -ne 1 ] || ! grep -q '^error: ' "$scratch/err"; then
      echo "FAIL: not one line 'error: …' on stderr: $*"; failures=$((failures + 1))
    fi
  fi
}
