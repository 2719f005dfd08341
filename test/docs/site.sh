# The site can be built, every link of it leads somewhere, and a link that does not is found.
# Usage: site.sh TUTTI SOURCE
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$2/tools/check-links" || exit 1
# A copy of the documents with a link to nowhere must be objected to.
mkdir -p "$work/tree/tools"
cp "$2/tools/check-links" "$work/tree/tools"
cp -R "$2/docs" "$2"/*.md "$work/tree"
mkdir -p "$work/tree/examples" && cp "$2"/examples/* "$work/tree/examples"
echo '[gone](nowhere.md)' >>"$work/tree/docs/index.md"
"$work/tree/tools/check-links" >"$work/said" && { echo "FAILED: a link to nowhere was not found"; exit 1; }
grep -q 'docs/index.md: nowhere.md is not there' "$work/said" || { echo "FAILED: $(cat "$work/said")"; exit 1; }
command -v mkdocs >/dev/null || { echo "skipped: mkdocs is not installed"; exit 0; }
"$2/tools/docs" "$1" "$work/site"
