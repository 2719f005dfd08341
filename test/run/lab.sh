#!/usr/bin/env bash
# The collectives on four emulated hosts. Usage: lab.sh TUTTI PROGRAM
if [ "$(id -u)" != 0 ]; then
    echo "skipped: not root, network namespaces cannot be made"
    exit 0
fi
exec "$1" lab --nodes 4 --rate 1gbit --timeout 30s -- "$2"
