#!/usr/bin/env bash
# A program on emulated hosts, where they can be made. Usage: lab.sh TUTTI OPTIONS... -- PROGRAM...
if [ "$(id -u)" != 0 ]; then
    echo "skipped: not root, network namespaces cannot be made"
    exit 0
fi
exec "$1" lab "${@:2}"
