#!/usr/bin/env bash
# make install and make uninstall: what is installed works from there, and uninstalling leaves what stood there before, nothing more, nothing less.
. "$(dirname "$0")/lib.sh"
build=$(dirname "$tutti")
prefix="$work/a prefix"
mkdir -p "$prefix/share/man/man5"
echo theirs >"$prefix/share/man/man5/other.5"
list() { (cd "$prefix" && find . -printf '%p %y\n' | sort); }
list >before
"$source_dir/tools/install" "$build" "$prefix" >out 2>err || bad "install: $(cat err)"
says "not in PATH"
says " and $(($(find "$prefix" ! -type d | wc -l) - 2)) more files below " # but for the tool and other.5
answer=$(env -i PATH=/usr/bin:/bin "$prefix/bin/tutti" topo ring:5 --json) || bad "the installed tool does not run"
case $answer in *'"ranks":5'* | *'"ranks": 5'*) ;; *) bad "the installed tool says: $answer" ;; esac
env -i ldd "$prefix/bin/tutti" | grep -q libtutti && bad "the installed tool needs a library: $(ldd "$prefix/bin/tutti")"
cat >own.c <<'END'
#include <stdio.h>
#include <tutti/tutti.h>
int main(void) { return puts(tutti_version()) < 0; }
END
lib=$(dirname "$(find "$prefix" -name libtutti.so)")
cc own.c -I"$prefix/include" -L"$lib" -ltutti -Wl,-rpath,"$lib" -o own && ./own >out || bad "a program does not build with what is installed"
for file in include/tutti/tutti.h share/man/man1/tutti.1 share/man/man5/tutti-topology.5 share/man/man7/tutti.7; do
    [ -s "$prefix/$file" ] || bad "$file is not installed"
done
for page in "$source_dir"/doc/*.[1-9]; do
    [ -s "$prefix/share/man/man${page##*.}/${page##*/}" ] || bad "${page##*/} is not installed"
done
# A second installation replaces the first and still knows which folders were ours.
"$source_dir/tools/install" "$build" "$prefix" >/dev/null 2>err || bad "second install: $(cat err)"
"$source_dir/tools/install" --remove "$prefix" >out 2>err || bad "uninstall: $(cat err)"
list >after
cmp -s before after || bad "uninstalling leaves or takes something: $(diff before after)"
"$source_dir/tools/install" --remove "$prefix" >out 2>err && bad "uninstalling nothing succeeds"
says 'nothing to uninstall'
# A staged installation, and a folder that others use by then.
export DESTDIR=$work/stage
"$source_dir/tools/install" "$build" /opt/tutti >out 2>err || bad "staged install: $(cat err)"
says "make uninstall DESTDIR=$DESTDIR PREFIX=/opt/tutti removes"
touch "$DESTDIR/opt/tutti/lib/theirs"
"$source_dir/tools/install" --remove /opt/tutti >out 2>err || bad "staged uninstall: $(cat err)"
[ "$(cd "$DESTDIR" && find . ! -type d)" = ./opt/tutti/lib/theirs ] || bad "left in the stage: $(find "$DESTDIR")"
finish
